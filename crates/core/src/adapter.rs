//! The contract between the road and the systems behind it.
//!
//! An adapter makes one attempt at a time. It never retries, never checks scopes, never shortens a
//! result for a model and never decides what a failure means: it reports what happened in the words of
//! [`Failure`], and the executor applies the table of DESIGN section 5. Dropping the future of
//! [`Adapter::call`] aborts the attempt and leaves nothing running.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;

use crate::{CallerId, Effect, Object, Phase, RequestId, ToolId, TraceId};

/// A boxed future without a runtime: what a trait object can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One body behind a declared tool.
///
/// The promise, tested by one shared suite for every adapter: values reach the system only as bound
/// parameters, argv items, encoded parts or encoded bodies; every wait ends by `attempt.timeout` at the
/// latest because the executor drops the future then; bytes from outside are capped; the phase of a
/// failure errs towards [`Phase::MaybeSent`].
pub trait Adapter: Send + Sync + 'static {
    /// The word of the config key: `http`, `sql`, `script`, `email`, `file`.
    fn kind(&self) -> &'static str;

    /// The upstream that fails or is busy as one: `http://host:port`, `sqlite:stock.db`, `script:TOOL`.
    /// Breaker, concurrency cap and retry budget are counted by it. Holds no secret.
    fn target(&self) -> &str;

    /// Makes one attempt. Calls [`SentMark::set`] on `attempt.sent` right before the first byte that the
    /// upstream could act on may leave.
    fn call<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Answer, Failure>>;

    /// Finds out whether the upstream can be reached, without any side effect: a TCP and TLS connection,
    /// a prepared statement, an executable file, an SMTP greeting, an open folder. One line for a person.
    fn check<'a>(&'a self, timeout: Duration) -> BoxFuture<'a, Result<String, Failure>>;
}

/// One attempt at one call: everything an adapter may know about it.
#[derive(Debug)]
pub struct Attempt {
    /// The tool served (of a fallback chain, the one actually asked).
    pub tool_id: ToolId,
    /// The checked arguments.
    pub arguments: Object,
    /// The declared effect of the tool.
    pub effect: Effect,
    /// What is left of the deadline, less a moment. Adapters hand it to servers that can stop by themselves
    /// (`statement_timeout`); the executor drops the future when that moment has passed, too.
    pub timeout: Duration,
    /// The credential, already resolved and valid.
    pub credential: Option<Arc<Credential>>,
    /// The idempotency key to send to an upstream that honours one; the same for every attempt of a
    /// call. Present for `keyed` tools only.
    pub upstream_key: Option<String>,
    /// Whom the answer is for: built-in tools show a caller only what is its own. Never sent upstream.
    pub caller: CallerId,
    /// For correlation headers and logs.
    pub trace_id: TraceId,
    /// For correlation headers and logs.
    pub request_id: RequestId,
    /// Set by the adapter when something may have left.
    pub sent: SentMark,
}

impl Attempt {
    /// An attempt as tests and `doctor` make it: no credential, ten seconds, fresh ids.
    pub fn new(tool_id: ToolId, arguments: Object, effect: Effect) -> Self {
        Self {
            tool_id,
            arguments,
            effect,
            timeout: Duration::from_secs(10),
            credential: None,
            upstream_key: None,
            caller: CallerId::new("local"),
            trace_id: TraceId::fresh(),
            request_id: RequestId::fresh(),
            sent: SentMark::default(),
        }
    }
}

/// Whether a byte that the upstream could act on may have left. Shared between the adapter, which sets
/// it, and the executor, which reads it when it has dropped the attempt.
#[derive(Clone, Debug, Default)]
pub struct SentMark(Arc<AtomicBool>);

impl SentMark {
    /// From here on, nobody can know whether the upstream acted.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// [`Phase::MaybeSent`] once [`SentMark::set`] was called, else [`Phase::NotSent`].
    pub fn phase(&self) -> Phase {
        if self.0.load(Ordering::SeqCst) { Phase::MaybeSent } else { Phase::NotSent }
    }
}

