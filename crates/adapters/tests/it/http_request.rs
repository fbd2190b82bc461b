//! What the `http` adapter sends, checked byte by byte at the upstream.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use reach_core::adapter::KeyPlace;
use reach_core::{Credential, Effect, FailureKind, Payload, Phase};
use reach_kit::http::{Behaviour, Recorded, Reply, Server};
use serde_json::{Value, json};

use crate::http::{Tool, declare, declare_with};

async fn server() -> Server {
    Server::start().await.expect("a free port")
}

/// Calls once and returns what arrived.
async fn sent(server: &Server, tool: &Tool, arguments: Value) -> Recorded {
    let before = server.requests().len();
    tool.call(arguments).await.expect("the call works");
    assert_eq!(server.requests().len(), before + 1, "one call is one request");
    server.last().expect("a request")
}

#[tokio::test]
async fn case_s019_a_path_value_never_changes_the_route() {
    let server = server().await;
    let http = json!({"url": server.url("/api/records/{id}/detail")});
    let tool = declare(http, json!({"id": {}})).unwrap();
    for (value, path) in [
        ("../../admin/config", "/api/records/..%2F..%2Fadmin%2Fconfig/detail"),
        ("a?x=1", "/api/records/a%3Fx%3D1/detail"),
        ("a#f", "/api/records/a%23f/detail"),
        ("a/b", "/api/records/a%2Fb/detail"),
        ("50%", "/api/records/50%25/detail"),
        ("{other}", "/api/records/%7Bother%7D/detail"),
        ("杭州", "/api/records/%E6%9D%AD%E5%B7%9E/detail"),
        ("a\\..\\b\r\n", "/api/records/a%5C..%5Cb%0D%0A/detail"),
    ] {
        assert_eq!(sent(&server, &tool, json!({"id": value})).await.target, path);
    }
    let so_far = server.requests().len();
    for arguments in [json!({"id": ".."}), json!({"id": "."}), json!({"id": null}), json!({}), json!({"id": ""})] {
        let failure = tool.failure(arguments.clone()).await;
        assert_eq!((failure.kind, failure.phase), (FailureKind::Refused, Phase::Rejected), "{arguments}");
        assert!(failure.message.contains("`id`"), "{}", failure.message);
    }
    assert!(tool.failure(json!({"id": null})).await.message.contains("missing"));
    assert_eq!(server.requests().len(), so_far, "refused means that nothing was sent");
}

