//! What a schema wants, in a few words that a model can act on.

use serde_json::{Map, Value};

use super::family::{Document, types_of};
use super::field::clipped;
use super::schema::matches;

/// Values of an enumeration that a message lists.
const VALUES: usize = 20;

/// Unions and references inside one another that are put into words.
const DEPTH: usize = 4;

/// Words for the schema at `pointer`, such as `string matching ^OD[0-9]{8}$, for example OD20241015`.
pub(super) fn words(document: &Document<'_>, pointer: &str) -> String {
    at(document, pointer, DEPTH)
}

/// The description at `pointer` or where its reference leads, clipped.
pub(super) fn description(document: &Document<'_>, pointer: &str) -> Option<String> {
    lookup(document, pointer, "description").and_then(Value::as_str).map(|text| clipped(text.trim()))
}

/// A keyword of the schema at `pointer`, or of what it refers to.
pub(super) fn lookup<'a>(document: &Document<'a>, pointer: &str, keyword: &str) -> Option<&'a Value> {
    let mut node = document.node(pointer)?;
    for _ in 0..DEPTH {
        if let Some(value) = node.get(keyword) {
            return Some(value);
        }
        node = document.node(&document.resolve(node.get("$ref")?.as_str()?)?)?;
    }
    None
}

fn at(document: &Document<'_>, pointer: &str, depth: usize) -> String {
    let Some(node) = document.node(pointer) else { return "any value".to_owned() };
    if depth == 0 {
        return own(document, pointer, node, 0);
    }
    if let Some(target) = node.get("$ref").and_then(Value::as_str).and_then(|to| document.resolve(to)) {
        return at(document, &target, depth - 1);
    }
    for key in ["anyOf", "oneOf"] {
        let Some(branches) = node.get(key).and_then(Value::as_array).filter(|_| !node.contains_key("type")) else {
            continue;
        };
        let mut all: Vec<String> = Vec::new();
        for index in 0..branches.len().min(VALUES) {
            let words = at(document, &format!("{pointer}/{key}/{index}"), depth - 1);
            if !all.contains(&words) {
                all.push(words);
            }
        }
        return all.join(" or ");
    }
    own(document, pointer, node, depth)
}

/// Words for the keywords of one schema, without what it applies in place.
fn own(document: &Document<'_>, pointer: &str, node: &Map<String, Value>, depth: usize) -> String {
    if let Some(value) = node.get("const") {
        return format!("exactly {}", clipped(&value.to_string()));
    }
    if let Some(values) = node.get("enum").and_then(Value::as_array) {
        return enumeration(values);
    }
    let types: Vec<String> =
        types_of(node).into_iter().map(|name| type_words(document, pointer, node, name, depth)).collect();
    let mut words = if types.is_empty() { "value".to_owned() } else { types.join(" or ") };
    if let Some(pattern) = node.get("pattern").and_then(Value::as_str) {
        words.push_str(&format!(" matching {}", clipped(pattern)));
        if let Some(example) = example(node, pattern) {
            words.push_str(&format!(", for example {example}"));
        }
    }
    if let Some(format) = node.get("format").and_then(Value::as_str) {
        words.push_str(&format!(" in the format {format}"));
        if let Some(example) = format_example(format) {
            words.push_str(&format!(", for example {example}"));
        }
    }
    for (low, high, unit) in [
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " fields"),
        ("minimum", "maximum", ""),
    ] {
        if let Some(range) = range(node.get(low), node.get(high), unit) {
            words.push_str(&range);
        }
    }
    for (keyword, phrase) in
        [("exclusiveMinimum", "greater than"), ("exclusiveMaximum", "less than"), ("multipleOf", "a multiple of")]
    {
        if let Some(limit) = node.get(keyword).filter(|limit| limit.is_number()) {
            words.push_str(&format!(", {phrase} {limit}"));
        }
    }
    if node.get("uniqueItems") == Some(&Value::Bool(true)) {
        words.push_str(", no item twice");
    }
    words
}

fn type_words(document: &Document<'_>, pointer: &str, node: &Map<String, Value>, name: &str, depth: usize) -> String {
    match name {
        "array" if depth > 0 && node.get("items").is_some_and(Value::is_object) => {
            format!("array of {}", at(document, &format!("{pointer}/items"), 1))
        }
        other => other.to_owned(),
    }
}

/// The listed values, at most twenty.
pub(super) fn enumeration(values: &[Value]) -> String {
    let shown: Vec<String> = values.iter().take(VALUES).map(|value| clipped(&value.to_string())).collect();
    let more = values.len().saturating_sub(VALUES);
    let all = shown.join(", ");
    match (values.len(), more) {
        (1, _) => format!("exactly {all}"),
        (_, 0) => format!("one of {all}"),
        _ => format!("one of {all} and {more} more"),
    }
}

fn range(low: Option<&Value>, high: Option<&Value>, unit: &str) -> Option<String> {
    let number = |value: Option<&Value>| value.filter(|value| value.is_number()).map(Value::to_string);
    Some(match (number(low), number(high)) {
        (Some(low), Some(high)) if low == high => format!(", exactly {low}{unit}"),
        (Some(low), Some(high)) => format!(", from {low} to {high}{unit}"),
        (Some(low), None) => format!(", at least {low}{unit}"),
        (None, Some(high)) => format!(", at most {high}{unit}"),
        (None, None) => return None,
    })
}

/// An example that fits the pattern: a declared one, else a word of the description.
fn example(node: &Map<String, Value>, pattern: &str) -> Option<String> {
    let declared = node.get("examples").and_then(Value::as_array).into_iter().flatten();
    let declared = declared.chain(node.get("example")).chain(node.get("default")).filter_map(Value::as_str);
    let description = node.get("description").and_then(Value::as_str).unwrap_or_default();
    let edges = |c: char| {
        matches!(
            c,
            '"' | '\''
                | '`'
                | '('
                | ')'
                | '['
                | ']'
                | ','
                | ';'
                | ':'
                | '.'
                | '“'
                | '”'
                | '：'
                | '，'
                | '。'
                | '（'
                | '）'
        )
    };
    let described = description
        .split(|c: char| c.is_whitespace() || matches!(c, '，' | '、' | '：' | '（' | '）'))
        .map(|word| word.trim_matches(edges))
        // An example stands out from prose: it has a digit, a capital inside or punctuation.
        .filter(|word| word.chars().any(|c| c.is_ascii_digit() || matches!(c, '-' | '_' | '@' | '/')));
    // A description may be long; a message needs one example, not the best.
    declared.chain(described.take(16)).find(|word| matches(pattern, word)).map(clipped)
}

/// A value in a well-known format.
fn format_example(format: &str) -> Option<&'static str> {
    Some(match format {
        "date" => "2024-10-15",
        "date-time" => "2024-10-15T09:30:00Z",
        "time" => "09:30:00Z",
        "duration" => "P3DT4H",
        "email" | "idn-email" => "name@example.com",
        "hostname" | "idn-hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "uri" | "iri" => "https://example.com/page",
        "uuid" => "123e4567-e89b-12d3-a456-426614174000",
        _ => return None,
    })
}
