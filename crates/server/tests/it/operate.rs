//! What operators do by hand.

use serde_json::{Value, json};

use crate::house::House;

#[tokio::test]
async fn a_breaker_forced_open_refuses_calls_with_its_reason_until_it_is_given_back() {
    let house = House::keyed().await;
    assert_eq!(house.call("key-r", "echo", json!({})).await.status, 200);
    let force = |state: &str| json!({"target": "test:echo", "state": state, "reason": "maintenance until noon"});
    let said = house.post("key-o", "/v1/health/breakers", force("forced_open")).await;
    assert_eq!(said.json, json!({"target": "test:echo", "from": "closed", "to": "forced_open"}), "{}", said.text);
    let refused = house.call("key-r", "echo", json!({})).await;
    assert_eq!((refused.status, refused.code()), (503, "UNREACHABLE"));
    assert!(refused.text.contains("maintenance until noon"), "{}", refused.text);
    assert_eq!(house.post("key-o", "/v1/health/breakers", force("closed")).await.status, 200);
    assert_eq!(house.call("key-r", "echo", json!({})).await.status, 200);
}

#[tokio::test]
async fn a_breaker_that_does_not_exist_or_a_wish_that_cannot_be_read_changes_nothing() {
    let house = House::local().await;
    let ask = async |body: Value| house.post("", "/v1/health/breakers", body).await;
    let said = ask(json!({"target": "nobody", "state": "closed", "reason": "x"})).await;
    assert_eq!((said.status, said.code()), (404, "NOT_FOUND"));
    for body in [
        json!({"target": "test:echo", "state": "half_open", "reason": "x"}),
        json!({"target": "test:echo", "state": "closed", "reason": " "}),
        json!({"target": "test:echo", "state": "closed"}),
        json!({"target": "test:echo", "state": "closed", "reason": "x", "force": true}),
    ] {
        assert_eq!(ask(body.clone()).await.status, 400, "{body}");
    }
}

#[tokio::test]
async fn health_shows_a_caller_its_tools_and_an_operator_everything() {
    let house = House::keyed().await;
    house.call("key-w", "delete_order", json!({"order_id": "OD1"})).await;
    house.call("key-r", "echo", json!({})).await;
    let names = |json: &Value| -> Vec<String> {
        let tools = json["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["tool_id"].as_str().unwrap().to_owned()).collect()
    };
    let reader = house.get("key-r", "/v1/health").await.json;
    assert_eq!(names(&reader), ["echo"]);
    assert_eq!((&reader["breakers"], &reader["degraded"]), (&json!(null), &json!(null)));
    let operator = house.get("key-o", "/v1/health").await.json;
    assert!(names(&operator).contains(&"delete_order".to_owned()));
    assert!(operator["breakers"].as_array().unwrap().iter().any(|view| view["target"] == "test:echo"));
    assert_eq!(operator["degraded"], json!([]));
}

#[tokio::test]
async fn an_unknown_outcome_settled_as_done_answers_its_key_from_then_on() {
    let house = House::keyed().await;
    let said = house.call_keyed("key-r", "vanish", json!({}), "k1").await;
    assert_eq!((said.status, said.code()), (502, "OUTCOME_UNKNOWN"));
    let list = house.get("key-o", "/v1/unsettled").await.json;
    assert_eq!(list["unsettled"][0]["request_id"], "k1");
    assert_eq!(list["unsettled"][0]["caller"], "reader");
    let settle = json!({"caller": "reader", "tool_id": "vanish", "request_id": "k1", "done": true, "data": {"id": 7}});
    let said = house.post("key-o", "/v1/unsettled/settle", settle.clone()).await;
    assert_eq!((said.status, &said.json["done"]), (200, &json!(true)), "{}", said.text);
    let again = house.call_keyed("key-r", "vanish", json!({}), "k1").await;
    assert_eq!((again.status, &again.json["data"]), (200, &json!({"id": 7})));
    assert_eq!(again.json["meta"]["replayed"], true);
    assert_eq!(house.seen.started(), 1);
    assert_eq!(house.post("key-o", "/v1/unsettled/settle", settle).await.status, 404);
    let trace = list["unsettled"][0]["trace_id"].as_str().unwrap();
    assert!(house.get("key-o", &format!("/v1/traces/{trace}")).await.text.contains("settled"));
}

#[tokio::test]
async fn an_unknown_outcome_settled_as_not_done_may_be_sent_again() {
    let house = House::local().await;
    house.call_keyed("", "vanish", json!({}), "k1").await;
    assert_eq!(house.call_keyed("", "vanish", json!({}), "k1").await.code(), "OUTCOME_UNKNOWN");
    assert_eq!(house.seen.started(), 1, "nothing repeats it by itself");
    let settle = json!({"caller": "local", "tool_id": "vanish", "request_id": "k1", "done": false});
    assert_eq!(house.post("", "/v1/unsettled/settle", settle).await.status, 200);
    house.call_keyed("", "vanish", json!({}), "k1").await;
    assert_eq!(house.seen.started(), 2);
}

#[tokio::test]
async fn metrics_count_calls_of_every_surface() {
    let house = House::keyed().await;
    house.call("key-r", "echo", json!({})).await;
    house.call("key-r", "nosuch\"tool", json!({})).await;
    let said = house.get("key-o", "/metrics").await;
    assert!(said.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    assert!(said.text.contains("reach_calls_total{tool=\"echo\",code=\"OK\"} 1\n"), "{}", said.text);
    assert!(said.text.contains("reach_calls_total{tool=\"unknown\",code=\"TOOL_NOT_FOUND\"} 1\n"), "{}", said.text);
    assert!(!said.text.contains("nosuch"));
    assert!(said.text.contains("reach_breaker_state{target=\"test:echo\",state=\"closed\"} 1\n"), "{}", said.text);
    assert!(said.text.contains("reach_degraded 0\n"), "{}", said.text);
}
