//! Tools over HTTP: listed, called, refused.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::house::{House, Said, eventually, without_ids};

fn ids(said: &Said) -> Vec<&str> {
    said.json["tools"].as_array().unwrap().iter().map(|tool| tool["tool_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_caller_is_shown_the_tools_it_may_use_and_can_call_every_one() {
    let house = House::keyed().await;
    let said = house.get("key-r", "/v1/tools").await;
    let listed = ids(&said);
    assert!(listed.contains(&"order_status") && listed.contains(&"查询天气"));
    assert!(!listed.contains(&"delete_order"));
    assert!(ids(&house.get("key-w", "/v1/tools").await).contains(&"delete_order"));
    let tool = said.json["tools"].as_array().unwrap().iter().find(|tool| tool["tool_id"] == "order_status").unwrap();
    assert_eq!(tool["effect"], "read");
    assert_eq!(tool["scope"], "order:read");
    assert_eq!(tool["input_schema"]["additionalProperties"], false);
    assert_eq!(*tool, house.get("key-r", "/v1/tools/order_status").await.json);
    for id in listed.iter().filter(|id| !id.contains("wait")) {
        let said = house.call("key-r", id, json!({"order_id": "OD1"})).await;
        assert_ne!(said.code(), "TOOL_NOT_FOUND", "{id}");
        assert_eq!(said.json["tool"], **id);
    }
}

#[tokio::test]
async fn formats_are_mcp_or_our_own() {
    let house = House::local().await;
    let mcp = house.get("", "/v1/tools?format=mcp").await;
    assert!(mcp.json["tools"][0]["inputSchema"].is_object());
    let said = house.get("", "/v1/tools?format=openai").await;
    assert_eq!(said.status, 400);
    assert!(said.json["detail"].as_str().unwrap().contains("not supported yet"));
    assert_eq!(house.get("", "/v1/tools?fromat=mcp").await.status, 400);
}

#[tokio::test]
async fn a_call_answers_with_its_envelope() {
    let house = House::local().await;
    let body = json!({"arguments": {"text": "hello"}, "session_id": "s1", "trace_id": "t1", "step": 4});
    let said = house.post("", "/v1/tools/echo/calls", body).await;
    assert_eq!(said.status, 200);
    assert_eq!(said.json["status"], "ok");
    assert_eq!(said.json["data"], json!({"text": "hello"}));
    let meta = &said.json["meta"];
    assert_eq!((&meta["session_id"], &meta["trace_id"], &meta["step"]), (&json!("s1"), &json!("t1"), &json!(4)));
    assert_eq!(said.header("x-request-id"), meta["request_id"].as_str());
}

#[tokio::test]
async fn a_tool_id_of_another_script_travels_in_the_path() {
    let house = House::local().await;
    let said = house.call("", "查询天气", json!({"text": "杭州"})).await;
    assert_eq!((said.status, &said.json["data"]["text"]), (200, &json!("杭州")));
}

#[tokio::test]
async fn the_same_key_is_answered_from_the_record_and_other_arguments_are_refused() {
    let house = House::local().await;
    let first = house.call_keyed("", "delete_order", json!({"order_id": "OD1"}), "k1").await;
    assert_eq!(first.header("x-request-id"), Some("k1"));
    let second = house.call_keyed("", "delete_order", json!({"order_id": "OD1"}), "k1").await;
    assert_eq!((second.status, &second.json["meta"]["replayed"]), (200, &json!(true)));
    assert_eq!(second.json["data"], first.json["data"]);
    let other = house.call_keyed("", "delete_order", json!({"order_id": "OD2"}), "k1").await;
    assert_eq!((other.status, other.code()), (422, "IDEMPOTENCY_MISMATCH"));
    assert_eq!(house.seen.started(), 1);
}

#[tokio::test]
async fn refused_arguments_are_explained() {
    let house = House::local().await;
    let said = house.call("", "order_status", json!({"orderid": "OD1"})).await;
    assert_eq!((said.status, said.code()), (400, "INVALID_ARGUMENTS"));
    assert!(said.json["error"]["message"].as_str().unwrap().contains("order_id"), "{}", said.text);
    assert_eq!(house.seen.started(), 0);
}

#[tokio::test]
async fn an_integer_keeps_every_digit_or_is_refused() {
    let house = House::local().await;
    let call = |n: &str| {
        let body = format!(r#"{{"arguments":{{"n":{n}}}}}"#);
        house.http.post(house.url("/v1/tools/echo/calls")).header("content-type", "application/json").body(body)
    };
    let said = Said::of(call("18446744073709551615")).await;
    assert!(said.text.contains(r#""n":18446744073709551615"#), "{}", said.text);
    let said = Said::of(call("18446744073709551616")).await;
    assert_eq!((said.status, said.code()), (400, "INVALID_ARGUMENTS"));
    assert!(said.text.contains("18446744073709551616"), "{}", said.text);
    assert_eq!(house.seen.started(), 1);
}

#[tokio::test]
async fn a_hidden_tool_answers_like_one_that_does_not_exist() {
    let house = House::keyed().await;
    let hidden = house.call("key-r", "delete_order", json!({"order_id": "OD1"})).await;
    let missing = house.call("key-r", "xeleto_orzzz", json!({"order_id": "OD1"})).await;
    assert_eq!((hidden.status, hidden.code()), (404, "TOOL_NOT_FOUND"));
    assert_eq!(missing.status, 404);
    let neutral =
        |said: &Said, name: &str| without_ids(serde_json::from_str(&said.text.replace(name, "NAME")).unwrap());
    // What is near is looked for among the tools of the caller, and is the only thing that may differ.
    let hint_free = |mut envelope: Value| {
        envelope["error"]["message"] = envelope["error"]["message"].as_str().unwrap().split("NAME").next().into();
        envelope["error"].as_object_mut().unwrap().remove("details");
        envelope["error"].as_object_mut().unwrap().remove("hint");
        envelope
    };
    assert_eq!(hint_free(neutral(&hidden, "delete_order")), hint_free(neutral(&missing, "xeleto_orzzz")));
    assert_eq!(
        house.get("key-r", "/v1/tools/delete_order").await.text,
        house.get("key-r", "/v1/tools/nosuch").await.text
    );
    assert_eq!(house.seen.started(), 0);
    let journal =
        house.get("key-o", &format!("/v1/traces/{}", hidden.json["meta"]["trace_id"].as_str().unwrap())).await;
    assert!(journal.text.contains("FORBIDDEN"), "the journal knows: {}", journal.text);
}

#[tokio::test]
async fn a_known_dead_upstream_says_when_to_come_back() {
    let house = House::local().await;
    let mut said = house.call("", "down", json!({})).await;
    for _ in 0..3 {
        said = house.call("", "down", json!({})).await;
    }
    assert_eq!((said.status, said.code()), (503, "UNREACHABLE"));
    let wait = said.json["error"]["retry_after_ms"].as_u64().unwrap();
    assert_eq!(said.header("retry-after").unwrap().parse::<u64>().unwrap(), wait.div_ceil(1000));
}

#[tokio::test]
async fn a_defect_is_an_envelope_too() {
    let house = House::local().await;
    let said = house.call("", "panic", json!({})).await;
    assert_eq!((said.status, said.code()), (500, "INTERNAL"));
    assert!(!said.text.contains("a defect of an adapter"), "{}", said.text);
    assert_eq!(house.call("", "echo", json!({})).await.status, 200);
}

#[tokio::test]
async fn a_call_that_cannot_be_read_is_refused_and_recorded() {
    let house = House::local().await;
    let call = |key: &str, body: &'static str| {
        let call = house.http.post(house.url("/v1/tools/echo/calls")).header("content-type", "application/json");
        call.header("idempotency-key", key).header("traceparent", TRACEPARENT).body(body)
    };
    for (key, body) in [("k", "{"), ("k", ""), ("k", "[]"), ("k", r#"{"args":{}}"#), ("k k", "{}")] {
        let said = Said::of(call(key, body)).await;
        assert_eq!((said.status, said.code()), (400, "INVALID_ARGUMENTS"), "{body}");
        assert_eq!(said.json["meta"]["phase"], "rejected");
    }
    let trace = house.get("", "/v1/traces/0af7651916cd43dd8448eb211c80319c").await;
    assert!(trace.json["rows"].as_array().is_some_and(|rows| rows.len() >= 4), "{}", trace.text);
    assert!(trace.text.contains("refused"));
    assert_eq!(house.seen.started(), 0);
}

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn the_trace_of_traceparent_is_taken() {
    let house = House::local().await;
    let call = house.http.post(house.url("/v1/tools/echo/calls")).header("traceparent", TRACEPARENT).json(&json!({}));
    assert_eq!(Said::of(call).await.json["meta"]["trace_id"], "0af7651916cd43dd8448eb211c80319c");
}

#[tokio::test]
async fn what_does_not_exist_is_a_problem_with_a_code() {
    let house = House::local().await;
    let said = house.get("", "/v1/nothing").await;
    assert_eq!((said.status, said.code()), (404, "NOT_FOUND"));
    assert_eq!(said.header("content-type"), Some("application/problem+json"));
    let said = house.get("", "/v1/tools/echo/calls").await;
    assert_eq!((said.status, said.header("allow")), (405, Some("POST")));
    assert_eq!(said.header("content-type"), Some("application/problem+json"));
}

#[tokio::test]
async fn a_request_id_of_the_client_is_echoed_where_the_request_is_no_call() {
    let house = House::local().await;
    let said = Said::of(house.http.get(house.url("/v1/tools")).header("x-request-id", "mine")).await;
    assert_eq!(said.header("x-request-id"), Some("mine"));
    assert!(house.get("", "/v1/tools").await.header("x-request-id").unwrap().starts_with("r_"));
}

/// Sends a call and goes away while it is running.
async fn leave(house: &House, tool: &str, key: &str) {
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let host = house.address;
    let head = format!(
        "POST /v1/tools/{tool}/calls HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Idempotency-Key: {key}\r\nContent-Length: 2\r\n\r\n{{}}"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let before = house.seen.started();
    eventually("the attempt began", async || house.seen.started() > before || house.seen.started() > 0).await;
    drop(stream);
}

#[tokio::test]
async fn a_client_that_leaves_aborts_a_read() {
    let house = House::local().await;
    leave(&house, "wait", "k1").await;
    eventually("the read was aborted", async || house.seen.aborted() == 1).await;
    assert_eq!(house.seen.finished(), 0);
}

#[tokio::test]
async fn a_client_that_leaves_does_not_stop_a_write_that_was_sent() {
    let house = House::local().await;
    leave(&house, "wait_write", "k2").await;
    tokio::time::timeout(Duration::from_millis(200), async {
        loop {
            assert_eq!(house.seen.aborted(), 0);
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap_err();
    house.seen.release.notify_one();
    eventually("the write was finished", async || house.seen.finished() == 1).await;
    let mut said = house.call_keyed("", "wait_write", json!({}), "k2").await;
    eventually("the same key is answered", async || {
        said = house.call_keyed("", "wait_write", json!({}), "k2").await;
        said.status == 200
    })
    .await;
    assert_eq!(said.json["meta"]["replayed"], true);
    assert_eq!(house.seen.started(), 1);
}
