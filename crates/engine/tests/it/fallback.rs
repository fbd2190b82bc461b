//! Fallback chains: transparent to the caller, visible in the record.

use std::time::Duration;

use reach_core::tool::Fallback;
use reach_core::{Effect, ErrorCode, EventKind, FailureKind, OnFailure, Phase, ToolId};
use serde_json::json;

use crate::fixture::{Act, Gateway, Upstream, caller, plan, tool};

fn with_fallback(effect: Effect) -> reach_core::ToolSpec {
    let mut spec = tool("orders", effect);
    spec.timeout = Duration::from_secs(2);
    spec.fallback = Some(Fallback { tool_id: ToolId::parse("orders_v2").unwrap(), arguments: Default::default() });
    spec
}

#[tokio::test(start_paused = true)]
async fn a_slow_upstream_falls_back_and_the_envelope_says_who_served() {
    let (slow, stand_in) = (Upstream::new("v1", [Act::Stall]), Upstream::new("v2", []));
    let gateway = Gateway::new(vec![(with_fallback(Effect::Read), slow), (tool("orders_v2", Effect::Read), stand_in)]);
    let envelope = gateway.call("orders", json!({"id": "1"})).await;
    assert!(envelope.is_ok());
    assert_eq!(envelope.tool.as_str(), "orders");
    assert_eq!(envelope.meta.served_by.as_ref().unwrap().as_str(), "orders_v2");
    let steps = gateway.steps(&envelope).await;
    assert!(steps.iter().any(|step| matches!(step, EventKind::FellBack { to, .. } if to.as_str() == "orders_v2")));
}

#[tokio::test]
async fn nothing_falls_back_after_an_unknown_outcome_or_a_business_refusal() {
    for (effect, kind, code) in [
        (Effect::Write, FailureKind::Interrupted, ErrorCode::OutcomeUnknown),
        (Effect::Read, FailureKind::Rejected, ErrorCode::UpstreamRejected),
        (Effect::Read, FailureKind::NotFound, ErrorCode::NotFound),
        (Effect::Keyed, FailureKind::ServerError, ErrorCode::UpstreamError),
    ] {
        let failing = Upstream::new("v1", vec![Act::Fail(kind, None); 3]);
        let stand_in = Upstream::new("v2", []);
        let gateway =
            Gateway::new(vec![(with_fallback(effect), failing), (tool("orders_v2", Effect::Read), stand_in.clone())]);
        let envelope = gateway.call("orders", json!({"id": "1"})).await;
        assert_eq!(envelope.code(), Some(code), "{effect:?} {kind:?}");
        assert_eq!(stand_in.asked(), 0, "{effect:?} {kind:?}");
    }
}

#[tokio::test]
async fn a_caller_without_the_scope_of_the_stand_in_does_not_get_it() {
    let stand_in = Upstream::new("v2", []);
    let mut second = tool("orders_v2", Effect::Read);
    second.scope = Some("archive:read".to_owned());
    let dead = Upstream::new("v1", vec![Act::Refuse; 3]);
    let gateway = Gateway::new(vec![(with_fallback(Effect::Read), dead), (second, stand_in.clone())]);
    let mut plan = plan("orders", json!({"id": "1"}));
    plan.caller = caller("reader", &["order:read"]);
    assert_eq!(gateway.engine.call(plan).await.code(), Some(ErrorCode::UpstreamUnavailable));
    assert_eq!(stand_in.asked(), 0);
}

#[tokio::test]
async fn a_plan_may_ask_for_the_failure_instead() {
    let stand_in = Upstream::new("v2", []);
    let dead = Upstream::new("v1", vec![Act::Refuse; 3]);
    let gateway =
        Gateway::new(vec![(with_fallback(Effect::Read), dead), (tool("orders_v2", Effect::Read), stand_in.clone())]);
    let mut plan = plan("orders", json!({"id": "1"}));
    plan.on_failure = OnFailure::Return;
    assert_eq!(gateway.engine.call(plan).await.code(), Some(ErrorCode::UpstreamUnavailable));
    assert_eq!(stand_in.asked(), 0);
}

