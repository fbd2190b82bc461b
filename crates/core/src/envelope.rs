//! The one shape in which every call ends, whether it worked, was refused, failed or panicked.
//!
//! Every key is always present. `ok`: `data` is an object and `error` is null; `error`: the other way round.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tokens::Tokens;
use crate::{ErrorCode, Object, Phase, RequestId, SessionId, ToolId, TraceId};

/// Whether a call worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// `data` holds the result.
    Ok,
    /// `error` says why not.
    Error,
}

/// The answer to a call. Build it with [`Envelope::ok`] or [`Envelope::error`]: the two halves cannot
/// disagree then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// Whether it worked.
    pub status: Status,
    /// The tool asked for.
    pub tool: ToolId,
    /// The result; null on error.
    pub data: Option<Object>,
    /// The failure; null on success.
    pub error: Option<ErrorBody>,
    /// How it went.
    pub meta: Meta,
}

/// What a caller and a model read about a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The row of the error table.
    pub code: ErrorCode,
    /// What is wrong. Never empty; never a stack, a path or a secret.
    pub message: String,
    /// The same request with the same key may help and cannot cause a second effect.
    pub retryable: bool,
    /// What to do about it.
    pub hint: Option<String>,
    /// How long to wait before trying again.
    pub retry_after_ms: Option<u64>,
    /// The same facts for a program: `{"reason","since","alternatives"}` of an `UNREACHABLE`, `{"problems"}`
    /// of `INVALID_ARGUMENTS`. Null where the code says it all.
    pub details: Option<Value>,
}

/// How a call went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The agent's step, as given.
    pub step: u32,
    /// The chain of cause.
    pub trace_id: TraceId,
    /// The conversation.
    pub session_id: SessionId,
    /// The request, and its idempotency key.
    pub request_id: RequestId,
    /// Attempts made at upstreams, fallbacks included; 0 when it was refused or replayed.
    pub attempts: u32,
    /// Wall time from the plan's arrival to the envelope.
    pub duration_ms: u64,
    /// How far it got.
    pub phase: Phase,
    /// The tool that answered; another than `tool` when a fallback stood in; null when none did.
    pub served_by: Option<ToolId>,
    /// Answered from the record of an earlier call with the same key.
    pub replayed: bool,
    /// Set when `data` is not the whole result.
    pub truncated: Option<Truncated>,
    /// Tokens of this step, and how they were counted.
    pub tokens: Tokens,
}

impl Meta {
    /// The meta of a call that has not got anywhere yet.
    pub fn of(plan: &crate::Plan) -> Self {
        Self {
            step: plan.step,
            trace_id: plan.trace_id.clone(),
            session_id: plan.session_id.clone(),
            request_id: plan.request_id.clone(),
            attempts: 0,
            duration_ms: 0,
            phase: Phase::Rejected,
            served_by: None,
            replayed: false,
            truncated: None,
            tokens: Tokens::default(),
        }
    }
}

/// What was left out of `data`, and where the whole is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    /// Characters of JSON shown.
    pub shown: u64,
    /// Characters of JSON in the whole result.
    pub total: u64,
    /// The blob that holds the whole, readable with the tool `read_result`; null when it could not be stored.
    pub blob: Option<String>,
    /// How it was shortened: `clip`, `extract` or `binary`.
    pub how: String,
}

impl Envelope {
    /// A success.
    pub fn ok(tool: ToolId, data: Object, meta: Meta) -> Self {
        Self { status: Status::Ok, tool, data: Some(data), error: None, meta }
    }

    /// A failure.
    pub fn error(tool: ToolId, error: ErrorBody, meta: Meta) -> Self {
        Self { status: Status::Error, tool, data: None, error: Some(error), meta }
    }

    /// The error code, if it failed.
    pub fn code(&self) -> Option<ErrorCode> {
        self.error.as_ref().map(|error| error.code)
    }

    /// Whether it worked.
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }
}

impl ErrorBody {
    /// An error whose `hint` is the table's and whose `retryable` is false until computed.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            code,
            message: if message.trim().is_empty() { code.row().meaning.to_owned() } else { message },
            retryable: false,
            hint: Some(code.row().model_hint.to_owned()),
            retry_after_ms: None,
            details: None,
        }
    }
}
