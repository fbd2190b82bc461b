//! Everything that is wrong with a schema, found when the tool is declared and reported at once.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use super::close;
use super::family::{Document, types_of};
use super::places::{escape, segments, walk};
use super::schema::is_pattern;
use crate::nearest::nearest;
use crate::problem::Problem;

/// The types JSON has.
const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];

/// What people write for them.
const TYPE_SLIPS: &[(&str, &str)] = &[
    ("str", "string"),
    ("text", "string"),
    ("char", "string"),
    ("date", "string"),
    ("int", "integer"),
    ("long", "integer"),
    ("float", "number"),
    ("double", "number"),
    ("decimal", "number"),
    ("bool", "boolean"),
    ("list", "array"),
    ("tuple", "array"),
    ("dict", "object"),
    ("map", "object"),
    ("none", "null"),
];

/// The problems of any schema: keywords, patterns, references.
pub(super) fn schema(schema: &Value) -> Vec<Problem> {
    let mut problems = keywords(schema);
    problems.extend(patterns(schema));
    problems.extend(references(schema));
    problems
}

/// The problems of a tool's `input_schema`: those of any schema, and its root must be an object.
pub(super) fn input_schema(schema: &Value) -> Vec<Problem> {
    let Some(root) = schema.as_object() else {
        return vec![Problem::new(
            "",
            "an input schema describes an object of named arguments",
            "write `type: object` with `properties`; for a tool without arguments leave `properties` empty",
        )];
    };
    let mut problems = self::schema(schema);
    let is_known = |name: &&str| TYPES.contains(name);
    let types = types_of(root);
    if root.contains_key("type") && types != ["object"] && !types.is_empty() && types.iter().all(|one| is_known(&one)) {
        problems.push(Problem::new(
            "/type",
            format!("arguments are an object of named values, not {}", types.join(" or ")),
            "write `type: object` and put the value under a name in `properties`",
        ));
    }
    if problems.is_empty() {
        problems.extend(required_but_unknown(schema));
    }
    problems
}

/// The problem behind an error that the compiler found and the checks above did not.
pub(super) fn of_error(error: &ValidationError<'_>) -> Problem {
    let message = error.masked_with("the value").to_string();
    Problem::new(error.instance_path().as_str(), message, "correct the schema there (JSON Schema 2020-12)")
}

fn keywords(schema: &Value) -> Vec<Problem> {
    let validator = match jsonschema::meta::validator_for(schema) {
        Ok(validator) => validator,
        Err(error) => {
            return vec![Problem::new(
                "/$schema",
                format!("this dialect is not known here: {}", error.masked_with("the value")),
                "leave `$schema` out for JSON Schema 2020-12, or name a published draft",
            )];
        }
    };
    let mut problems: Vec<Problem> = Vec::new();
    for error in validator.iter_errors(schema) {
        let pointer = error.instance_path().as_str();
        // Patterns have their own check, with better words.
        let is_pattern = matches!(error.kind(), ValidationErrorKind::Format { format } if format == "regex");
        if !is_pattern && !problems.iter().any(|known| known.pointer == pointer) {
            problems.push(keyword(pointer, &error));
        }
    }
    problems
}

fn keyword(pointer: &str, error: &ValidationError<'_>) -> Problem {
    let path: Vec<String> = segments(pointer).collect();
    let name = path.iter().rev().find(|segment| segment.parse::<usize>().is_err()).map_or("", String::as_str);
    let value: &Value = error.instance();
    match (name, value) {
        ("type", Value::String(text)) => {
            let known = TYPE_SLIPS.iter().find(|(slip, _)| *slip == text.to_lowercase()).map(|(_, name)| *name);
            let meant = known.or_else(|| nearest(text, TYPES.iter().copied(), 1).first().copied());
            Problem::new(
                pointer,
                format!("`{}` is not a JSON type", super::field::clipped(text)),
                match meant {
                    Some(meant) => format!("write `type: {meant}`"),
                    None if text == "any" => "leave `type` out to admit any value".to_owned(),
                    None => format!("use one of {}", TYPES.join(", ")),
                },
            )
        }
        ("required", Value::Bool(_)) => Problem::new(
            pointer,
            "`required` is a list of names, beside `properties`",
            "take it out here and write `required: [name]` one level up",
        ),
        (_, Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_))
            if matches!(error.kind(), ValidationErrorKind::Type { .. }) && error.schema_path().as_str() == "/type" =>
        {
            Problem::new(
                pointer,
                format!("a schema stands here, and a schema is an object, not {}", kind_of(value)),
                "write an object such as `{type: string}`",
            )
        }
        _ => Problem::new(
            pointer,
            format!("`{name}` is not as JSON Schema has it: {}", error.masked_with("the value")),
            format!("correct `{name}` (JSON Schema 2020-12)"),
        ),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn patterns(schema: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    walk(schema, |pointer, node| {
        if let Some(pattern) = node.get("pattern").and_then(Value::as_str)
            && !is_pattern(pattern)
        {
            problems.push(bad_pattern(format!("{pointer}/pattern"), pattern));
        }
        for pattern in node.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            if !is_pattern(pattern) {
                problems.push(bad_pattern(format!("{pointer}/patternProperties/{}", escape(pattern)), pattern));
            }
        }
    });
    problems
}

