//! What `reach.yaml` may hold, section by section: the shape that the schema is generated from.
//!
//! Every comment here is shown to whoever writes the file, as the description of the field in their editor.
//! The types are the file's own; [`super::check`] turns them into the words of the engine. An adapter's part
//! is the adapter's own `Config`, embedded as it is.

use std::collections::BTreeMap;

use reach_adapters::{email, file, http, script, sql};
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

/// The declaration of a gateway: the tools that agents may use, the systems behind them, and who may call.
///
/// Text may hold `${NAME}` or `${NAME:-default}`, replaced from the environment; `$${` is a literal `${`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, title = "reach.yaml")]
#[expect(dead_code, reason = "the root is read section by section, so that one bad section does not hide the others")]
pub(crate) struct File {
    /// The version of this format.
    #[schemars(extend("const" = 1))]
    version: u32,
    /// How the gateway listens.
    #[schemars(default)]
    server: Option<Server>,
    /// What proves to upstreams who we are, by name. Adapters name one of these.
    credentials: Option<BTreeMap<String, Credential>>,
    /// Who may call, by name. Without callers, whoever is on this machine may call, and only loopback is served.
    callers: Option<BTreeMap<String, Caller>>,
    /// Limits of single upstreams, by target, such as `https://orders.internal:443`.
    upstreams: Option<BTreeMap<String, Upstream>>,
    /// The tools, in the order in which they are listed.
    tools: Option<Vec<Tool>>,
    /// Where state is kept.
    state: Option<State>,
}

/// How the gateway listens.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Server {
    /// Address and port to listen on. An address other than loopback needs `callers`.
    #[schemars(example = &"127.0.0.1:7878")]
    pub(crate) listen: String,
    /// Host names under which clients may reach the gateway: `host` or `host:port`. A gateway on loopback
    /// always answers to its loopback names, and refuses other names than these; one on a public address
    /// answers to every name while this is empty.
    #[schemars(example = [&"reach.internal"])]
    pub(crate) allowed_hosts: Vec<String>,
    /// Web origins that may call from a browser: `https://host` or `https://host:port`. None by default.
    #[schemars(example = [&"https://console.internal"])]
    pub(crate) allowed_origins: Vec<String>,
    /// Bytes of a request body at most.
    #[schemars(range(min = 1024, max = 67_108_864))]
    pub(crate) max_body_bytes: u64,
    /// Connections open at the same time at most.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) max_connections: u32,
    /// Milliseconds a client may take to send the header of a request.
    #[schemars(range(min = 100, max = 600_000))]
    pub(crate) header_timeout_ms: u64,
    /// Milliseconds a client may take to send the body of a request.
    #[schemars(range(min = 100, max = 600_000))]
    pub(crate) body_timeout_ms: u64,
    /// Milliseconds a connection may stay without a request after its first one.
    #[schemars(range(min = 100, max = 3_600_000))]
    pub(crate) idle_timeout_ms: u64,
    /// Milliseconds a client may refuse to read its answer.
    #[schemars(range(min = 100, max = 600_000))]
    pub(crate) write_timeout_ms: u64,
    /// Milliseconds that calls under way get to finish when the gateway stops.
    #[schemars(range(min = 0, max = 600_000))]
    pub(crate) drain_patience_ms: u64,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7878".to_owned(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_body_bytes: 1 << 20,
            max_connections: 512,
            header_timeout_ms: 10_000,
            body_timeout_ms: 30_000,
            idle_timeout_ms: 75_000,
            write_timeout_ms: 30_000,
            drain_patience_ms: 10_000,
        }
    }
}

/// What proves to an upstream who we are. Take secrets from the environment: `"${NAME}"`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Credential {
    /// `Authorization: Bearer TOKEN`.
    Bearer {
        /// The token.
        #[schemars(with = "String")]
        token: SecretString,
    },
    /// `Authorization: Basic ...`, and the login of protocols that have one.
    Basic {
        /// The user name.
        username: String,
        /// The password.
        #[schemars(with = "String")]
        password: SecretString,
    },
    /// A key in a header or query parameter of its own.
    ApiKey {
        /// Where the key travels.
        r#in: KeyPlace,
        /// The name of the header or query parameter.
        name: String,
        /// The key.
        #[schemars(with = "String")]
        key: SecretString,
    },
}

/// Where an API key travels.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyPlace {
    /// In a request header.
    Header,
    /// In the query string.
    Query,
}

