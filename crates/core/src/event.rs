//! What happened, step by step. Written once, read by the log, the trace, the timeline and health.
//!
//! The journal stores one [`JournalRow`] per flush of one call: who and what in columns, the steps as a
//! list. A write flushes twice, before it is sent and at the end, so that a crash leaves its steps
//! behind; every other call flushes once. Rows never hold secrets: inputs go through [`crate::redact`].

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tokens::Tokens;
use crate::{CallerId, Effect, ErrorCode, Phase, RequestId, SessionId, ToolId, TraceId};

/// The version of the event format, stored beside the rows.
///
/// 1: the first.
pub const FORMAT_VERSION: u32 = 1;

/// One flush of the steps of one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalRow {
    /// Milliseconds since the Unix epoch of the first event in this row.
    pub at_ms: u64,
    /// The chain of cause.
    pub trace_id: TraceId,
    /// The conversation.
    pub session_id: SessionId,
    /// The request.
    pub request_id: RequestId,
    /// The agent's step.
    pub step: u32,
    /// The tool asked for.
    pub tool_id: ToolId,
    /// Who asked.
    pub caller: CallerId,
    /// The steps, in order.
    pub events: Vec<Event>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Everything that can happen on the road. A reader must match them all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventKind {
    /// A plan arrived.
    Received {
        /// The arguments, secrets masked.
        input: Value,
        /// The declared effect, where the tool is known.
        effect: Option<Effect>,
    },
    /// Values were converted without loss because the tool says `coerce: true`.
    Coerced {
        /// JSON pointers of the values.
        fields: Vec<String>,
    },
    /// A gate said no; nothing was sent.
    Refused {
        /// The code the caller sees.
        code: ErrorCode,
        /// What really happened (`FORBIDDEN` where the caller reads `TOOL_NOT_FOUND`).
        reason: ErrorCode,
        /// Words for the operator.
        detail: String,
    },
    /// Answered from the record of an earlier call.
    Replayed,
    /// The record says that the outcome is unknown, and a reading tool was asked.
    Verified {
        /// The tool asked.
        by: ToolId,
        /// What it found; null when it could not tell.
        done: Option<bool>,
    },
    /// Waited in the line of a busy upstream.
    Waited {
        /// The upstream.
        target: String,
        /// How long.
        duration_ms: u64,
    },
    /// The intent is durable; the send follows.
    Intended,
    /// An attempt began.
    AttemptStarted {
        /// Counted from 1 over the whole call.
        attempt: u32,
        /// The tool served.
        tool_id: ToolId,
        /// The upstream.
        target: String,
    },
    /// An attempt ended.
    AttemptEnded {
        /// Counted from 1 over the whole call.
        attempt: u32,
        /// Null when it worked.
        code: Option<ErrorCode>,
        /// How far it got.
        phase: Phase,
        /// How long it took.
        duration_ms: u64,
        /// For operators: the error chain, standard error, redirects.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        detail: Vec<String>,
    },
    /// The same upstream is asked again after a pause.
    Retrying {
        /// The pause.
        delay_ms: u64,
    },
    /// The road could have tried again, and did not.
    RetryWithheld {
        /// Why: `attempts`, `deadline`, `budget`.
        reason: String,
    },
    /// Another tool stands in.
    FellBack {
        /// The tool that could not serve.
        from: ToolId,
        /// The tool that stands in.
        to: ToolId,
        /// Why.
        reason: String,
    },
    /// A breaker moved.
    Breaker {
        /// The upstream, or the tool with a breaker of its own.
        target: String,
        /// Where it stood.
        from: crate::breaker::StateName,
        /// Where it stands.
        to: crate::breaker::StateName,
    },
    /// The result was shortened and the whole spilled.
    Shortened {
        /// Characters shown.
        shown: u64,
        /// Characters in all.
        total: u64,
        /// Where the whole is.
        blob: Option<String>,
    },
    /// A store could not do its part; the call went on without.
    Degraded {
        /// Which store: `ledger`, `board`, `blobs`.
        store: String,
        /// What was lost.
        detail: String,
    },
    /// The caller went away; what had been sent was finished without it.
    CallerLeft,
    /// After a crash: the record was found in flight and settled.
    Recovered {
        /// `unknown` or `released`.
        outcome: String,
    },
    /// A person settled an unknown outcome.
    Settled {
        /// Whether the effect happened.
        done: bool,
    },
    /// The envelope went out.
    Finished {
        /// Null when it worked.
        code: Option<ErrorCode>,
        /// Attempts in all.
        attempts: u32,
        /// Wall time of the call.
        duration_ms: u64,
        /// Wall time of the upstream's part, waiting included.
        upstream_ms: u64,
        /// The tool that answered.
        served_by: Option<ToolId>,
        /// How far it got.
        phase: Phase,
        /// Answered from the record.
        replayed: bool,
        /// Characters of JSON in `data`.
        result_size: u64,
        /// Tokens, and how they were counted.
        tokens: Tokens,
        /// The message of the error, as the caller reads it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
}
