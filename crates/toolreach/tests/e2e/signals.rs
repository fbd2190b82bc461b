//! Signals to the commands that a client or a person started: none of them dies in the middle of a write.

use std::process::Stdio;
use std::time::Duration;

use reach_kit::http::{Behaviour, Reply, Server};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::support::{PATIENCE, Running, reach, run};

/// One tool that writes.
fn paying(upstream: &Server) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tool = json!({"tool_id": "pay", "description": "Pays.", "timeout_ms": 30_000,
                      "http": {"method": "POST", "url": upstream.url("/pay")}});
    std::fs::write(folder.path().join("reach.yaml"), json!({"version": 1, "tools": [tool]}).to_string()).unwrap();
    folder
}

/// `reach mcp`, and its input, which stays open as long as it is held.
fn mcp(folder: &TempDir) -> (Running, tokio::process::ChildStdin) {
    let mut command = reach(folder.path());
    let mut process = Running::start(command.arg("mcp").stdin(Stdio::piped()));
    let input = process.input();
    (process, input)
}

#[tokio::test]
async fn a_signal_to_the_mcp_server_lets_a_write_that_was_sent_finish() {
    let upstream = Server::start().await.unwrap();
    let folder = paying(&upstream);
    for (count, signal) in [(1, Signal::TERM), (2, Signal::INT), (3, Signal::HUP)] {
        let key = format!("k-{count}");
        upstream.next(Behaviour::Slow {
            reply: Reply::json(200, r#"{"paid":true}"#),
            piece: 100,
            pause: Duration::from_millis(1_500),
        });
        let (mut process, mut input) = mcp(&folder);
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "pay", "arguments": {}, "_meta": {"reach/idempotency-key": key}}});
        input.write_all(format!("{hello}\n{ready}\n{call}\n").as_bytes()).await.unwrap();
        timeout(PATIENCE, upstream.received(count)).await.unwrap();
        process.signal(signal);
        assert_eq!(process.end().await, 0, "{}", process.err());
        let envelope = run(folder.path(), &["--json", "call", "pay", "--key", &key]).await.exits(0).json();
        assert_eq!(envelope["meta"]["replayed"], true, "{envelope}");
        assert_eq!(upstream.requests().len(), count, "it was carried out once");
    }
}

#[tokio::test]
async fn a_signal_before_the_handshake_ends_the_mcp_server_though_its_input_is_open() {
    let upstream = Server::start().await.unwrap();
    let folder = paying(&upstream);
    let (mut process, _input) = mcp(&folder);
    // The ledger is there only once the signals are taken over.
    let ledger = folder.path().join(".reach/ledger.db");
    crate::support::eventually("the ledger", || async { ledger.exists().then_some(()) }).await;
    process.signal(Signal::TERM);
    assert_eq!(process.end().await, 0, "{}", process.err());
}
