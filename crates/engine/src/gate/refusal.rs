//! The words of a refusal: what is wrong and what to do, for a model to read.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat};
use reach_core::arguments::Refusal;
use reach_core::{Caller, ErrorBody, ErrorCode, ToolId};
use serde_json::json;

use crate::registry::Registry;

/// Step 1: no such tool.
pub(crate) fn not_found(registry: &Registry, tool_id: &ToolId, caller: &Caller) -> ErrorBody {
    let mut error = ErrorBody::new(
        ErrorCode::ToolNotFound,
        format!("the tool `{}` is not available to this caller", clipped(tool_id.as_str())),
    );
    let near = registry.near(tool_id, caller);
    if !near.is_empty() {
        error.hint = Some(format!("Did you mean {}?", quoted(&near)));
        error.details = Some(json!({ "nearest": near }));
    }
    error
}

/// Step 2: the same words as for a tool that does not exist, so that nothing is learnt from them.
pub(crate) fn forbidden(registry: &Registry, tool_id: &ToolId, caller: &Caller) -> ErrorBody {
    not_found(registry, tool_id, caller)
}

/// Step 3.
pub(crate) fn invalid_arguments(refusal: Refusal) -> ErrorBody {
    let mut error = ErrorBody::new(ErrorCode::InvalidArguments, refusal.message);
    error.details = Some(json!({ "problems": refusal.problems }));
    error
}

/// Step 7: reason, since, retry_after and alternatives, for a model and for a program.
pub(crate) fn unreachable(
    tool_id: &ToolId,
    reason: &str,
    since_ms: u64,
    retry_after_ms: Option<u64>,
    alternatives: &[&str],
) -> ErrorBody {
    let since = DateTime::from_timestamp_millis(since_ms as i64)
        .map(|time| time.to_rfc3339_opts(SecondsFormat::Secs, true))
        .unwrap_or_default();
    let reason = if reason.is_empty() { "it failed repeatedly" } else { reason };
    let mut error = ErrorBody::new(
        ErrorCode::Unreachable,
        format!("the system behind `{tool_id}` has been unreachable since {since}: {reason}; nothing was sent"),
    );
    let again = match retry_after_ms {
        Some(wait) => format!("Try again in {:.1} s", Duration::from_millis(wait).as_secs_f64()),
        None => "An operator has switched it off; do not wait for it".to_owned(),
    };
    error.hint = Some(if alternatives.is_empty() {
        format!("{again}; do not claim a result.")
    } else {
        format!("{again}, or use {}; do not claim a result.", quoted(alternatives))
    });
    error.retryable = retry_after_ms.is_some();
    error.retry_after_ms = retry_after_ms;
    error.details = Some(json!({ "reason": reason, "since": since, "alternatives": alternatives }));
    error
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(" or ")
}

/// A name that a model made up may be long.
fn clipped(name: &str) -> String {
    match name.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}
