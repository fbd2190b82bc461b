//! `reach doctor`: can each tool be reached right now? Without any side effect.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use futures_util::{StreamExt, stream};
use serde_json::json;

use super::{Common, Failure, output};
use crate::assemble;

/// The arguments of `reach doctor`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// How long one check may take, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
}

/// Checks made at the same time.
const AT_ONCE: usize = 8;

/// What one check found.
struct Finding {
    what: String,
    target: String,
    result: Result<String, String>,
    fix: &'static str,
}

pub(super) async fn run(arguments: Arguments, common: &Common) -> Result<ExitCode, Failure> {
    common.start_log("warn", output::LogFormat::Auto);
    let config = common.load()?;
    let stores = assemble::open_stores(&config)?;
    let timeout = Duration::from_millis(arguments.timeout_ms);
    let progress = output::progress(config.tools.len() as u64 + 1, common.quiet || common.json);

    let mut findings = vec![Finding {
        what: "ledger".to_owned(),
        target: config.state.ledger.clone(),
        result: stores.ledger.ping().await.map(|()| "can be written".to_owned()).map_err(|error| error.to_string()),
        fix: "check the disk and the URL of state.ledger",
    }];
    progress.inc(1);
    let checks = config.tools.iter().map(|tool| async {
        let checked = tokio::time::timeout(timeout, tool.adapter.check(timeout)).await;
        progress.inc(1);
        Finding {
            what: tool.spec.tool_id.to_string(),
            target: tool.adapter.target().to_owned(),
            result: match checked {
                Ok(Ok(words)) => Ok(words),
                Ok(Err(failure)) => Err(match failure.detail {
                    Some(detail) if common.verbose > 0 => format!("{} ({detail})", failure.message),
                    _ => failure.message,
                }),
                Err(_) => Err(format!("no answer within {} ms", timeout.as_millis())),
            },
            fix: "check that the system runs and can be reached from here",
        }
    });
    findings.extend(stream::iter(checks).buffered(AT_ONCE).collect::<Vec<_>>().await);
    progress.finish_and_clear();

    let broken = findings.iter().filter(|finding| finding.result.is_err()).count();
    if common.json {
        let listed: Vec<_> = findings
            .iter()
            .map(|finding| {
                json!({
                    "name": finding.what, "target": finding.target, "ok": finding.result.is_ok(),
                    "message": finding.result.as_ref().unwrap_or_else(|words| words),
                    "fix": finding.result.is_err().then_some(finding.fix),
                })
            })
            .collect();
        output::print_json(&json!({ "checks": listed, "broken": broken }))?;
    } else {
        let mut table = output::table(&["", "tool", "system", "found"]);
        for finding in &findings {
            let (mark, words) = match &finding.result {
                Ok(words) => ("ok", words.clone()),
                Err(words) => ("BROKEN", format!("{words}\nfix: {}", finding.fix)),
            };
            table.add_row([mark, &finding.what, &finding.target, &words]);
        }
        let verdict = match broken {
            0 => output::good("everything can be reached"),
            1 => output::bad("1 thing is broken"),
            many => output::bad(&format!("{many} things are broken")),
        };
        output::print(&format!("{table}\n{verdict}\n"))?;
    }
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::from(3) })
}
