//! A session or trace, call by call.
//!
//! Rows are put back together into calls (a write leaves two rows, calls of several traces lie between one
//! another), each call with its attempts and times as offsets from the first, and totals that say where the
//! time and the tokens went. Reads rows only; the order they come in does not matter.

mod bars;
mod group;
mod span;
mod totals;

use reach_core::tokens::Tokens;
use reach_core::{CallerId, Effect, ErrorCode, JournalRow, Phase, RequestId, SessionId, ToolId, TraceId};
use serde::Serialize;
use serde_json::Value;

pub use bars::{Bar, bar};
pub use totals::{Results, Share, Totals};

/// What happened, in the order the calls began.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Milliseconds since the Unix epoch at offset 0; 0 without calls.
    pub started_at_ms: u64,
    /// The calls.
    pub calls: Vec<Call>,
    /// Their sums.
    pub totals: Totals,
}

/// How a call stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It worked.
    Ok,
    /// It was refused or failed.
    Error,
    /// Its end is not in the journal: it is running, or its process died.
    #[default]
    Unfinished,
}

/// One call. All `start_ms` are offsets from the start of the timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// The tool asked for.
    pub tool_id: ToolId,
    /// The tool that answered; null when none did.
    pub served_by: Option<ToolId>,
    /// The agent's step.
    pub step: u32,
    /// The request.
    pub request_id: RequestId,
    /// The chain of cause.
    pub trace_id: TraceId,
    /// The conversation.
    pub session_id: SessionId,
    /// Who asked.
    pub caller: CallerId,
    /// The declared effect, where the tool is known.
    pub effect: Option<Effect>,
    /// The arguments, secrets masked; null when their row is not there.
    pub input: Value,
    /// When it began.
    pub start_ms: u64,
    /// Wall time; of an unfinished call, up to its last event.
    pub duration_ms: u64,
    /// How it stands.
    pub status: CallStatus,
    /// Null unless it failed.
    pub code: Option<ErrorCode>,
    /// What the journal knows and the caller was not told: `FORBIDDEN` behind `TOOL_NOT_FOUND`.
    pub reason: Option<ErrorCode>,
    /// The message of the error.
    pub message: Option<String>,
    /// How far it got; null while unfinished.
    pub phase: Option<Phase>,
    /// The attempts, in order.
    pub attempts: Vec<Attempt>,
    /// Tools that stood in, in order.
    pub fallbacks: Vec<FellBack>,
    /// Answered from the record of an earlier call.
    pub replayed: bool,
    /// Milliseconds in the line of a busy upstream or between attempts.
    pub waited_ms: u64,
    /// Set when the result was shortened.
    pub truncated: Option<Shortened>,
    /// Characters of JSON in `data`.
    pub result_size: u64,
    /// Tokens of this step.
    pub tokens: Tokens,
    /// What else happened, as short sentences: converted fields, degraded stores, breakers, recovery.
    pub notes: Vec<String>,
}

/// One attempt at an upstream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Attempt {
    /// Counted from 1 over the whole call.
    pub attempt: u32,
    /// The tool served.
    pub tool_id: ToolId,
    /// The upstream.
    pub target: String,
    /// When it began.
    pub start_ms: u64,
    /// How long it took; null when its end is not in the journal.
    pub duration_ms: Option<u64>,
    /// Null when it worked or has not ended.
    pub code: Option<ErrorCode>,
    /// How far it got; null when it has not ended.
    pub phase: Option<Phase>,
    /// For operators.
    pub detail: Vec<String>,
}

/// Another tool stood in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FellBack {
    /// The tool that could not serve.
    pub from: ToolId,
    /// The tool that stood in.
    pub to: ToolId,
    /// Why.
    pub reason: String,
}

/// The result was shortened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shortened {
    /// Characters shown.
    pub shown: u64,
    /// Characters in all.
    pub total: u64,
    /// Where the whole is.
    pub blob: Option<String>,
}

impl Timeline {
    /// Puts rows together. Sorts; linear apart from that.
    pub fn of(rows: &[JournalRow]) -> Self {
        let (started_at_ms, calls, waits) = group::calls(rows);
        let totals = totals::of(&calls, &waits);
        Self { started_at_ms, calls, totals }
    }
}