#[tokio::test]
async fn when_the_whole_chain_fails_the_first_failure_is_the_answer_and_the_last_is_named() {
    let dead = Upstream::new("v1", vec![Act::Refuse; 3]);
    let broken = Upstream::new("v2", vec![Act::Fail(FailureKind::ServerError, None); 3]);
    let gateway = Gateway::new(vec![(with_fallback(Effect::Read), dead), (tool("orders_v2", Effect::Read), broken)]);
    let envelope = gateway.call("orders", json!({"id": "1"})).await;
    let error = envelope.error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::UpstreamUnavailable, true));
    assert!(error.message.contains("connection refused") && error.message.contains("as scripted"));
    assert_eq!(envelope.meta.attempts, 6);
}

#[tokio::test]
async fn a_write_that_was_not_sent_falls_back_once_and_is_recorded_under_the_head() {
    let (dead, stand_in) = (Upstream::new("v1", vec![Act::Refuse; 3]), Upstream::new("v2", []));
    let gateway =
        Gateway::new(vec![(with_fallback(Effect::Write), dead), (tool("orders_v2", Effect::Write), stand_in.clone())]);
    let first = gateway.call_with_key("orders", "k", json!({"id": "1"})).await;
    let second = gateway.call_with_key("orders", "k", json!({"id": "1"})).await;
    assert!(first.is_ok() && second.meta.replayed);
    assert_eq!(stand_in.effects(), 1);
}

#[tokio::test]
async fn a_keyed_request_that_may_have_arrived_never_goes_to_another_upstream() {
    // The first attempt may have arrived; that the second was refused at the door changes nothing.
    let first = Upstream::new("v1", [Act::Fail(FailureKind::Interrupted, None), Act::Refuse, Act::Refuse]);
    let stand_in = Upstream::new("v2", []);
    let breaker = reach_core::breaker::Settings { open_ms: 1_500, ..Default::default() };
    let settings = [("v1".to_owned(), reach_engine::UpstreamSettings { breaker, ..Default::default() })].into();
    let tools =
        vec![(with_fallback(Effect::Keyed), first.clone()), (tool("orders_v2", Effect::Keyed), stand_in.clone())];
    let gateway = Gateway::with_settings(tools, settings);
    let envelope = gateway.call_with_key("orders", "k", json!({"id": "1"})).await;
    let error = envelope.error.as_ref().unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::UpstreamUnavailable, true));
    assert_eq!((envelope.meta.phase, envelope.meta.attempts), (Phase::MaybeSent, 3));
    assert_eq!(stand_in.asked(), 0);

    // Three failures have opened the breaker: the same key still waits for the same upstream.
    let envelope = gateway.call_with_key("orders", "k", json!({"id": "1"})).await;
    assert_eq!(envelope.code(), Some(ErrorCode::Unreachable));
    assert_eq!(stand_in.asked(), 0);
    // A request that was never sent may go elsewhere.
    assert!(gateway.call_with_key("orders", "other", json!({"id": "1"})).await.is_ok());
    assert_eq!(stand_in.asked(), 1);

    let envelope = loop {
        let envelope = gateway.call_with_key("orders", "k", json!({"id": "1"})).await;
        if envelope.code() != Some(ErrorCode::Unreachable) {
            break envelope;
        }
    };
    assert_eq!(envelope.meta.served_by.unwrap().as_str(), "orders");
    let keys: Vec<_> = first.seen.lock().iter().map(|(_, key)| key.clone().unwrap()).collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test]
async fn a_keyed_stand_in_that_may_have_acted_leaves_an_unknown_outcome() {
    // The head would be asked first when the key comes again, and it does not know what its stand-in did.
    let head = Upstream::new("v1", vec![Act::Refuse; 3]);
    let stand_in = Upstream::new("v2", vec![Act::Fail(FailureKind::Interrupted, None); 3]);
    let gateway = Gateway::new(vec![
        (with_fallback(Effect::Keyed), head.clone()),
        (tool("orders_v2", Effect::Keyed), stand_in.clone()),
    ]);
    let first = gateway.call_with_key("orders", "k", json!({"id": "1"})).await;
    let again = gateway.call_with_key("orders", "k", json!({"id": "1"})).await;
    for envelope in [&first, &again] {
        let error = envelope.error.as_ref().unwrap();
        assert_eq!((error.code, error.retryable), (ErrorCode::OutcomeUnknown, false));
    }
    assert!(again.meta.replayed);
    assert_eq!((head.asked(), stand_in.asked()), (3, 3));
}
