//! What is fuzzed, and what each parser promises beyond not panicking.

use std::collections::BTreeMap;
use std::path::Path;

use reach_adapters::shared::template::Template;
use reach_core::arguments::ArgumentCheck;
use reach_core::{canonical, exact, rank, redact, scope};
use serde_json::{Value, json};

/// One parser under test. `run` gives the broken promise, if one was broken.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) seeds: &'static [&'static str],
    pub(crate) dictionary: &'static [&'static str],
    pub(crate) run: fn(&[u8]) -> Result<(), String>,
}

const JSON_SEEDS: &[&str] = &[
    r#"{"order_id": "OD20241015", "count": 12345678901234567890123, "price": 12.30, "tags": ["a", null, true]}"#,
    r#"{"order_id": "OD20241015", "a": {"b": [{"c": "中文 \u4e2d \ud83d\ude00"}]}, "n": -1.5e300}"#,
    r#"{"mean": NaN, "a": 1, "a": 2}"#,
];
const JSON_WORDS: &[&str] = &[
    "null",
    "true",
    "NaN",
    "Infinity",
    "1e999",
    "-0",
    "\\u0000",
    "\\ud800",
    "99999999999999999999",
    "[[[[",
    "{\"a\":",
];

/// Every target.
pub(crate) const TARGETS: &[Target] = &[
    Target { name: "exact_arguments", seeds: JSON_SEEDS, dictionary: JSON_WORDS, run: exact_arguments },
    Target { name: "exact_result", seeds: JSON_SEEDS, dictionary: JSON_WORDS, run: exact_result },
    Target { name: "argument_check", seeds: JSON_SEEDS, dictionary: JSON_WORDS, run: argument_check },
    Target {
        name: "input_schema",
        seeds: &[
            r#"{"type": "object", "properties": {"id": {"type": "string", "pattern": "^OD[0-9]{8}$"}}, "required": ["id"]}"#,
        ],
        dictionary: &["$ref", "#/$defs/a", "anyOf", "pattern", "(?=a)", "additionalProperties", "items", "enum"],
        run: input_schema,
    },
    Target {
        name: "template",
        seeds: &["/v1/orders/{order_id}?x={note}", "{{literal}} {order_id}"],
        dictionary: &["{", "}", "{{", "}}", "{order_id}"],
        run: template,
    },
    Target { name: "scope", seeds: &["order:read", "order:*", "*"], dictionary: &[":", "*", "::"], run: scopes },
    Target {
        name: "config",
        seeds: &[
            include_str!("../../crates/toolreach/starter/reach.yaml"),
            include_str!("../../examples/shop/reach.yaml"),
        ],
        dictionary: &[
            "${A}", "${A:-b}", "$${", "&a", "*a", "<<: *a", "!!str", "- ", ": ", "|\n", "tool_id:", "no", "012",
        ],
        run: config,
    },
    Target {
        name: "rank",
        seeds: &["退款 refund twice", "The parcels\nwere delivered"],
        dictionary: &["\n"],
        run: ranking,
    },
];

fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// What parses is an object that prints and parses back to itself.
fn exact_arguments(input: &[u8]) -> Result<(), String> {
    let Some(text) = text(input) else { return Ok(()) };
    let Ok(object) = exact::parse_arguments(text) else { return Ok(()) };
    match exact::parse_arguments(&Value::Object(object.clone()).to_string()) {
        Ok(again) if again == object => Ok(()),
        _ => Err("does not parse back to itself".to_owned()),
    }
}

/// What parses keeps every digit that a value holds.
fn exact_result(input: &[u8]) -> Result<(), String> {
    let Some(text) = text(input) else { return Ok(()) };
    let Ok(value) = exact::parse_result(text) else { return Ok(()) };
    match exact::parse_result(&value.to_string()) {
        Ok(again) if canonical::text(&again) == canonical::text(&value) => Ok(()),
        _ => Err("does not parse back to itself".to_owned()),
    }
}

