//! Step 6, 9 and 12: at most once, never silently unknown.

use std::time::Duration;

use reach_core::tool::Verify;
use reach_core::{Effect, ErrorCode, EventKind, FailureKind, Phase};
use serde_json::json;

use crate::fixture::{Act, Gateway, Upstream, plan, tool};

#[tokio::test]
async fn the_second_identical_write_is_answered_from_the_ledger() {
    let upstream = Upstream::new("up", []);
    let gateway = Gateway::new(vec![(tool("refund", Effect::Write), upstream.clone())]);
    let first = gateway.call_with_key("refund", "r-1", json!({"id": "5", "note": "x"})).await;
    let second = gateway.call_with_key("refund", "r-1", json!({"note": "x", "id": "5"})).await;
    assert!(first.is_ok() && !first.meta.replayed);
    assert_eq!(second.data, first.data);
    assert!(second.meta.replayed);
    assert_eq!((second.meta.attempts, upstream.effects()), (0, 1));
}

#[tokio::test]
async fn the_same_key_with_other_arguments_is_refused_and_reveals_nothing() {
    let upstream = Upstream::new("up", []);
    let gateway = Gateway::new(vec![(tool("refund", Effect::Write), upstream.clone())]);
    gateway.call_with_key("refund", "r-1", json!({"id": "five-hundred"})).await;
    let other = gateway.call_with_key("refund", "r-1", json!({"id": "6"})).await;
    let error = other.error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::IdempotencyMismatch, false));
    assert!(!error.message.contains("five-hundred") && !error.message.contains("served"));
    assert_eq!(upstream.effects(), 1);
}

#[tokio::test]
async fn a_read_is_recorded_only_under_a_key() {
    let upstream = Upstream::new("up", []);
    let gateway = Gateway::new(vec![(tool("orders", Effect::Read), upstream.clone())]);
    gateway.call("orders", json!({"id": "1"})).await;
    gateway.call("orders", json!({"id": "1"})).await;
    assert_eq!(upstream.asked(), 2);
    gateway.call_with_key("orders", "k", json!({"id": "1"})).await;
    let replayed = gateway.call_with_key("orders", "k", json!({"id": "1"})).await;
    assert!(replayed.meta.replayed);
    assert_eq!(upstream.asked(), 3);
}

