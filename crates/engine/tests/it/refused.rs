//! Steps 1 to 5: refused means that nothing happened.

use reach_core::plan::Rate;
use reach_core::{Effect, ErrorCode, EventKind, Phase};
use serde_json::json;

use crate::fixture::{Gateway, Upstream, caller, plan, tool};

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_nearest_names() {
    let upstream = Upstream::new("up", []);
    let gateway = Gateway::new(vec![(tool("order_status_query", Effect::Read), upstream.clone())]);
    let envelope = gateway.call("order_status", json!({"id": "1"})).await;
    let error = envelope.error.unwrap();
    assert_eq!(error.code, ErrorCode::ToolNotFound);
    assert!(error.hint.unwrap().contains("order_status_query"));
    assert!(!error.retryable);
    assert_eq!(envelope.meta.phase, Phase::Rejected);
    assert_eq!(upstream.asked(), 0);
}

#[tokio::test]
async fn an_id_in_another_case_is_not_this_tool() {
    let gateway = Gateway::new(vec![(tool("orders", Effect::Read), Upstream::new("up", []))]);
    assert_eq!(gateway.call("Orders", json!({"id": "1"})).await.code(), Some(ErrorCode::ToolNotFound));
}

#[tokio::test]
async fn a_tool_out_of_scope_is_answered_like_one_that_does_not_exist_and_the_journal_knows_better() {
    let upstream = Upstream::new("up", []);
    let mut delete = tool("delete_order", Effect::Write);
    delete.scope = Some("order:write".to_owned());
    let gateway = Gateway::new(vec![(delete, upstream.clone())]);
    let mut hidden = plan("delete_order", json!({"id": "1"}));
    hidden.caller = caller("reader", &["order:read"]);
    let mut missing = plan("delete_ordex", json!({"id": "1"}));
    missing.caller = hidden.caller.clone();
    let (hidden, missing) = (gateway.engine.call(hidden).await, gateway.engine.call(missing).await);
    let words = |envelope: &reach_core::Envelope| {
        let error = envelope.error.clone().unwrap();
        (error.code, error.message.replace("delete_ordex", "delete_order"), error.hint, error.details)
    };
    assert_eq!(words(&hidden), words(&missing));
    assert_eq!(upstream.asked(), 0);
    let steps = gateway.steps(&hidden).await;
    assert!(steps.iter().any(|step| matches!(step, EventKind::Refused { reason: ErrorCode::Forbidden, .. })));
    assert!(
        gateway
            .engine
            .tools(&caller("reader", &["order:read"]))
            .iter()
            .all(|spec| spec.tool_id.as_str() != "delete_order")
    );
}

#[tokio::test]
async fn wrong_arguments_are_refused_by_name_before_anything_is_sent() {
    let upstream = Upstream::new("up", []);
    let gateway = Gateway::new(vec![(tool("orders", Effect::Write), upstream.clone())]);
    let envelope = gateway.call("orders", json!({"id": 7, "status": "all"})).await;
    let error = envelope.error.unwrap();
    assert_eq!(error.code, ErrorCode::InvalidArguments);
    assert!(error.message.contains("id") && error.message.contains("status"), "{}", error.message);
    assert!(error.details.unwrap()["problems"].is_array());
    assert_eq!(upstream.asked(), 0);
}

#[tokio::test]
async fn a_caller_and_a_tool_have_rates_and_the_refusal_says_how_long_to_wait() {
    let mut spec = tool("orders", Effect::Read);
    spec.rate = Some(Rate { per_minute: 60, burst: 2 });
    let gateway =
        Gateway::new(vec![(spec, Upstream::new("up", [])), (tool("free", Effect::Read), Upstream::new("up", []))]);
    for _ in 0..2 {
        assert!(gateway.call("orders", json!({"id": "1"})).await.is_ok());
    }
    let error = gateway.call("orders", json!({"id": "1"})).await.error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::RateLimited, true));
    assert!(error.retry_after_ms.unwrap() <= 1_000);
    assert!(error.message.contains("this tool"));

    let mut limited = plan("free", json!({"id": "1"}));
    limited.caller = reach_core::Caller { rate: Some(Rate { per_minute: 60, burst: 1 }), ..caller("slow", &["*"]) };
    assert!(gateway.engine.call(limited.clone()).await.is_ok());
    let error = gateway.engine.call(limited).await.error.unwrap();
    assert!(error.message.contains("this caller"));
}
