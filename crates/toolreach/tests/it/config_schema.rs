//! The schema for editors: checked in, complete, and true to what the loader takes.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use toolreach::config;

#[test]
fn the_checked_in_schema_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/reach.schema.json");
    let generated = format!("{}\n", serde_json::to_string_pretty(&config::schema()).unwrap());
    if std::env::var_os("REACH_BLESS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(checked_in == generated, "schemas/reach.schema.json is old; run the tests with REACH_BLESS=1");
}

#[test]
fn every_key_has_a_description_and_no_mapping_takes_unknown_keys() {
    let schema = config::schema();
    let mut bare = Vec::new();
    walk(&schema, String::new(), &mut |at, schema| {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
            bare.push(format!("{at} takes unknown keys"));
        }
        for (key, property) in properties {
            let is_tag = property.get("const").is_some();
            if !is_tag && property.get("description").is_none_or(|text| text.as_str().is_none_or(str::is_empty)) {
                bare.push(format!("{at}/{key} has no description"));
            }
        }
    });
    assert!(bare.is_empty(), "{bare:#?}");
}

#[test]
fn the_schema_is_valid_and_says_so_itself() {
    let schema = config::schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert!(jsonschema::meta::is_valid(&schema));
    assert!(!schema.to_string().contains(r#""type":"null""#), "a key that is optional is left out, not set to nothing");
}

/// The example that the design gives, without the parts that a later version reads, and with what it leaves
/// out ("...") filled in.
const EXAMPLE: &str = r#"
version: 1
credentials:
  orders: {kind: bearer, token: "${ORDERS_SECRET}"}
callers:
  support-bot: {key: "${SUPPORT_BOT_KEY}", scopes: ["order:read", "inventory:read", "message:send"]}
tools:
  - tool_id: order_status_query
    name: Order status
    description: Current logistics and fulfilment status of one merchant order. Cannot change orders.
    use_when: the user asks where an order is or when it arrives
    input_schema:
      type: object
      properties: {order_id: {type: string, description: "Merchant order number, such as OD20241015", pattern: "^OD[0-9]{8}$"}}
      required: [order_id]
    auth: {scope: "order:read"}
    timeout_ms: 3000
    fallback: order_status_query_v2
    max_result_length: 2000
    http: {method: GET, url: "https://orders.internal/v1/orders/{order_id}", credential: orders, pick: {status: /status, eta: /eta}}
  - tool_id: order_status_query_v2
    description: The same, from the system before.
    input_schema: {type: object, properties: {order_id: {type: string}}, required: [order_id]}
    http: {url: "https://old-orders.internal/{order_id}"}
  - tool_id: inventory_query
    description: What is in stock.
    input_schema: {type: object, properties: {sku: {type: string}}, required: [sku]}
    sql: {database: "sqlite://stock.db", statement: "select sku, available from stock where sku = :sku"}
  - tool_id: notification_email_send
    description: Sends a message.
    input_schema:
      type: object
      properties: {to: {type: string}, subject: {type: string}, body: {type: string}}
      required: [to, subject, body]
    effect: write
    email: {smtp: "smtps://mail.example.com", from: "bot@example.com", to: "{to}", subject: "{subject}", body: "{body}"}
  - tool_id: disk_usage
    description: How full a folder is.
    input_schema: {type: object, properties: {path: {type: string}}, required: [path]}
    script: {command: ["./scripts/du", "--", "{path}"]}
  - tool_id: read_file
    description: Reads a document.
    input_schema: {type: object, properties: {path: {type: string}}, required: [path]}
    file: {root: ./docs, operation: read}
state: {ledger: "sqlite://.reach/ledger.db", board: "memory:", blobs: "file:.reach/blobs"}
"#;

#[test]
fn the_example_of_the_design_is_taken_as_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("docs")).unwrap();
    std::fs::create_dir_all(folder.path().join("scripts")).unwrap();
    let script = folder.path().join("scripts/du");
    std::fs::write(&script, "#!/bin/sh\necho 1\n").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let environment: BTreeMap<String, String> =
        [("ORDERS_SECRET", "orders-secret-0"), ("SUPPORT_BOT_KEY", "support-bot-key-0123")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
    let config =
        config::parse("reach.yaml", EXAMPLE, folder.path(), &environment).unwrap_or_else(|report| panic!("{report}"));
    let kinds: Vec<&str> = config.tools.iter().map(|tool| tool.adapter.kind()).collect();
    assert_eq!(kinds, ["http", "http", "sql", "email", "script", "file"]);
}

fn walk(schema: &Value, at: String, visit: &mut impl FnMut(&str, &Value)) {
    visit(&at, schema);
    match schema {
        Value::Object(entries) => entries.iter().for_each(|(key, value)| walk(value, format!("{at}/{key}"), visit)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| walk(value, format!("{at}/{index}"), visit));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
