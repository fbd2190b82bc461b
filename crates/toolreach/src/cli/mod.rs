//! The commands of `reach`. Data goes to standard output, everything else to standard error.
//!
//! Each command is one file with a `run`. `--json` prints one document (or one object a line for
//! streams) for machines; without it people get tables and colour, which NO_COLOR, `--color never` and a
//! pipe turn off.

mod call;
mod demo;
mod doctor;
mod health;
mod init;
mod mcp;
mod output;
mod schema;
mod serve;
mod sessions;
mod settle;
pub(crate) mod show;
mod signals;
mod tidy;
mod timeline;
mod tools;
mod trace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use reach_core::Caller;

use crate::assemble;
use crate::config::{self, Config, ProcessEnvironment};

/// The layer through which any LLM agent reaches real systems reliably.
#[derive(Debug, Parser)]
#[command(name = "reach", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

/// Flags that every command understands.
#[derive(Debug, Args)]
struct Common {
    /// The configuration.
    #[arg(long, global = true, value_name = "FILE", default_value = "./reach.yaml", env = "REACH_CONFIG")]
    config: PathBuf,
    /// Print for machines: one JSON document, or one object a line.
    #[arg(long, global = true)]
    json: bool,
    /// Colour on a terminal, always, or never. NO_COLOR is honoured.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, env = "REACH_COLOR")]
    color: Colour,
    /// Say more on standard error; twice for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Say nothing on standard error but errors.
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Colour {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// See it work: a shop, its systems, and a story of calls that go well and wrong.
    Demo(demo::Arguments),
    /// Write a first reach.yaml to start from.
    Init(init::Arguments),
    /// Run the gateway: HTTP API and MCP.
    Serve(serve::Arguments),
    /// Call one tool and print the envelope.
    Call(call::Arguments),
    /// List the tools.
    Tools(tools::Arguments),
    /// Test each tool's reachability, without side effects.
    Doctor(doctor::Arguments),
    /// Show calls, success rate, latency and error codes per tool.
    Health(health::Arguments),
    /// Show what happened under one trace id.
    Trace(trace::Arguments),
    /// List sessions, or show the timeline of one.
    Sessions(sessions::Arguments),
    /// Show writes whose outcome is unknown, and record what a person found out.
    Settle(settle::Arguments),
    /// Serve the tools over MCP on standard input and output.
    Mcp(mcp::Arguments),
    /// Print a schema: of the configuration, the HTTP API, or the error codes.
    Schema(schema::Arguments),
}

/// Why a command ended badly.
#[derive(Debug)]
pub enum Failure {
    /// Wrong use or configuration: exit code 2. The text is printed as it is.
    Usage(String),
    /// It did not work: exit code 1.
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<reach_store::StoreError> for Failure {
    fn from(error: reach_store::StoreError) -> Self {
        Self::Failed(error.into())
    }
}

/// Runs one command to its exit code.
pub async fn run(cli: Cli) -> ExitCode {
    let Cli { command, common } = cli;
    output::choose_colour(common.color);
    install_tls();
    let outcome = match command {
        Command::Demo(arguments) => demo::run(arguments, &common).await,
        Command::Init(arguments) => init::run(&arguments, &common),
        Command::Serve(arguments) => serve::run(arguments, &common).await,
        Command::Call(arguments) => call::run(arguments, &common).await,
        Command::Tools(arguments) => tools::run(&arguments, &common),
        Command::Doctor(arguments) => doctor::run(arguments, &common).await,
        Command::Health(arguments) => health::run(arguments, &common).await,
        Command::Trace(arguments) => trace::run(arguments, &common).await,
        Command::Sessions(arguments) => sessions::run(arguments, &common).await,
        Command::Settle(arguments) => settle::run(arguments, &common).await,
        Command::Mcp(arguments) => mcp::run(arguments, &common).await,
        Command::Schema(arguments) => schema::run(&arguments, &common),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => report(&failure),
    }
}

/// Prints a failure on standard error, with its chain of causes, and gives its exit code.
pub fn report(failure: &Failure) -> ExitCode {
    match failure {
        Failure::Usage(text) => {
            output::say(&format!("{}\n", text.trim_end()));
            ExitCode::from(2)
        }
        // Somebody closed the pipe (`reach tools | head`): nothing to say, and nothing failed.
        Failure::Failed(error) if output::is_broken_pipe(error) => ExitCode::SUCCESS,
        Failure::Failed(error) => {
            output::say(&format!("{} {error:#}\n", output::bad("error:")));
            ExitCode::FAILURE
        }
    }
}

/// One provider for the whole process; a second installation would be a defect, not a choice.
fn install_tls() {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
}

impl Common {
    /// Loads and checks the configuration; every problem at once, exit code 2.
    fn load(&self) -> Result<Config, Failure> {
        self.load_from(&self.config)
    }

    fn load_from(&self, path: &Path) -> Result<Config, Failure> {
        if !path.exists() {
            return Err(Failure::Usage(format!(
                "{} there is no {}\n  fix: `reach init` writes one to start from, `--config FILE` names another",
                output::bad("error:"),
                path.display()
            )));
        }
        config::load(path, &ProcessEnvironment).map_err(|report| {
            Failure::Usage(if self.json { report.to_json().to_string() } else { report.render(output::is_coloured()) })
        })
    }

    /// Opens the stores; one that cannot be opened is a matter of configuration: exit code 2.
    fn open_stores(&self, config: &Config) -> Result<reach_engine::Stores, Failure> {
        assemble::open_stores(config).map_err(|error| self.usage(&format!("the state cannot be opened\n{error:#}")))
    }

    /// Wrong use: exit code 2.
    fn usage(&self, words: &str) -> Failure {
        Failure::Usage(format!("{} {words}", output::bad("error:")))
    }

    /// The declared caller of this name, or the local one.
    fn caller(&self, config: &Config, name: Option<&str>) -> Result<Caller, Failure> {
        let Some(name) = name else { return Ok(Caller::local()) };
        let declared = config.callers.iter().find(|declared| declared.caller.id.as_str() == name);
        declared.map(|declared| declared.caller.clone()).ok_or_else(|| {
            let known: Vec<&str> = config.callers.iter().map(|declared| declared.caller.id.as_str()).collect();
            self.usage(&format!("no caller `{name}` is declared; there are: {}", known.join(", ")))
        })
    }

    /// Starts the log on standard error. `level` holds unless `-v`, `-q` or REACH_LOG say otherwise.
    fn start_log(&self, level: &str, format: output::LogFormat) {
        let level = match (self.quiet, self.verbose) {
            (true, _) => "error",
            (_, 0) => level,
            (_, 1) => "info",
            (_, 2) => "info,reach=debug,reach_engine=debug,reach_server=debug,toolreach=debug",
            _ => "trace",
        };
        output::start_log(level, format);
    }
}
