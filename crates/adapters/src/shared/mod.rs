//! Plumbing that more than one adapter uses. Plumbing only: what a failure means is each adapter's own.

pub mod address;
pub mod secret;
pub mod template;

use std::path::Path;
use std::time::Duration;

use reach_core::{Effect, ToolId};
use serde_json::Value;

/// What an adapter may know of the tool it is built for.
#[derive(Clone, Copy, Debug)]
pub struct Declared<'a> {
    /// The tool.
    pub tool_id: &'a ToolId,
    /// Its arguments: placeholders in a declaration have to name one of its properties.
    pub input_schema: &'a Value,
    /// Its effect, declared or by default.
    pub effect: Effect,
    /// Its deadline, to choose connect timeouts below it.
    pub timeout: Duration,
    /// The folder that relative paths of the declaration start from: that of `reach.yaml`.
    pub base: &'a Path,
}

impl Declared<'_> {
    /// The names of the declared arguments.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.input_schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
    }
}
