//! `reach serve` as a process: who is let in, how it reloads, how it stops, and two of them on one ledger.

use std::path::Path;
use std::time::Duration;

use reach_kit::http::{Behaviour, Reply, Server};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{Gateway, PATIENCE, assert_shape, eventually, run};

fn write(folder: &Path, text: &str) {
    // As editors do it: a new file over the old one.
    let new = folder.join("reach.yaml.new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, folder.join("reach.yaml")).unwrap();
}

fn folder(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), text);
    folder
}

/// Tools of these names on one upstream, `GET` of a path with their name; `pay...` is a POST.
fn tools(upstream: &Server, names: &[&str]) -> String {
    let tools = names.iter().map(|name| {
        let method = if name.starts_with("pay") { "POST" } else { "GET" };
        json!({"tool_id": name, "description": "A tool.", "timeout_ms": 30_000,
               "http": {"method": method, "url": upstream.url(&format!("/{name}"))}})
    });
    json!({"version": 1, "tools": tools.collect::<Vec<_>>()}).to_string()
}

/// An answer that is on its way for a while.
fn slow(pause: Duration) -> Behaviour {
    Behaviour::Slow { reply: Reply::json(200, r#"{"slow":true}"#), piece: 100, pause }
}

#[tokio::test]
async fn it_says_when_it_is_ready_and_serves_this_machine_without_callers() {
    let upstream = Server::start().await.unwrap();
    let folder = folder(&tools(&upstream, &["look"]));
    let mut gateway = Gateway::start(folder.path(), &[]).await;
    let log = gateway.process.err();
    assert!(log.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "a log and nothing else: {log}");
    assert_eq!(gateway.process.out(), "", "standard output is for data");
    assert_eq!(gateway.tools().await, ["look", "read_result"]);
    assert_eq!(gateway.call("look", json!({})).await["status"], "ok");
    for path in ["/healthz", "/readyz", "/openapi.json", "/v1/health"] {
        assert_eq!(gateway.http.get(gateway.url(path)).send().await.unwrap().status(), 200, "{path}");
    }
    assert_eq!(gateway.stop().await, 0);
    assert!(gateway.process.err().contains("\"stopped\""), "{}", gateway.process.err());
}

#[tokio::test]
async fn a_public_address_without_callers_is_refused_before_it_listens() {
    let upstream = Server::start().await.unwrap();
    let folder = folder(&tools(&upstream, &["look"]));
    for address in ["0.0.0.0:0", "[::]:0"] {
        let ran = run(folder.path(), &["serve", "--listen", address]).await.exits(2);
        assert!(ran.err.contains("callers") && !ran.err.contains("ready"), "{ran:?}");
    }
    assert!(!folder.path().join(".reach").exists(), "nothing was opened");
}

#[tokio::test]
async fn an_address_that_is_taken_is_said_in_words() {
    let upstream = Server::start().await.unwrap();
    let folder = folder(&tools(&upstream, &["look"]));
    let taken = upstream.address().to_string();
    let ran = run(folder.path(), &["serve", "--listen", &taken]).await.exits(2);
    assert!(ran.err.contains(&taken) && ran.err.contains("fix:"), "{ran:?}");
}

#[tokio::test]
async fn with_callers_a_key_is_asked_for_and_scopes_hold() {
    let upstream = Server::start().await.unwrap();
    let mut text: Value = serde_json::from_str(&tools(&upstream, &["look", "pay"])).unwrap();
    text["tools"][1]["auth"] = json!({"scope": "money:write"});
    text["callers"] = json!({"reader": {"key": "reader-key-0123456789", "scopes": ["order:read"]}});
    let folder = folder(&text.to_string());
    let gateway = Gateway::start(folder.path(), &[]).await;
    for request in [gateway.request("look", &json!({})), gateway.request("look", &json!({})).bearer_auth("wrong")] {
        assert_eq!(request.send().await.unwrap().status(), 401);
    }
    let said = gateway.request("look", &json!({})).bearer_auth("reader-key-0123456789").send().await.unwrap();
    assert_eq!(said.status(), 200);
    let said = gateway.request("pay", &json!({})).bearer_auth("reader-key-0123456789").send().await.unwrap();
    assert_eq!(said.status(), 404);
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn web_pages_and_foreign_host_names_are_kept_away() {
    let upstream = Server::start().await.unwrap();
    let folder = folder(&tools(&upstream, &["look"]));
    let gateway = Gateway::start(folder.path(), &[]).await;
    for (header, value) in
        [("host", "evil.example"), ("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")]
    {
        let said = gateway.request("look", &json!({})).header(header, value).send().await.unwrap();
        assert_eq!(said.status(), 403, "{header}");
    }
    assert_eq!(upstream.requests().len(), 0);
}

#[tokio::test]
async fn headers_and_bodies_have_limits() {
    let upstream = Server::start().await.unwrap();
    let mut text: Value = serde_json::from_str(&tools(&upstream, &["look"])).unwrap();
    text["server"] = json!({"max_body_bytes": 2048, "header_timeout_ms": 300});
    let folder = folder(&text.to_string());
    let gateway = Gateway::start(folder.path(), &[]).await;
    let said = gateway.request("look", &json!({"x": "y".repeat(4_000)})).send().await.unwrap();
    assert_eq!(said.status(), 413);
    assert_eq!(upstream.requests().len(), 0);
    let mut stream = TcpStream::connect(&gateway.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: ").await.unwrap();
    let mut rest = Vec::new();
    let cut = timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    assert!(cut.is_ok(), "a header that never ends is cut off");
    let said = gateway.http.get(gateway.url("/healthz")).header("x-large", "y".repeat(300_000)).send().await;
    assert!(said.is_err() || said.unwrap().status().is_client_error());
    assert_eq!(gateway.call("look", json!({})).await["status"], "ok", "and it goes on");
}

#[tokio::test]
async fn a_changed_file_is_used_without_dropping_a_call_and_a_broken_one_is_not() {
    let upstream = Server::start().await.unwrap();
    let folder = folder(&tools(&upstream, &["old"]));
    let mut gateway = Gateway::start(folder.path(), &[]).await;
    upstream.next(slow(Duration::from_millis(4_000)));
    let request = gateway.request("old", &json!({}));
    let under_way = tokio::spawn(async move { request.send().await.unwrap().json::<Value>().await.unwrap() });
    timeout(PATIENCE, upstream.received(1)).await.unwrap();

    write(folder.path(), &tools(&upstream, &["new"]));
    eventually("the new tool", || async { (gateway.tools().await == ["new", "read_result"]).then_some(()) }).await;
    assert_eq!(gateway.call("new", json!({})).await["status"], "ok");
    assert_eq!(gateway.call("old", json!({})).await["error"]["code"], "TOOL_NOT_FOUND");
    let envelope = under_way.await.unwrap();
    assert_shape(&envelope);
    assert_eq!(envelope["data"], json!({"slow": true}), "the call under way finished with the old tools");

    write(folder.path(), "version: 1\ntools:\n  - tool_id: broken\n    descripton: x\n");
    gateway.process.says("reach.yaml:4:5").await;
    assert!(gateway.process.err().contains("the old one stays"), "{}", gateway.process.err());
    assert_eq!(gateway.call("new", json!({})).await["status"], "ok", "the old one stays");

    write(folder.path(), &tools(&upstream, &["new", "newer"]));
    eventually("the mended file", || async { (gateway.tools().await.len() == 3).then_some(()) }).await;
    assert_eq!(gateway.stop().await, 0);
}

#[tokio::test]
async fn a_hangup_reads_the_file_again_at_once() {
    let upstream = Server::start().await.unwrap();
    let folder = folder(&tools(&upstream, &["look"]));
    let mut gateway = Gateway::start(folder.path(), &[]).await;
    let count = |text: String| text.matches("the new configuration is in use").count();
    eventually("a reload", || async {
        gateway.process.signal(Signal::HUP);
        (count(gateway.process.err()) > 0).then_some(())
    })
    .await;
    assert_eq!(gateway.call("look", json!({})).await["status"], "ok");
    assert_eq!(gateway.stop().await, 0);
}

#[tokio::test]
async fn a_signal_right_after_the_start_is_no_accident() {
    let upstream = Server::start().await.unwrap();
    let folder = folder(&tools(&upstream, &["look"]));
    let mut gateway = Gateway::start(folder.path(), &["--log", "json"]).await;
    gateway.process.signal(Signal::HUP);
    gateway.process.signal(Signal::TERM);
    assert_eq!(gateway.process.end().await, 0, "{}", gateway.process.err());
}

#[tokio::test]
async fn the_order_to_stop_lets_a_call_finish() {
    let upstream = Server::start().await.unwrap();
    let folder = folder(&tools(&upstream, &["look", "pay"]));
    for (tool, signal) in [("look", Signal::TERM), ("pay", Signal::INT)] {
        let mut gateway = Gateway::start(folder.path(), &[]).await;
        upstream.next(slow(Duration::from_millis(1_500)));
        let before = upstream.requests().len();
        let request = gateway.request(tool, &json!({}));
        let under_way = tokio::spawn(async move { request.send().await.unwrap().json::<Value>().await.unwrap() });
        timeout(PATIENCE, upstream.received(before + 1)).await.unwrap();
        gateway.process.signal(signal);
        assert_eq!(under_way.await.unwrap()["status"], "ok");
        assert_eq!(gateway.process.end().await, 0);
    }
}

#[tokio::test]
async fn two_gateways_on_one_ledger_carry_a_key_out_once() {
    let upstream = Server::start().await.unwrap();
    let folder = folder(&tools(&upstream, &["pay"]));
    let mut one = Gateway::start(folder.path(), &[]).await;
    let mut two = Gateway::start(folder.path(), &[]).await;
    upstream.next(slow(Duration::from_millis(1_500)));
    let first = one.request("pay", &json!({})).header("Idempotency-Key", "k-1");
    let first = tokio::spawn(async move { first.send().await.unwrap().json::<Value>().await.unwrap() });
    timeout(PATIENCE, upstream.received(1)).await.unwrap();
    let said = two.request("pay", &json!({})).header("Idempotency-Key", "k-1").send().await.unwrap();
    assert_eq!(said.status(), 409);
    let envelope: Value = said.json().await.unwrap();
    assert_eq!((&envelope["error"]["code"], &envelope["error"]["retryable"]), (&json!("IN_PROGRESS"), &json!(true)));
    assert_eq!(first.await.unwrap()["status"], "ok");
    let said = two.request("pay", &json!({})).header("Idempotency-Key", "k-1").send().await.unwrap();
    let envelope: Value = said.json().await.unwrap();
    assert_eq!((&envelope["status"], &envelope["meta"]["replayed"]), (&json!("ok"), &json!(true)), "{envelope}");
    assert_eq!(upstream.requests().len(), 1);
    // The journal is one, whoever wrote it.
    let trace = envelope["meta"]["trace_id"].as_str().unwrap();
    run(folder.path(), &["trace", trace]).await.exits(0);
    assert_eq!((one.stop().await, two.stop().await), (0, 0));
}

#[tokio::test]
async fn what_is_older_than_keep_says_is_forgotten_at_the_start_and_the_rest_is_not() {
    let upstream = Server::start().await.unwrap();
    let mut text: Value = serde_json::from_str(&tools(&upstream, &["look", "pay"])).unwrap();
    let folder = folder(&text.to_string());
    let mut gateway = Gateway::start(folder.path(), &[]).await;
    for name in ["p-1", "p-2", "p-3"] {
        let answer = gateway.request("pay", &json!({})).header("Idempotency-Key", name).send().await.unwrap();
        assert_eq!(answer.json::<Value>().await.unwrap()["status"], "ok");
    }
    gateway.stop().await;
    let ledger = rusqlite::Connection::open(folder.path().join(".reach/ledger.db")).unwrap();
    let day_ms = 24 * 60 * 60 * 1_000i64;
    for (name, days) in [("p-1", 1), ("p-2", 15), ("p-3", 25)] {
        for table in ["journal", "record"] {
            let sql = format!("update {table} set at_ms = at_ms - ?1 where request_id = ?2");
            assert!(ledger.execute(&sql, (days * day_ms, name)).unwrap() > 0, "{table} {name}");
        }
    }
    let left = |table: &str| -> Vec<String> {
        let sql = format!("select distinct request_id from {table} order by request_id");
        let mut statement = ledger.prepare(&sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (keep, journal, records) in [
        (json!({"journal_days": 20, "records_days": 30}), &["p-1", "p-2"][..], &["p-1", "p-2", "p-3"][..]),
        (json!({}), &["p-1", "p-2"], &["p-1"]),
    ] {
        text["state"] = json!({"keep": keep});
        write(folder.path(), &text.to_string());
        let mut gateway = Gateway::start(folder.path(), &[]).await;
        gateway.process.says("forgot what was older").await;
        assert_eq!((left("journal"), left("record")), (owned(journal), owned(records)), "{keep}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_file_that_loses_its_callers_does_not_open_a_running_gateway() {
    let upstream = Server::start().await.unwrap();
    let mut text: Value = serde_json::from_str(&tools(&upstream, &["look"])).unwrap();
    text["callers"] = json!({"reader": {"key": "reader-key-0123456789", "scopes": ["*"]}});
    let folder = folder(&text.to_string());
    let gateway = Gateway::start(folder.path(), &[]).await;
    write(folder.path(), &tools(&upstream, &["look", "more"]));
    gateway.process.says("declares no callers").await;
    assert!(gateway.process.err().contains("Restart"), "{}", gateway.process.err());
    assert_eq!(gateway.request("look", &json!({})).send().await.unwrap().status(), 401);
    let keyed = |tool: &str| gateway.request(tool, &json!({})).bearer_auth("reader-key-0123456789").send();
    assert_eq!(keyed("look").await.unwrap().status(), 200);
    assert_eq!(keyed("more").await.unwrap().status(), 404, "the old configuration stays, whole");

    text["callers"] = json!({"other": {"key": "other-key-0123456789", "scopes": ["*"]}});
    write(folder.path(), &text.to_string());
    gateway.process.says("the new configuration is in use").await;
    assert_eq!(keyed("look").await.unwrap().status(), 401, "callers can still be exchanged");
}

#[tokio::test]
async fn sections_that_need_a_restart_are_named_and_the_rest_is_used() {
    let upstream = Server::start().await.unwrap();
    let folder = folder(&tools(&upstream, &["look"]));
    let gateway = Gateway::start(folder.path(), &[]).await;
    let mut text: Value = serde_json::from_str(&tools(&upstream, &["look", "more"])).unwrap();
    write(folder.path(), &text.to_string());
    gateway.process.says("the new configuration is in use").await;
    assert!(!gateway.process.err().contains("need a restart"), "{}", gateway.process.err());
    text["server"] = json!({"max_body_bytes": 2048});
    text["state"] = json!({"blobs": "file:elsewhere"});
    text["tools"].as_array_mut().unwrap().remove(1);
    write(folder.path(), &text.to_string());
    gateway.process.says("server, state").await;
    assert!(gateway.process.err().contains("need a restart"), "{}", gateway.process.err());
    assert_eq!(gateway.tools().await, ["look", "read_result"]);
    assert!(!folder.path().join("elsewhere").exists());
}
