//! Memory of the real binary: idle, and with a thousand calls in flight to an upstream that never answers.

use std::time::Duration;

use anyhow::ensure;
use tokio::time::Instant;

use crate::Effort;
use crate::figure::{Figure, Report, progress};
use crate::load::Client;
use crate::process::{self, Process};

/// Calls in flight at once.
const CALLS: usize = 1_000;

pub(crate) async fn measure(effort: Effort) -> anyhow::Result<Report> {
    let upstream = Process::upstream()?;
    let (mut idle, mut idle_many, mut flying, mut a_call) = (vec![], vec![], vec![], vec![]);
    for round in 1..=effort.rounds {
        progress(&format!("memory: round {round} of {}", effort.rounds));
        let many = process::folder()?;
        process::declare(many.path(), upstream.address, 500)?;
        let gateway = Process::gateway(many.path(), true).await?;
        idle_many.push(mebibytes(gateway.resident()?));
        drop(gateway);

        let folder = process::folder()?;
        process::declare(folder.path(), upstream.address, 1)?;
        let gateway = Process::gateway(folder.path(), true).await?;
        idle.push(mebibytes(gateway.resident()?));
        // What the first call brings along (certificates, a client) is not the price of the others.
        Client::connect(gateway.address).await?.ask(&process::calls_of("order_search_0", gateway.address)).await?;
        let before = gateway.resident()?;
        let waiting = stalled(&upstream).await?;
        let target = process::calls_of("order_stall", gateway.address);
        let mut clients = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            let mut client = Client::connect(gateway.address).await?;
            client.send(&target).await?;
            clients.push(client);
        }
        let began = Instant::now();
        while stalled(&upstream).await? < waiting + CALLS {
            ensure!(began.elapsed() < Duration::from_secs(60), "the calls do not reach the upstream");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let with_calls = gateway.resident()?;
        flying.push(mebibytes(with_calls));
        a_call.push(with_calls.saturating_sub(before) as f64 / 1024.0 / CALLS as f64);
    }
    Ok(Report {
        title: "memory",
        figures: vec![
            Figure::new("idle, 3 tools", "MiB", idle).wanted("<= 40"),
            Figure::new("idle, 502 tools", "MiB", idle_many),
            Figure::new(format!("{CALLS} calls in flight"), "MiB", flying),
            Figure::new("each call in flight", "KiB", a_call),
        ],
    })
}

/// How many requests wait at the upstream.
async fn stalled(upstream: &Process) -> anyhow::Result<usize> {
    let answer = process::get(upstream.address, "/stalled").await?;
    Ok(answer.lines().last().unwrap_or_default().parse()?)
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}