/// What proves to an upstream who we are. Prints its kind only.
#[derive(Clone)]
pub enum Credential {
    /// `Authorization: Bearer ...`.
    Bearer(SecretString),
    /// `Authorization: Basic ...`.
    Basic {
        /// The user name.
        username: String,
        /// The password.
        password: SecretString,
    },
    /// A key in a named header or query parameter.
    ApiKey {
        /// Where it goes.
        place: KeyPlace,
        /// The name of the header or parameter.
        name: String,
        /// The key.
        key: SecretString,
    },
}

/// Where an API key travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyPlace {
    /// In a request header.
    Header,
    /// In the query string.
    Query,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credential::Bearer(_) => "Credential::Bearer(..)",
            Credential::Basic { .. } => "Credential::Basic(..)",
            Credential::ApiKey { .. } => "Credential::ApiKey(..)",
        })
    }
}

/// What the upstream answered, decoded but not shortened.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The result itself.
    pub payload: Payload,
    /// Lines for the journal only: standard error of a script, redirects followed, a notice of the server.
    pub notes: Vec<String>,
}

impl From<Payload> for Answer {
    fn from(payload: Payload) -> Self {
        Self { payload, notes: Vec::new() }
    }
}

/// The forms a result can have before it becomes the `data` of an envelope.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// Success without a word (HTTP 204, a statement without rows). Becomes `{}`.
    Empty,
    /// JSON. An object becomes `data` as it is, anything else `{"value": ...}`. Integers beyond 64 bits
    /// are text with every digit (see [`crate::exact`]).
    Json(Value),
    /// Decoded text. Becomes `{"value": text}`.
    Text(String),
    /// Bytes that are no text. Stored as a blob; the model is told type, size and reference.
    Binary {
        /// The media type as the upstream said or as recognised.
        media_type: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// One failed attempt, as the adapter saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub kind: FailureKind,
    /// How far it got.
    pub phase: Phase,
    /// For the caller and the model: the upstream's own explanation or ours. No secret, no path of this
    /// machine, no stack. Never empty.
    pub message: String,
    /// For the journal only: the whole error chain, status line, standard error.
    pub detail: Option<String>,
    /// When the upstream asked to wait.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure; `message` is what the model may read.
    pub fn new(kind: FailureKind, phase: Phase, message: impl Into<String>) -> Self {
        Self { kind, phase, message: message.into(), detail: None, retry_after: None }
    }

    /// The same with words for the journal.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same with the wait that the upstream asked for.
    pub fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }

    /// Arguments that this adapter cannot accept, found before anything was sent: a path that leaves
    /// the root, a line break in a mail header.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, Phase::Rejected, message)
    }
}

/// What happened to an attempt. Each kind is one row (or part of a row) of the table in DESIGN section 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The adapter refused the arguments before sending. Always [`Phase::Rejected`].
    Refused,
    /// DNS, connect, TLS, spawn. Always [`Phase::NotSent`].
    Unreachable,
    /// The deadline passed.
    Timeout,
    /// Reset, half an answer, process killed.
    Interrupted,
    /// The upstream asked to slow down (429), and did nothing.
    Throttled,
    /// 503 with Retry-After: the upstream asked to come back later, and did nothing.
    Unavailable,
    /// The upstream failed by its own word: 500, 502, 503 without Retry-After, 504, a server-side SQL failure.
    ServerError,
    /// An answer that cannot be what was promised: garbage, HTML for JSON, wrong type, broken encoding.
    Malformed,
    /// More bytes than the cap.
    Oversize,
    /// A business answer of 4xx, a constraint violation, a script's declared refusal.
    Rejected,
    /// The thing asked for does not exist (404, 410, no such file).
    NotFound,
    /// 401 or 403, a refused login: the credential's fault.
    Unauthorised,
    /// A defect of ours.
    Internal,
}
