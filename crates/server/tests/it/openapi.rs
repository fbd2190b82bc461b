//! The description of the API is the API.

use std::path::Path;

use serde_json::{Value, json};

use crate::house::{House, Said};

#[test]
fn the_checked_in_document_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/openapi.json");
    let generated = serde_json::to_string_pretty(&reach_server::openapi::document()).unwrap() + "\n";
    if std::env::var_os("REACH_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(checked_in == generated, "schemas/openapi.json differs from the routes; REACH_BLESS=1 writes it anew");
}

#[tokio::test]
async fn every_documented_operation_exists_and_no_other_method_does() {
    let house = House::local().await;
    let document = reach_server::openapi::document();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let real = path.replace(['{', '}'], "x");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let request = house.http.request(method.parse().unwrap(), house.url(&real));
            let said = Said::of(if method == "POST" { request.json(&json!({})) } else { request }).await;
            let documented = operations.get(method.to_ascii_lowercase()).is_some();
            assert_eq!(said.status != 405, documented, "{method} {path}: {}", said.text);
            assert!(!said.text.contains("there is no such path"), "{method} {path}");
        }
    }
}

fn validator(document: &Value, schema: &Value) -> jsonschema::Validator {
    let mut whole = schema.clone();
    whole["components"] = document["components"].clone();
    jsonschema::validator_for(&whole).unwrap()
}

#[tokio::test]
async fn answers_are_as_the_document_promises() {
    let house = House::local().await;
    let document = reach_server::openapi::document();
    let check = |path: &str, method: &str, answer: &str, media: &str, said: &Said| {
        let schema = &document["paths"][path][method]["responses"][answer]["content"][media]["schema"];
        assert!(schema.is_object(), "{method} {path} {answer}");
        let problems: Vec<String> =
            validator(&document, schema).iter_errors(&said.json).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{method} {path}: {problems:?}\n{}", said.text);
    };
    let json = "application/json";
    let call = "/v1/tools/{tool_id}/calls";
    let body = json!({"arguments": {"text": "x".repeat(5000)}, "session_id": "s1", "trace_id": "t1"});
    check(call, "post", "200", json, &house.post("", "/v1/tools/echo/calls", body).await);
    check(call, "post", "default", json, &house.call("", "nosuch", json!({})).await);
    check(call, "post", "default", json, &house.call("", "order_status", json!({})).await);
    check(call, "post", "default", json, &house.call("", "vanish", json!({})).await);
    check(call, "post", "default", json, &house.call("", "down", json!({})).await);
    for (path, real) in [
        ("/v1/tools", "/v1/tools"),
        ("/v1/tools/{tool_id}", "/v1/tools/echo"),
        ("/v1/traces/{trace_id}", "/v1/traces/t1"),
        ("/v1/sessions", "/v1/sessions"),
        ("/v1/sessions/{session_id}/timeline", "/v1/sessions/s1/timeline"),
        ("/v1/health", "/v1/health"),
        ("/v1/unsettled", "/v1/unsettled"),
        ("/healthz", "/healthz"),
    ] {
        let said = house.get("", real).await;
        assert_eq!(said.status, 200, "{real}");
        check(path, "get", "200", json, &said);
    }
    let problem = house.get("", "/v1/traces/none").await;
    check("/v1/traces/{trace_id}", "get", "default", "application/problem+json", &problem);
}

#[test]
fn the_described_envelope_has_exactly_the_fields_of_the_real_one() {
    let document = reach_server::openapi::document();
    let plan = reach_core::Plan::new("t", Default::default(), reach_core::Caller::local());
    let error = reach_core::ErrorBody::new(reach_core::ErrorCode::Timeout, "x");
    let mut meta = reach_core::Meta::of(&plan);
    meta.truncated = Some(reach_core::Truncated { shown: 1, total: 2, blob: None, how: "clip".into() });
    let envelope = reach_core::Envelope::error(reach_core::ToolId::asked("t"), error, meta);
    let real = serde_json::to_value(envelope).unwrap();
    let fields = |value: &Value| {
        let mut fields: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        fields.sort();
        fields
    };
    for (schema, value) in [
        ("Envelope", &real),
        ("ErrorObject", &real["error"]),
        ("Meta", &real["meta"]),
        ("TruncatedObject", &real["meta"]["truncated"]),
        ("TokensObject", &real["meta"]["tokens"]),
    ] {
        let described = &document["components"]["schemas"][schema];
        assert_eq!(fields(&described["properties"]), fields(value), "{schema}");
        let mut required: Vec<&str> =
            described["required"].as_array().unwrap().iter().map(|field| field.as_str().unwrap()).collect();
        required.sort_unstable();
        assert_eq!(required, fields(value), "{schema}: every key is always present");
    }
}
