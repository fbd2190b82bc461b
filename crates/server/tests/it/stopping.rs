//! Stopping without dropping a call.

use std::time::Duration;

use reach_server::{Callers, Drained, Settings};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::house::{House, Said, eventually};

fn call(house: &House, tool: &str) -> tokio::task::JoinHandle<Result<u16, reqwest::Error>> {
    let request = house.http.post(house.url(&format!("/v1/tools/{tool}/calls"))).json(&json!({}));
    tokio::spawn(async move { request.send().await.map(|response| response.status().as_u16()) })
}

#[tokio::test]
async fn the_order_to_stop_finishes_what_is_under_way_and_refuses_what_is_new() {
    let house = House::local().await;
    let kept = Said::of(house.http.get(house.url("/healthz"))).await;
    assert_eq!(kept.status, 200);
    let mut idle = TcpStream::connect(house.address).await.unwrap();
    let waiting = call(&house, "wait");
    eventually("the call began", async || house.seen.started() == 1).await;
    house.stop();
    eventually("new connections are refused", async || TcpStream::connect(house.address).await.is_err()).await;
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(5), idle.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "an idle connection was kept open");
    assert!(call(&house, "echo").await.unwrap().is_err());
    assert!(!waiting.is_finished());
    house.seen.release.notify_one();
    assert_eq!(waiting.await.unwrap().unwrap(), 200);
    assert_eq!((house.seen.started(), house.seen.finished()), (1, 1));
    assert_eq!(house.stopped().await, Drained::default());
}

#[tokio::test]
async fn patience_ends() {
    let settings = Settings { drain_patience: Duration::from_millis(200), ..Settings::default() };
    let house = House::with(settings, Callers::default()).await;
    let waiting = call(&house, "wait");
    eventually("the call began", async || house.seen.started() == 1).await;
    house.stop();
    let seen = house.seen.clone();
    assert_eq!(house.stopped().await, Drained { calls_left: 1, connections_cut: 1 });
    assert!(waiting.await.unwrap().is_err());
    eventually("the read was aborted", async || seen.aborted() == 1).await;
}

#[tokio::test]
async fn an_engine_that_is_stopping_says_so_on_every_surface() {
    let house = House::local().await;
    house.engine.drain(Duration::from_secs(1)).await;
    let said = house.call("", "echo", json!({})).await;
    assert_eq!((said.status, said.code()), (503, "SHUTTING_DOWN"));
    assert_eq!(said.json["error"]["retryable"], true);
    let ready = house.get("", "/readyz").await;
    assert_eq!(ready.status, 503);
    assert_eq!(house.get("", "/healthz").await.status, 200);
}
