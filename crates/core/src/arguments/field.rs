//! How a place in the arguments is written for its reader: `items[2].sku` instead of `/items/2/sku`.

use serde_json::Value;

use super::places::segments;

/// Characters of one name or value that a message shows.
pub(super) const CLIP: usize = 80;

/// The place as a person or a model would write it; "the arguments" for the whole.
pub(crate) fn path(pointer: &str, instance: Option<&Value>) -> String {
    let mut out = String::new();
    let mut here = instance;
    for segment in segments(pointer) {
        let in_array = match here {
            Some(value) => value.is_array(),
            None => !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit()),
        };
        here = here.and_then(|value| step(value, &segment));
        if in_array {
            out.push_str(&format!("[{segment}]"));
        } else if is_plain(&segment) {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&clipped(&segment));
        } else {
            out.push_str(&format!("[{}]", clipped(&Value::from(segment).to_string())));
        }
    }
    if out.is_empty() { "the arguments".to_owned() } else { out }
}

/// One step into a value by an unescaped pointer segment.
pub(super) fn step<'a>(value: &'a Value, segment: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) => map.get(segment),
        Value::Array(list) => segment.parse::<usize>().ok().and_then(|index| list.get(index)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn is_plain(segment: &str) -> bool {
    !segment.is_empty() && segment.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@'))
}

/// At most [`CLIP`] characters; what is left out is marked by an ellipsis.
pub(super) fn clipped(text: &str) -> String {
    match text.char_indices().nth(CLIP) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_reads_like_code_and_odd_names_are_quoted() {
        let instance = json!({"items": [{}, {}, {"sku": 1}], "7": {"a b": 1}});
        assert_eq!(path("/items/2/sku", Some(&instance)), "items[2].sku");
        assert_eq!(path("/7/a b", Some(&instance)), "7[\"a b\"]");
        assert_eq!(path("/a~1b", None), "[\"a/b\"]");
        assert_eq!(path("", None), "the arguments");
    }
}
