//! The wording of structural violations. Never a value that may be secret.

use jsonschema::JsonType;
use reach_core::{Problem, nearest};
use serde_json::Value;

use super::super::schema::SCHEMA;
use super::super::secrets;
use super::super::tree::{Data, Node, escape, parts};
use super::{Leaf, What};

/// Words of the whole design that this version does not read yet.
const LATER: [&str; 5] = ["imports", "models", "agents", "approval", "repeat"];

/// Kinds and adapters of the whole design that this version does not read yet.
const LATER_KINDS: [&str; 4] = ["oauth2_client_credentials", "oauth2_authorization_code", "openapi", "mcp"];

/// Names that people use for a key of ours.
const SYNONYMS: [(&str, &str); 17] = [
    ("id", "tool_id"),
    ("timeout", "timeout_ms"),
    ("timeout_seconds", "timeout_ms"),
    ("parameters", "input_schema"),
    ("inputSchema", "input_schema"),
    ("arguments", "input_schema"),
    ("outputSchema", "output_schema"),
    ("scope", "auth"),
    ("max_length", "max_result_length"),
    ("cmd", "command"),
    ("query", "statement"),
    ("retries", "fallback"),
    ("api_key", "key"),
    ("type", "kind"),
    ("host", "listen"),
    ("port", "listen"),
    ("mcpServers", "tools"),
];

/// One violation as problems: one for each key where it is about several.
pub(super) fn explain(leaf: &Leaf, root: &Node) -> Vec<Problem> {
    let pointer = leaf.pointer.as_str();
    let name = name(pointer, root);
    let one = |message: String, fix: String| vec![Problem::new(pointer, message, fix)];
    match &leaf.what {
        What::Unknown(keys) => keys.iter().map(|key| unknown(pointer, key, leaf, root)).collect(),
        What::Missing(key) => {
            let kinds = kinds(&leaf.schema, key);
            let fix = match described(&leaf.schema, key) {
                Some(description) => format!("add `{key}: ...`: {description}"),
                None if kinds.is_empty() => format!("add `{key}: ...`"),
                None => format!("add `{key}: ...`: one of {}", kinds.join(", ")),
            };
            one(format!("{name} has no `{key}`"), fix)
        }
        What::Type(wanted) => wrong_type(leaf, wanted, root),
        What::Choice(options) => choice(pointer, options, root),
        What::Bound { least, limit } => {
            let found = shown(pointer, root).map_or_else(String::new, |found| format!("{found}, "));
            let (word, fix) = if *least { ("less", "at least") } else { ("more", "at most") };
            one(format!("{name} is {found}{word} than {limit}"), format!("write {fix} {limit}"))
        }
        What::Length { least: true, limit: 1, .. } => {
            one(format!("{name} is empty"), "write something, or take it out".to_owned())
        }
        What::Length { least, limit, of } => {
            let plural = if *limit == 1 { "" } else { "s" };
            let (word, fix) = if *least { ("fewer", "at least") } else { ("more", "at most") };
            one(format!("{name} has {word} than {limit} {of}{plural}"), format!("write {fix} {limit}"))
        }
        What::Pattern(pattern) => one(
            format!("{name} does not have the form that is wanted"),
            format!(
                "write text that matches `{pattern}`{}",
                example(&leaf.schema).map_or_else(String::new, |text| format!(", such as `{text}`"))
            ),
        ),
        What::Other(keyword) => one(
            format!("{name} is not what is wanted ({keyword})"),
            "see the description of this key with `reach schema config`".to_owned(),
        ),
    }
}

fn unknown(parent: &str, key: &str, leaf: &Leaf, root: &Node) -> Problem {
    let schema = leaf.schema.as_str();
    let pointer = format!("{parent}/{}", escape(key));
    if !secrets::key_may_be_shown(parent, key) {
        return Problem::new(pointer, format!("an unknown key in {}", name(parent, root)), known_keys(schema));
    }
    if LATER.contains(&key) || LATER_KINDS.contains(&key) {
        return Problem::new(
            pointer,
            format!("`{key}` is not supported yet in this version"),
            "take it out until a later version reads it",
        );
    }
    let known = properties(schema);
    let near = SYNONYMS
        .iter()
        .find(|(other, ours)| *other == key && known.contains(ours))
        .map(|(_, ours)| *ours)
        .or_else(|| nearest::nearest(key, known.iter().copied(), 1).first().copied());
    let fix = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => known_keys(schema),
    };
    Problem::new(pointer, format!("unknown key `{key}` in {}", name(parent, root)), fix)
}

