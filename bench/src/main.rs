//! Measurements of the gateway, each a ratio taken side by side in one run.
//!
//! `cargo run --release -p reach-bench -- gateway|arguments|writes|memory|start|all [--json] [--seconds N]`.
//! Absolute figures of a busy machine say little; what is compared here is always measured in turns,
//! `A B A B`, so that whatever else the machine does falls on both. [`figure`] is what comes out,
//! [`load`] the clients, [`process`] the programs that are measured, [`roles`] the ones they talk to.

mod arguments;
mod figure;
mod gateway;
mod load;
mod memory;
mod process;
mod roles;
mod start;
mod writes;

use std::time::Duration;

use clap::{Parser, Subcommand};

use figure::Report;

// The gateway's own, so that the proxy it is compared with is not held back by another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the gateway against something simpler, side by side.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Print one JSON document instead of a table.
    #[arg(long, global = true)]
    json: bool,
    /// Seconds of each round under load.
    #[arg(long, global = true, default_value_t = 3.0, value_name = "N")]
    seconds: f64,
    /// Rounds of each measurement.
    #[arg(long, global = true, default_value_t = 5, value_name = "N")]
    rounds: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
enum What {
    /// Calls a second through the gateway, against a bare proxy.
    Gateway,
    /// The argument check, against the validator alone and against parsing.
    Arguments,
    /// Writes through the gateway, against one fsync per call.
    Writes,
    /// Memory: idle, and per call in flight.
    Memory,
    /// From exec to ready, with 500 tools.
    Start,
    /// All of them.
    All,
    /// The upstream of the measurements: answers what it was sent.
    #[command(hide = true)]
    Upstream,
    /// The bare proxy.
    #[command(hide = true)]
    Proxy {
        /// Where it forwards to.
        upstream: std::net::SocketAddr,
    },
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
struct Effort {
    round: Duration,
    rounds: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let effort = Effort { round: Duration::from_secs_f64(arguments.seconds), rounds: arguments.rounds.max(1) };
    let is_asked = |what| arguments.what == what || arguments.what == What::All;
    match arguments.what {
        What::Upstream => return roles::upstream().await,
        What::Proxy { upstream } => return roles::proxy(upstream).await,
        _ => {}
    }
    let mut reports: Vec<Report> = Vec::new();
    if is_asked(What::Gateway) {
        reports.push(gateway::measure(effort).await?);
    }
    if is_asked(What::Arguments) {
        reports.push(arguments::measure(effort)?);
    }
    if is_asked(What::Writes) {
        reports.push(writes::measure(effort).await?);
    }
    if is_asked(What::Memory) {
        reports.push(memory::measure(effort).await?);
    }
    if is_asked(What::Start) {
        reports.push(start::measure(effort).await?);
    }
    figure::print(&reports, arguments.json)
}
