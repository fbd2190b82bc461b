//! Where schemas live inside a schema, and how JSON pointers are written and read.
//!
//! `enum`, `const`, `default` and `examples` hold data, not schemas: nothing here looks into them, so a
//! default value that happens to have a key named `pattern` is never taken for a keyword.

use serde_json::{Map, Value};

/// Keywords whose value is one schema.
const ONE: &[&str] = &[
    "items",
    "additionalProperties",
    "additionalItems",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "propertyNames",
    "contentSchema",
    "not",
    "if",
    "then",
    "else",
];

/// Keywords whose value is a list of schemas. Before 2020-12 `items` may be one, too.
const LIST: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems", "items"];

/// Keywords whose value is a map of schemas.
const MAP: &[&str] = &["properties", "patternProperties", "dependentSchemas", "$defs", "definitions", "dependencies"];

/// One pointer segment, escaped.
pub(super) fn escape(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

/// The segments of a pointer, unescaped.
pub(crate) fn segments(pointer: &str) -> impl Iterator<Item = String> + '_ {
    pointer.split('/').skip(1).map(|segment| segment.replace("~1", "/").replace("~0", "~"))
}

/// The pointer one level up; empty at the top.
pub(super) fn parent(pointer: &str) -> &str {
    pointer.rfind('/').map_or("", |at| &pointer[..at])
}

/// Every direct subschema of `node` with the pointer that leads to it from there.
pub(super) fn subschemas(node: &Map<String, Value>) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (key, value) in node {
        let key = key.as_str();
        match value {
            Value::Object(map) if MAP.contains(&key) => {
                found.extend(
                    map.iter()
                        // Draft 7 `dependencies` may hold lists of names beside schemas.
                        .filter(|(_, value)| is_schema(value))
                        .map(|(name, value)| (format!("/{key}/{}", escape(name)), value)),
                );
            }
            Value::Array(list) if LIST.contains(&key) => {
                found.extend(list.iter().enumerate().map(|(index, value)| (format!("/{key}/{index}"), value)));
            }
            value if ONE.contains(&key) && is_schema(value) => found.push((format!("/{key}"), value)),
            _ => {}
        }
    }
    found
}

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

/// Calls `visit` for every schema that is an object, the root first. Linear; no recursion.
pub(super) fn walk<'a>(root: &'a Value, mut visit: impl FnMut(&str, &'a Map<String, Value>)) {
    let mut open = vec![(String::new(), root)];
    while let Some((pointer, value)) = open.pop() {
        if let Value::Object(node) = value {
            visit(&pointer, node);
            open.extend(
                subschemas(node).into_iter().rev().map(|(suffix, child)| (format!("{pointer}{suffix}"), child)),
            );
        }
    }
}