fn bad_pattern(pointer: String, pattern: &str) -> Problem {
    let shown = super::field::clipped(pattern);
    if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|part| pattern.contains(part)) {
        return Problem::new(
            pointer,
            format!("the pattern `{shown}` looks ahead or behind, which cannot be matched in linear time"),
            "write it without look-around, or use several simple patterns under `allOf` or `not`",
        );
    }
    let bytes = pattern.as_bytes();
    let refers_back = bytes.windows(2).enumerate().any(|(at, pair)| {
        pair[0] == b'\\'
            && (pair[1].is_ascii_digit() && pair[1] != b'0' || pair[1] == b'k')
            && bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
    });
    if refers_back {
        return Problem::new(
            pointer,
            format!("the pattern `{shown}` refers back to a group, which cannot be matched in linear time"),
            "write the repeated part out, or check it in the system behind the tool",
        );
    }
    Problem::new(
        pointer,
        format!("`{shown}` is not a regular expression, or too large a one"),
        "correct it; a literal bracket, brace or plus sign needs a backslash",
    )
}

fn references(schema: &Value) -> Vec<Problem> {
    let document = Document::of(schema);
    let mut problems = Vec::new();
    walk(schema, |pointer, node| {
        let Some(reference) = node.get("$ref").and_then(Value::as_str) else { return };
        let at = format!("{pointer}/$ref");
        // With identifiers of its own below the root the document is left to the compiler.
        let has_identifier = document.is_intricate || document.root.get("$id").is_some();
        if reference.starts_with('#') {
            if !document.is_intricate && document.resolve(reference).is_none() {
                problems.push(Problem::new(
                    at,
                    format!("nothing in this schema is at `{}`", super::field::clipped(reference)),
                    "refer to a definition that is there, such as `#/$defs/name`",
                ));
            }
        } else if !has_identifier && !reference.contains("json-schema.org/") {
            problems.push(Problem::new(
                at,
                format!("`{}` is outside this schema, and nothing is fetched", super::field::clipped(reference)),
                "copy that schema under `$defs` and refer to it as `#/$defs/name`",
            ));
        }
    });
    problems
}

/// Names that are required and that a closed object refuses: such a tool could never be called.
fn required_but_unknown(schema: &Value) -> Vec<Problem> {
    let enforced = close::closed(schema);
    let document = Document::of(&enforced);
    let mut problems: Vec<Problem> = Vec::new();
    walk(&enforced, |pointer, node| {
        let is_false = |keyword| node.get(keyword) == Some(&Value::Bool(false));
        let family = document.family([pointer.to_owned()], true);
        let is_closed_here = is_false("additionalProperties") && !node.contains_key("patternProperties");
        let is_closed_below = is_false("unevaluatedProperties")
            && !family.is_opaque
            && !family.members.values().any(|member| {
                member.node.contains_key("patternProperties")
                    || member.node.get("additionalProperties").is_some_and(|rest| rest != &Value::Bool(false))
            });
        let own: Vec<&str> = node
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect();
        let known = if is_closed_here { own } else { family.names() };
        if !is_closed_here && !is_closed_below {
            return;
        }
        for (place, member) in family.members.iter().filter(|(_, member)| !member.reach.conditional) {
            let required = member.node.get("required").and_then(Value::as_array);
            for (index, name) in required.into_iter().flatten().enumerate() {
                let Some(name) = name.as_str().filter(|name| !known.contains(name)) else { continue };
                let at = format!("{place}/required/{index}");
                if problems.iter().any(|problem| problem.pointer == at) {
                    continue;
                }
                let meant = nearest(name, known.iter().copied(), 1);
                problems.push(Problem::new(
                    at,
                    format!("`{name}` is required, but `properties` does not name it and other fields are refused"),
                    match meant.first() {
                        Some(meant) => {
                            format!("did you mean `{meant}`? Otherwise describe `{name}` under `properties`")
                        }
                        None => format!("describe `{name}` under `properties`, or set `additionalProperties: true`"),
                    },
                ));
            }
        }
    });
    problems
}
