//! Writes with 1, 16 and 64 clients, each call with an `Idempotency-Key` of its own, against a loop that
//! appends a line to a file and syncs it once a call.
//!
//! A write needs its intent on disk before it is sent and its outcome before it is answered: two syncs
//! when it is alone, and far fewer when many share them. The gateway runs in this process, put together
//! as the binary does it, because only the ledger itself can tell how often it waited for the disk.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use parking_lot::Mutex;
use reach_engine::Stores;
use reach_server::Server;
use reach_store::blobs::DirectoryBlobs;
use reach_store::board::MemoryBoard;
use reach_store::ledger::SqliteLedger;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolreach::assemble::{self, Assembled};
use toolreach::config::{self, ProcessEnvironment};

use crate::Effort;
use crate::figure::{Figure, Report, progress, ratios};
use crate::load;
use crate::process::{self, Process};

const CLIENTS: [usize; 3] = [1, 16, 64];

/// What the naive loop writes: about as much as a record of the ledger.
const LINE: [u8; 1_024] = [b'x'; 1_024];

pub(crate) async fn measure(effort: Effort) -> anyhow::Result<Report> {
    let upstream = Process::upstream()?;
    let folder = process::folder()?;
    process::declare(folder.path(), upstream.address, 1)?;
    let gateway = Gateway::start(folder.path()).await?;
    let target = load::Target { keyed: true, ..process::calls_of("order_create", gateway.address) };
    let mut figures = Vec::new();
    for clients in CLIENTS {
        let (mut naive, mut rate, mut p50, mut p99, mut syncs) = (vec![], vec![], vec![], vec![], vec![]);
        for round in 1..=effort.rounds {
            progress(&format!("writes: {clients} clients, round {round} of {}", effort.rounds));
            naive.push(sync_each(folder.path(), clients, effort.round).await?);
            let before = gateway.ledger.durable_commits();
            let round = load::round(&target, clients, effort.round).await?;
            syncs.push((gateway.ledger.durable_commits() - before) as f64 / round.answered as f64);
            rate.push(round.calls_per_second);
            p50.push(round.percentile(0.5));
            p99.push(round.percentile(0.99));
        }
        let label = |what: &str| format!("{clients} clients: {what}");
        figures.push(Figure::new(label("gateway / one sync a call"), "", ratios(&rate, &naive)));
        figures.push(Figure::new(label("one sync a call"), "1/s", naive));
        figures.push(Figure::new(label("gateway"), "1/s", rate));
        figures.push(Figure::new(label("gateway p50"), "ms", p50));
        figures.push(Figure::new(label("gateway p99"), "ms", p99));
        figures.push(Figure::new(label("syncs a call"), "", syncs).wanted("2 alone, < 1 shared"));
    }
    gateway.stop().await?;
    Ok(Report { title: "writes", figures })
}

/// Calls a second of the naive way: every client appends to one file and syncs it, in its turn.
async fn sync_each(folder: &Path, clients: usize, duration: Duration) -> anyhow::Result<f64> {
    let file = Arc::new(Mutex::new(File::create(folder.join("naive"))?));
    let began = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let file = Arc::clone(&file);
        running.spawn_blocking(move || {
            let mut calls = 0u64;
            while began.elapsed() < duration {
                let mut file = file.lock();
                file.write_all(&LINE)?;
                file.sync_data()?;
                calls += 1;
            }
            anyhow::Ok(calls)
        });
    }
    let mut calls = 0;
    while let Some(client) = running.join_next().await {
        calls += client??;
    }
    Ok(calls as f64 / began.elapsed().as_secs_f64())
}

/// A gateway in this process, over a ledger that can be asked.
struct Gateway {
    ledger: Arc<SqliteLedger>,
    address: SocketAddr,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

impl Gateway {
    async fn start(folder: &Path) -> anyhow::Result<Self> {
        // The binary does the same at its start; a second time changes nothing.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let config = config::load(&folder.join("reach.yaml"), &ProcessEnvironment)
            .map_err(|report| anyhow!(report.render(false)))?;
        let ledger = Arc::new(SqliteLedger::open(&folder.join("ledger.db"))?);
        let blobs = DirectoryBlobs::open(&folder.join("blobs"), reach_store::BLOBS_MAX_BYTES)?;
        let stores = Stores { ledger: ledger.clone(), board: Arc::new(MemoryBoard::new()), blobs: Arc::new(blobs) };
        let Assembled { engine, .. } = assemble::assemble_over(&config, stores).await?;
        let mut settings = config.server.clone();
        settings.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(settings, engine, assemble::callers(&config)).await?;
        let (address, stop) = (server.address(), CancellationToken::new());
        let stopped = stop.clone().cancelled_owned();
        let serving = tokio::spawn(async move {
            server.serve(stopped).await;
        });
        Ok(Self { ledger, address, stop, serving })
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.serving.await.context("the gateway broke off")
    }
}
