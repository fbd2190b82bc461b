//! `reach demo`: the first command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::signals::Signals;
use super::{Common, Failure, output, show};
use crate::demo::{Folder, FolderError, Gateway, tell};

/// The arguments of `reach demo`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// End after the story instead of staying up.
    #[arg(long)]
    once: bool,
    /// Keep the demo's files in this new or empty folder instead of in a temporary one that is removed at the end.
    #[arg(long)]
    folder: Option<PathBuf>,
}

pub(super) async fn run(arguments: Arguments, common: &Common) -> Result<ExitCode, Failure> {
    // What the gateway makes of a changed file is worth a line to whoever changed it.
    common.start_log("error,toolreach::adopt=info", output::LogFormat::Text);
    let folder = match &arguments.folder {
        Some(folder) => Folder::named(folder),
        None => Folder::temporary(),
    };
    let folder = folder.map_err(|error| match error {
        FolderError::Taken(_) => {
            common.usage(&format!("{error}\n  fix: name a new folder, or leave --folder out for a temporary one"))
        }
        FolderError::Io(error) => error.into(),
    })?;
    let mut signals = Signals::install()?;
    let gateway = Gateway::start(folder.path()).await?;
    let paced = !arguments.once && std::io::IsTerminal::is_terminal(&std::io::stdout());
    let shown = tokio::select! {
        shown = present(&gateway, paced, arguments.once) => shown,
        () = signals.end() => Ok(()),
    };
    gateway.stop().await?;
    // Only now is nobody writing into it any more; a folder of our own is removed here.
    drop(folder);
    shown?;
    Ok(ExitCode::SUCCESS)
}

/// Tells the story, and unless it is told `once`, stays up for good.
async fn present(gateway: &Gateway, paced: bool, once: bool) -> anyhow::Result<()> {
    tell(gateway, paced).await?;
    if !once {
        show::what_next(gateway)?;
        std::future::pending::<()>().await;
    }
    Ok(())
}
