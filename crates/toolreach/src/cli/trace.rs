//! `reach trace`: every step of every call under one trace id.

use std::process::ExitCode;

use clap::Args;
use reach_core::{EventKind, JournalRow, TraceId};
use serde_json::json;

use super::{Common, Failure, output};

/// The arguments of `reach trace`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The trace id, as in `meta.trace_id`.
    id: String,
}

pub(super) async fn run(arguments: Arguments, common: &Common) -> Result<ExitCode, Failure> {
    common.start_log("warn", output::LogFormat::Auto);
    let config = common.load()?;
    let ledger = common.open_stores(&config)?.ledger;
    let rows = ledger.trace(TraceId::new(&arguments.id)).await?;
    if rows.is_empty() {
        return Err(Failure::Failed(anyhow::anyhow!("nothing was recorded under the trace `{}`", arguments.id)));
    }
    if common.json {
        output::print_json(&json!({ "trace_id": arguments.id, "rows": rows }))?;
    } else {
        output::print(&text(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(rows: &[JournalRow]) -> String {
    let began = rows.iter().flat_map(|row| &row.events).map(|event| event.at_ms).min().unwrap_or_default();
    let mut out = String::new();
    let mut last_request = None;
    for row in rows {
        if last_request != Some(&row.request_id) {
            out.push_str(&format!(
                "\n{} {}\n",
                output::strong(row.tool_id.as_str()),
                output::dim(&format!(
                    "step {}  session {}  request {}  caller {}",
                    row.step, row.session_id, row.request_id, row.caller
                ))
            ));
            last_request = Some(&row.request_id);
        }
        for event in &row.events {
            let (name, words) = described(&event.kind);
            out.push_str(&format!(
                "  {:>8}  {name:<16} {words}\n",
                format!("+{} ms", event.at_ms.saturating_sub(began))
            ));
        }
    }
    out
}

/// The name of a step and its fields, without the quotes and braces that a person does not need.
fn described(kind: &EventKind) -> (String, String) {
    let value = serde_json::to_value(kind).unwrap_or_default();
    let name = value.get("kind").and_then(|kind| kind.as_str()).unwrap_or("?").to_owned();
    let name = match kind {
        EventKind::Finished { code: None, .. } => output::good(&format!("{name:<16}")),
        EventKind::Finished { .. } | EventKind::Refused { .. } => output::bad(&format!("{name:<16}")),
        EventKind::AttemptEnded { code: Some(_), .. } | EventKind::Degraded { .. } => {
            output::odd(&format!("{name:<16}"))
        }
        _ => name,
    };
    let fields = value.as_object().into_iter().flatten().filter(|(key, value)| *key != "kind" && !value.is_null());
    let words: Vec<String> = fields
        .map(|(key, value)| match value {
            serde_json::Value::String(text) => format!("{} {text}", output::dim(key)),
            other => format!("{} {other}", output::dim(key)),
        })
        .collect();
    (name, words.join("  "))
}
