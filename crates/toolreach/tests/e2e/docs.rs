//! The reference of `reach.yaml`: its prose is written by hand, its tables come from the schema that the
//! program itself reads by, and no key of the schema is without a table.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::support::root;

const BEGIN: &str = "<!-- keys of ";
const END: &str = "<!-- end of keys -->";

#[test]
fn the_reference_names_every_key_of_the_schema_as_the_schema_does() {
    let schema = toolreach::config::schema();
    let definitions = schema["$defs"].as_object().unwrap();
    let path = root().join("docs/configuration.md");
    let found = std::fs::read_to_string(&path).unwrap();
    let (mut wanted, mut shown) = (String::new(), BTreeSet::new());
    let mut rest = found.as_str();
    while let Some(at) = rest.find(BEGIN) {
        let (before, block) = rest.split_at(at);
        let name = block[BEGIN.len()..].split_once(" -->").expect("the mark is closed").0;
        let definition = definitions.get(name).unwrap_or_else(|| panic!("the schema has no `{name}`"));
        wanted.push_str(&format!("{before}{BEGIN}{name} -->\n{}{END}", table(definition, definitions)));
        shown.insert(name.to_owned());
        rest = &block[block.find(END).expect("the block ends") + END.len()..];
    }
    wanted.push_str(rest);
    let with_keys = definitions.iter().filter(|(_, definition)| !parts(definition).is_empty());
    let missing: Vec<&String> = with_keys.map(|(name, _)| name).filter(|name| !shown.contains(*name)).collect();
    assert!(missing.is_empty(), "no table in docs/configuration.md: {missing:?}");
    for key in schema["properties"].as_object().unwrap().keys() {
        assert!(found.contains(&format!("`{key}`")), "the section `{key}` is not mentioned");
    }
    if std::env::var_os("REACH_BLESS").is_some() {
        std::fs::write(&path, wanted).unwrap();
    } else {
        assert!(found == wanted, "docs/configuration.md is out of date; run the tests once with REACH_BLESS=1");
    }
}

/// The objects that a definition allows: itself, or the alternatives that have keys.
fn parts(definition: &Value) -> Vec<&Value> {
    let alternatives = definition["oneOf"].as_array().into_iter().flatten();
    std::iter::once(definition).chain(alternatives).filter(|part| part["properties"].is_object()).collect()
}

fn table(definition: &Value, definitions: &Map<String, Value>) -> String {
    let mut table = "| key | type | default | effect |\n| --- | --- | --- | --- |\n".to_owned();
    for part in parts(definition) {
        let required: Vec<&str> = part["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        // An alternative is told by the one key that has a fixed value.
        let kind = part["properties"]["kind"]["const"].as_str();
        for (key, property) in part["properties"].as_object().unwrap() {
            if kind.is_some() && key == "kind" {
                continue;
            }
            let name = match kind {
                Some(kind) => format!("`{key}` (`kind: {kind}`)"),
                None => format!("`{key}`"),
            };
            let default = match property.get("default") {
                Some(value)
                    if !value.as_object().is_some_and(Map::is_empty)
                        && !value.as_array().is_some_and(Vec::is_empty) =>
                {
                    format!("`{value}`").replace('"', "")
                }
                _ if required.contains(&key.as_str()) => "required".to_owned(),
                _ => "".to_owned(),
            };
            let words = property["description"].as_str().unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" ");
            let choices = choices(property, definitions);
            let row = format!("| {name} | {} | {default} | {words}{choices} |\n", kind_of(property, definitions));
            table.push_str(&row);
        }
    }
    table
}

fn resolve<'a>(property: &'a Value, definitions: &'a Map<String, Value>) -> (Option<&'a str>, &'a Value) {
    match property["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
        Some(name) => (Some(name), &definitions[name]),
        None => (None, property),
    }
}

/// The type as a reader would say it.
fn kind_of(property: &Value, definitions: &Map<String, Value>) -> String {
    let (name, definition) = resolve(property, definitions);
    let is_choice = definition["oneOf"].as_array().is_some_and(|all| all.iter().all(|one| one["const"].is_string()));
    if is_choice || definition["enum"].is_array() {
        return "word".to_owned();
    }
    if let (Some(name), false) = (name, parts(definition).is_empty()) {
        return format!("[{}](#{})", name.to_lowercase(), anchor(name));
    }
    if let Some(any) = definition["anyOf"].as_array() {
        return any.iter().map(|one| kind_of(one, definitions)).collect::<Vec<_>>().join(" or ");
    }
    match definition["type"].as_str() {
        Some("integer") => match (definition["minimum"].as_u64(), definition["maximum"].as_u64()) {
            (Some(low), Some(high)) if high < u64::from(u32::MAX) => format!("{low} to {high}"),
            (Some(low @ 1..), _) => format!("number from {low}"),
            _ => "number".to_owned(),
        },
        Some("string") => "text".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("number") => "number".to_owned(),
        Some("array") => format!("list of {}", kind_of(&definition["items"], definitions)),
        Some("object") if definition["additionalProperties"].is_object() => {
            format!("map to {}", kind_of(&definition["additionalProperties"], definitions))
        }
        Some("object") => "map".to_owned(),
        _ => "any".to_owned(),
    }
}

fn choices(property: &Value, definitions: &Map<String, Value>) -> String {
    let (_, definition) = resolve(property, definitions);
    if let Some(words) = definition["enum"].as_array() {
        let words: Vec<String> = words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return format!(" {}.", words.join(", "));
    }
    let all = definition["oneOf"].as_array().into_iter().flatten();
    let words: Vec<String> = all
        .filter_map(|one| {
            let about = one["description"].as_str().unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" ");
            one["const"].as_str().map(|word| format!("`{word}`: {about}"))
        })
        .collect();
    if words.is_empty() { String::new() } else { format!(" {}", words.join(" ")) }
}

/// Where the table of a definition stands.
fn anchor(name: &str) -> &'static str {
    match name {
        "Server" => "server",
        "Credential" => "credentials",
        "Caller" => "callers",
        "Rate" => "rate",
        "Upstream" => "upstreams",
        "Breaker" => "breaker",
        "Tool" => "tools",
        "Auth" => "auth",
        "MappedFallback" => "fallback",
        "Verify" => "verify",
        "http" => "http",
        "Body" => "body",
        "sql" => "sql",
        "script" => "script",
        "email" => "email",
        "file" => "file",
        "State" => "state",
        "Keep" => "keep",
        other => panic!("`{other}` is new: give it a heading in docs/configuration.md, and its anchor here"),
    }
}
