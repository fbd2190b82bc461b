//! `reach health`: calls, success rate, latency and error codes per tool, and where the breakers stand.
//!
//! Read from the journal, so that it tells the same whether or not a gateway is running, and over all
//! processes that share a ledger.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use reach_core::breaker::StateName;
use reach_core::window::{Summary, WINDOW_MS};
use reach_journal::health::{BreakerState, Health, summaries};
use reach_store::Ledger;

use super::{Common, Failure, output};

/// The arguments of `reach health`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Show it again every two seconds, until Ctrl-C.
    #[arg(long)]
    watch: bool,
}

/// Rows read for one look; more calls than this in five minutes are summarised from the newest.
const ROWS_MAX: u32 = 200_000;

pub(super) async fn run(arguments: Arguments, common: &Common) -> Result<ExitCode, Failure> {
    common.start_log("warn", output::LogFormat::Auto);
    let config = common.load()?;
    let ledger = common.open_stores(&config)?.ledger;
    loop {
        let now_ms = chrono::Utc::now().timestamp_millis() as u64;
        let health = look(ledger.as_ref(), now_ms).await?;
        if common.json {
            output::print_json(&health)?;
        } else {
            let clear = if arguments.watch { "\u{1b}[2J\u{1b}[H" } else { "" };
            output::print(&format!("{clear}{}", text(&health, now_ms)))?;
        }
        if !arguments.watch {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(2)) => {}
            _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
        }
    }
}

async fn look(ledger: &dyn Ledger, now_ms: u64) -> Result<Health, Failure> {
    let recent = ledger.since(now_ms.saturating_sub(WINDOW_MS), ROWS_MAX).await?;
    let mut health = summaries(&recent, now_ms);
    // A breaker may have moved long before the window: the ledger keeps where each stands.
    let breakers = ledger.breakers().await?.into_iter();
    health.breakers =
        breakers.map(|line| (line.target, BreakerState { state: line.state, since_ms: line.since_ms })).collect();
    Ok(health)
}

fn text(health: &Health, now_ms: u64) -> String {
    if health.tools.is_empty() && health.breakers.is_empty() {
        return "no call in the last five minutes\n".to_owned();
    }
    let mut out = String::new();
    if !health.tools.is_empty() {
        let mut table = output::table(&["tool", "calls", "ok", "mean", "p95", "errors"]);
        for (tool, summary) in &health.tools {
            table.add_row([
                tool.to_string(),
                summary.calls.to_string(),
                rate(summary),
                summary.mean_ms.map_or_else(|| "-".to_owned(), output::duration),
                summary.p95_ms.map_or_else(|| "-".to_owned(), output::duration),
                summary.codes.iter().map(|(code, count)| format!("{count} {code}")).collect::<Vec<_>>().join(", "),
            ]);
        }
        out.push_str(&format!("{}\n{table}\n", output::strong("tools, last five minutes")));
    }
    if !health.breakers.is_empty() {
        let mut table = output::table(&["system", "breaker", "for"]);
        for (target, breaker) in &health.breakers {
            let mark = match breaker.state {
                StateName::Closed => "closed".to_owned(),
                other => format!("{} !", other.as_str()),
            };
            table.add_row([target.clone(), mark, output::duration(now_ms.saturating_sub(breaker.since_ms))]);
        }
        out.push_str(&format!("\n{}\n{table}\n", output::strong("breakers")));
    }
    out
}

fn rate(summary: &Summary) -> String {
    summary.success_rate.map_or_else(|| "-".to_owned(), |rate| format!("{:.1} %", rate * 100.0))
}