#[tokio::test]
async fn every_method_is_sent_with_arguments_where_they_belong() {
    let server = server().await;
    for (method, target, body) in [
        ("GET", "/x?a=1&b=c%20d", ""),
        ("HEAD", "/x?a=1&b=c%20d", ""),
        ("DELETE", "/x?a=1&b=c%20d", ""),
        ("OPTIONS", "/x?a=1&b=c%20d", ""),
        ("POST", "/x", r#"{"a":1,"b":"c d"}"#),
        ("PUT", "/x", r#"{"a":1,"b":"c d"}"#),
        ("PATCH", "/x", r#"{"a":1,"b":"c d"}"#),
    ] {
        server.always(if method == "HEAD" { Reply::new(200, "") } else { Reply::json(200, "{}") });
        let tool = declare(json!({"method": method, "url": server.url("/x")}), json!({"a": {}, "b": {}})).unwrap();
        let request = sent(&server, &tool, json!({"a": 1, "b": "c d"})).await;
        assert_eq!((request.method.as_str(), request.target.as_str()), (method, target));
        assert_eq!(String::from_utf8_lossy(&request.body), body);
        let media_type = (!body.is_empty()).then_some("application/json");
        assert_eq!(request.header("content-type"), media_type, "{method}");
    }
}

#[tokio::test]
async fn effects_default_to_read_for_safe_methods_only() {
    for (method, effect) in
        [("GET", Effect::Read), ("HEAD", Effect::Read), ("POST", Effect::Write), ("DELETE", Effect::Write)]
    {
        let tool = declare(json!({"method": method, "url": "http://127.0.0.1:9/"}), json!({})).unwrap();
        assert_eq!(tool.effect, effect);
        assert_eq!((tool.adapter.kind(), tool.adapter.target()), ("http", "http://127.0.0.1:9"));
    }
    let tool = declare(json!({"url": "https://orders.internal/v1"}), json!({})).unwrap();
    assert_eq!(tool.adapter.target(), "https://orders.internal:443");
}

#[tokio::test]
async fn query_parameters_are_encoded_and_left_out_where_there_is_no_value() {
    let server = server().await;
    let http = json!({"url": server.url("/s?v=2"), "query": {"q": "{q}", "limit": 20, "all": true, "like": "%{q}%"}});
    let tool = declare(http, json!({"q": {}, "tag": {}})).unwrap();
    let request = sent(&server, &tool, json!({"q": "a&b=c+d 杭", "tag": ["x", "y z"]})).await;
    let q = "a%26b%3Dc%2Bd%20%E6%9D%AD";
    assert_eq!(request.target, format!("/s?v=2&all=true&like=%25{q}%25&limit=20&q={q}&tag=x&tag=y%20z"));
    let request = sent(&server, &tool, json!({"q": null})).await;
    assert_eq!(request.target, "/s?v=2&all=true&limit=20");
}

#[tokio::test]
async fn case_e008_null_is_sent_and_an_absent_field_is_not() {
    let server = server().await;
    let http = json!({"method": "PATCH", "url": server.url("/tasks/7")});
    let tool = declare(http, json!({"due": {}, "title": {}})).unwrap();
    assert_eq!(sent(&server, &tool, json!({"due": null})).await.body, br#"{"due":null}"#);
    assert_eq!(sent(&server, &tool, json!({"title": "x"})).await.body, br#"{"title":"x"}"#);
}

#[tokio::test]
async fn a_json_body_keeps_every_type_and_every_digit() {
    let server = server().await;
    let http = json!({"method": "POST", "url": server.url("/x/{id}")});
    let tool = declare(http, json!({"id": {}, "n": {}, "m": {}, "t": {}, "o": {}})).unwrap();
    let text = r#"{"id":"7","n":9007199254740993,"m":-9223372036854775808,"t":"00123 ","o":{"a":[18446744073709551615,1.5,true,null]}}"#;
    let request = sent(&server, &tool, serde_json::from_str(text).unwrap()).await;
    assert_eq!(request.target, "/x/7");
    assert_eq!(String::from_utf8_lossy(&request.body), text.replace(r#""id":"7","#, ""));
}

#[tokio::test]
async fn declared_json_fields_are_named_nested_and_fixed_as_written() {
    let server = server().await;
    let http = json!({"method": "POST", "url": server.url("/"), "headers": {"Content-Type": "application/vnd.shop+json"},
        "body": {"fields": {"orderId": "{id}", "note": "Refund for {id}", "currency": "EUR", "dry": false,
            "customer": {"name": "{name}", "tags": ["{tag}", "agent"]}, "braces": "{{id}}"}}});
    let tool = declare(http, json!({"id": {}, "name": {}, "tag": {}})).unwrap();
    let request = sent(&server, &tool, json!({"id": 12, "name": null})).await;
    assert_eq!(
        String::from_utf8_lossy(&request.body),
        r#"{"orderId":12,"note":"Refund for 12","currency":"EUR","dry":false,"customer":{"name":null,"tags":["agent"]},"braces":"{id}"}"#
    );
    assert_eq!(request.header("content-type"), Some("application/vnd.shop+json"));
}

#[tokio::test]
async fn one_argument_can_be_the_whole_json_body() {
    let server = server().await;
    let http = json!({"method": "PUT", "url": server.url("/docs/{id}"), "body": {"argument": "document"}});
    let tool = declare(http, json!({"id": {}, "document": {}})).unwrap();
    assert_eq!(sent(&server, &tool, json!({"id": 1, "document": ["a", null]})).await.body, br#"["a",null]"#);
    assert_eq!(sent(&server, &tool, json!({"id": 1, "document": null})).await.body, b"null");
    let request = sent(&server, &tool, json!({"id": 1})).await;
    assert_eq!((request.body.as_slice(), request.header("content-length")), (b"".as_slice(), Some("0")));
}

#[tokio::test]
async fn form_text_and_empty_bodies_arrive_byte_by_byte() {
    let server = server().await;
    let properties = json!({"a": {}, "b": {}, "c": {}});
    let form = json!({"method": "POST", "url": server.url("/"), "body": {"kind": "form"}});
    let tool = declare(form, properties.clone()).unwrap();
    let request = sent(&server, &tool, json!({"a": "x y&z=1", "b": ["1", 2], "c": null})).await;
    assert_eq!(String::from_utf8_lossy(&request.body), "a=x+y%26z%3D1&b=1&b=2");
    assert_eq!(request.header("content-type"), Some("application/x-www-form-urlencoded"));

    let form = json!({"method": "POST", "url": server.url("/"),
        "body": {"kind": "form", "fields": {"grant": "fixed", "a b": "{a}{b}{c}"}}});
    let tool = declare(form, properties.clone()).unwrap();
    let request = sent(&server, &tool, json!({"a": "+", "b": "杭", "c": 1})).await;
    assert_eq!(String::from_utf8_lossy(&request.body), "grant=fixed&a+b=%2B%E6%9D%AD1");

    let text = json!({"method": "POST", "url": server.url("/"),
        "body": {"kind": "text", "template": "{a}: {b}\n{c}"}});
    let tool = declare(text, properties.clone()).unwrap();
    let request = sent(&server, &tool, json!({"a": "杭州", "b": "\r\n", "c": {"k": 1}})).await;
    assert_eq!(String::from_utf8_lossy(&request.body), "杭州: \r\n\n{\"k\":1}");
    assert_eq!(request.header("content-type"), Some("text/plain; charset=utf-8"));
    let failure = tool.failure(json!({"a": "x", "b": "y"})).await;
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.message.contains("`c`"), "{}", failure.message);

    let none = json!({"method": "POST", "url": server.url("/{a}/{b}/{c}"), "body": {"kind": "none"}});
    let tool = declare(none, properties).unwrap();
    let request = sent(&server, &tool, json!({"a": 1, "b": 2, "c": 3})).await;
    assert_eq!((request.body.as_slice(), request.header("content-length")), (b"".as_slice(), Some("0")));
    assert_eq!(request.header("content-type"), None);
}

#[tokio::test]
async fn a_multipart_body_keeps_hostile_names_inside_their_quotes() {
    let server = server().await;
    let http = json!({"method": "POST", "url": server.url("/"), "body": {"kind": "multipart", "fields": {
        "title": "{title}", "tags": "{tags}", "missing": "{missing}",
        "file": {"content": "{content}", "filename": "{name}", "media_type": "text/csv"}}}});
    let tool = declare(http, json!({"title": {}, "tags": {}, "missing": {}, "content": {}, "name": {}})).unwrap();
    let arguments = json!({"title": "杭州\r\n--x", "tags": ["a", "b"], "content": "1,2\n",
        "name": "a\"\r\nX-Evil: 1\r\n\r\n.csv"});
    let request = sent(&server, &tool, arguments).await;
    let media_type = request.header("content-type").unwrap().to_owned();
    let boundary = media_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    let part = |head: &str, content: &str| {
        format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n")
    };
    let wanted = [
        part("name=\"title\"", "杭州\r\n--x"),
        part("name=\"tags\"", "a"),
        part("name=\"tags\"", "b"),
        part("name=\"file\"; filename=\"a%22%0D%0AX-Evil: 1%0D%0A%0D%0A.csv\"\r\nContent-Type: text/csv", "1,2\n"),
        format!("--{boundary}--\r\n"),
    ];
    assert_eq!(String::from_utf8_lossy(&request.body), wanted.concat());

    let rest =
        declare(json!({"method": "POST", "url": server.url("/"), "body": {"kind": "multipart"}}), json!({"a": {}}));
    let request = sent(&server, &rest.unwrap(), json!({"a": 1})).await;
    assert!(String::from_utf8_lossy(&request.body).contains("name=\"a\"\r\n\r\n1\r\n"));
}

#[tokio::test]
async fn a_header_value_can_never_add_a_header() {
    let server = server().await;
    let http = json!({"url": server.url("/"), "headers": {"X-Shop": "shop-{shop}", "Accept": "text/csv"}});
    let tool = declare(http, json!({"shop": {}})).unwrap();
    let request = sent(&server, &tool, json!({"shop": "7: a;b"})).await;
    assert_eq!((request.header("x-shop"), request.header("accept")), (Some("shop-7: a;b"), Some("text/csv")));
    let so_far = server.requests().len();
    for value in ["a\r\nX-Evil: 1", "a\n b", "a\r\n\r\nGET /evil HTTP/1.1", "a\0", "\u{560a}\u{560d}", "a\u{7f}"] {
        let failure = tool.failure(json!({"shop": value})).await;
        assert_eq!(failure.phase, Phase::Rejected, "{value:?}");
        assert!(failure.message.contains("`shop`"), "{}", failure.message);
    }
    assert_eq!(server.requests().len(), so_far);
    assert_eq!(sent(&server, &tool, json!({})).await.header("x-shop"), None);
}

#[tokio::test]
async fn case_a004_headers_are_built_anew_and_nothing_else_is_sent() {
    let server = server().await;
    let tool =
        declare(json!({"method": "POST", "url": server.url("/"), "headers": {"X-Declared": "1"}}), json!({"a": {}}));
    let tool = tool.unwrap();
    let mut attempt = tool.attempt(json!({"a": 1}));
    attempt.caller = reach_core::CallerId::new("gw-1");
    tool.adapter.call(&attempt).await.unwrap();
    let request = server.last().unwrap();
    let names: BTreeSet<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    let wanted = [
        "accept",
        "accept-encoding",
        "content-length",
        "content-type",
        "host",
        "traceparent",
        "user-agent",
        "x-declared",
        "x-request-id",
    ];
    assert_eq!(names, BTreeSet::from(wanted));
    assert!(request.header("user-agent").unwrap().starts_with("reach/"));
    assert_eq!(request.header("x-request-id"), Some(attempt.request_id.as_str()));
    assert!(!request.everything().contains("gw-1"));
}

#[tokio::test]
async fn a_credential_goes_where_its_kind_says_and_comes_back_in_no_failure() {
    let server = server().await;
    let tool = declare(json!({"url": server.url("/x?a=1"), "credential": "shop"}), json!({})).unwrap();
    let secret = "s3cr3t-Key+/=";
    let key = |place| Credential::ApiKey { place, name: "X-Api-Key".into(), key: secret.into() };
    let credentials = [
        (Credential::Bearer(secret.into()), "authorization", format!("Bearer {secret}")),
        (
            Credential::Basic { username: "reach".into(), password: "open sesame".into() },
            "authorization",
            "Basic cmVhY2g6b3BlbiBzZXNhbWU=".to_owned(),
        ),
        (key(KeyPlace::Header), "x-api-key", secret.to_owned()),
    ];
    // The upstream repeats whatever it was sent.
    server.choose(|request| Reply::new(403, format!("I refuse this: {}", request.everything())).into());
    for (credential, header, value) in credentials {
        let mut attempt = tool.attempt(json!({}));
        attempt.credential = Some(Arc::new(credential));
        let failure = tool.adapter.call(&attempt).await.unwrap_err();
        assert_eq!(server.last().unwrap().header(header), Some(value.as_str()));
        assert_eq!(failure.kind, FailureKind::Unauthorised);
        let told = format!("{failure:?}");
        assert!(told.contains("I refuse this"), "{told}");
        for secret in [secret, "sesame", "cmVhY2g6b3BlbiBzZXNhbWU"] {
            assert!(!told.contains(secret), "{told}");
        }
    }
    let mut attempt = tool.attempt(json!({}));
    attempt.credential = Some(Arc::new(key(KeyPlace::Query)));
    let failure = tool.adapter.call(&attempt).await.unwrap_err();
    assert_eq!(server.last().unwrap().target, "/x?a=1&X-Api-Key=s3cr3t-Key%2B%2F%3D");
    assert!(!format!("{failure:?}").contains("s3cr3t"), "{failure:?}");
    // A failure below HTTP carries no query either.
    server.always(Behaviour::Reset);
    assert!(!format!("{:?}", tool.adapter.call(&attempt).await.unwrap_err()).contains("s3cr3t"));
}

#[tokio::test]
async fn a_keyed_tool_sends_its_key_in_the_declared_header() {
    let server = server().await;
    for (declared, header) in [(None, "idempotency-key"), (Some("X-Once"), "x-once")] {
        let mut http = json!({"method": "POST", "url": server.url("/")});
        if let Some(name) = declared {
            http["idempotency_header"] = json!(name);
        }
        let tool = declare_with(http, json!({}), Some(Effect::Keyed), Duration::from_secs(10)).unwrap();
        let mut attempt = tool.attempt(json!({}));
        attempt.upstream_key = Some("k-42".into());
        tool.adapter.call(&attempt).await.unwrap();
        assert_eq!(server.last().unwrap().header(header), Some("k-42"));
    }
    let write = json!({"method": "POST", "url": server.url("/"), "idempotency_header": "X-Once"});
    assert!(declare(write, json!({})).is_err_and(|problems| problems[0].fix.contains("keyed")));
}

#[tokio::test]
async fn connections_are_shared_between_tools_and_kept_for_the_next_call() {
    let server = server().await;
    let one = declare(json!({"url": server.url("/one")}), json!({})).unwrap();
    let two = declare(json!({"url": server.url("/two")}), json!({})).unwrap();
    for tool in [&one, &two, &one, &two] {
        tool.call(json!({})).await.unwrap();
    }
    assert_eq!((server.requests().len(), server.accepted()), (4, 1));
}

#[tokio::test]
async fn everything_wrong_with_a_declaration_is_reported_at_once() {
    let http = json!({"method": "POST", "url": "http://{name}/x", "query": {"q": "{nme}"},
        "headers": {"Authorization": "Bearer {name}", "Host": "x", "X-A": "{nobody}"},
        "body": {"kind": "text", "fields": {}}, "expect": "text", "pick": {"a": "b"}, "select": "a", "follow_redirects": 6,
        "max_response_bytes": 0, "connect_timeout_ms": 0, "idempotency_header": "Content-Length"});
    let problems = declare(http, json!({"name": {}})).err().unwrap();
    let pointers: BTreeSet<&str> = problems.iter().map(|problem| problem.pointer.as_str()).collect();
    let wanted = [
        "/url",
        "/query/q",
        "/headers/Authorization",
        "/headers/Host",
        "/headers/X-A",
        "/body/fields",
        "/body",
        "/expect",
        "/pick/a",
        "/select",
        "/follow_redirects",
        "/max_response_bytes",
        "/connect_timeout_ms",
        "/idempotency_header",
    ];
    assert_eq!(pointers, BTreeSet::from(wanted));
    assert!(problems.iter().all(|problem| !problem.fix.is_empty()));
}

#[tokio::test]
async fn an_argument_that_would_go_nowhere_is_a_problem() {
    let http = json!({"method": "POST", "url": "http://h/{id}", "body": {"fields": {"a": "{a}"}}});
    let problems = declare(http, json!({"id": {}, "a": {}, "forgotten": {}})).err().unwrap();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].message.contains("`forgotten`"));
}

#[tokio::test]
async fn an_unknown_key_is_refused_and_the_schema_describes_every_key() {
    let wrong = json!({"url": "http://h/", "metod": "GET"});
    assert!(serde_json::from_value::<reach_adapters::http::Config>(wrong).is_err());
    let schema = serde_json::to_value(schemars::schema_for!(reach_adapters::http::Config)).unwrap();
    for (name, property) in schema["properties"].as_object().unwrap() {
        assert!(property["description"].is_string(), "{name}");
    }
}

#[tokio::test]
async fn a_check_connects_and_sends_no_request() {
    let server = server().await;
    let tool = declare(json!({"method": "POST", "url": server.url("/")}), json!({})).unwrap();
    let line = tool.adapter.check(Duration::from_secs(5)).await.unwrap();
    assert!(line.contains(&format!("http://{}", server.address())), "{line}");
    tokio::time::timeout(Duration::from_secs(5), server.connected(1)).await.expect("a connection was made");
    assert_eq!((server.accepted(), server.requests().len()), (1, 0));

    let encrypted = format!("https://{}/", server.address());
    let tool = declare(json!({"url": encrypted}), json!({})).unwrap();
    let check = tool.adapter.check(Duration::from_millis(300)).await.unwrap_err();
    assert_eq!((check.kind, check.phase), (FailureKind::Unreachable, Phase::NotSent));
    let address = server.stop().await;
    let tool = declare(json!({"url": format!("http://{address}/")}), json!({})).unwrap();
    let check = tool.adapter.check(Duration::from_secs(5)).await.unwrap_err();
    assert!(check.message.contains("refused"), "{}", check.message);
}

#[tokio::test]
async fn a_head_request_has_an_empty_result_whatever_length_is_declared() {
    let server = server().await;
    server.always(Behaviour::Raw(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99999999\r\n\r\n".to_vec(),
    ));
    let tool = declare(json!({"method": "HEAD", "url": server.url("/")}), json!({})).unwrap();
    assert_eq!(tool.call(json!({})).await.unwrap().payload, Payload::Empty);
}