#[tokio::test]
async fn a_write_that_breaks_after_it_was_sent_is_unknown_and_never_repeated() {
    for kind in [FailureKind::Interrupted, FailureKind::ServerError, FailureKind::Malformed, FailureKind::Oversize] {
        let upstream = Upstream::new("up", [Act::Fail(kind, None)]);
        let gateway = Gateway::new(vec![(tool("send", Effect::Write), upstream.clone())]);
        let first = gateway.call_with_key("send", "k", json!({"id": "1"})).await;
        let error = first.error.clone().unwrap();
        assert_eq!((error.code, error.retryable), (ErrorCode::OutcomeUnknown, false), "{kind:?}");
        let again = gateway.call_with_key("send", "k", json!({"id": "1"})).await;
        assert_eq!(again.code(), Some(ErrorCode::OutcomeUnknown));
        assert!(again.meta.replayed);
        assert_eq!((first.meta.attempts, upstream.effects()), (1, 1), "{kind:?}");
        assert_eq!(gateway.stores.ledger.unsettled(10).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_write_that_times_out_is_unknown_within_its_deadline() {
    let upstream = Upstream::new("up", [Act::Stall]);
    let mut spec = tool("create_issue", Effect::Write);
    spec.timeout = Duration::from_secs(1);
    let gateway = Gateway::new(vec![(spec, upstream.clone())]);
    let envelope = gateway.call("create_issue", json!({"id": "1"})).await;
    assert_eq!(envelope.code(), Some(ErrorCode::OutcomeUnknown));
    assert_eq!((envelope.meta.phase, envelope.meta.attempts), (Phase::MaybeSent, 1));
}

#[tokio::test]
async fn a_keyed_tool_is_repeated_with_the_same_key() {
    let upstream = Upstream::new("up", [Act::Fail(FailureKind::Interrupted, None)]);
    let gateway = Gateway::new(vec![(tool("pay", Effect::Keyed), upstream.clone())]);
    let envelope = gateway.call_with_key("pay", "k-7", json!({"id": "1"})).await;
    assert!(envelope.is_ok());
    assert_eq!(envelope.meta.attempts, 2);
    let keys: Vec<_> = upstream.seen.lock().iter().map(|(_, key)| key.clone().unwrap()).collect();
    assert_eq!(keys[0], keys[1]);
    gateway.call_with_key("pay", "k-8", json!({"id": "1"})).await;
    let other = upstream.seen.lock().last().unwrap().1.clone().unwrap();
    assert_ne!(other, keys[0], "another request has another key");
}

#[tokio::test]
async fn a_write_that_was_not_sent_may_be_sent_again_under_the_same_key() {
    let refusals = [Act::Refuse, Act::Refuse, Act::Refuse];
    let upstream = Upstream::new("up", refusals);
    let mut spec = tool("send", Effect::Write);
    spec.breaker = Some(reach_core::breaker::Settings { failures: 100, window_calls: 100, ..Default::default() });
    let gateway = Gateway::new(vec![(spec, upstream.clone())]);
    let first = gateway.call_with_key("send", "k", json!({"id": "1"})).await;
    let error = first.error.clone().unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::UpstreamUnavailable, true));
    assert_eq!((first.meta.attempts, first.meta.phase), (3, Phase::NotSent));
    let second = gateway.call_with_key("send", "k", json!({"id": "1"})).await;
    assert!(second.is_ok() && !second.meta.replayed);
    assert_eq!(upstream.effects(), 1);
}

#[tokio::test]
async fn the_intent_is_in_the_journal_before_the_attempt() {
    let gateway = Gateway::new(vec![(tool("send", Effect::Write), Upstream::new("up", []))]);
    let envelope = gateway.call("send", json!({"id": "1"})).await;
    let steps = gateway.steps(&envelope).await;
    let at = |wanted: fn(&EventKind) -> bool| steps.iter().position(wanted).unwrap();
    assert!(
        at(|step| matches!(step, EventKind::Intended)) < at(|step| matches!(step, EventKind::AttemptStarted { .. }))
    );
}

#[tokio::test]
async fn a_running_request_answers_in_progress_and_one_effect_happens() {
    let upstream = Upstream::new("up", [Act::After(Duration::from_millis(300), json!({"ok": true}))]);
    let gateway = Gateway::new(vec![(tool("send", Effect::Write), upstream.clone())]);
    let (first, second) = tokio::join!(gateway.call_with_key("send", "k", json!({"id": "1"})), async {
        while upstream.asked() == 0 {
            tokio::task::yield_now().await;
        }
        gateway.call_with_key("send", "k", json!({"id": "1"})).await
    });
    assert!(first.is_ok());
    let error = second.error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::InProgress, true));
    assert!(error.retry_after_ms.is_some());
    assert_eq!(upstream.effects(), 1);
}

#[tokio::test]
async fn what_are_two_requests_here_are_two_requests_at_an_upstream_that_honours_keys() {
    let upstream = Upstream::new("up", []);
    let gateway = Gateway::new(vec![
        (tool("pay", Effect::Keyed), upstream.clone()),
        (tool("refund", Effect::Keyed), upstream.clone()),
    ]);
    let mut first = plan("pay", json!({"id": "1"})).with_key("b.c");
    first.caller = crate::fixture::caller("a", &["*"]);
    let mut second = plan("pay", json!({"id": "1"})).with_key("c");
    second.caller = crate::fixture::caller("a.b", &["*"]);
    let mut third = plan("refund", json!({"id": "1"})).with_key("b.c");
    third.caller = first.caller.clone();
    for plan in [first, second, third] {
        assert!(gateway.engine.call(plan).await.is_ok());
    }
    let mut keys: Vec<_> = upstream.seen.lock().iter().map(|(_, key)| key.clone().unwrap()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 3);
}

#[tokio::test]
async fn a_verifying_tool_is_read_whole_and_its_findings_stay_with_the_operator() {
    let rows: Vec<_> = (0..500).map(|index| json!({ "id": index, "note": "x".repeat(40) })).collect();
    let upstream = Upstream::new("up", [Act::Fail(FailureKind::Interrupted, None)]);
    let reader = Upstream::new("reader", [Act::Answer(json!({ "rows": rows }))]);
    let mut lookup = tool("lookup", Effect::Read);
    lookup.scope = Some("audit:read".to_owned());
    let mut send = verifiable();
    send.verify.as_mut().unwrap().done_when = "length(rows[?id == `250`]) > `0`".to_owned();
    let gateway = Gateway::new(vec![(send, upstream.clone()), (lookup, reader)]);
    let attempt = || {
        let mut plan = plan("send", json!({"id": "1"})).with_key("k");
        plan.caller = crate::fixture::caller("agent", &["order:*"]);
        gateway.engine.call(plan)
    };
    assert!(!attempt().await.error.unwrap().hint.unwrap().contains("lookup"), "the caller may not know of it");
    let settled = attempt().await;
    assert!(settled.is_ok(), "{settled:?}");
    assert_eq!(settled.data.unwrap(), *json!({"verified_by": null}).as_object().unwrap());
    assert_eq!(upstream.effects(), 1);
}

