//! The caller goes away, the gateway stops, the tools change.

use std::time::Duration;

use reach_core::{Effect, ErrorCode, EventKind};
use serde_json::json;

use crate::fixture::{Act, Gateway, Upstream, plan, registry, tool};

#[tokio::test]
async fn a_write_that_was_sent_is_finished_without_its_caller_and_answers_the_same_key_later() {
    let upstream = Upstream::new("up", [Act::After(Duration::from_millis(100), json!({"done": true}))]);
    let gateway = Gateway::new(vec![(tool("send", Effect::Write), upstream.clone())]);
    let call = gateway.engine.call(plan("send", json!({"id": "1"})).with_key("k"));
    tokio::select! {
        _ = call => panic!("answers after the caller has left"),
        () = async { while upstream.asked() == 0 { tokio::task::yield_now().await } } => {}
    }
    assert_eq!(gateway.engine.drain(Duration::from_secs(5)).await, 0);
    let fresh = reach_engine::Engine::new(
        registry(vec![(tool("send", Effect::Write), upstream.clone())], &gateway.stores, &Default::default()),
        gateway.stores.clone(),
    );
    let later = fresh.call(plan("send", json!({"id": "1"})).with_key("k")).await;
    assert!(later.is_ok() && later.meta.replayed);
    assert_eq!(upstream.effects(), 1);
}

#[tokio::test]
async fn a_read_ends_with_its_caller_and_leaves_its_steps() {
    let upstream = Upstream::new("up", [Act::Stall]);
    let gateway = Gateway::new(vec![(tool("orders", Effect::Read), upstream.clone())]);
    let plan = plan("orders", json!({"id": "1"}));
    let trace = plan.trace_id.clone();
    tokio::select! {
        _ = gateway.engine.call(plan) => panic!("stalls"),
        () = async { while upstream.asked() == 0 { tokio::task::yield_now().await } } => {}
    }
    assert_eq!(gateway.engine.drain(Duration::from_secs(5)).await, 0);
    let rows = gateway.stores.ledger.trace(trace).await.unwrap();
    let steps: Vec<_> = rows.into_iter().flat_map(|row| row.events).map(|event| event.kind).collect();
    assert!(steps.contains(&EventKind::CallerLeft));
    assert!(matches!(steps.last(), Some(EventKind::Finished { code: Some(ErrorCode::Cancelled), .. })));
}

#[tokio::test]
async fn a_write_still_waiting_in_the_line_is_cancelled_with_nothing_sent() {
    let upstream = Upstream::new("up", [Act::After(Duration::from_millis(200), json!({}))]);
    let settings = std::collections::HashMap::from([(
        "up".to_owned(),
        reach_engine::UpstreamSettings { max_concurrency: 1, ..Default::default() },
    )]);
    let gateway = Gateway::with_settings(vec![(tool("send", Effect::Write), upstream.clone())], settings);
    let first = gateway.engine.call(plan("send", json!({"id": "1"})));
    let mut first = std::pin::pin!(first);
    tokio::select! {
        _ = &mut first => panic!("takes a while"),
        () = async { while upstream.asked() == 0 { tokio::task::yield_now().await } } => {}
    }
    let waiting = gateway.engine.call(plan("send", json!({"id": "2"})).with_key("k"));
    drop(tokio::time::timeout(Duration::from_millis(50), waiting).await);
    assert!(first.await.is_ok());
    let again = gateway.call_with_key("send", "k", json!({"id": "2"})).await;
    assert!(again.is_ok() && !again.meta.replayed, "the claim was given back");
    assert_eq!(upstream.effects(), 2);
}

#[tokio::test]
async fn a_draining_gateway_takes_no_new_calls() {
    let gateway = Gateway::new(vec![(tool("orders", Effect::Read), Upstream::new("up", []))]);
    assert!(gateway.engine.ready().await.is_ok());
    gateway.engine.drain(Duration::from_secs(1)).await;
    let error = gateway.call("orders", json!({"id": "1"})).await.error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::ShuttingDown, true));
    assert!(gateway.engine.ready().await.is_err());
}

#[tokio::test]
async fn a_call_under_way_finishes_with_the_tools_it_began_with() {
    let upstream = Upstream::new("up", [Act::After(Duration::from_millis(100), json!({"old": true}))]);
    let gateway = Gateway::new(vec![(tool("orders", Effect::Read), upstream.clone())]);
    let changes = gateway.engine.changes();
    let call = gateway.engine.call(plan("orders", json!({"id": "1"})));
    let (envelope, ()) = tokio::join!(call, async {
        while upstream.asked() == 0 {
            tokio::task::yield_now().await;
        }
        gateway.engine.replace(registry(
            vec![(tool("other", Effect::Read), upstream.clone())],
            &gateway.stores,
            &Default::default(),
        ));
    });
    assert!(envelope.is_ok());
    assert!(changes.has_changed().unwrap());
    assert_eq!(gateway.call("orders", json!({"id": "1"})).await.code(), Some(ErrorCode::ToolNotFound));
    assert!(gateway.call("other", json!({"id": "1"})).await.is_ok());
}