/// One caller: an agent, a service, a person.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Caller {
    /// What it sends as `Authorization: Bearer KEY`: at least 16 visible ASCII characters.
    #[schemars(with = "String")]
    pub(crate) key: SecretString,
    /// The scopes it has, such as `order:read`, `order:*` or `*`. None: only tools that ask for no scope.
    #[serde(default)]
    #[schemars(example = [&"order:read", &"message:*"])]
    pub(crate) scopes: Vec<String>,
    /// How often it may call, all tools together. Without it: as often as it likes.
    pub(crate) rate: Option<Rate>,
}

/// At most `per_minute` calls a minute, of which `burst` may come at once.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rate {
    /// Calls a minute in the long run.
    #[schemars(range(min = 1, max = 1_000_000), example = 60)]
    pub(crate) per_minute: u32,
    /// Calls that may come at once after a pause. Default: `per_minute`.
    #[schemars(range(min = 1, max = 1_000_000), example = 10)]
    pub(crate) burst: Option<u32>,
}

/// Limits of one upstream, shared by all tools that reach it.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Upstream {
    /// Attempts under way at the same time at most; more wait in line, by the priority of their plan.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) max_concurrency: u32,
    /// When its breaker opens and for how long.
    pub(crate) breaker: Breaker,
}

impl Default for Upstream {
    fn default() -> Self {
        let settings = reach_engine::UpstreamSettings::default();
        Self {
            max_concurrency: u32::try_from(settings.max_concurrency).unwrap_or(u32::MAX),
            breaker: Breaker::default(),
        }
    }
}

/// When a circuit breaker opens and for how long.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Breaker {
    /// Failures in a row that open it.
    #[schemars(range(min = 1, max = 1_000))]
    pub(crate) failures: u32,
    /// Milliseconds of the window in which the failure rate is counted.
    #[schemars(range(min = 1_000, max = 3_600_000))]
    pub(crate) window_ms: u64,
    /// Calls the window must hold before the failure rate counts.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) window_calls: u32,
    /// Failed calls in a hundred that open it.
    #[schemars(range(min = 1, max = 100))]
    pub(crate) window_percent: u32,
    /// Milliseconds it stays open the first time; doubled each further time.
    #[schemars(range(min = 100, max = 3_600_000))]
    pub(crate) open_ms: u64,
    /// Milliseconds it stays open at most.
    #[schemars(range(min = 100, max = 3_600_000))]
    pub(crate) open_max_ms: u64,
    /// Successes in a row that close it again.
    #[schemars(range(min = 1, max = 100))]
    pub(crate) successes: u32,
}

impl Default for Breaker {
    fn default() -> Self {
        let settings = reach_core::breaker::Settings::default();
        Self {
            failures: settings.failures,
            window_ms: settings.window_ms,
            window_calls: settings.window_calls,
            window_percent: settings.window_percent,
            open_ms: settings.open_ms,
            open_max_ms: settings.open_max_ms,
            successes: settings.successes,
        }
    }
}

/// One tool. Exactly one of `http`, `sql`, `script`, `email` and `file` says what stands behind it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    /// Its name: letters, digits, `_`, `-` and `.` of any script; unique without regard to case.
    #[schemars(example = &"order_status_query")]
    pub(crate) tool_id: String,
    /// A short name for people. Default: the id.
    pub(crate) name: Option<String>,
    /// What it does, for a model.
    #[schemars(length(min = 1))]
    pub(crate) description: String,
    /// When to use it, for a model: completes "use when ...".
    pub(crate) use_when: Option<String>,
    /// JSON Schema (2020-12) of its arguments, of type object. Default: it takes no arguments.
    pub(crate) input_schema: Option<serde_json::Map<String, serde_json::Value>>,
    /// JSON Schema of its result, checked on the way back.
    pub(crate) output_schema: Option<serde_json::Map<String, serde_json::Value>>,
    /// What a caller needs to use it. Default: nothing.
    pub(crate) auth: Option<Auth>,
    /// What it does to the world. Default: what the adapter can tell for sure, else `write`.
    pub(crate) effect: Option<Effect>,
    /// Milliseconds that one call may take, all attempts together.
    #[serde(default = "timeout_ms")]
    #[schemars(range(min = 1, max = 600_000))]
    pub(crate) timeout_ms: u64,
    /// Milliseconds that one attempt may take. Default: all of `timeout_ms`, so that an attempt that is too slow
    /// leaves no time for another or for a fallback.
    #[schemars(range(min = 1, max = 600_000))]
    pub(crate) attempt_timeout_ms: Option<u64>,
    /// Convert arguments that only have the wrong type and lose nothing by it (`"2000"` for an integer).
    #[serde(default)]
    pub(crate) coerce: bool,
    /// The tool that stands in when this one cannot be reached: its id, or its id and how arguments map.
    pub(crate) fallback: Option<Fallback>,
    /// Characters of a result that a caller is shown; more is shortened, and the whole kept to be read in parts.
    #[serde(default = "max_result_length")]
    #[schemars(range(min = 200, max = 1_000_000))]
    pub(crate) max_result_length: usize,
    /// How a result that is too long is shortened.
    #[serde(default)]
    pub(crate) shape: Shape,
    /// How often it may be called, all callers together. Without it: as often as they like.
    pub(crate) rate: Option<Rate>,
    /// A circuit breaker of its own instead of its upstream's.
    pub(crate) breaker: Option<Breaker>,
    /// For writes: what an answer of 5xx says about the effect. Default: `unknown`.
    pub(crate) server_error: Option<ServerError>,
    /// For writes: a tool that only reads and can tell whether the effect happened.
    pub(crate) verify: Option<Verify>,
    /// An HTTP endpoint.
    pub(crate) http: Option<http::Config>,
    /// A SQL statement.
    pub(crate) sql: Option<sql::Config>,
    /// A program.
    pub(crate) script: Option<script::Config>,
    /// A message by SMTP.
    pub(crate) email: Option<email::Config>,
    /// A folder.
    pub(crate) file: Option<file::Config>,
}