fn known_keys(schema: &str) -> String {
    let known = properties(schema);
    if known.is_empty() {
        return "take it out: nothing may stand here".to_owned();
    }
    format!("known keys here: {}", known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "))
}

fn wrong_type(leaf: &Leaf, wanted: &[JsonType], root: &Node) -> Vec<Problem> {
    let pointer = leaf.pointer.as_str();
    let name = name(pointer, root);
    let node = root.at(pointer);
    let words: Vec<&str> = wanted.iter().copied().map(type_word).collect();
    let wanted_words = words.join(" or ");
    let as_example = example(&leaf.schema)
        .or_else(|| wanted.contains(&JsonType::Object).then(|| required_keys(&leaf.schema)).flatten())
        .or_else(|| wanted.first().and_then(|wanted| type_example(*wanted)).map(ToOwned::to_owned))
        .map_or_else(String::new, |text| format!(", such as `{text}`"));
    let value = shown(pointer, root);
    let write = format!("write {wanted_words}{as_example}");
    let quotes = "put it in quotes".to_owned();
    let is_text_wanted = wanted == [JsonType::String];
    let (found, fix) = match node.map(|node| &node.data) {
        None | Some(Data::Null) => {
            return vec![Problem::new(
                pointer,
                format!("{name} has no value; wanted {wanted_words}"),
                format!("{write}, or take the key out"),
            )];
        }
        Some(Data::Bool(_)) => (
            value.map_or_else(|| "true or false".to_owned(), |value| format!("`{value}`")),
            if is_text_wanted { quotes } else { write },
        ),
        Some(Data::Number(_)) => (
            value.map_or_else(|| "a number".to_owned(), |value| format!("the number `{value}`")),
            if is_text_wanted { quotes } else { write },
        ),
        Some(Data::List(_)) => ("a list".to_owned(), write),
        Some(Data::Map(_)) => ("a mapping".to_owned(), write),
        Some(Data::Text(text)) => (
            value.map_or_else(|| "text".to_owned(), |value| format!("text (`{value}`)")),
            text_fix(text, wanted, &wanted_words, &as_example),
        ),
    };
    vec![Problem::new(pointer, format!("{name} is {found}; wanted {wanted_words}"), fix)]
}

/// What to do about text where something else is wanted.
fn text_fix(text: &str, wanted: &[JsonType], words: &str, as_example: &str) -> String {
    let folded = text.trim().to_lowercase();
    if wanted.contains(&JsonType::Boolean) && matches!(folded.as_str(), "yes" | "on" | "y" | "1" | "true") {
        return "write `true`, without quotes".to_owned();
    }
    if wanted.contains(&JsonType::Boolean) && matches!(folded.as_str(), "no" | "off" | "n" | "0" | "false") {
        return "write `false`, without quotes".to_owned();
    }
    let numeric = wanted.iter().any(|wanted| matches!(wanted, JsonType::Integer | JsonType::Number));
    let digits: String = folded.chars().filter(|c| *c != '_' && *c != ',').collect();
    if numeric && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return "write digits only: no quotes, no leading zero, no separators".to_owned();
    }
    if wanted.contains(&JsonType::Array) && wanted.len() == 1 {
        return format!("write a list: put it in square brackets{as_example}");
    }
    format!("write {words}{as_example}")
}

fn choice(pointer: &str, options: &[Value], root: &Node) -> Vec<Problem> {
    let name = name(pointer, root);
    let words: Vec<&str> = options.iter().filter_map(Value::as_str).collect();
    let list = options.iter().map(|option| format!("`{}`", plain(option))).collect::<Vec<_>>().join(", ");
    let one_of = if options.len() == 1 { format!("write {list}") } else { format!("write one of {list}") };
    let written = root.at(pointer).and_then(Node::text);
    if pointer == "/version" {
        return vec![Problem::new(
            pointer,
            "this version of the format is not known",
            format!("{one_of}: it is the only one that this program reads"),
        )];
    }
    if let Some(word) = written.filter(|word| LATER_KINDS.contains(word)) {
        return vec![Problem::new(pointer, format!("`{word}` is not supported yet in this version"), one_of)];
    }
    let near = written.and_then(|word| nearest::nearest(word, words, 1).first().map(|near| (*near).to_owned()));
    let fix = match near {
        Some(near) => format!("did you mean `{near}`? {one_of}"),
        None => one_of,
    };
    let message = match shown(pointer, root) {
        Some(found) => format!("{name} is `{found}`, which is not known"),
        None => format!("{name} is not one of the known values"),
    };
    vec![Problem::new(pointer, message, fix)]
}

