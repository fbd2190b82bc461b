//! MCP over a pair of streams.

use std::sync::Arc;
use std::time::Duration;

use reach_core::Caller;
use reach_engine::Engine;
use reach_server::mcp::{StdioError, stream};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::house::{Seen, engine, eventually, registry};

struct Client {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    input: WriteHalf<DuplexStream>,
    served: JoinHandle<Result<(), StdioError>>,
    stop: CancellationToken,
    engine: Engine,
    seen: Arc<Seen>,
    _folder: tempfile::TempDir,
}

impl Client {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let seen = Arc::<Seen>::default();
        let engine = engine(&folder, &seen);
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(theirs);
        let stop = CancellationToken::new();
        let served = tokio::spawn(stream(engine.clone(), Caller::local(), read, write, stop.clone()));
        let (read, input) = tokio::io::split(ours);
        Self { lines: BufReader::new(read).lines(), input, served, stop, engine, seen, _folder: folder }
    }

    async fn send(&mut self, text: &str) {
        self.input.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let line = timeout(Duration::from_secs(5), self.lines.next_line()).await.expect("no message").unwrap();
        serde_json::from_str(&line.expect("the stream ended")).unwrap()
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
        self.next().await
    }

    async fn shake_hands(&mut self) {
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
        });
        let said = self.ask(0, "initialize", hello).await;
        assert_eq!(said["result"]["serverInfo"]["name"], "reach");
        assert_eq!(said["result"]["capabilities"]["tools"]["listChanged"], true);
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    }
}

fn per_request(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[tokio::test]
async fn the_old_handshake_lists_and_calls_in_one_session() {
    let mut client = Client::start();
    client.shake_hands().await;
    let said = client.ask(1, "tools/list", json!({})).await;
    assert_eq!(said["result"]["tools"][0]["name"], "echo");
    let first = client.ask(2, "tools/call", json!({"name": "echo", "arguments": {"text": "a"}})).await;
    let second = client.ask(3, "tools/call", json!({"name": "echo", "arguments": {"text": "b"}})).await;
    assert_eq!(second["result"]["structuredContent"], json!({"text": "b"}));
    let session = |said: &Value| said["result"]["_meta"]["reach/meta"]["session_id"].as_str().unwrap().to_owned();
    assert_eq!(session(&first), session(&second));
    let unknown = client.ask(4, "tools/call", json!({"name": "nosuch"})).await;
    assert_eq!(unknown["error"]["code"], -32602);
}

#[tokio::test]
async fn the_new_era_needs_no_handshake() {
    let mut client = Client::start();
    let said = client.ask(1, "server/discover", per_request(json!({}))).await;
    assert!(said["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")), "{said}");
    let said = client.ask(2, "tools/call", per_request(json!({"name": "echo", "arguments": {"text": "a"}}))).await;
    assert_eq!(said["result"]["resultType"], "complete");
    assert_eq!(said["result"]["structuredContent"], json!({"text": "a"}));
}

#[tokio::test]
async fn an_integer_that_cannot_be_held_is_refused() {
    let mut client = Client::start();
    client.shake_hands().await;
    client
        .send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"n":18446744073709551616}}}"#)
        .await;
    let said = client.next().await;
    assert_eq!(said["result"]["structuredContent"]["error"]["code"], "INVALID_ARGUMENTS", "{said}");
    assert_eq!(client.seen.started(), 0);
}

#[tokio::test]
async fn a_cancelled_request_aborts_its_read_and_others_go_on() {
    let mut client = Client::start();
    client.shake_hands().await;
    client.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{}}}"#).await;
    let seen = client.seen.clone();
    eventually("the call began", async || seen.started() == 1).await;
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    eventually("the read was aborted", async || seen.aborted() == 1).await;
    let said = client.ask(2, "tools/call", json!({"name": "echo", "arguments": {}})).await;
    assert_eq!(said["id"], 2, "{said}");
}

#[tokio::test]
async fn a_client_is_told_when_the_tools_change() {
    let mut client = Client::start();
    client.shake_hands().await;
    // The answer shows that the handshake has been taken note of.
    client.ask(1, "tools/list", json!({})).await;
    client.engine.replace(registry(&client.seen));
    assert_eq!(client.next().await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn noise_is_answered_and_does_not_end_the_connection() {
    let mut client = Client::start();
    client.shake_hands().await;
    client.send("Server ready").await;
    client.send("").await;
    let said = client.ask(1, "tools/list", json!({})).await;
    let said = if said["id"].is_null() { client.next().await } else { said };
    assert_eq!(said["id"], 1, "{said}");
}

#[tokio::test]
async fn serving_ends_with_the_input_or_with_the_order_to_stop() {
    let mut client = Client::start();
    client.shake_hands().await;
    client.input.shutdown().await.unwrap();
    timeout(Duration::from_secs(5), client.served).await.expect("still serving").unwrap().unwrap();

    let mut client = Client::start();
    client.shake_hands().await;
    client.stop.cancel();
    timeout(Duration::from_secs(5), client.served).await.expect("still serving").unwrap().unwrap();

    let client = Client::start();
    drop((client.input, client.lines));
    timeout(Duration::from_secs(5), client.served).await.expect("still serving").unwrap().unwrap();

    let client = Client::start();
    client.stop.cancel();
    timeout(Duration::from_secs(5), client.served).await.expect("still waiting for a client").unwrap().unwrap();
}
