//! What an operator declares about one tool, whatever system stands behind it.
//!
//! The adapter's own part (a URL, a statement, a command) is not here: the engine knows no adapter by
//! name.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::Rate;
use crate::{Effect, ToolId};

/// One declared tool. Everything the road needs to know, and what callers and models are shown.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub tool_id: ToolId,
    /// A short name for people; the id where none was declared.
    pub name: String,
    /// What it does, for a model.
    pub description: String,
    /// When to use it, for a model.
    pub use_when: Option<String>,
    /// JSON Schema (2020-12) of the arguments; always of type object, closed unless it says otherwise.
    pub input_schema: Value,
    /// JSON Schema of `data`, checked on the way back.
    pub output_schema: Option<Value>,
    /// The scope a caller needs.
    pub scope: Option<String>,
    /// What it does to the world.
    pub effect: Effect,
    /// How long this tool may take for one call, all its attempts and pauses together. A stand-in has its own.
    pub timeout: Duration,
    /// How long one attempt may take; at most `timeout`, and all of it where absent.
    pub attempt_timeout: Option<Duration>,
    /// Convert lossless near misses of the arguments (`"2000"` for an integer), and say so in the journal.
    pub coerce: bool,
    /// The tool that stands in when this one cannot be reached.
    pub fallback: Option<Fallback>,
    /// Characters of JSON that a caller is shown; more is clipped and the whole is spilled to blobs.
    pub max_result_length: usize,
    /// How a result that is too long is shortened.
    pub shape: Shape,
    /// How often it may be called, all callers together.
    pub rate: Option<Rate>,
    /// A breaker of its own instead of its upstream's.
    pub breaker: Option<crate::breaker::Settings>,
    /// For writes: the upstream promises that an answer of 5xx means it did nothing.
    pub server_error_means_not_done: bool,
    /// How an unknown outcome is settled without a person.
    pub verify: Option<Verify>,
}

/// The tool that stands in for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// The tool to use instead.
    pub tool_id: ToolId,
    /// Its argument name -> our argument name; arguments not named here keep their name. Empty: all keep it.
    #[serde(default)]
    pub arguments: std::collections::BTreeMap<String, String>,
}

/// How an `OUTCOME_UNKNOWN` is settled: a tool that only reads is asked whether the effect is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verify {
    /// The tool to ask; its effect must be `read`.
    pub tool_id: ToolId,
    /// Its argument name -> our argument name; arguments not named here are not sent.
    #[serde(default)]
    pub arguments: std::collections::BTreeMap<String, String>,
    /// A JMESPath expression over its `data`; true means that the effect happened, false that it did not.
    pub done_when: String,
}

/// How a result that is too long is shortened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Head and tail, arrays with counts. The default.
    #[default]
    Clip,
    /// The passages that answer the arguments and the question best, in their order.
    Extract,
}

/// Characters of a result shown when a tool does not say.
pub const MAX_RESULT_LENGTH: usize = 2_000;

/// How long a call may take when a tool does not say.
pub const TIMEOUT: Duration = Duration::from_secs(10);

impl ToolSpec {
    /// A tool with every optional field at its default. Mostly for tests and built-in tools.
    pub fn new(tool_id: ToolId, description: impl Into<String>, input_schema: Value, effect: Effect) -> Self {
        Self {
            name: tool_id.to_string(),
            tool_id,
            description: description.into(),
            use_when: None,
            input_schema,
            output_schema: None,
            scope: None,
            effect,
            timeout: TIMEOUT,
            attempt_timeout: None,
            coerce: false,
            fallback: None,
            max_result_length: MAX_RESULT_LENGTH,
            shape: Shape::Clip,
            rate: None,
            breaker: None,
            server_error_means_not_done: false,
            verify: None,
        }
    }
}
