//! The binary `reach`: reads the command line, runs one command, and turns its end into an exit code.
//!
//! 0 done, 1 the call or run failed, 2 wrong use or configuration, 3 a check found something.

use std::process::ExitCode;

use clap::Parser;
use toolreach::cli::{self, Cli};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return cli::report(&anyhow::Error::from(error).context("failed to start the runtime").into()),
    };
    let exit = runtime.block_on(cli::run(cli));
    // Blocking work that nobody waits for any more (a search, a lookup) must not hold up the end.
    runtime.shutdown_background();
    exit
}
