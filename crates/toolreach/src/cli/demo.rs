//! `reach demo`: the first command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{Common, Failure, output, show};
use crate::demo::{Gateway, tell};

/// The arguments of `reach demo`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// End after the story instead of staying up.
    #[arg(long)]
    once: bool,
    /// Keep the demo's files here instead of in a new temporary folder.
    #[arg(long)]
    folder: Option<PathBuf>,
}

pub(super) async fn run(arguments: Arguments, common: &Common) -> Result<ExitCode, Failure> {
    common.start_log("error", output::LogFormat::Text);
    let folder = match arguments.folder {
        Some(folder) => folder,
        None => std::env::temp_dir().join(format!("reach-demo-{}", std::process::id())),
    };
    let gateway = Gateway::start(&folder).await?;
    let paced = !arguments.once && std::io::IsTerminal::is_terminal(&std::io::stdout());
    tell(&gateway, paced).await?;
    if arguments.once {
        gateway.stop().await?;
        return Ok(ExitCode::SUCCESS);
    }
    show::what_next(&gateway)?;
    tokio::signal::ctrl_c().await?;
    gateway.stop().await?;
    Ok(ExitCode::SUCCESS)
}
