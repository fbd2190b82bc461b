//! `reach mcp`: the tools over MCP on standard input and output, for clients that start their servers.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::signals::Signals;
use super::{Common, Failure, output};
use crate::assemble::assemble_over;

/// The arguments of `reach mcp`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Serve as this declared caller, with its scopes and rate; otherwise as the local one.
    #[arg(long)]
    caller: Option<String>,
}

pub(super) async fn run(arguments: Arguments, common: &Common) -> Result<ExitCode, Failure> {
    // Standard output belongs to the protocol: not a byte of ours may go there.
    common.start_log("warn", output::LogFormat::Auto);
    let config = common.load()?;
    let caller = common.caller(&config, arguments.caller.as_deref())?;
    let mut signals = Signals::install()?;
    let assembled = assemble_over(&config, common.open_stores(&config)?).await?;
    let stop = CancellationToken::new();
    let served = {
        let mut serving = std::pin::pin!(reach_server::mcp::stdio(assembled.engine.clone(), caller, stop.clone()));
        tokio::select! {
            served = &mut serving => served,
            () = signals.end() => {
                stop.cancel();
                serving.await
            }
        }
    };
    // However it ended: a write that was sent is finished and recorded before the process ends.
    assembled.engine.drain(Duration::from_secs(10)).await;
    served.map_err(anyhow::Error::from)?;
    Ok(ExitCode::SUCCESS)
}
