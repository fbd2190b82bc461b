//! `reach serve`: the gateway, until it is told to stop.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use reach_server::Server;

use super::signals::Signals;
use super::{Common, Failure, output, tidy};
use crate::adopt::Adopter;
use crate::assemble::{self, Assembled};

/// The arguments of `reach serve`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Listen here instead of where `server.listen` says.
    #[arg(long, value_name = "ADDRESS", env = "REACH_LISTEN")]
    listen: Option<SocketAddr>,
    /// How the log looks on standard error.
    #[arg(long, value_enum, default_value_t = output::LogFormat::Auto, env = "REACH_LOG_FORMAT")]
    log: output::LogFormat,
}

pub(super) async fn run(arguments: Arguments, common: &Common) -> Result<ExitCode, Failure> {
    common.start_log("info", arguments.log);
    #[cfg(debug_assertions)]
    arm_crash_point(common)?;
    let config = common.load()?;
    let mut settings = config.server.clone();
    if let Some(listen) = arguments.listen {
        settings.listen = listen;
    }
    let callers = assemble::callers(&config);
    reach_server::check_exposure(settings.listen.ip(), &callers).map_err(|error| common.usage(&error.to_string()))?;

    let mut signals = Signals::install()?;
    let stores = common.open_stores(&config)?;
    let Assembled { engine, recovered } = assemble::assemble_over(&config, stores.clone()).await?;
    if recovered.unknown > 0 {
        tracing::warn!(writes = recovered.unknown, "the last run ended in the middle of writes");
    }
    let unsettled = stores.ledger.unsettled(1_000).await?.len();
    if unsettled > 0 {
        tracing::warn!(writes = unsettled, "the outcome of writes is unknown: see `reach settle`");
    }
    let server = Server::bind(settings, engine.clone(), callers.clone()).await.map_err(|error| {
        common.usage(&format!(
            "{:#}\n  fix: stop what listens there, or choose another address with --listen",
            anyhow::Error::from(error)
        ))
    })?;
    tracing::info!(address = %server.address(), tools = config.tools.len(), callers = config.callers.len(), "ready");
    // A log that is shipped elsewhere holds log lines only.
    if !common.quiet && std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        output::say(&format!(
            "reach {} listens on {}\n  tools    http://{1}/v1/tools\n  mcp      http://{1}/mcp\n  stop with Ctrl-C\n",
            env!("CARGO_PKG_VERSION"),
            server.address(),
        ));
    }

    let adopter = Adopter::new(&config, engine.clone(), callers, stores);
    let watching = tokio::spawn(adopter.follow(common.config.clone()));
    let tidying = tokio::spawn(tidy::tidy(engine.ledger(), config.keep));
    let drained = server.serve(signals.stop()).await;
    watching.abort();
    tidying.abort();
    tracing::info!(calls_left = drained.calls_left, connections_cut = drained.connections_cut, "stopped");
    Ok(ExitCode::SUCCESS)
}

/// For the crash tests, in builds for development only: `REACH_CRASH_AT` names the point of the road at
/// which the process ends itself.
#[cfg(debug_assertions)]
fn arm_crash_point(common: &Common) -> Result<(), Failure> {
    let Some(name) = std::env::var_os("REACH_CRASH_AT") else { return Ok(()) };
    if reach_engine::crash::arm(&name.to_string_lossy()) {
        return Ok(());
    }
    Err(common.usage(&format!("REACH_CRASH_AT is not one of {}", reach_engine::crash::POINTS.join(", "))))
}
