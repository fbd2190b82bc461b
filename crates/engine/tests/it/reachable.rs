//! Steps 7 and 10: breaker, retries, waits, deadlines.

use std::collections::HashMap;
use std::time::Duration;

use reach_core::breaker::{Settings, StateName};
use reach_core::{Effect, ErrorCode, EventKind, FailureKind, Phase, Priority};
use reach_engine::UpstreamSettings;
use serde_json::json;

use crate::fixture::{Act, Gateway, Upstream, plan, tool};

#[tokio::test(start_paused = true)]
async fn a_dead_upstream_becomes_unreachable_is_probed_and_recovers() {
    let upstream = Upstream::new("up", [Act::Refuse, Act::Refuse, Act::Refuse]);
    let mut alternative = tool("orders_archive", Effect::Read);
    alternative.scope = Some("order:read".to_owned());
    let mut orders = tool("orders", Effect::Read);
    orders.scope = Some("order:read".to_owned());
    let gateway = Gateway::new(vec![(orders, upstream.clone()), (alternative, Upstream::new("archive", []))]);
    let first = gateway.call("orders", json!({"id": "1"})).await;
    assert_eq!((first.code(), first.meta.attempts), (Some(ErrorCode::UpstreamUnavailable), 3));

    let second = gateway.call("orders", json!({"id": "1"})).await;
    let error = second.error.clone().unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::Unreachable, true));
    assert_eq!((second.meta.attempts, second.meta.phase), (0, Phase::NotSent));
    let details = error.details.unwrap();
    assert_eq!(details["reason"], "connection refused");
    assert!(details["since"].as_str().unwrap().ends_with('Z'));
    assert_eq!(details["alternatives"], json!(["orders_archive"]));
    assert!(error.retry_after_ms.unwrap() <= 5_000);
    assert_eq!(upstream.asked(), 3, "an open breaker sends nothing");

    tokio::time::sleep(Duration::from_secs(6)).await;
    for _ in 0..2 {
        assert!(gateway.call("orders", json!({"id": "1"})).await.is_ok());
    }
    let breakers = gateway.engine.health().await.breakers;
    let of = |target: &str| breakers.iter().find(|breaker| breaker.target == target).unwrap().state;
    assert_eq!(of("up"), StateName::Closed);
}

#[tokio::test]
async fn business_refusals_never_open_a_breaker() {
    let refusals = vec![Act::Fail(FailureKind::NotFound, None); 20];
    let upstream = Upstream::new("up", refusals);
    let gateway = Gateway::new(vec![(tool("orders", Effect::Read), upstream.clone())]);
    for _ in 0..20 {
        let envelope = gateway.call("orders", json!({"id": "1"})).await;
        let error = envelope.error.unwrap();
        assert_eq!((error.code, error.retryable), (ErrorCode::NotFound, false));
        assert_eq!(envelope.meta.attempts, 1);
    }
    assert!(gateway.call("orders", json!({"id": "1"})).await.is_ok());
}

#[tokio::test]
async fn a_wait_that_the_upstream_asked_for_is_kept_within_the_deadline() {
    let wait = Duration::from_millis(200);
    let upstream = Upstream::new("up", [Act::Fail(FailureKind::Throttled, Some(wait))]);
    let gateway = Gateway::new(vec![(tool("orders", Effect::Write), upstream.clone())]);
    let began = tokio::time::Instant::now();
    let envelope = gateway.call("orders", json!({"id": "1"})).await;
    assert!(envelope.is_ok());
    assert!(began.elapsed() >= wait);
    assert_eq!(envelope.meta.attempts, 2);
}

