//! A timeline on the terminal: a bar for each call, its attempts, and what the time went into.

use reach_journal::timeline::{Call, CallStatus, Timeline, bar};

use super::output;

/// Columns of the bars.
const WIDTH: usize = 32;

/// Characters of a tool's id that are shown.
const NAME: usize = 26;

/// The timeline as text.
pub(super) fn text(timeline: &Timeline) -> String {
    let mut out = String::new();
    let total = timeline.totals.wall_ms;
    out.push_str(&output::dim(&format!(
        "  {:>4}  {:<NAME$}  {:<WIDTH$}  {:>9}  what happened\n",
        "step",
        "tool",
        format!("0 … {}", output::duration(total)),
        "time",
    )));
    for call in &timeline.calls {
        out.push_str(&call_line(call, total));
    }
    out.push('\n');
    out.push_str(&totals(timeline));
    out
}

fn call_line(call: &Call, total: u64) -> String {
    let drawn = bar(call.start_ms, call.duration_ms, total, WIDTH);
    let filled = "█".repeat(drawn.filled);
    let filled = match call.status {
        CallStatus::Ok => output::good(&filled),
        CallStatus::Error => output::bad(&filled),
        CallStatus::Unfinished => output::odd(&filled),
    };
    let step = if call.step == 0 { String::new() } else { call.step.to_string() };
    format!(
        "  {step:>4}  {:<NAME$}  {}{filled}{}  {:>9}  {}\n",
        clipped(call.tool_id.as_str()),
        output::dim(&"·".repeat(drawn.before)),
        output::dim(&"·".repeat(drawn.after)),
        output::duration(call.duration_ms),
        what_happened(call)
    )
}

fn what_happened(call: &Call) -> String {
    let mut words = vec![match (call.status, call.code) {
        (CallStatus::Ok, _) => output::good("ok"),
        (CallStatus::Unfinished, _) => output::odd("unfinished"),
        (CallStatus::Error, code) => output::bad(code.map_or("error", |code| code.as_str())),
    }];
    if call.attempts.len() > 1 {
        words.push(format!("{} attempts", call.attempts.len()));
    }
    if let Some(fallback) = call.fallbacks.last() {
        words.push(format!("fell back to {}", fallback.to));
    }
    if call.replayed {
        words.push("replayed".to_owned());
    }
    if call.waited_ms > 0 {
        words.push(format!("waited {}", output::duration(call.waited_ms)));
    }
    if let Some(cut) = &call.truncated {
        words.push(format!("{} of {} characters", cut.shown, cut.total));
    }
    if let Some(reason) = call.reason.filter(|reason| Some(*reason) != call.code) {
        words.push(format!("really {reason}"));
    }
    words.extend(call.notes.iter().filter_map(|note| note.lines().next()).map(str::to_owned));
    words.join(", ")
}

fn totals(timeline: &Timeline) -> String {
    let totals = &timeline.totals;
    let mut out = format!(
        "  {} calls, {} failed, {} attempts in {}: upstreams {}, waiting {}, reach itself {}, between calls {}\n",
        totals.calls,
        totals.errors,
        totals.attempts,
        output::duration(totals.wall_ms),
        output::duration(totals.upstream_ms),
        output::duration(totals.waiting_ms),
        output::duration(totals.own_ms),
        output::duration(totals.idle_ms),
    );
    for share in &totals.upstreams {
        let drawn = bar(0, share.busy_ms, totals.wall_ms.max(1), WIDTH);
        let failed =
            if share.failed > 0 { output::bad(&format!("{} failed", share.failed)) } else { "0 failed".to_owned() };
        out.push_str(&format!(
            "  {:<34}  {}{}  {:>9}  {} attempts, {failed}\n",
            clipped(&share.target),
            "█".repeat(drawn.filled),
            output::dim(&"·".repeat(WIDTH.saturating_sub(drawn.filled))),
            output::duration(share.busy_ms),
            share.attempts,
        ));
    }
    let counted = match totals.counted {
        reach_core::tokens::Counted::Usage => "from the provider's usage",
        reach_core::tokens::Counted::Estimate => "estimated",
    };
    out.push_str(&format!(
        "  tokens: {} in, {} out ({counted}), {} in results (estimated)\n",
        totals.input_tokens, totals.output_tokens, totals.tool_result_tokens
    ));
    if let (true, Some(results)) = (totals.heavy_results, &totals.results) {
        out.push_str(&format!("  {} {}\n", output::odd("heavy results:"), results.note));
    }
    out
}

fn clipped(name: &str) -> String {
    match name.char_indices().nth(NAME) {
        Some((at, _)) => format!("{}…", &name[..at - name[..at].chars().next_back().map_or(0, char::len_utf8)]),
        None => name.to_owned(),
    }
}
