//! `reach sessions`: the list of sessions, or the timeline of one.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use reach_core::SessionId;
use reach_journal::timeline::Timeline;
use serde_json::json;

use super::{Common, Failure, output};

/// The arguments of `reach sessions`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// How many to list, newest first.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The timeline of one session: a bar for each call, and what the time went into.
    Show {
        /// The session's id.
        id: String,
    },
}

pub(super) async fn run(arguments: Arguments, common: &Common) -> Result<ExitCode, Failure> {
    common.start_log("warn", output::LogFormat::Auto);
    let config = common.load()?;
    let ledger = common.open_stores(&config)?.ledger;
    if let Some(Action::Show { id }) = arguments.action {
        let rows = ledger.session(SessionId::new(&id)).await?;
        if rows.is_empty() {
            return Err(Failure::Failed(anyhow::anyhow!(
                "no call was recorded under the session `{id}`; `reach sessions` lists them"
            )));
        }
        let timeline = Timeline::of(&rows);
        if common.json {
            output::print_json(&timeline)?;
        } else {
            output::print(&format!(
                "\n  session {}, from {} UTC\n\n{}",
                output::strong(&id),
                output::moment(timeline.started_at_ms),
                super::timeline::text(&timeline)
            ))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let lines = ledger.sessions(arguments.limit).await?;
    let mut summaries = Vec::with_capacity(lines.len());
    for line in lines {
        let totals = Timeline::of(&ledger.session(line.session_id.clone()).await?).totals;
        summaries.push((line, totals));
    }
    if common.json {
        let listed: Vec<_> = summaries
            .iter()
            .map(|(line, totals)| {
                json!({ "session_id": line.session_id, "first_ms": line.first_ms, "last_ms": line.last_ms, "totals": totals })
            })
            .collect();
        output::print_json(&json!({ "sessions": listed }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if summaries.is_empty() {
        output::print("no session was recorded yet\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = output::table(&["session", "began (UTC)", "lasted", "calls", "failed", "result tokens", ""]);
    for (line, totals) in &summaries {
        table.add_row([
            line.session_id.to_string(),
            output::moment(line.first_ms),
            output::duration(line.last_ms.saturating_sub(line.first_ms)),
            totals.calls.to_string(),
            totals.errors.to_string(),
            totals.tool_result_tokens.to_string(),
            if totals.heavy_results { "heavy results".to_owned() } else { String::new() },
        ]);
    }
    output::print(&format!("{table}\n"))?;
    Ok(ExitCode::SUCCESS)
}
