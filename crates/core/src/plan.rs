//! The value that walks the road: one wish of one caller to call one tool.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::scope::Scopes;
use crate::{CallerId, Object, RequestId, SessionId, ToolId, TraceId};

/// Who is calling, and what it may use. The same value decides listing, calling and falling back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The declared name; `local` for the loopback caller.
    pub id: CallerId,
    /// The scopes it was given.
    pub scopes: Scopes,
    /// How often it may call, all tools together.
    pub rate: Option<Rate>,
}

impl Caller {
    /// The caller on loopback when no callers are declared: it may use everything.
    pub fn local() -> Self {
        Self { id: CallerId::new("local"), scopes: Scopes::all(), rate: None }
    }
}

/// At most `per_minute` calls a minute, of which `burst` may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Calls per minute in the long run; at least 1.
    pub per_minute: u32,
    /// Calls that may come at once after a pause; at least 1.
    pub burst: u32,
}

/// Where a plan stands in the waiting line of a busy upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Served when nobody else waits: batch work.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Served first: a person is waiting.
    High,
}

/// What to do when the tool itself cannot be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Walk the declared fallback chain. The default.
    #[default]
    Fallback,
    /// Answer with the failure; the caller decides.
    Return,
}

/// One call as it walks the road. Built by a surface, never changed by the executor.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The caller's name for this request, and its idempotency key. Fresh when none was given.
    pub request_id: RequestId,
    /// Whether the caller chose `request_id` itself: then reads are recorded, too.
    pub keyed_by_caller: bool,
    /// The tool asked for, as written by the caller.
    pub tool_id: ToolId,
    /// The arguments as sent.
    pub arguments: Object,
    /// The caller's own deadline; the tool's declared one holds where this is absent or longer.
    pub timeout: Option<Duration>,
    /// Place in the waiting line of the upstream.
    pub priority: Priority,
    /// Whether to walk the fallback chain.
    pub on_failure: OnFailure,
    /// The conversation this call belongs to.
    pub session_id: SessionId,
    /// The chain of cause this call belongs to.
    pub trace_id: TraceId,
    /// The agent's step, counted from 1; 0 when the caller did not say.
    pub step: u32,
    /// Who calls.
    pub caller: Caller,
    /// The question the agent works on, where known; ranks passages in `shape: extract`.
    pub question: Option<String>,
    /// The model's own token count for the turn that led here, where the caller gives it.
    pub usage: Option<Usage>,
}

impl Plan {
    /// A plan with fresh ids and every other field at its default.
    pub fn new(tool_id: impl AsRef<str>, arguments: Object, caller: Caller) -> Self {
        Self {
            request_id: RequestId::fresh(),
            keyed_by_caller: false,
            tool_id: ToolId::asked(tool_id),
            arguments,
            timeout: None,
            priority: Priority::default(),
            on_failure: OnFailure::default(),
            session_id: SessionId::fresh(),
            trace_id: TraceId::fresh(),
            step: 0,
            caller,
            question: None,
            usage: None,
        }
    }

    /// The same plan under a key that the caller chose.
    pub fn with_key(mut self, key: impl AsRef<str>) -> Self {
        self.request_id = RequestId::new(key);
        self.keyed_by_caller = true;
        self
    }
}

/// Tokens a provider counted for the model turn that led to a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens the model read.
    pub input: u64,
    /// Tokens the model wrote.
    pub output: u64,
}
