//! Calls a second through the real binary, against a bare proxy in front of the same upstream.
//!
//! The proxy forwards bytes; the gateway knows the caller, checks the arguments against a schema, asks the
//! breaker, decodes and measures the result, counts health and writes a journal row of every call. Each
//! round is three turns with the same clients: proxy, gateway with its log in a file, gateway without a log.

use std::time::Duration;

use crate::Effort;
use crate::figure::{Figure, Report, progress, ratios};
use crate::load::{self, Round, Target};
use crate::process::{self, Process};

/// Clients at once.
const CLIENTS: [usize; 2] = [16, 32];

/// One of the programs compared.
struct Side {
    name: &'static str,
    process: Process,
    target: Target,
    rounds: Vec<Round>,
    processor_us: Vec<f64>,
}

pub(crate) async fn measure(effort: Effort) -> anyhow::Result<Report> {
    let upstream = Process::upstream()?;
    let proxy = Process::proxy(&upstream)?;
    let (logged, quiet) = (process::folder()?, process::folder()?);
    for folder in [&logged, &quiet] {
        process::declare(folder.path(), upstream.address, 1)?;
    }
    let side = |name, process: Process, target| Side { name, process, target, rounds: vec![], processor_us: vec![] };
    let gateway = |name, process: Process| {
        let target = process::calls_of("order_search_0", process.address);
        side(name, process, target)
    };
    let forwards = process::forwards(proxy.address);
    let mut sides = [
        side("proxy", proxy, forwards),
        gateway("gateway, log to a file", Process::gateway(logged.path(), false).await?),
        gateway("gateway, quiet", Process::gateway(quiet.path(), true).await?),
    ];
    let mut figures = Vec::new();
    for clients in CLIENTS {
        for round in 1..=effort.rounds {
            progress(&format!("gateway: {clients} clients, round {round} of {}", effort.rounds));
            for side in &mut sides {
                side.turn(clients, effort.round).await?;
            }
        }
        figures.extend(compare(clients, &mut sides));
    }
    Ok(Report { title: "gateway", figures })
}

impl Side {
    async fn turn(&mut self, clients: usize, duration: Duration) -> anyhow::Result<()> {
        let before = self.process.processor_time()?;
        let round = load::round(&self.target, clients, duration).await?;
        let spent = self.process.processor_time()? - before;
        self.processor_us.push(spent.as_secs_f64() * 1e6 / round.answered as f64);
        self.rounds.push(round);
        Ok(())
    }
}

/// The figures of all sides, and their throughput as a share of the first one's.
fn compare(clients: usize, sides: &mut [Side]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut base: Option<Vec<f64>> = None;
    for side in sides {
        let (rounds, processor) = (std::mem::take(&mut side.rounds), std::mem::take(&mut side.processor_us));
        let label = |what: &str| format!("{clients} clients, {}: {what}", side.name);
        let rate: Vec<f64> = rounds.iter().map(|round| round.calls_per_second).collect();
        let of = |share: f64| rounds.iter().map(move |round| round.percentile(share));
        figures.push(Figure::new(label("calls"), "1/s", rate.iter().copied()));
        figures.push(Figure::new(label("p50"), "ms", of(0.5)));
        figures.push(Figure::new(label("p99"), "ms", of(0.99)));
        figures.push(Figure::new(label("processor time a call"), "us", processor));
        match &base {
            None => base = Some(rate),
            Some(base) => {
                figures.push(Figure::new(label("throughput / proxy"), "", ratios(&rate, base)).wanted(">= 0.6"));
            }
        }
    }
    figures
}
