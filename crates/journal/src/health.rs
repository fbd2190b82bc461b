//! The health ledger computed from the journal, for when no gateway is running to ask.
//!
//! The rules are those of a running gateway: what counts is each tool that was asked, once a call, from its
//! first attempt to its last; what was refused before it was sent, or answered from the record, says nothing
//! about a tool. Breakers stand where their last recorded move left them.

use std::collections::BTreeMap;

use reach_core::breaker::StateName;
use reach_core::window::{Summary, Window};
use reach_core::{ErrorCode, EventKind, JournalRow, ToolId};
use serde::Serialize;

use crate::timeline::{Attempt, Call, Timeline};

/// What the journal tells about tools and upstreams.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Health {
    /// Each tool that was asked within the window that ends now.
    pub tools: BTreeMap<ToolId, Summary>,
    /// Each upstream whose breaker ever moved, and where it stands.
    pub breakers: BTreeMap<String, BreakerState>,
}

/// Where a breaker stood last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BreakerState {
    /// The state.
    pub state: StateName,
    /// Since when, in milliseconds since the Unix epoch.
    pub since_ms: u64,
}

/// Summarises the five minutes before `now_ms` (milliseconds since the Unix epoch). Hand in
/// [`last_event_ms`] to summarise the last five minutes that the journal knows.
pub fn summaries(rows: &[JournalRow], now_ms: u64) -> Health {
    let timeline = Timeline::of(rows);
    let mut samples: Vec<(u64, &ToolId, Option<ErrorCode>, u64)> = Vec::new();
    for call in &timeline.calls {
        samples.extend(samples_of(call, timeline.started_at_ms));
    }
    // A window forgets its oldest slices as it grows, so it must grow in order.
    samples.sort_by_key(|sample| sample.0);
    let mut windows: BTreeMap<ToolId, Window> = BTreeMap::new();
    for (at_ms, tool_id, code, latency_ms) in samples.into_iter().filter(|sample| sample.0 <= now_ms) {
        windows.entry(tool_id.clone()).or_default().add(at_ms, code, latency_ms);
    }
    let tools = windows
        .into_iter()
        .map(|(tool_id, window)| (tool_id, window.summary(now_ms)))
        .filter(|(_, summary)| summary.calls > 0)
        .collect();
    Health { tools, breakers: breakers(rows) }
}

/// When the last event of these rows happened; 0 without events.
pub fn last_event_ms(rows: &[JournalRow]) -> u64 {
    rows.iter().flat_map(|row| &row.events).map(|event| event.at_ms).max().unwrap_or(0)
}

/// One sample for each tool a call asked and had an answer or a failure from.
fn samples_of(call: &Call, zero_ms: u64) -> Vec<(u64, &ToolId, Option<ErrorCode>, u64)> {
    let mut of_tool: Vec<(&ToolId, Vec<&Attempt>)> = Vec::new();
    for attempt in &call.attempts {
        match of_tool.iter_mut().find(|(tool_id, _)| **tool_id == attempt.tool_id) {
            Some((_, attempts)) => attempts.push(attempt),
            None => of_tool.push((&attempt.tool_id, vec![attempt])),
        }
    }
    of_tool
        .into_iter()
        .filter_map(|(tool_id, attempts)| {
            let (first, last) = (attempts.first()?, attempts.last()?);
            let end = last.start_ms.saturating_add(last.duration_ms?);
            // The system behind refused the arguments: that is the caller's, not the tool's.
            let is_callers = last.code == Some(ErrorCode::InvalidArguments);
            (!is_callers).then_some((
                zero_ms.saturating_add(end),
                tool_id,
                last.code,
                end.saturating_sub(first.start_ms),
            ))
        })
        .collect()
}

fn breakers(rows: &[JournalRow]) -> BTreeMap<String, BreakerState> {
    let mut breakers: BTreeMap<String, BreakerState> = BTreeMap::new();
    for event in rows.iter().flat_map(|row| &row.events) {
        let EventKind::Breaker { target, to, .. } = &event.kind else { continue };
        let moved = BreakerState { state: *to, since_ms: event.at_ms };
        breakers
            .entry(target.clone())
            .and_modify(|known| {
                if known.since_ms <= moved.since_ms {
                    *known = moved;
                }
            })
            .or_insert(moved);
    }
    breakers
}
