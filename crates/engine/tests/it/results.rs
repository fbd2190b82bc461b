//! Step 11: what a model reads, what is kept, and what never gets out.

use std::time::Duration;

use reach_core::{Effect, ErrorCode};
use serde_json::json;

use crate::fixture::{Act, Gateway, Upstream, plan, tool};

#[tokio::test]
async fn a_large_result_is_clipped_kept_whole_and_read_back() {
    let rows: Vec<_> = (0..1_000).map(|index| json!({"id": index, "name": "名字".repeat(20)})).collect();
    let upstream = Upstream::new("up", [Act::Answer(json!({"count": 1_000, "rows": rows}))]);
    let gateway = Gateway::new(vec![(tool("orders", Effect::Read), upstream)]);
    let envelope = gateway.call("orders", json!({"id": "1"})).await;
    let cut = envelope.meta.truncated.clone().unwrap();
    assert!(cut.total > 40_000 && cut.shown <= 2_000);
    assert!(serde_json::to_string(&envelope.data).unwrap().chars().count() <= 2_000);
    assert_eq!(envelope.data.unwrap()["count"], 1_000);

    let blob = cut.blob.unwrap();
    let mut offset = 0;
    let mut reads = 0;
    loop {
        let piece = gateway.call("read_result", json!({"blob": blob, "offset": offset})).await;
        assert!(piece.is_ok(), "{piece:?}");
        assert!(piece.meta.truncated.is_none(), "a piece is never spilled again");
        let next = piece.data.unwrap()["next_offset"].as_u64();
        reads += 1;
        match next {
            Some(next) => {
                assert!(next > offset);
                offset = next;
            }
            None => break,
        }
    }
    assert!(reads > 10);
}

#[tokio::test]
async fn another_caller_cannot_read_a_blob() {
    let upstream = Upstream::new("up", [Act::Text("x".repeat(10_000))]);
    let gateway = Gateway::new(vec![(tool("orders", Effect::Read), upstream)]);
    let envelope = gateway.call("orders", json!({"id": "1"})).await;
    let blob = envelope.meta.truncated.unwrap().blob.unwrap();
    let mut other = plan("read_result", json!({ "blob": blob }));
    other.caller = crate::fixture::caller("other", &["*"]);
    assert_eq!(gateway.engine.call(other).await.code(), Some(ErrorCode::NotFound));
}

#[tokio::test]
async fn plain_text_numbers_and_lists_become_a_value() {
    let upstream = Upstream::new("up", [Act::Text("hello".into()), Act::Answer(json!([1, 2])), Act::Answer(json!(7))]);
    let gateway = Gateway::new(vec![(tool("orders", Effect::Read), upstream)]);
    for wanted in [json!("hello"), json!([1, 2]), json!(7)] {
        let envelope = gateway.call("orders", json!({"id": "1"})).await;
        assert_eq!(envelope.data.unwrap()["value"], wanted);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_its_output_schema_is_not_a_result() {
    let upstream = Upstream::new("up", vec![Act::Answer(json!({"total": "12"})); 3]);
    let mut spec = tool("orders", Effect::Read);
    spec.output_schema = Some(json!({"type": "object", "properties": {"total": {"type": "integer"}}}));
    let gateway = Gateway::new(vec![(spec.clone(), upstream)]);
    let error = gateway.call("orders", json!({"id": "1"})).await.error.unwrap();
    assert_eq!(error.code, ErrorCode::ResultInvalid);
    assert!(error.message.contains("total"), "{}", error.message);

    spec.effect = Effect::Write;
    let gateway = Gateway::new(vec![(spec, Upstream::new("up", [Act::Answer(json!({"total": "12"}))]))]);
    assert_eq!(gateway.call("orders", json!({"id": "1"})).await.code(), Some(ErrorCode::OutcomeUnknown));
}

#[tokio::test]
async fn our_secrets_are_taken_out_of_results_errors_and_the_journal() {
    let upstream = Upstream::new("up", [Act::Answer(json!({"echo": "key: canary-secret-1"}))]);
    let gateway = Gateway::new(vec![(tool("orders", Effect::Read), upstream)]);
    let envelope = gateway.call("orders", json!({"id": "canary-secret-1"})).await;
    assert!(!serde_json::to_string(&envelope).unwrap().contains("canary-secret-1"));
    let steps = gateway.steps(&envelope).await;
    assert!(!serde_json::to_string(&steps).unwrap().contains("canary-secret-1"));
}

#[tokio::test]
async fn usage_given_by_the_caller_is_exact_and_anything_else_is_an_estimate() {
    let gateway = Gateway::new(vec![(tool("orders", Effect::Read), Upstream::new("up", []))]);
    let mut counted = plan("orders", json!({"id": "1"}));
    counted.usage = Some(reach_core::plan::Usage { input: 1_200, output: 34 });
    let tokens = gateway.engine.call(counted).await.meta.tokens;
    assert_eq!((tokens.input, tokens.output), (1_200, 34));
    assert_eq!(tokens.counted, reach_core::tokens::Counted::Usage);
    let tokens = gateway.call("orders", json!({"id": "1"})).await.meta.tokens;
    assert!(tokens.tool_result > 0);
    assert_eq!(tokens.counted, reach_core::tokens::Counted::Estimate);
}

#[tokio::test]
async fn three_calls_at_once_keep_their_order_and_one_failing_does_not_stop_the_others() {
    let failing = Upstream::new("a", [Act::Fail(reach_core::FailureKind::Rejected, None)]);
    let slow = Upstream::new("b", vec![Act::After(Duration::from_millis(50), json!({"ok": true})); 2]);
    let gateway = Gateway::new(vec![(tool("a", Effect::Read), failing), (tool("b", Effect::Read), slow)]);
    let call = |name: &'static str| gateway.call(name, json!({"id": "1"}));
    let (first, second, third) = tokio::join!(call("a"), call("b"), call("b"));
    assert!(!first.is_ok() && second.is_ok() && third.is_ok());
    assert_eq!(first.tool.as_str(), "a");
}
