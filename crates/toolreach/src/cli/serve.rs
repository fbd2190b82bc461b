//! `reach serve`: the gateway, until it is told to stop.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use reach_server::{Callers, Server};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Common, Failure, output, tidy};
use crate::assemble::{self, Assembled};
use crate::config::{Config, ProcessEnvironment, Report};
use crate::reload;

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

    let signals = Signals::install()?;
    let stores = assemble::open_stores(&config)?;
    let Assembled { engine, recovered } = assemble::assemble_over(&config, stores.clone()).await?;
    if recovered.unknown > 0 {
        tracing::warn!(
            writes = recovered.unknown,
            "the last run ended in the middle of writes; their outcome is unknown: see `reach settle`"
        );
    }
    let server = Server::bind(settings, engine.clone(), callers.clone()).await.map_err(anyhow::Error::from)?;
    tracing::info!(address = %server.address(), tools = config.tools.len(), callers = config.callers.len(), "ready");
    if !common.quiet {
        output::say(&format!(
            "reach {} listens on {}\n  tools    http://{1}/v1/tools\n  mcp      http://{1}/mcp\n  stop with Ctrl-C\n",
            env!("CARGO_PKG_VERSION"),
            server.address(),
        ));
    }

    let on_change = {
        let (engine, callers) = (engine.clone(), callers.clone());
        move |loaded: Result<Config, Report>| adopt(loaded, &engine, &callers, &stores)
    };
    let watching = tokio::spawn(reload::watch(common.config.clone(), ProcessEnvironment, config.digest, on_change));
    let tidying = tokio::spawn(tidy::tidy(engine.ledger(), config.keep));
    let drained = server.serve(signals.stop()).await;
    watching.abort();
    tidying.abort();
    tracing::info!(?drained, "stopped");
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

/// A changed file: a good one replaces the tools and callers, a bad one is reported and changes nothing.
fn adopt(
    loaded: Result<Config, Report>,
    engine: &reach_engine::Engine,
    callers: &Callers,
    stores: &reach_engine::Stores,
) {
    let config = match loaded {
        Ok(config) => config,
        Err(report) => {
            tracing::error!(
                "the new configuration has problems and was not used; the old one stays\n{}",
                report.render(false)
            );
            return;
        }
    };
    match assemble::registry(&config, stores) {
        Ok(registry) => {
            assemble::replace_callers(callers, &config);
            engine.replace(registry);
            tracing::info!(
                tools = config.tools.len(),
                callers = config.callers.len(),
                "the new configuration is in use"
            );
        }
        Err(problems) => tracing::error!(?problems, "the new configuration cannot be used; the old one stays"),
    }
}

/// The signals of a gateway. Taken over before it says that it is ready: from then on none of them may end it
/// the hard way, not even a SIGHUP that comes before the file is watched.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    _hangup: Signal,
}

impl Signals {
    fn install() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Ctrl-C or SIGTERM.
    async fn stop(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
