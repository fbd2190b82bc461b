//! MCP over HTTP, as raw messages of both protocol eras.

use std::time::Duration;

use reach_engine::Registry;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::house::{House, Said, eventually, registry};

/// The two eras.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Era {
    Handshake,
    PerRequest,
}

const ERAS: [Era; 2] = [Era::Handshake, Era::PerRequest];

fn message(era: Era, method: &str, mut params: Value) -> Value {
    if era == Era::PerRequest {
        if params.get("_meta").is_none() {
            params["_meta"] = json!({});
        }
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn request(house: &House, key: &str, era: Era, body: &Value) -> reqwest::RequestBuilder {
    let request = house
        .http
        .post(house.url("/mcp"))
        .bearer_auth(key)
        .header("accept", "application/json, text/event-stream")
        .json(body);
    match era {
        Era::Handshake => request.header("mcp-protocol-version", "2025-11-25"),
        Era::PerRequest => {
            let request = request.header("mcp-protocol-version", "2026-07-28");
            let request = request.header("mcp-method", body["method"].as_str().unwrap());
            match body["params"]["name"].as_str() {
                Some(name) if name.is_ascii() => request.header("mcp-name", name),
                _ => request,
            }
        }
    }
}

async fn ask(house: &House, key: &str, era: Era, method: &str, params: Value) -> Said {
    Said::of(request(house, key, era, &message(era, method, params))).await
}

async fn call(house: &House, key: &str, era: Era, tool: &str, arguments: Value) -> Value {
    ask(house, key, era, "tools/call", json!({"name": tool, "arguments": arguments})).await.json
}

#[tokio::test]
async fn the_old_handshake_names_us_and_our_revision() {
    let house = House::local().await;
    for version in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        let hello = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
        });
        let body = message(Era::Handshake, "initialize", hello);
        let post = house.http.post(house.url("/mcp")).header("accept", "application/json, text/event-stream");
        let said = Said::of(post.json(&body)).await;
        let result = &said.json["result"];
        assert_eq!(result["protocolVersion"], version, "{}", said.text);
        assert_eq!(result["serverInfo"]["name"], "reach");
        assert_eq!(result["capabilities"], json!({"tools": {}}), "nobody can be told of changes here");
        assert_eq!(said.header("mcp-session-id"), None);
    }
}