/// How a thing is called in a message: by its key, a list item by its list, the root by the file.
fn name(pointer: &str, root: &Node) -> String {
    let parts: Vec<String> = parts(pointer).collect();
    match parts.as_slice() {
        [] => "the file".to_owned(),
        [tools, _] if tools == "tools" && root.at(pointer).is_some_and(has_id) => {
            let id = root.at(pointer).and_then(|tool| tool.entry("tool_id")?.node.text());
            format!("the tool `{}`", id.unwrap_or_default())
        }
        [.., list, index] if index.bytes().all(|byte| byte.is_ascii_digit()) => {
            let singular = list.strip_suffix('s').unwrap_or(list);
            format!("{singular} {}", index.parse::<usize>().map_or(0, |index| index + 1))
        }
        [.., key] if key.chars().count() <= 60 => format!("`{key}`"),
        [..] => "this".to_owned(),
    }
}

/// Whether a tool has an id that may stand in a message.
fn has_id(tool: &Node) -> bool {
    tool.entry("tool_id").is_some_and(|entry| {
        !entry.node.from_environment
            && entry.node.text().is_some_and(|id| reach_core::ToolId::parse(id).is_ok() && id.chars().count() <= 60)
    })
}

/// The values that tell alternatives apart, such as the kinds of a credential.
fn kinds(schema: &str, key: &str) -> Vec<String> {
    let alternatives = SCHEMA.pointer(schema).and_then(|schema| schema.get("oneOf")).and_then(Value::as_array);
    let kinds = alternatives.into_iter().flatten().filter_map(|one| one.get("properties")?.get(key)?.get("const"));
    kinds.map(|kind| format!("`{}`", plain(kind))).collect()
}

/// A value short enough and harmless enough to be shown.
fn shown(pointer: &str, root: &Node) -> Option<String> {
    let node = root.at(pointer)?;
    if secrets::is_hidden(pointer, Some(node)) {
        return None;
    }
    let text = match &node.data {
        Data::Bool(value) => value.to_string(),
        Data::Number(value) => value.to_string(),
        Data::Text(text) => text.clone(),
        Data::Null | Data::List(_) | Data::Map(_) => return None,
    };
    let harmless = text.chars().count() <= 40 && !text.contains(['\n', '`']) && secrets::in_urls(&text).is_empty();
    harmless.then_some(text)
}

fn type_word(wanted: JsonType) -> &'static str {
    match wanted {
        JsonType::Array => "a list",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "a whole number",
        JsonType::Null => "nothing",
        JsonType::Number => "a number",
        JsonType::Object => "a mapping",
        JsonType::String => "text",
    }
}

fn type_example(wanted: JsonType) -> Option<&'static str> {
    match wanted {
        JsonType::Array => Some("[one, two]"),
        JsonType::Integer => Some("3000"),
        JsonType::Number => Some("1.5"),
        JsonType::Object => Some("{key: value}"),
        JsonType::Boolean | JsonType::Null | JsonType::String => None,
    }
}

/// The example that the schema gives for a key, else its default.
fn example(schema: &str) -> Option<String> {
    let schema = SCHEMA.pointer(schema)?;
    let example = schema.get("examples").and_then(|all| all.get(0)).or_else(|| schema.get("default"))?;
    let empty = matches!(example, Value::Array(items) if items.is_empty())
        || matches!(example, Value::Object(entries) if entries.is_empty());
    (!empty).then(|| plain(example))
}

/// `{url: ...}`: a mapping with the keys that it has to have, if it has any.
fn required_keys(schema: &str) -> Option<String> {
    let required = SCHEMA.pointer(schema)?.get("required")?.as_array()?;
    let keys: Vec<String> = required.iter().filter_map(Value::as_str).map(|key| format!("{key}: ...")).collect();
    (!keys.is_empty()).then(|| format!("{{{}}}", keys.join(", ")))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

fn properties(schema: &str) -> Vec<&'static str> {
    SCHEMA
        .pointer(schema)
        .and_then(|schema| schema.get("properties"))
        .and_then(Value::as_object)
        .map(|known| known.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

/// The first sentence of a key's description, as the middle of a sentence.
fn described(schema: &str, key: &str) -> Option<String> {
    let text = SCHEMA.pointer(schema)?.get("properties")?.get(key)?.get("description")?.as_str()?;
    let sentence =
        [". ", "; "].iter().filter_map(|end| text.split_once(end)).map(|(head, _)| head).min_by_key(|head| head.len());
    let sentence = sentence.unwrap_or(text).trim_end_matches('.');
    let mut letters = sentence.chars();
    let first = letters.next()?;
    let second_is_capital = letters.clone().next().is_some_and(char::is_uppercase);
    let head = if second_is_capital { first.to_string() } else { first.to_lowercase().to_string() };
    Some(format!("{head}{}", letters.as_str()))
}
