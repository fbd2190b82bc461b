//! `reach tools`: what is declared, as a table or as JSON.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::{Common, Failure, output};

/// The arguments of `reach tools`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Only what this declared caller may use.
    #[arg(long)]
    caller: Option<String>,
}

pub(super) fn run(arguments: &Arguments, common: &Common) -> Result<ExitCode, Failure> {
    let config = common.load()?;
    let scopes = common.caller(&config, arguments.caller.as_deref())?.scopes;
    let tools = config.tools.iter().filter(|tool| scopes.allow(tool.spec.scope.as_deref()));
    if common.json {
        let listed: Vec<_> = tools
            .map(|tool| {
                let spec = &tool.spec;
                json!({
                    "tool_id": spec.tool_id, "name": spec.name, "description": spec.description,
                    "use_when": spec.use_when, "effect": spec.effect, "adapter": tool.adapter.kind(),
                    "scope": spec.scope, "timeout_ms": spec.timeout.as_millis() as u64,
                    "fallback": spec.fallback.as_ref().map(|fallback| &fallback.tool_id),
                    "input_schema": reach_core::arguments::closed(&spec.input_schema),
                })
            })
            .collect();
        output::print_json(&json!({ "tools": listed }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = output::table(&["tool", "effect", "system", "scope", "fallback", "description"]);
    for tool in tools {
        let spec = &tool.spec;
        table.add_row([
            spec.tool_id.to_string(),
            spec.effect.as_str().to_owned(),
            tool.adapter.target().to_owned(),
            spec.scope.clone().unwrap_or_else(|| "-".to_owned()),
            spec.fallback.as_ref().map_or_else(|| "-".to_owned(), |fallback| fallback.tool_id.to_string()),
            spec.description.clone(),
        ]);
    }
    output::print(&format!("{table}\n"))?;
    Ok(ExitCode::SUCCESS)
}
