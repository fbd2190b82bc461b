//! Who gets in: keys, hosts, pages.

use std::sync::atomic::Ordering;

use reach_server::{BindError, Callers, Server, Settings};
use serde_json::json;

use crate::house::{House, Said, Seen, callers, engine, without_ids};

const PATHS: &[(&str, &str)] = &[
    ("GET", "/v1/tools"),
    ("GET", "/v1/tools/echo"),
    ("POST", "/v1/tools/echo/calls"),
    ("GET", "/v1/traces/t"),
    ("GET", "/v1/sessions"),
    ("GET", "/v1/health"),
    ("POST", "/v1/health/breakers"),
    ("GET", "/v1/unsettled"),
    ("POST", "/mcp"),
    ("GET", "/metrics"),
    ("GET", "/no/such/path"),
];

fn request(house: &House, method: &str, path: &str) -> reqwest::RequestBuilder {
    let request = house.http.request(method.parse().unwrap(), house.url(path));
    if method == "POST" { request.json(&json!({})) } else { request }
}

#[tokio::test]
async fn on_loopback_without_callers_everybody_is_the_local_caller() {
    let house = House::local().await;
    let said = Said::of(request(&house, "POST", "/v1/tools/delete_order/calls").json(&json!({
        "arguments": {"order_id": "OD1"}
    })))
    .await;
    assert_eq!(said.status, 200, "{}", said.text);
    assert_eq!(said.json["data"]["order_id"], "OD1");
}

#[tokio::test]
async fn a_wrong_key_gets_the_same_401_on_every_path_whatever_the_key() {
    let house = House::keyed().await;
    for &(method, path) in PATHS {
        let mut first = None;
        for key in ["key-x", "key-r ", "key-rr", "k", "KEY-R"] {
            let key = format!("{key}x");
            let said = Said::of(request(&house, method, path).bearer_auth(key)).await;
            assert_eq!((said.status, said.code()), (401, "UNAUTHENTICATED"), "{method} {path}");
            assert_eq!(said.header("www-authenticate"), Some("Bearer realm=\"reach\", error=\"invalid_token\""));
            let body = without_ids(said.json);
            assert_eq!(*first.get_or_insert(body.clone()), body, "{method} {path}");
        }
        let said = Said::of(request(&house, method, path)).await;
        assert_eq!((said.status, said.code()), (401, "UNAUTHENTICATED"), "{method} {path}");
        assert_eq!(said.header("www-authenticate"), Some("Bearer realm=\"reach\""));
    }
    assert_eq!(house.seen.started(), 0);
}

#[tokio::test]
async fn a_call_without_a_key_is_refused_in_the_shape_of_an_envelope() {
    let house = House::keyed().await;
    let said = Said::of(request(&house, "POST", "/v1/tools/echo/calls")).await;
    assert_eq!(said.json["status"], "error");
    assert_eq!(said.json["tool"], "echo");
    assert_eq!(said.json["data"], json!(null));
    assert_eq!(said.json["meta"]["phase"], "rejected");
    assert_eq!(said.header("x-request-id"), said.json["meta"]["request_id"].as_str());
    let said = Said::of(request(&house, "GET", "/v1/tools")).await;
    assert_eq!(said.header("content-type"), Some("application/problem+json"));
    assert_eq!(said.json["status"], 401);
}

#[tokio::test]
async fn a_name_that_was_rebound_to_this_machine_is_refused_on_every_path() {
    let house = House::local().await;
    for &(method, path) in PATHS.iter().chain(&[("GET", "/healthz"), ("GET", "/openapi.json"), ("OPTIONS", "/mcp")]) {
        for host in ["evil.example", &format!("evil.example:{}", house.address.port()), "localhost", "127.0.0.1"] {
            let said = Said::of(request(&house, method, path).header("host", host)).await;
            assert_eq!((said.status, said.code()), (403, "FORBIDDEN"), "{method} {path} {host}");
        }
        let own = format!("localhost:{}", house.address.port());
        let said = Said::of(request(&house, method, path).header("host", own)).await;
        assert_ne!(said.status, 403, "{method} {path}");
    }
}

#[tokio::test]
async fn a_web_page_is_refused_before_anything_happens() {
    let house = House::local().await;
    for &(method, path) in PATHS {
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let said = Said::of(request(&house, method, path).header(name, value)).await;
            assert_eq!((said.status, said.code()), (403, "FORBIDDEN"), "{method} {path} {name}: {value}");
            assert_eq!(said.header("access-control-allow-origin"), None);
        }
    }
    assert_eq!(house.seen.started(), 0);
}

