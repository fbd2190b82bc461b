//! From rows to calls.
//!
//! A call is known by its trace, request, caller and tool. `Received` opens one; a row without it goes on
//! with the call of the same key that is still open. So a request that is sent again under its key (and
//! replayed, or told that the first is in progress) is a call of its own.

use std::collections::HashMap;

use reach_core::tokens::Tokens;
use reach_core::{Event, EventKind, JournalRow};
use serde_json::Value;

use super::span::Span;
use super::{Attempt, Call, CallStatus, FellBack, Shortened};

type Key<'r> = (&'r str, &'r str, &'r str, &'r str);

/// The start in milliseconds since the epoch, the calls in order, and when calls waited.
pub(super) fn calls(rows: &[JournalRow]) -> (u64, Vec<Call>, Vec<Span>) {
    let mut ordered: Vec<&JournalRow> = rows.iter().collect();
    // Both rows of a write carry the call's own time, so the first event decides.
    ordered.sort_by_key(|row| began(row));
    let zero = ordered.first().map_or(0, |row| began(row));
    let mut calls: Vec<Call> = Vec::new();
    let mut by_key: HashMap<Key<'_>, Vec<usize>> = HashMap::new();
    let mut waits = Vec::new();
    for row in ordered {
        let key = (row.trace_id.as_str(), row.request_id.as_str(), row.caller.as_str(), row.tool_id.as_str());
        let known = by_key.entry(key).or_default();
        let opens = row.events.iter().any(|event| matches!(event.kind, EventKind::Received { .. }));
        // The open call, else the last: a recovery is told long after the end.
        let goes_on = known.iter().rev().find(|index| is_open(&calls[**index])).or_else(|| known.last()).copied();
        let index = match goes_on {
            Some(index) if !opens => index,
            _ => {
                calls.push(opened(row, zero));
                known.push(calls.len() - 1);
                calls.len() - 1
            }
        };
        for event in &row.events {
            add(&mut calls[index], event, zero, &mut waits);
        }
    }
    calls.sort_by_key(|call| call.start_ms);
    (zero, calls, waits)
}

fn began(row: &JournalRow) -> u64 {
    row.events.first().map_or(row.at_ms, |event| event.at_ms)
}

fn opened(row: &JournalRow, zero: u64) -> Call {
    Call {
        tool_id: row.tool_id.clone(),
        served_by: None,
        step: row.step,
        request_id: row.request_id.clone(),
        trace_id: row.trace_id.clone(),
        session_id: row.session_id.clone(),
        caller: row.caller.clone(),
        effect: None,
        input: Value::Null,
        start_ms: began(row).saturating_sub(zero),
        duration_ms: 0,
        status: CallStatus::Unfinished,
        code: None,
        reason: None,
        message: None,
        phase: None,
        attempts: Vec::new(),
        fallbacks: Vec::new(),
        replayed: false,
        waited_ms: 0,
        truncated: None,
        result_size: 0,
        tokens: Tokens::default(),
        notes: Vec::new(),
    }
}

fn is_open(call: &Call) -> bool {
    call.status == CallStatus::Unfinished
}

fn add(call: &mut Call, event: &Event, zero: u64, waits: &mut Vec<Span>) {
    let at = event.at_ms.saturating_sub(zero);
    if is_open(call) {
        call.duration_ms = call.duration_ms.max(at.saturating_sub(call.start_ms));
    }
    match &event.kind {
        EventKind::Received { input, effect } => {
            call.input = input.clone();
            call.effect = *effect;
        }
        EventKind::Coerced { fields } => call.notes.push(format!("converted {}", fields.join(", "))),
        EventKind::Refused { code, reason, detail } => {
            call.code = Some(*code);
            call.reason = (reason != code).then_some(*reason);
            if !detail.is_empty() {
                call.notes.push(format!("refused: {detail}"));
            }
        }
        EventKind::Replayed => call.replayed = true,
        EventKind::Verified { by, done } => call.notes.push(match done {
            Some(true) => format!("`{by}` found that it was done"),
            Some(false) => format!("`{by}` found that it was not done"),
            None => format!("`{by}` could not tell whether it was done"),
        }),
        EventKind::Waited { target, duration_ms } => {
            call.waited_ms = call.waited_ms.saturating_add(*duration_ms);
            call.notes.push(format!("waited {duration_ms} ms for a place at {target}"));
            waits.push((at.saturating_sub(*duration_ms), at));
        }
        EventKind::Intended => {}
        EventKind::AttemptStarted { attempt, tool_id, target } => call.attempts.push(Attempt {
            attempt: *attempt,
            tool_id: tool_id.clone(),
            target: target.clone(),
            start_ms: at,
            duration_ms: None,
            code: None,
            phase: None,
            detail: Vec::new(),
        }),
        EventKind::AttemptEnded { attempt, code, phase, duration_ms, detail } => {
            let known = call.attempts.iter_mut().rev().find(|known| known.attempt == *attempt);
            match known {
                Some(known) => {
                    known.duration_ms = Some(*duration_ms);
                    known.code = *code;
                    known.phase = Some(*phase);
                    known.detail.clone_from(detail);
                }
                None => call.notes.push(format!("attempt {attempt} ended, and its start is not in the journal")),
            }
        }
        EventKind::Retrying { delay_ms } => {
            call.waited_ms = call.waited_ms.saturating_add(*delay_ms);
            waits.push((at, at.saturating_add(*delay_ms)));
        }
        EventKind::RetryWithheld { reason } => call.notes.push(format!("not tried again: {reason}")),
        EventKind::FellBack { from, to, reason } => {
            call.fallbacks.push(FellBack { from: from.clone(), to: to.clone(), reason: reason.clone() });
        }
        EventKind::Breaker { target, from, to } => {
            call.notes.push(format!("breaker of {target}: {} to {}", from.as_str(), to.as_str()));
        }
        EventKind::Shortened { shown, total, blob } => {
            call.truncated = Some(Shortened { shown: *shown, total: *total, blob: blob.clone() });
        }
        EventKind::Degraded { store, detail } => call.notes.push(format!("{store} degraded: {detail}")),
        EventKind::CallerLeft => call.notes.push("the caller went away".to_owned()),
        EventKind::Recovered { outcome } => call.notes.push(format!("recovered after a crash: {outcome}")),
        EventKind::Settled { done } => {
            call.notes.push(format!("settled by a person: {}", if *done { "done" } else { "not done" }));
        }
        EventKind::Finished {
            code,
            attempts: _,
            duration_ms,
            upstream_ms: _,
            served_by,
            phase,
            replayed,
            result_size,
            tokens,
            message,
        } => {
            call.status = if code.is_none() { CallStatus::Ok } else { CallStatus::Error };
            call.code = *code;
            call.duration_ms = *duration_ms;
            call.served_by.clone_from(served_by);
            call.phase = Some(*phase);
            call.replayed |= *replayed;
            call.result_size = *result_size;
            call.tokens = *tokens;
            call.message.clone_from(message);
        }
    }
}