fn verifiable() -> reach_core::ToolSpec {
    let mut send = tool("send", Effect::Write);
    send.verify = Some(Verify {
        tool_id: reach_core::ToolId::parse("lookup").unwrap(),
        arguments: [("id".to_owned(), "id".to_owned())].into(),
        done_when: "found".to_owned(),
    });
    send
}

#[tokio::test]
async fn an_unknown_outcome_is_settled_by_its_verifying_tool_as_done() {
    let upstream = Upstream::new("up", [Act::Fail(FailureKind::Interrupted, None)]);
    let reader = Upstream::new("reader", [Act::Answer(json!({"found": true}))]);
    let gateway = Gateway::new(vec![(verifiable(), upstream.clone()), (tool("lookup", Effect::Read), reader.clone())]);
    let first = gateway.call_with_key("send", "k", json!({"id": "1"})).await;
    assert!(first.error.unwrap().hint.unwrap().contains("lookup"));
    let second = gateway.call_with_key("send", "k", json!({"id": "1"})).await;
    assert!(second.is_ok() && second.meta.replayed);
    assert_eq!(second.data.unwrap()["verified_by"], "lookup");
    let third = gateway.call_with_key("send", "k", json!({"id": "1"})).await;
    assert!(third.is_ok());
    assert_eq!((upstream.effects(), reader.asked()), (1, 1));
}

#[tokio::test]
async fn an_unknown_outcome_that_verifies_as_not_done_is_sent_again() {
    let upstream = Upstream::new("up", [Act::Fail(FailureKind::Interrupted, None)]);
    let reader = Upstream::new("reader", [Act::Answer(json!({"found": false}))]);
    let gateway = Gateway::new(vec![(verifiable(), upstream.clone()), (tool("lookup", Effect::Read), reader)]);
    gateway.call_with_key("send", "k", json!({"id": "1"})).await;
    let second = gateway.call_with_key("send", "k", json!({"id": "1"})).await;
    assert!(second.is_ok() && !second.meta.replayed);
    assert_eq!(upstream.asked(), 2);
}

#[tokio::test]
async fn a_verifying_tool_that_cannot_tell_leaves_the_outcome_unknown() {
    let upstream = Upstream::new("up", [Act::Fail(FailureKind::Interrupted, None)]);
    let reader = Upstream::new("reader", [Act::Answer(json!({"something": "else"}))]);
    let gateway = Gateway::new(vec![(verifiable(), upstream.clone()), (tool("lookup", Effect::Read), reader)]);
    gateway.call_with_key("send", "k", json!({"id": "1"})).await;
    let second = gateway.call_with_key("send", "k", json!({"id": "1"})).await;
    assert_eq!(second.code(), Some(ErrorCode::OutcomeUnknown));
    assert_eq!(upstream.asked(), 1);
}

#[tokio::test]
async fn a_panic_after_a_write_was_sent_is_unknown_and_before_it_is_internal() {
    let upstream = Upstream::new("up", [Act::Panic(true), Act::Panic(false)]);
    let gateway = Gateway::new(vec![(tool("send", Effect::Write), upstream.clone())]);
    assert_eq!(gateway.call("send", json!({"id": "1"})).await.code(), Some(ErrorCode::OutcomeUnknown));
    assert_eq!(gateway.call("send", json!({"id": "1"})).await.code(), Some(ErrorCode::Internal));
}

#[tokio::test]
async fn two_callers_with_one_key_are_two_requests() {
    let upstream = Upstream::new("up", []);
    let gateway = Gateway::new(vec![(tool("send", Effect::Write), upstream.clone())]);
    for name in ["one", "two"] {
        let mut plan = plan("send", json!({"id": "1"})).with_key("k");
        plan.caller = crate::fixture::caller(name, &["*"]);
        assert!(!gateway.engine.call(plan).await.meta.replayed);
    }
    assert_eq!(upstream.effects(), 2);
}
