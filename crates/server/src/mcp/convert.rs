//! Tools and envelopes in MCP's shapes.
//!
//! A success gives its data as structured content and as text, and how it went under `reach/meta`. Every
//! failure is a result with `isError` that carries the whole envelope, so that a model reads what to
//! change. Output schemas are not announced: what is shown of a long result may be shortened, and a
//! client that checks it would refuse a good answer.

use std::sync::Arc;

use reach_core::{Effect, Envelope, ToolSpec};
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Tool, ToolAnnotations};
use serde_json::Value;

use super::names;

/// The key of the envelope's meta in a result's `_meta`.
const META: &str = "reach/meta";

/// The tools as `tools/list` shows them, for the HTTP listing.
pub(crate) fn listing(tools: &[Arc<ToolSpec>]) -> Result<Value, String> {
    serde_json::to_value(all(tools)).map_err(|error| error.to_string())
}

pub(super) fn all(tools: &[Arc<ToolSpec>]) -> Vec<Tool> {
    names::named(tools).into_iter().map(|(name, spec)| tool(name, spec)).collect()
}

fn tool(name: String, spec: &ToolSpec) -> Tool {
    let schema = match &spec.input_schema {
        Value::Object(schema) => schema.clone(),
        // The registry takes object schemas only; an empty one keeps a client working if it ever did not.
        _ => serde_json::Map::from_iter([("type".to_owned(), "object".into())]),
    };
    let description = match &spec.use_when {
        Some(use_when) => format!("{}\nUse when: {use_when}", spec.description),
        None => spec.description.clone(),
    };
    Tool::new(name, description, schema).with_title(&spec.name).with_annotations(annotations(spec.effect))
}

/// `keyed` is not idempotent in MCP's sense: without the same key it happens again.
fn annotations(effect: Effect) -> ToolAnnotations {
    let reads = effect == Effect::Read;
    ToolAnnotations::new().read_only(reads).destructive(!reads).idempotent(effect.is_repeatable())
}

/// How a call ended, as a client and its model read it.
pub(super) fn result(envelope: &Envelope) -> Result<CallToolResult, serde_json::Error> {
    let Some(data) = envelope.data.clone() else {
        let whole = serde_json::to_value(envelope)?;
        return Ok(CallToolResult::structured_error(whole));
    };
    let data = Value::Object(data);
    let mut result = CallToolResult::success(vec![ContentBlock::text(data.to_string())]);
    result.structured_content = Some(data);
    let mut meta = MetaObject::new();
    meta.insert(META.to_owned(), serde_json::to_value(&envelope.meta)?);
    result.meta = Some(meta);
    Ok(result)
}
