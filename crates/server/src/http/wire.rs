//! What travels over HTTP, as types: parsed from requests, written to answers, described in the OpenAPI
//! document. The envelope itself is core's; [`Envelope`] here only describes it, and a test holds the two
//! together.

use reach_core::{Effect, OnFailure, Priority, ToolSpec};
use reach_engine::store::board::BreakerView;
use reach_engine::store::ledger::{SessionLine, Unsettled as UnsettledRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A call. Unknown fields are refused.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallRequest {
    /// The arguments, as the tool's input_schema wants them; none if absent. Kept as text here, so that they can be read
    /// without losing a digit.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub(crate) arguments: Option<Box<RawValue>>,
    /// The caller's own deadline; the tool's holds where this is absent or longer.
    #[schemars(range(min = 1))]
    pub(crate) timeout_ms: Option<u64>,
    /// Place in the waiting line of a busy upstream.
    pub(crate) priority: Option<PriorityWord>,
    /// What to do when the tool itself cannot be reached.
    pub(crate) on_failure: Option<OnFailureWord>,
    /// The conversation this call belongs to; a fresh one if absent.
    #[schemars(length(min = 1, max = 255))]
    pub(crate) session_id: Option<String>,
    /// The chain of cause this call belongs to; that of the traceparent header, or a fresh one, if absent.
    #[schemars(length(min = 1, max = 255))]
    pub(crate) trace_id: Option<String>,
    /// The agent's step, counted from 1.
    pub(crate) step: Option<u32>,
    /// The question the agent works on; ranks passages of long results.
    pub(crate) question: Option<String>,
    /// What the model's provider counted for the turn that led here.
    pub(crate) usage: Option<UsageFigures>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PriorityWord {
    Low,
    Normal,
    High,
}

impl From<PriorityWord> for Priority {
    fn from(word: PriorityWord) -> Self {
        match word {
            PriorityWord::Low => Self::Low,
            PriorityWord::Normal => Self::Normal,
            PriorityWord::High => Self::High,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnFailureWord {
    /// Walk the declared fallback chain.
    Fallback,
    /// Answer with the failure.
    Return,
}

impl From<OnFailureWord> for OnFailure {
    fn from(word: OnFailureWord) -> Self {
        match word {
            OnFailureWord::Fallback => Self::Fallback,
            OnFailureWord::Return => Self::Return,
        }
    }
}

/// Tokens of the model turn that led to a call.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsageFigures {
    /// Tokens the model read, at most 2^40.
    #[schemars(range(max = 1_099_511_627_776_u64))]
    pub(crate) input: u64,
    /// Tokens the model wrote, at most 2^40.
    #[schemars(range(max = 1_099_511_627_776_u64))]
    pub(crate) output: u64,
}

/// The tools a caller may use, in the order declared.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Tools {
    pub(crate) tools: Vec<Tool>,
}

/// One tool as its callers see it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Tool {
    /// Its id: what a call names.
    pub(crate) tool_id: String,
    /// A short name for people.
    pub(crate) name: String,
    /// What it does, for a model.
    pub(crate) description: String,
    /// When to use it, for a model.
    pub(crate) use_when: Option<String>,
    /// JSON Schema (2020-12) of the arguments.
    pub(crate) input_schema: Value,
    /// JSON Schema of the data.
    pub(crate) output_schema: Option<Value>,
    /// What it does to the world.
    pub(crate) effect: EffectWord,
    /// The scope it needs, if any.
    pub(crate) scope: Option<String>,
    /// How long one call may take at most.
    pub(crate) timeout_ms: u64,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EffectWord {
    /// Changes nothing.
    Read,
    /// Changes something; twice is the same as once.
    Idempotent,
    /// Changes something; the upstream does the same key once.
    Keyed,
    /// Changes something each time.
    Write,
}

impl From<Effect> for EffectWord {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Read => Self::Read,
            Effect::Idempotent => Self::Idempotent,
            Effect::Keyed => Self::Keyed,
            Effect::Write => Self::Write,
        }
    }
}

impl From<&ToolSpec> for Tool {
    fn from(spec: &ToolSpec) -> Self {
        Self {
            tool_id: spec.tool_id.to_string(),
            name: spec.name.clone(),
            description: spec.description.clone(),
            use_when: spec.use_when.clone(),
            input_schema: spec.input_schema.clone(),
            output_schema: spec.output_schema.clone(),
            effect: spec.effect.into(),
            scope: spec.scope.clone(),
            timeout_ms: u64::try_from(spec.timeout.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// The one shape in which every call ends.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes core's envelope for the OpenAPI document; never built")]
pub(crate) struct Envelope {
    status: StatusWord,
    /// The tool asked for.
    tool: String,
    /// The result; null on error.
    data: Option<Map<String, Value>>,
    /// The failure; null on success.
    error: Option<ErrorObject>,
    meta: Meta,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes core's envelope for the OpenAPI document; never built")]
enum StatusWord {
    Ok,
    Error,
}

/// What a caller and a model read about a failure.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes core's envelope for the OpenAPI document; never built")]
struct ErrorObject {
    /// The code, a row of the error table.
    code: String,
    /// What is wrong.
    message: String,
    /// The same request with the same key may help and cannot cause a second effect.
    retryable: bool,
    /// What to do about it.
    hint: Option<String>,
    /// How long to wait before trying again.
    retry_after_ms: Option<u64>,
    /// The same facts for a program.
    details: Value,
}

/// How a call went.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes core's envelope for the OpenAPI document; never built")]
struct Meta {
    step: u32,
    trace_id: String,
    session_id: String,
    request_id: String,
    /// Attempts made at upstreams; 0 when refused or replayed.
    attempts: u32,
    duration_ms: u64,
    phase: PhaseWord,
    /// The tool that answered.
    served_by: Option<String>,
    /// Answered from the record of an earlier call with the same key.
    replayed: bool,
    /// Set when data is not the whole result.
    truncated: Option<TruncatedObject>,
    tokens: TokensObject,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes core's envelope for the OpenAPI document; never built")]
enum PhaseWord {
    Rejected,
    NotSent,
    MaybeSent,
    Answered,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes core's envelope for the OpenAPI document; never built")]
struct TruncatedObject {
    shown: u64,
    total: u64,
    blob: Option<String>,
    how: String,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes core's envelope for the OpenAPI document; never built")]
struct TokensObject {
    input: u64,
    output: u64,
    tool_result: u64,
    /// `usage` or `estimate`.
    counted: String,
}

/// A refusal beside the road: RFC 9457 with our code.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// `urn:reach:error:CODE`.
    pub(crate) r#type: String,
    /// What the code means.
    pub(crate) title: String,
    /// The HTTP status.
    pub(crate) status: u16,
    /// What is wrong here.
    pub(crate) detail: String,
    /// The code, a row of the error table.
    pub(crate) code: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// The same request may help later and cannot do harm.
    pub(crate) retryable: bool,
    /// How long to wait.
    pub(crate) retry_after_ms: Option<u64>,
}

/// The rows of one trace, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Trace {
    pub(crate) trace_id: String,
    /// Journal rows: who and what, and the steps as a list of events.
    pub(crate) rows: Vec<Value>,
}

/// The newest sessions, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Sessions {
    pub(crate) sessions: Vec<Session>,
}

/// One session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Session {
    pub(crate) session_id: String,
    /// Its first event, in milliseconds since the Unix epoch.
    pub(crate) first_ms: u64,
    /// Its last event.
    pub(crate) last_ms: u64,
    /// Journal rows it has.
    pub(crate) rows: u64,
}

impl From<SessionLine> for Session {
    fn from(line: SessionLine) -> Self {
        Self {
            session_id: line.session_id.to_string(),
            first_ms: line.first_ms,
            last_ms: line.last_ms,
            rows: line.rows,
        }
    }
}

/// A session call by call.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionTimeline {
    pub(crate) session_id: String,
    /// The calls with their times and figures.
    pub(crate) timeline: Value,
}

/// How tools and upstreams do.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// The figures of the last five minutes of each tool that was called and that this caller may use.
    pub(crate) tools: Vec<Value>,
    /// Every breaker that was asked; null for callers without the scope `reach:operate`.
    pub(crate) breakers: Option<Vec<Breaker>>,
    /// What does not work of the gateway's own; null for callers without the scope `reach:operate`.
    pub(crate) degraded: Option<Vec<String>>,
}

/// A breaker.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Breaker {
    /// The upstream, or the tool with a breaker of its own.
    pub(crate) target: String,
    /// `closed`, `open`, `half_open`, `forced_open` or `disabled`.
    pub(crate) state: String,
    /// Since when, in milliseconds since the Unix epoch.
    pub(crate) since_ms: u64,
    /// Until the next probe, while open.
    pub(crate) retry_after_ms: Option<u64>,
    /// What opened it.
    pub(crate) reason: String,
}

impl From<BreakerView> for Breaker {
    fn from(view: BreakerView) -> Self {
        Self {
            target: view.target,
            state: view.state.as_str().to_owned(),
            since_ms: view.since_ms,
            retry_after_ms: view.retry_after_ms,
            reason: view.reason,
        }
    }
}

/// Sets a breaker by hand.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BreakerRequest {
    /// The upstream, or the tool with a breaker of its own, as `GET /v1/health` names it.
    pub(crate) target: String,
    pub(crate) state: BreakerWord,
    /// Why; shown to everybody who is refused.
    #[schemars(length(min = 1, max = 500))]
    pub(crate) reason: String,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BreakerWord {
    /// Calls pass; counting begins anew.
    Closed,
    /// Refused until a person says otherwise.
    ForcedOpen,
    /// Calls pass and nothing is counted, until a person says otherwise.
    Disabled,
}

/// How a breaker moved.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BreakerMoved {
    pub(crate) target: String,
    pub(crate) from: String,
    pub(crate) to: String,
}

/// Requests whose outcome is unknown, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UnsettledList {
    pub(crate) unsettled: Vec<Unsettled>,
}