fn timeout_ms() -> u64 {
    u64::try_from(reach_core::tool::TIMEOUT.as_millis()).unwrap_or(u64::MAX)
}

fn max_result_length() -> usize {
    reach_core::tool::MAX_RESULT_LENGTH
}

/// What a caller needs to use a tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Auth {
    /// The scope, such as `order:read`.
    #[schemars(example = &"order:read")]
    pub(crate) scope: String,
}

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Effect {
    /// It changes nothing.
    Read,
    /// Doing it twice is the same as doing it once.
    Idempotent,
    /// The upstream honours our idempotency key.
    Keyed,
    /// It changes something each time it is sent.
    Write,
}

/// How a result that is too long is shortened.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shape {
    /// Head and tail, arrays with counts.
    #[default]
    Clip,
    /// The passages that answer the arguments and the question best.
    Extract,
}

/// What an answer of 5xx says about the effect of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServerError {
    /// It may have happened.
    Unknown,
    /// The upstream promises that it did not: the call may be sent again.
    NotDone,
}

/// The tool that stands in for another.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Fallback {
    /// Its id; arguments keep their names.
    Id(String),
    /// Its id, and how arguments map.
    Mapped(MappedFallback),
}

/// A fallback whose arguments have other names.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MappedFallback {
    /// The tool to use instead.
    pub(crate) tool_id: String,
    /// Its argument name: our argument name. Arguments not named here keep their name.
    #[serde(default)]
    pub(crate) arguments: BTreeMap<String, String>,
}

/// How an unknown outcome is settled without a person.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Verify {
    /// The tool to ask; its effect is `read`.
    pub(crate) tool_id: String,
    /// Its argument name: our argument name. Arguments not named here are not sent.
    #[serde(default)]
    pub(crate) arguments: BTreeMap<String, String>,
    /// A JMESPath expression over its result: true means that the effect happened, false that it did not.
    #[schemars(example = &"length(orders) > `0`")]
    pub(crate) done_when: String,
}

/// Where state is kept. Relative paths start at the folder of this file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct State {
    /// Events and idempotency records: `sqlite://PATH`.
    #[schemars(example = &"sqlite://.reach/ledger.db")]
    pub(crate) ledger: String,
    /// Health, breakers and rates: `memory:`.
    #[schemars(example = &"memory:")]
    pub(crate) board: String,
    /// Whole results too large to show: `file:PATH`, a folder.
    #[schemars(example = &"file:.reach/blobs")]
    pub(crate) blobs: String,
    /// How long the ledger remembers.
    pub(crate) keep: Keep,
}

/// How long the ledger remembers. `reach serve` deletes what is older, at its start and every hour.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keep {
    /// Days that the events of calls are kept.
    #[schemars(range(min = 1, max = 3_650))]
    pub(crate) journal_days: u32,
    /// Days that a finished request is kept: after them its `request_id` is new again, and can be carried
    /// out once more. Requests whose outcome is unknown are kept until they are settled.
    #[schemars(range(min = 1, max = 3_650))]
    pub(crate) records_days: u32,
}

impl Default for Keep {
    fn default() -> Self {
        Self { journal_days: 30, records_days: 7 }
    }
}

impl Default for State {
    fn default() -> Self {
        let reach_store::StateUrls { ledger, board, blobs } = reach_store::StateUrls::default();
        Self { ledger, board, blobs, keep: Keep::default() }
    }
}