#[tokio::test]
async fn a_form_cannot_call_a_tool() {
    let house = House::local().await;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        for path in ["/v1/tools/echo/calls", "/mcp", "/v1/unsettled/settle"] {
            let request = house.http.post(house.url(path)).header("content-type", kind).body("{}");
            assert_eq!(Said::of(request).await.status, 415, "{path} {kind}");
        }
    }
    let bare = house.http.post(house.url("/v1/tools/echo/calls")).body("{}");
    let said = Said::of(bare).await;
    assert_eq!((said.status, said.code()), (415, "INVALID_ARGUMENTS"));
    assert_eq!(house.seen.started(), 0);
}

#[tokio::test]
async fn an_allowed_page_may_call_and_read_and_no_other() {
    let settings = Settings { allowed_origins: vec!["https://app.example.com".into()], ..Settings::default() };
    let house = House::with(settings, callers()).await;
    let preflight = house
        .http
        .request(reqwest::Method::OPTIONS, house.url("/v1/tools/echo/calls"))
        .header("origin", "https://app.example.com")
        .header("access-control-request-method", "POST");
    let said = Said::of(preflight).await;
    assert_eq!(said.status, 204);
    assert_eq!(said.header("access-control-allow-origin"), Some("https://app.example.com"));
    assert!(said.header("access-control-allow-headers").unwrap().contains("idempotency-key"));
    let call = |origin: &str| {
        let call = request(&house, "POST", "/v1/tools/echo/calls").bearer_auth("key-r");
        call.header("origin", origin).header("sec-fetch-site", "cross-site")
    };
    let said = Said::of(call("https://app.example.com")).await;
    assert_eq!((said.status, said.header("access-control-allow-origin")), (200, Some("https://app.example.com")));
    let said = Said::of(call("https://evil.example")).await;
    assert_eq!((said.status, said.header("access-control-allow-origin")), (403, None));
}

#[tokio::test]
async fn a_public_address_without_callers_refuses_to_start() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder, &std::sync::Arc::<Seen>::default());
    let settings = Settings { listen: "0.0.0.0:0".parse().unwrap(), ..Settings::default() };
    let refused = Server::bind(settings.clone(), engine.clone(), Callers::default()).await.err().unwrap();
    assert!(matches!(refused, BindError::Exposed(_)));
    assert!(refused.to_string().contains("declare callers"), "{refused}");
    assert!(Server::bind(settings, engine, callers()).await.is_ok());
}

#[tokio::test]
async fn callers_are_replaced_while_serving() {
    let house = House::keyed().await;
    assert_eq!(house.get("key-r", "/v1/tools").await.status, 200);
    let reader = reach_core::Caller { id: "reader".into(), scopes: Default::default(), rate: None };
    house.callers.replace([(reader, "key-new".into())]);
    assert_eq!(house.get("key-r", "/v1/tools").await.status, 401);
    assert_eq!(house.get("key-new", "/v1/tools").await.status, 200);
}

#[tokio::test]
async fn operating_needs_its_scope() {
    let house = House::keyed().await;
    for (method, path) in [
        ("POST", "/v1/health/breakers"),
        ("GET", "/v1/unsettled"),
        ("POST", "/v1/unsettled/settle"),
        ("GET", "/metrics"),
    ] {
        let said = Said::of(request(&house, method, path).bearer_auth("key-w")).await;
        assert_eq!((said.status, said.code()), (403, "FORBIDDEN"), "{method} {path}");
        assert!(said.text.contains("reach:operate"));
        let said = Said::of(request(&house, method, path).bearer_auth("key-o")).await;
        assert_ne!(said.status, 403, "{method} {path}");
    }
    assert_eq!(house.seen.started.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn no_spelling_of_a_path_gets_around_its_scope() {
    let house = House::keyed().await;
    for path in [
        "/%6Detrics",
        "/metrics/",
        "//metrics",
        "/./metrics",
        "/v1/../metrics",
        "/METRICS",
        "/metrics?x=1",
        "/v1/unsettled%2F",
        "/v1/%75nsettled",
    ] {
        let said = house.get("key-w", path).await;
        assert!(matches!(said.status, 403 | 404), "{path}: {}", said.status);
    }
}

#[tokio::test]
async fn answers_are_not_kept_and_not_reinterpreted() {
    let house = House::keyed().await;
    for path in ["/v1/tools", "/healthz", "/nothing", "/metrics"] {
        let said = house.get("key-o", path).await;
        assert_eq!(said.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(said.header("x-content-type-options"), Some("nosniff"), "{path}");
    }
}

#[tokio::test]
async fn probes_need_no_key_and_say_one_word() {
    let house = House::keyed().await;
    for path in ["/healthz", "/readyz"] {
        let said = Said::of(request(&house, "GET", path)).await;
        assert_eq!((said.status, said.text.as_str()), (200, r#"{"status":"ok"}"#), "{path}");
    }
    assert_eq!(Said::of(request(&house, "GET", "/openapi.json")).await.json["openapi"], "3.1.0");
}