#[tokio::test]
async fn a_wait_beyond_the_deadline_is_handed_to_the_caller() {
    let wait = Duration::from_secs(60);
    let upstream = Upstream::new("up", [Act::Fail(FailureKind::Throttled, Some(wait))]);
    let gateway = Gateway::new(vec![(tool("orders", Effect::Write), upstream.clone())]);
    let envelope = gateway.call("orders", json!({"id": "1"})).await;
    let error = envelope.error.clone().unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::RateLimited, true));
    assert_eq!(error.retry_after_ms, Some(60_000));
    let steps = gateway.steps(&envelope).await;
    assert!(steps.iter().any(|step| matches!(step, EventKind::RetryWithheld { reason } if reason == "deadline")));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_read_ends_at_its_timeout_and_attempts_may_have_their_own() {
    let upstream = Upstream::new("up", [Act::Stall, Act::Stall]);
    let mut spec = tool("orders", Effect::Read);
    spec.timeout = Duration::from_millis(100);
    let gateway = Gateway::new(vec![(spec.clone(), upstream)]);
    let began = tokio::time::Instant::now();
    let envelope = gateway.call("orders", json!({"id": "1"})).await;
    assert_eq!(envelope.code(), Some(ErrorCode::Timeout));
    assert!(began.elapsed() < Duration::from_millis(150), "{:?}", began.elapsed());

    let upstream = Upstream::new("up", [Act::Stall, Act::Stall]);
    spec.timeout = Duration::from_secs(3);
    spec.attempt_timeout = Some(Duration::from_millis(500));
    let gateway = Gateway::new(vec![(spec, upstream)]);
    let envelope = gateway.call("orders", json!({"id": "1"})).await;
    assert!(envelope.is_ok());
    assert_eq!(envelope.meta.attempts, 3);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_the_caller_is_kept_and_says_nothing_about_the_upstream() {
    let stalls = vec![Act::Stall; 10];
    let upstream = Upstream::new("up", stalls);
    let gateway = Gateway::new(vec![(tool("orders", Effect::Read), upstream.clone())]);
    for _ in 0..10 {
        let mut plan = plan("orders", json!({"id": "1"}));
        plan.timeout = Some(Duration::from_millis(20));
        assert_eq!(gateway.engine.call(plan).await.code(), Some(ErrorCode::Timeout));
    }
    assert!(gateway.call("orders", json!({"id": "1"})).await.is_ok(), "the breaker is still closed");
}

#[tokio::test]
async fn a_tool_may_have_a_breaker_of_its_own() {
    let upstream = Upstream::new("up", [Act::Refuse]);
    let mut own = tool("fragile", Effect::Read);
    own.breaker = Some(Settings { failures: 1, ..Settings::default() });
    let gateway = Gateway::new(vec![(own, upstream.clone()), (tool("sturdy", Effect::Read), upstream.clone())]);
    gateway.call("fragile", json!({"id": "1"})).await;
    assert_eq!(gateway.call("fragile", json!({"id": "1"})).await.code(), Some(ErrorCode::Unreachable));
    assert!(gateway.call("sturdy", json!({"id": "1"})).await.is_ok());
}

#[tokio::test]
async fn a_breaker_forced_open_refuses_until_it_is_given_back() {
    let gateway = Gateway::new(vec![(tool("orders", Effect::Read), Upstream::new("up", []))]);
    assert!(gateway.engine.force("nobody", StateName::ForcedOpen, "x").await.unwrap().is_none());
    gateway.engine.force("up", StateName::ForcedOpen, "maintenance until noon").await.unwrap().unwrap();
    let error = gateway.call("orders", json!({"id": "1"})).await.error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::Unreachable, false));
    assert!(error.message.contains("maintenance until noon"));
    gateway.engine.force("up", StateName::Closed, "").await.unwrap();
    assert!(gateway.call("orders", json!({"id": "1"})).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_cap_wait_by_priority_and_those_that_cannot_wait_are_not_sent() {
    let second = Duration::from_secs(1);
    let slow = |name: &str| Act::After(second, json!({ "for": name }));
    let upstream = Upstream::new("up", [slow("a"), slow("b"), slow("c")]);
    let settings = HashMap::from([("up".to_owned(), UpstreamSettings { max_concurrency: 1, ..Default::default() })]);
    let gateway = Gateway::with_settings(vec![(tool("orders", Effect::Read), upstream.clone())], settings);
    let with = |id: &str, priority, patience: Option<u64>| {
        let mut plan = plan("orders", json!({"id": id}));
        plan.priority = priority;
        plan.timeout = patience.map(Duration::from_millis);
        plan
    };
    let engine = &gateway.engine;
    let (first, low, high, hasty) = tokio::join!(
        engine.call(with("first", Priority::Normal, None)),
        engine.call(with("low", Priority::Low, None)),
        engine.call(with("high", Priority::High, None)),
        engine.call(with("hasty", Priority::Low, Some(50))),
    );
    assert!(first.is_ok() && low.is_ok() && high.is_ok());
    let error = hasty.error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::Overloaded, true));
    let order: Vec<String> =
        upstream.seen.lock().iter().map(|(seen, _)| seen["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(order, ["first", "high", "low"]);
    let steps = gateway.steps(&low).await;
    assert!(steps.iter().any(|step| matches!(step, EventKind::Waited { .. })));
}
