//! `reach schema`: the schemas that are also checked in under `schemas/`.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::{Common, Failure, output};

/// The arguments of `reach schema`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Which schema.
    #[arg(value_enum)]
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// The JSON Schema of reach.yaml, for editors.
    Config,
    /// The OpenAPI description of the HTTP API.
    Openapi,
    /// The table of error codes.
    Errors,
}

pub(super) fn run(arguments: &Arguments, common: &Common) -> Result<ExitCode, Failure> {
    let value = match arguments.what {
        What::Config => crate::config::schema(),
        What::Openapi => reach_server::openapi::document(),
        What::Errors if common.json => json!({ "errors": errors() }),
        What::Errors => {
            let mut table = output::table(&["code", "http", "meaning"]);
            for row in reach_core::error::TABLE {
                table.add_row([row.name.to_owned(), row.http_status.to_string(), row.meaning.to_owned()]);
            }
            output::print(&format!("{table}\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let text = serde_json::to_string_pretty(&value).map_err(anyhow::Error::from)?;
    output::print(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn errors() -> Vec<serde_json::Value> {
    reach_core::error::TABLE
        .iter()
        .map(|row| {
            json!({ "code": row.name, "http_status": row.http_status, "meaning": row.meaning,
                    "model": row.model_hint, "operator": row.operator_hint })
        })
        .collect()
}
