//! From exec to the first 200 of `/readyz`, with 500 tools, and where that time goes.
//!
//! The whole is measured on the real binary. The parts are the same functions called one by one in this
//! process, so they tell which part is large and do not add up to the whole.

use std::path::Path;

use anyhow::anyhow;
use tokio::time::Instant;
use toolreach::assemble;
use toolreach::config::{self, ProcessEnvironment};

use crate::Effort;
use crate::figure::{Figure, Report, progress};
use crate::process::{self, Process};

const TOOLS: usize = 500;
/// Starts in each round.
const STARTS: usize = 5;

pub(crate) async fn measure(effort: Effort) -> anyhow::Result<Report> {
    let upstream = Process::upstream()?;
    let (mut few, mut fresh, mut again, mut parts) = (vec![], vec![], vec![], Parts::default());
    for round in 1..=effort.rounds {
        progress(&format!("start: round {round} of {}", effort.rounds));
        for _ in 0..STARTS {
            let folder = process::folder()?;
            process::declare(folder.path(), upstream.address, 1)?;
            few.push(start(folder.path()).await?);
            process::declare(folder.path(), upstream.address, TOOLS)?;
            std::fs::remove_dir_all(folder.path().join(".reach"))?;
            fresh.push(start(folder.path()).await?);
            again.push(start(folder.path()).await?);
            parts.take(folder.path()).await?;
        }
    }
    Ok(Report {
        title: "start",
        figures: vec![
            Figure::new("3 tools, new ledger", "ms", few),
            Figure::new("502 tools, new ledger", "ms", fresh).wanted("<= 100"),
            Figure::new("502 tools, ledger there", "ms", again).wanted("<= 100"),
            Figure::new("of it: configuration read and checked", "ms", parts.configuration),
            Figure::new("of it: stores opened", "ms", parts.stores),
            Figure::new("of it: registry built", "ms", parts.registry),
        ],
    })
}

/// One start of the binary, in milliseconds.
async fn start(folder: &Path) -> anyhow::Result<f64> {
    let (gateway, took) = Process::gateway_timed(folder, true).await?;
    drop(gateway);
    Ok(took.as_secs_f64() * 1e3)
}

/// Milliseconds of the parts of a start.
#[derive(Default)]
struct Parts {
    configuration: Vec<f64>,
    stores: Vec<f64>,
    registry: Vec<f64>,
}

impl Parts {
    async fn take(&mut self, folder: &Path) -> anyhow::Result<()> {
        let began = Instant::now();
        let config = config::load(&folder.join("reach.yaml"), &ProcessEnvironment)
            .map_err(|report| anyhow!(report.render(false)))?;
        self.configuration.push(milliseconds(began));
        let began = Instant::now();
        let stores = assemble::open_stores(&config)?;
        stores.ledger.recover().await?;
        self.stores.push(milliseconds(began));
        let began = Instant::now();
        assemble::registry(&config, &stores).map_err(|problems| anyhow!("{problems:?}"))?;
        self.registry.push(milliseconds(began));
        Ok(())
    }
}

fn milliseconds(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}
