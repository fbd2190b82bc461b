//! The JSON Schema of `reach.yaml`, generated from [`super::sections`]: for editors, and for our own check.
//!
//! Two things are made stricter than the generator's output. An optional key is left out, not set to
//! nothing: `null` is taken out of the types, so that a forgotten value is named. And integers carry the
//! bounds of the type they are read into, so that no number passes here and fails later.

use std::sync::LazyLock;

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::{Value, json};

use super::sections::File;

/// The schema as a JSON value (2020-12), with a description for every key. Built once, then cloned.
pub fn schema() -> Value {
    SCHEMA.clone()
}

pub(super) static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let mut schema = SchemaSettings::draft2020_12()
        .with_transform(RecursiveTransform(without_null))
        .with_transform(RecursiveTransform(bounded))
        .with_transform(RecursiveTransform(unwrapped))
        .into_generator()
        .into_root_schema_for::<File>();
    for adapter in ADAPTERS {
        name_after_its_key(&mut schema, adapter);
    }
    schema.to_value()
});

/// The keys of a tool that hold an adapter's own `Config`.
pub(super) const ADAPTERS: [&str; 5] = ["http", "sql", "script", "email", "file"];

/// Every adapter calls its part `Config`; the generator numbers them, which would change whenever one is
/// added. They are named `http`, `sql` and so on instead.
fn name_after_its_key(schema: &mut Schema, adapter: &str) {
    let pointer = format!("/$defs/Tool/properties/{adapter}/$ref");
    let Some(Value::String(old)) = schema.pointer(&pointer).cloned() else { return };
    let name = old.trim_start_matches("#/$defs/").to_owned();
    if let Some(Value::Object(definitions)) = schema.get_mut("$defs") {
        let renamed = std::mem::take(definitions)
            .into_iter()
            .map(|(key, value)| (if key == name { adapter.to_owned() } else { key }, value))
            .collect();
        *definitions = renamed;
    }
    let new = format!("#/$defs/{adapter}");
    RecursiveTransform(|schema: &mut Schema| {
        if schema.get("$ref").and_then(Value::as_str) == Some(&old) {
            schema.insert("$ref".to_owned(), Value::String(new.clone()));
        }
    })
    .transform(schema);
}

/// Descriptions are wrapped in the source; an editor wraps them itself.
fn unwrapped(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let paragraphs: Vec<String> = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
        *text = paragraphs.join("\n\n");
    }
}

/// Takes `null` out of what an `Option` allows.
fn without_null(schema: &mut Schema) {
    let null = json!({"type": "null"});
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if let Some(Value::Array(options)) = schema.get_mut("enum") {
        options.retain(|option| !option.is_null());
    }
    if let Some(Value::Array(options)) = schema.get_mut("anyOf")
        && options.contains(&null)
    {
        options.retain(|option| *option != null);
        if let [Value::Object(only)] = options.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            for (key, value) in only {
                if schema.get(&key).is_none() {
                    schema.insert(key, value);
                }
            }
        }
    }
}

/// Gives integers the bounds of their Rust type.
fn bounded(schema: &mut Schema) {
    let (low, high) = match schema.get("format").and_then(Value::as_str) {
        Some("uint8") => (json!(0), json!(u8::MAX)),
        Some("uint16") => (json!(0), json!(u16::MAX)),
        Some("uint32") => (json!(0), json!(u32::MAX)),
        Some("uint64" | "uint") => (json!(0), json!(u64::MAX)),
        Some("int32") => (json!(i32::MIN), json!(i32::MAX)),
        Some("int64" | "int") => (json!(i64::MIN), json!(i64::MAX)),
        _ => return,
    };
    schema.remove("format");
    for (keyword, bound) in [("minimum", low), ("maximum", high)] {
        if schema.get(keyword).is_none() {
            schema.insert(keyword.to_owned(), bound);
        }
    }
}
