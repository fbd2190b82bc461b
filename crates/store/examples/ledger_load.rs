//! How much the ledger on SQLite takes on this machine: durable writes a second with 1, 16 and 64
//! clients, journal rows a second, and what a call costs on the board.
//!
//! `cargo run --release -p reach-store --example ledger_load [FOLDER]`. The folder decides which disk is
//! measured; without one it is a fresh folder in the current directory.

#![expect(clippy::print_stdout, reason = "its figures are its output")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reach_core::breaker::{Settings, Signal};
use reach_core::plan::Rate;
use reach_core::tokens::Tokens;
use reach_core::{CallerId, Effect, Event, EventKind, JournalRow, Phase, RequestId, SessionId, ToolId, TraceId};
use reach_store::board::MemoryBoard;
use reach_store::ledger::{Claim, Claimed, Ending, RecordKey, SqliteLedger};
use reach_store::{Board, Ledger, StoreError};
use tokio::time::Instant;

const FOR: Duration = Duration::from_secs(3);
const ROWS: u64 = 100_000;
const TOUCHES: u32 = 200_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).map_or_else(|| PathBuf::from("ledger-load"), PathBuf::from);
    let path = folder.join("ledger.db");
    let ledger = Arc::new(SqliteLedger::open(&path)?);
    for clients in [1, 16, 64] {
        durable_writes(&ledger, clients).await?;
    }
    journal_rows(&ledger).await?;
    drop(ledger);
    println!("file: {} MB", std::fs::metadata(&path)?.len() >> 20);
    std::fs::remove_file(&path)?;
    board().await?;
    Ok(())
}

/// Each write is a claim, an intent and an ending: two syncs when alone.
async fn durable_writes(ledger: &Arc<SqliteLedger>, clients: u32) -> Result<(), Box<dyn std::error::Error>> {
    let written = Arc::new(AtomicU64::new(0));
    let (syncs, commits, begun) = (ledger.durable_commits(), ledger.commits(), Instant::now());
    let mut running = tokio::task::JoinSet::new();
    for client in 0..clients {
        let (ledger, written) = (Arc::clone(ledger), Arc::clone(&written));
        running.spawn(async move {
            for number in 0u64.. {
                if begun.elapsed() > FOR {
                    break;
                }
                one_write(&*ledger, &format!("{clients}-{client}-{number}")).await?;
                written.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), StoreError>(())
        });
    }
    while let Some(client) = running.join_next().await {
        client??;
    }
    let (written, seconds) = (written.load(Ordering::Relaxed), begun.elapsed().as_secs_f64());
    println!(
        "{clients:>2} clients: {:>6.0} durable writes/s, {:.2} ms each, {:.2} syncs and {:.2} commits a write",
        written as f64 / seconds,
        seconds * 1e3 * f64::from(clients) / written as f64,
        (ledger.durable_commits() - syncs) as f64 / written as f64,
        (ledger.commits() - commits) as f64 / written as f64,
    );
    Ok(())
}

async fn one_write(ledger: &dyn Ledger, name: &str) -> Result<(), StoreError> {
    let key =
        RecordKey { caller: CallerId::new("bot"), tool_id: ToolId::asked("pay"), request_id: RequestId::new(name) };
    let claim = Claim {
        key: key.clone(),
        fingerprint: "0".repeat(64),
        effect: Effect::Write,
        trace_id: TraceId::new(name),
        session_id: SessionId::new("s_load"),
        step: 1,
    };
    if let Claimed::Fresh { epoch } = ledger.claim(claim).await? {
        ledger.intend(key.clone(), epoch, row(1)).await?;
        ledger.finish(key, epoch, Ending::Done { envelope: "x".repeat(600) }).await?;
    }
    Ok(())
}

async fn journal_rows(ledger: &Arc<SqliteLedger>) -> Result<(), StoreError> {
    let rows: Vec<_> = (0..1_000).map(row).collect();
    let (commits, dropped, begun) = (ledger.commits(), ledger.dropped(), Instant::now());
    let mut appending = Duration::ZERO;
    for batch in 0..ROWS / 1_000 {
        let began = Instant::now();
        for row in &rows {
            ledger.append(row.clone());
        }
        appending += began.elapsed();
        // As fast as it can be written, so that nothing is dropped.
        if batch % 20 == 19 {
            ledger.flush().await?;
        }
    }
    ledger.flush().await?;
    println!(
        "journal: {:.0} rows/s of {} bytes, {:.1} us to append one, {} commits, {} dropped",
        ROWS as f64 / begun.elapsed().as_secs_f64(),
        serde_json::to_string(&rows[0].events).map_or(0, |text| text.len()),
        appending.as_secs_f64() * 1e6 / ROWS as f64,
        ledger.commits() - commits,
        ledger.dropped() - dropped,
    );
    Ok(())
}

async fn board() -> Result<(), StoreError> {
    let board = MemoryBoard::new();
    let (settings, rate) = (Settings::default(), Rate { per_minute: 60_000_000, burst: 1_000 });
    let begun = Instant::now();
    for touch in 0..TOUCHES {
        board.permit("orders").await?;
        board.report("orders", Signal::Success, false, "", &settings).await?;
        board.count("order_status_query", None, u64::from(touch % 50)).await?;
    }
    let calls = begun.elapsed();
    let begun = Instant::now();
    for _ in 0..TOUCHES {
        // Granted or refused, it costs the same.
        let _ = board.take("bot", rate).await?;
    }
    println!(
        "board: permit + report + count {:.2} us, take {:.2} us",
        calls.as_secs_f64() * 1e6 / f64::from(TOUCHES),
        begun.elapsed().as_secs_f64() * 1e6 / f64::from(TOUCHES),
    );
    Ok(())
}

/// What a call that worked leaves behind.
fn row(at_ms: u64) -> JournalRow {
    let step = |kind| Event { at_ms, kind };
    let tool_id = ToolId::asked("order_status_query");
    JournalRow {
        at_ms,
        trace_id: TraceId::new(format!("tr_{}", at_ms / 4)),
        session_id: SessionId::new(format!("s_{}", at_ms / 20)),
        request_id: RequestId::new(format!("r_{at_ms}")),
        step: 1,
        tool_id: tool_id.clone(),
        caller: CallerId::new("bot"),
        events: vec![
            step(EventKind::Received {
                input: serde_json::json!({"order_id": "OD20241015"}),
                effect: Some(Effect::Read),
            }),
            step(EventKind::AttemptStarted { attempt: 1, tool_id: tool_id.clone(), target: "orders".into() }),
            step(EventKind::AttemptEnded {
                attempt: 1,
                code: None,
                phase: Phase::Answered,
                duration_ms: 12,
                detail: Vec::new(),
            }),
            step(EventKind::Finished {
                code: None,
                attempts: 1,
                duration_ms: 13,
                upstream_ms: 12,
                served_by: Some(tool_id),
                phase: Phase::Answered,
                replayed: false,
                result_size: 240,
                tokens: Tokens::default(),
                message: None,
            }),
        ],
    }
}