#[tokio::test]
async fn the_new_era_discovers_us() {
    let house = House::local().await;
    let said = ask(&house, "", Era::PerRequest, "server/discover", json!({})).await;
    let result = &said.json["result"];
    assert_eq!(result["resultType"], "complete", "{}", said.text);
    assert!(result["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert_eq!(result["capabilities"], json!({"tools": {"listChanged": true}}));
}

#[tokio::test]
async fn the_list_is_what_the_caller_may_use_in_a_fixed_order_and_every_name_is_callable() {
    let house = House::keyed().await;
    for era in ERAS {
        let said = ask(&house, "key-r", era, "tools/list", json!({})).await;
        assert_eq!(said.text, ask(&house, "key-r", era, "tools/list", json!({})).await.text);
        let tools = said.json["result"]["tools"].as_array().unwrap().clone();
        let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names[..2], ["echo", "order_status"], "{era:?}");
        assert!(!names.contains(&"delete_order"));
        assert_eq!(said.json["result"].get("resultType").is_some(), era == Era::PerRequest);
        for name in names.iter().filter(|name| !name.starts_with("wait")) {
            assert!((1..=128).contains(&name.len()), "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b)), "{name}");
            let said = call(&house, "key-r", era, name, json!({"order_id": "OD1"})).await;
            assert!(said["result"]["content"].is_array(), "{era:?} {name}: {said}");
        }
        let echo = &tools[0];
        assert_eq!(echo["inputSchema"]["additionalProperties"], false);
        assert_eq!(echo["annotations"]["readOnlyHint"], true);
        assert_eq!(echo["title"], "echo");
        let listing = house.get("key-r", "/v1/tools?format=mcp").await;
        assert_eq!(listing.json["tools"], json!(tools));
    }
}

#[tokio::test]
async fn a_write_is_not_announced_as_harmless() {
    let house = House::local().await;
    let said = house.get("", "/v1/tools?format=mcp").await;
    let tool = said.json["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "delete_order").unwrap();
    assert_eq!(tool["annotations"], json!({"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false}));
}

#[tokio::test]
async fn a_success_gives_its_data_twice_and_how_it_went() {
    let house = House::local().await;
    for era in ERAS {
        let said = call(&house, "", era, "echo", json!({"text": "hello"})).await;
        let result = &said["result"];
        assert_eq!(result["isError"], false);
        assert_eq!(result["structuredContent"], json!({"text": "hello"}));
        assert_eq!(result["content"][0]["text"], r#"{"text":"hello"}"#);
        assert_eq!(result["_meta"]["reach/meta"]["served_by"], "echo");
    }
}

#[tokio::test]
async fn an_id_of_another_script_is_served_under_a_name_that_finds_it() {
    let house = House::local().await;
    let listing = house.get("", "/v1/tools?format=mcp").await;
    let name = listing.json["tools"].as_array().unwrap().last().unwrap()["name"].as_str().unwrap();
    for era in ERAS {
        let said = call(&house, "", era, name, json!({"text": "杭州"})).await;
        assert_eq!(said["result"]["structuredContent"]["text"], "杭州");
        assert_eq!(said["result"]["_meta"]["reach/meta"]["served_by"], "查询天气");
    }
}

#[tokio::test]
async fn what_the_model_can_mend_is_a_result_that_carries_the_envelope() {
    let house = House::local().await;
    for era in ERAS {
        let said = call(&house, "", era, "order_status", json!({"orderid": 1})).await;
        let result = &said["result"];
        assert_eq!(result["isError"], true, "{said}");
        let envelope = &result["structuredContent"];
        assert_eq!(envelope["error"]["code"], "INVALID_ARGUMENTS");
        assert_eq!(serde_json::from_str::<Value>(result["content"][0]["text"].as_str().unwrap()).unwrap(), *envelope);
        let said = call(&house, "", era, "down", json!({})).await;
        assert_eq!(said["result"]["isError"], true);
    }
    assert!(house.seen.started() > 0);
}

#[tokio::test]
async fn a_hidden_tool_and_one_that_does_not_exist_are_the_same_protocol_error() {
    let house = House::keyed().await;
    for era in ERAS {
        let hidden = call(&house, "key-r", era, "delete_order", json!({"order_id": "OD1"})).await;
        let missing = call(&house, "key-r", era, "xeleto_orzzz", json!({"order_id": "OD1"})).await;
        assert_eq!(hidden["error"]["code"], -32602, "{hidden}");
        let neutral = |said: &Value, name: &str| {
            let mut said: Value = serde_json::from_str(&said.to_string().replace(name, "NAME")).unwrap();
            said["error"]["message"] = said["error"]["message"].as_str().unwrap().split("NAME").next().into();
            said["error"]["data"].as_object_mut().unwrap().remove("hint");
            said
        };
        assert_eq!(neutral(&hidden, "delete_order"), neutral(&missing, "xeleto_orzzz"), "{era:?}");
    }
    assert_eq!(house.seen.started(), 0);
}

#[tokio::test]
async fn meta_carries_key_session_trace_and_step() {
    let house = House::local().await;
    for (era, key) in [(Era::Handshake, "k1"), (Era::PerRequest, "k2")] {
        let params = json!({
            "name": "delete_order",
            "arguments": {"order_id": "OD1"},
            "_meta": {
                "reach/idempotency-key": key,
                "reach/session-id": "s1",
                "reach/step": 3,
                "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            },
        });
        let first = ask(&house, "", era, "tools/call", params.clone()).await.json;
        let meta = &first["result"]["_meta"]["reach/meta"];
        assert_eq!((&meta["request_id"], &meta["session_id"], &meta["step"]), (&json!(key), &json!("s1"), &json!(3)));
        assert_eq!(meta["trace_id"], "0af7651916cd43dd8448eb211c80319c");
        let second = ask(&house, "", era, "tools/call", params).await.json;
        assert_eq!(second["result"]["_meta"]["reach/meta"]["replayed"], true);
    }
    assert_eq!(house.seen.started(), 2);
    let bad = json!({"name": "echo", "_meta": {"reach/idempotency-key": "a b"}});
    assert_eq!(ask(&house, "", Era::Handshake, "tools/call", bad).await.json["error"]["code"], -32602);
    assert_eq!(house.seen.started(), 2);
}

#[tokio::test]
async fn an_integer_keeps_every_digit_or_is_refused() {
    let house = House::local().await;
    let post = |n: &str| {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"n":{n}}}}}}}"#
        );
        let post = house.http.post(house.url("/mcp")).header("content-type", "application/json");
        post.header("accept", "application/json, text/event-stream").body(body)
    };
    assert!(Said::of(post("18446744073709551615")).await.text.contains(r#""n":18446744073709551615"#));
    let said = Said::of(post("18446744073709551616")).await;
    assert_eq!(said.json["result"]["structuredContent"]["error"]["code"], "INVALID_ARGUMENTS", "{}", said.text);
    assert!(said.text.contains("18446744073709551616"));
    assert_eq!(house.seen.started(), 1);
}

#[tokio::test]
async fn headers_that_contradict_the_body_and_unknown_revisions_are_refused() {
    let house = House::local().await;
    let body = message(Era::PerRequest, "tools/call", json!({"name": "echo", "arguments": {}}));
    let mut wrong = request(&house, "", Era::PerRequest, &body).build().unwrap();
    wrong.headers_mut().insert("mcp-name", "down".parse().unwrap());
    let response = house.http.execute(wrong).await.unwrap();
    assert_eq!(response.status().as_u16(), 400);
    assert_eq!(response.json::<Value>().await.unwrap()["error"]["code"], -32020);
    let mut body = message(Era::PerRequest, "tools/list", json!({}));
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01".into();
    let mut unknown = request(&house, "", Era::PerRequest, &body).build().unwrap();
    unknown.headers_mut().insert("mcp-protocol-version", "2099-01-01".parse().unwrap());
    let response = house.http.execute(unknown).await.unwrap();
    assert_eq!(response.status().as_u16(), 400);
    assert_eq!(response.json::<Value>().await.unwrap()["error"]["code"], -32022);
    assert_eq!(house.seen.started(), 0);
}

#[tokio::test]
async fn a_session_we_do_not_know_is_404_so_that_clients_start_anew() {
    let house = House::local().await;
    let body = message(Era::Handshake, "tools/list", json!({}));
    let said = Said::of(request(&house, "", Era::Handshake, &body).header("mcp-session-id", "gone")).await;
    assert_eq!(said.status, 404);
    for method in ["GET", "DELETE"] {
        let request = house.http.request(method.parse().unwrap(), house.url("/mcp"));
        assert_eq!(Said::of(request.try_clone().unwrap().header("mcp-session-id", "gone")).await.status, 404);
        let said = Said::of(request).await;
        assert_eq!((said.status, said.header("allow")), (405, Some("POST")), "{method}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_aborts_a_read() {
    let house = House::local().await;
    for (era, count) in [(Era::Handshake, 1), (Era::PerRequest, 2)] {
        let body = message(era, "tools/call", json!({"name": "wait", "arguments": {}}));
        let request = request(&house, "", era, &body);
        let call = tokio::spawn(async move { request.send().await.map(|response| response.status()) });
        eventually("the call began", async || house.seen.started() == count).await;
        call.abort();
        eventually("the read was aborted", async || house.seen.aborted() == count).await;
    }
    assert_eq!(house.seen.finished(), 0);
}

#[tokio::test]
async fn a_subscription_is_told_when_the_tools_change_and_ends_with_the_gateway() {
    let house = House::local().await;
    let params = json!({"notifications": {"toolsListChanged": true}});
    let body = message(Era::PerRequest, "subscriptions/listen", params);
    let mut response = request(&house, "", Era::PerRequest, &body).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut heard = String::new();
    let mut changed = false;
    while !heard.contains("notifications/tools/list_changed") {
        let chunk = timeout(Duration::from_secs(5), response.chunk()).await.expect("nothing heard").unwrap();
        heard.push_str(&String::from_utf8_lossy(&chunk.expect("the stream ended")));
        if !changed && heard.contains("acknowledged") {
            house.engine.replace(registry(&house.seen));
            changed = true;
        }
    }
    house.stop();
    assert_eq!(house.stopped().await.connections_cut, 0);
}

#[tokio::test]
async fn a_tool_that_was_removed_is_gone_at_once() {
    let house = House::local().await;
    house.engine.replace(Registry::default());
    for era in ERAS {
        assert_eq!(ask(&house, "", era, "tools/list", json!({})).await.json["result"]["tools"], json!([]));
        assert_eq!(call(&house, "", era, "echo", json!({})).await["error"]["code"], -32602);
    }
}

#[tokio::test]
async fn a_body_that_is_no_message_is_answered_as_json_rpc_says() {
    let house = House::local().await;
    for (body, code, id) in [
        ("", -32700, json!(null)),
        ("{", -32700, json!(null)),
        ("Server ready", -32700, json!(null)),
        ("[]", -32600, json!(null)),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, json!(null)),
        ("1", -32600, json!(null)),
        ("{}", -32600, json!(null)),
        (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, -32600, json!(7)),
        (r#"{"jsonrpc":"2.0","id":"a","method":3}"#, -32600, json!("a")),
    ] {
        let post = house.http.post(house.url("/mcp")).header("accept", "application/json, text/event-stream");
        let said = Said::of(post.header("content-type", "application/json").body(body)).await;
        assert_eq!((said.status, said.header("content-type")), (400, Some("application/json")), "{body}: {said:?}");
        assert_eq!(said.json["jsonrpc"], "2.0", "{body}: {said:?}");
        assert_eq!((&said.json["error"]["code"], &said.json["id"]), (&json!(code), &id), "{body}: {said:?}");
    }
}