/// The check never changes what it accepts without coercion, and every refusal says something.
fn argument_check(input: &[u8]) -> Result<(), String> {
    let schema = json!({
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "pattern": "^OD[0-9]{8}$"},
            "count": {"type": "integer", "minimum": 0},
            "price": {"type": "number"},
            "tags": {"type": "array", "items": {"type": ["string", "null", "boolean"]}},
            "a": {"anyOf": [{"type": "object", "properties": {"b": {"type": "array"}}}, {"type": "integer"}]},
        },
        "required": ["order_id"],
    });
    let Some(arguments) = text(input).and_then(|text| exact::parse_arguments(text).ok()) else { return Ok(()) };
    for coerce in [false, true] {
        let Ok(check) = ArgumentCheck::compile(&schema, coerce) else {
            return Err("the schema does not compile".to_owned());
        };
        match check.check(arguments.clone()) {
            Ok(checked) if !coerce && checked.arguments != arguments => {
                return Err("changed valid arguments".to_owned());
            }
            Ok(_) => {}
            Err(refusal) if refusal.message.trim().is_empty() => return Err("refused without a word".to_owned()),
            Err(_) => {}
        }
        drop(redact::arguments(&arguments, &schema));
    }
    Ok(())
}

/// A schema compiles, or says why not.
fn input_schema(input: &[u8]) -> Result<(), String> {
    let Some(schema) = text(input).and_then(|text| serde_json::from_str::<Value>(text).ok()) else { return Ok(()) };
    match ArgumentCheck::compile(&schema, true) {
        Ok(check) => drop(check.check(json!({"id": 1, "x": [null]}).as_object().cloned().unwrap_or_default())),
        Err(problems) if problems.is_empty() => return Err("refused without a problem".to_owned()),
        Err(_) => {}
    }
    Ok(())
}

/// A template renders its literals unchanged, and refuses only with a reason.
fn template(input: &[u8]) -> Result<(), String> {
    let Some(text) = text(input) else { return Ok(()) };
    let arguments = json!({"order_id": "{note}", "note": "x"});
    let Some(arguments) = arguments.as_object() else { return Ok(()) };
    match Template::parse(text, arguments.keys().map(String::as_str), "/url") {
        Ok(template) => template.render(arguments).map(drop).ok_or_else(|| "did not render".to_owned()),
        Err(problems) if problems.is_empty() => Err("refused without a problem".to_owned()),
        Err(_) => Ok(()),
    }
}

/// A scope without a star allows exactly itself.
fn scopes(input: &[u8]) -> Result<(), String> {
    let Some(text) = text(input) else { return Ok(()) };
    let allowed = scope::Scopes::new([text]);
    if scope::is_pattern(text) && !text.contains('*') && !allowed.allow(Some(text)) {
        return Err("does not allow itself".to_owned());
    }
    if allowed.allow(Some("a:b")) && !text.contains('*') && text != "a:b" {
        return Err("allows another scope".to_owned());
    }
    Ok(())
}

/// A configuration loads, or says why not.
fn config(input: &[u8]) -> Result<(), String> {
    let Some(text) = text(input) else { return Ok(()) };
    let environment: BTreeMap<String, String> = [("A".to_owned(), "12".to_owned())].into();
    match toolreach::config::parse("reach.yaml", text, Path::new("."), &environment) {
        Ok(_) => Ok(()),
        Err(report) if report.render(false).trim().is_empty() => Err("refused without a word".to_owned()),
        Err(_) => Ok(()),
    }
}

fn ranking(input: &[u8]) -> Result<(), String> {
    let Some(text) = text(input) else { return Ok(()) };
    let passages: Vec<&str> = text.split('\n').collect();
    let scored = rank::rank("退款 refund", &passages);
    if scored.len() > passages.len() { Err("more results than passages".to_owned()) } else { Ok(()) }
}
