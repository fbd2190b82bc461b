//! `reach init`: a first reach.yaml that works as it is, with every adapter to copy from.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{Common, Failure, output};

/// The arguments of `reach init`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The folder to write to.
    #[arg(default_value = ".")]
    folder: PathBuf,
}

const STARTER: &str = include_str!("../../starter/reach.yaml");
const NOTE: &str = include_str!("../../starter/notes/welcome.md");

pub(super) fn run(arguments: &Arguments, common: &Common) -> Result<ExitCode, Failure> {
    let files = [("reach.yaml", STARTER), ("notes/welcome.md", NOTE)];
    for (name, _) in files {
        let path = arguments.folder.join(name);
        if path.exists() {
            return Err(Failure::Usage(format!(
                "{} {} is there already and was not touched\n  fix: `reach init OTHER_FOLDER`, or remove it first",
                output::bad("error:"),
                path.display()
            )));
        }
    }
    for (name, text) in files {
        let path = arguments.folder.join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, text)?;
    }
    if common.json {
        output::print_json(&serde_json::json!({ "written": files.map(|(name, _)| arguments.folder.join(name)) }))?;
    } else {
        output::print(&format!(
            "wrote {0}/reach.yaml and {0}/notes/welcome.md\n\nnext:\n  reach tools\n  reach call search_notes '{{\"query\": \"first call\"}}'\n  reach serve\n",
            arguments.folder.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
