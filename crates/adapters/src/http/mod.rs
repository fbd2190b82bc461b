//! The `http` adapter.

use std::sync::Arc;

use reach_core::{Adapter, Effect, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::Declared;

/// What the key `http:` of a tool may hold.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl Config {
    /// The effect of a tool that does not declare one.
    pub fn default_effect(&self) -> Effect {
        Effect::Write
    }
}

/// Builds the adapter of one declared tool, or says everything that is wrong with the declaration.
pub fn build(_config: Config, _declared: &Declared<'_>) -> Result<Arc<dyn Adapter>, Vec<Problem>> {
    Err(Vec::new())
}
