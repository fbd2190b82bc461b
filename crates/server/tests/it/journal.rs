//! What happened, as far as it is the caller's.

use serde_json::{Value, json};

use crate::house::House;

async fn call(house: &House, key: &str, session: &str, trace: &str) {
    let body = json!({"arguments": {"text": session}, "session_id": session, "trace_id": trace});
    assert_eq!(house.post(key, "/v1/tools/echo/calls", body).await.status, 200);
}

fn sessions(json: &Value) -> Vec<(&str, u64)> {
    let list = json["sessions"].as_array().unwrap();
    list.iter().map(|line| (line["session_id"].as_str().unwrap(), line["rows"].as_u64().unwrap())).collect()
}

#[tokio::test]
async fn a_caller_sees_its_own_traces_and_sessions_and_an_operator_all() {
    let house = House::keyed().await;
    call(&house, "key-r", "s-r", "t-r").await;
    call(&house, "key-w", "s-w", "t-w").await;
    call(&house, "key-r", "s-both", "t-both").await;
    call(&house, "key-w", "s-both", "t-both").await;
    for path in ["/v1/traces/t-r", "/v1/sessions/s-r/timeline"] {
        assert_eq!(house.get("key-r", path).await.status, 200, "{path}");
        assert_eq!(house.get("key-o", path).await.status, 200, "{path}");
        let other = house.get("key-w", path).await;
        assert_eq!((other.status, other.code()), (404, "NOT_FOUND"), "{path}");
        assert_eq!(other.text, house.get("key-w", &path.replace("-r", "-none")).await.text, "{path}");
    }
    let rows = |said: &Value| said["rows"].as_array().unwrap().len();
    assert_eq!(rows(&house.get("key-r", "/v1/traces/t-both").await.json), 1);
    assert_eq!(rows(&house.get("key-o", "/v1/traces/t-both").await.json), 2);
    let of_reader = house.get("key-r", "/v1/sessions").await;
    assert_eq!(sessions(&of_reader.json), [("s-both", 1), ("s-r", 1)]);
    let of_operator = house.get("key-o", "/v1/sessions?limit=2").await;
    assert_eq!(sessions(&of_operator.json), [("s-both", 2), ("s-w", 1)]);
    assert_eq!(house.get("key-r", "/v1/sessions?limit=0").await.status, 400);
    assert_eq!(house.get("key-r", "/v1/sessions?limit=x").await.status, 400);
}

#[tokio::test]
async fn a_timeline_tells_the_calls_of_a_session() {
    let house = House::local().await;
    call(&house, "", "s1", "t1").await;
    call(&house, "", "s1", "t2").await;
    let said = house.get("", "/v1/sessions/s1/timeline").await;
    assert_eq!(said.json["session_id"], "s1");
    assert_eq!(said.json["timeline"]["calls"].as_array().map(Vec::len), Some(2), "{}", said.text);
}