/// One request whose outcome is unknown.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Unsettled {
    pub(crate) caller: String,
    pub(crate) tool_id: String,
    pub(crate) request_id: String,
    pub(crate) trace_id: String,
    pub(crate) session_id: String,
    /// When the record was last written, in milliseconds since the Unix epoch.
    pub(crate) at_ms: u64,
}

impl From<UnsettledRecord> for Unsettled {
    fn from(record: UnsettledRecord) -> Self {
        Self {
            caller: record.caller.to_string(),
            tool_id: record.tool_id.to_string(),
            request_id: record.request_id.to_string(),
            trace_id: record.trace_id.to_string(),
            session_id: record.session_id.to_string(),
            at_ms: record.at_ms,
        }
    }
}

/// Says what became of a request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleRequest {
    pub(crate) caller: String,
    pub(crate) tool_id: String,
    pub(crate) request_id: String,
    /// Whether it was carried out. If not, the same key may be sent again.
    pub(crate) done: bool,
    /// What the call answers from now on, if it was carried out; empty if absent.
    #[serde(default)]
    pub(crate) data: Map<String, Value>,
}

/// The outcome is recorded.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Settled {
    pub(crate) request_id: String,
    pub(crate) done: bool,
}

/// The answer of a probe.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Probe {
    /// `ok`.
    pub(crate) status: &'static str,
}
