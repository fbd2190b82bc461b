//! Where the time and the tokens of a timeline went.
//!
//! Callers report their own token counts and rows come from a file, so no number here is trusted to be small:
//! sums stop at the largest number instead of overflowing.

use std::collections::BTreeMap;

use reach_core::tokens::Counted;
use serde::Serialize;

use super::span::{Span, covered};
use super::{Call, CallStatus};

/// Tool results beyond this part of the input tokens crowd out the rest of the conversation.
const HEAVY: f64 = 0.2;

/// Sums over all calls. Time that overlaps counts once; `upstream_ms`, `waiting_ms`, `own_ms` and `idle_ms`
/// add up to `wall_ms`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Calls.
    pub calls: usize,
    /// Calls that were refused or failed.
    pub errors: usize,
    /// Calls whose end is not in the journal.
    pub unfinished: usize,
    /// Attempts at upstreams.
    pub attempts: usize,
    /// From the start of the first call to the end of the last.
    pub wall_ms: u64,
    /// At least one upstream was at work.
    pub upstream_ms: u64,
    /// No upstream was at work, and a call waited in a line or for its next attempt.
    pub waiting_ms: u64,
    /// A call was open and nothing else accounts for it: our own time.
    pub own_ms: u64,
    /// No call was open: the agent and its model had the time.
    pub idle_ms: u64,
    /// Our own time in parts of the wall time; null without wall time.
    pub own_share: Option<f64>,
    /// Each upstream's part, the largest first. Upstreams at work at once each count in full.
    pub upstreams: Vec<Share>,
    /// Tokens read by the model. Calls of one step share one turn, so the step counts once.
    pub input_tokens: u64,
    /// Tokens written by the model, counted likewise.
    pub output_tokens: u64,
    /// Tokens of all results.
    pub tool_result_tokens: u64,
    /// Whether input and output come from a provider's own usage throughout.
    pub counted: Counted,
    /// Results are more than a fifth of the input tokens. False while the input is not known.
    pub heavy_results: bool,
    /// The figures behind `heavy_results`; null while the input is not known.
    pub results: Option<Results>,
}

/// One upstream's part of the wall time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The upstream.
    pub target: String,
    /// Attempts at it.
    pub attempts: usize,
    /// Attempts that failed.
    pub failed: usize,
    /// Milliseconds in which it was at work for us.
    pub busy_ms: u64,
    /// The same in parts of the wall time; null without wall time.
    pub share: Option<f64>,
}

/// How much of what the model reads are tool results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    /// Results in parts of the input tokens.
    pub share: f64,
    /// The same as a sentence with the figures.
    pub note: String,
}

pub(super) fn of(calls: &[Call], waits: &[Span]) -> Totals {
    let open: Vec<Span> = calls.iter().map(|call| (call.start_ms, end_of(call))).collect();
    let from = open.iter().map(|span| span.0).min().unwrap_or(0);
    let to = open.iter().map(|span| span.1).max().unwrap_or(0);
    let wall_ms = to.saturating_sub(from);
    let attempts: Vec<(&str, Span, bool)> = calls.iter().flat_map(attempts_of).collect();
    let inside = |span: &Span| (span.0.clamp(from, to), span.1.clamp(from, to));

    // Each sum covers the one before, so that the differences are what was added.
    let at_work = || attempts.iter().map(|(_, span, _)| inside(span));
    let upstream_ms = covered(at_work());
    let with_waits = covered(at_work().chain(waits.iter().map(inside)));
    let with_calls = covered(at_work().chain(waits.iter().map(inside)).chain(open.iter().copied()));

    let own_ms = with_calls.saturating_sub(with_waits);

    let mut totals = Totals {
        calls: calls.len(),
        errors: calls.iter().filter(|call| call.status == CallStatus::Error).count(),
        unfinished: calls.iter().filter(|call| call.status == CallStatus::Unfinished).count(),
        attempts: attempts.len(),
        wall_ms,
        upstream_ms,
        waiting_ms: with_waits.saturating_sub(upstream_ms),
        own_ms,
        idle_ms: wall_ms.saturating_sub(with_calls),
        own_share: part(own_ms, wall_ms),
        upstreams: shares(&attempts, wall_ms),
        ..Totals::default()
    };
    count_tokens(&mut totals, calls);
    totals
}

fn end_of(call: &Call) -> u64 {
    call.start_ms.saturating_add(call.duration_ms)
}

fn attempts_of(call: &Call) -> impl Iterator<Item = (&str, Span, bool)> {
    let call_end = end_of(call);
    call.attempts.iter().map(move |attempt| {
        // An attempt without an end was at work for as long as its call is known to have been.
        let end = attempt.duration_ms.map_or(call_end, |duration| attempt.start_ms.saturating_add(duration));
        (attempt.target.as_str(), (attempt.start_ms, end), attempt.code.is_some())
    })
}

fn shares(attempts: &[(&str, Span, bool)], wall_ms: u64) -> Vec<Share> {
    let mut by_target: BTreeMap<&str, (Vec<Span>, usize)> = BTreeMap::new();
    for (target, span, failed) in attempts {
        let (spans, failures) = by_target.entry(target).or_default();
        spans.push(*span);
        *failures += usize::from(*failed);
    }
    let mut shares: Vec<Share> = by_target
        .into_iter()
        .map(|(target, (spans, failed))| {
            let attempts = spans.len();
            let busy_ms = covered(spans);
            Share { target: target.to_owned(), attempts, failed, busy_ms, share: part(busy_ms, wall_ms) }
        })
        .collect();
    shares.sort_by(|a, b| b.busy_ms.cmp(&a.busy_ms).then_with(|| a.target.cmp(&b.target)));
    shares
}

fn count_tokens(totals: &mut Totals, calls: &[Call]) {
    // Parallel calls of one step report the same turn of the model.
    let mut turns: BTreeMap<(&str, &str, u32), (u64, u64)> = BTreeMap::new();
    let mut all_counted = true;
    for call in calls {
        let turn = turns.entry((call.session_id.as_str(), call.trace_id.as_str(), call.step)).or_default();
        turn.0 = turn.0.max(call.tokens.input);
        turn.1 = turn.1.max(call.tokens.output);
        all_counted &= call.tokens.input == 0 && call.tokens.output == 0 || call.tokens.counted == Counted::Usage;
        totals.tool_result_tokens = totals.tool_result_tokens.saturating_add(call.tokens.tool_result);
    }
    totals.input_tokens = turns.values().map(|turn| turn.0).fold(0, u64::saturating_add);
    totals.output_tokens = turns.values().map(|turn| turn.1).fold(0, u64::saturating_add);
    let is_known = totals.input_tokens > 0;
    totals.counted = if is_known && all_counted { Counted::Usage } else { Counted::Estimate };
    totals.results = part(totals.tool_result_tokens, totals.input_tokens).map(|share| Results {
        share,
        note: format!(
            "tool results are about {} tokens beside {} input tokens ({:.0} %)",
            totals.tool_result_tokens,
            totals.input_tokens,
            share * 100.0
        ),
    });
    totals.heavy_results = totals.results.as_ref().is_some_and(|results| results.share > HEAVY);
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no more than a float's digits")]
fn part(of: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| of as f64 / whole as f64)
}
