//! From the bytes on standard output to a result.
//!
//! Nothing is guessed: what is not whole JSON is text, what is not text is bytes, and what would be JSON
//! but for a number that JSON does not have is a fault of the script, named as such.

use reach_core::{Payload, exact};
use serde_json::Value;

use super::Expect;

/// Why output cannot be what was promised.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Reads on after the name of the program.
    pub(super) message: String,
    /// For the journal: the parser's words and the beginning of the output.
    pub(super) detail: String,
}

/// Decodes the whole output of a program that succeeded.
pub(super) fn decode(stdout: Vec<u8>, expect: Expect) -> Result<Payload, Wrong> {
    let text = match (String::from_utf8(stdout), expect) {
        (Ok(text), _) => text,
        (Err(not_text), Expect::Auto) => {
            return Ok(Payload::Binary {
                media_type: "application/octet-stream".to_owned(),
                bytes: not_text.into_bytes(),
            });
        }
        (Err(not_text), Expect::Json | Expect::Text) => {
            return Err(Wrong {
                message: "printed bytes that are not UTF-8 text".to_owned(),
                detail: not_text.utf8_error().to_string(),
            });
        }
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match expect {
        Expect::Text => Ok(as_text(text)),
        Expect::Json if text.trim().is_empty() => {
            Err(Wrong { message: "printed nothing where JSON was expected".to_owned(), detail: String::new() })
        }
        Expect::Json => match exact::parse_result(text) {
            Ok(value) => Ok(Payload::Json(value)),
            Err(error) => Err(not_a_number(text).unwrap_or_else(|| Wrong {
                message: "printed something that is not JSON".to_owned(),
                detail: format!("{error}: {}", beginning(text)),
            })),
        },
        Expect::Auto => match exact::parse_result(text) {
            Ok(value) if says_the_same(&value, text) => Ok(Payload::Json(value)),
            Ok(_) => Ok(as_text(text)),
            Err(_) => match not_a_number(text) {
                Some(wrong) => Err(wrong),
                None => Ok(as_text(text)),
            },
        },
    }
}

/// Text without the line ending that every program prints last; no text at all is no result.
fn as_text(text: &str) -> Payload {
    let text = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
    if text.is_empty() { Payload::Empty } else { Payload::Text(text.to_owned()) }
}

/// A lone `1.10` is more likely a version than the number 1.1: a scalar counts as JSON only where nothing
/// of it is lost.
fn says_the_same(value: &Value, text: &str) -> bool {
    match value {
        Value::Object(_) | Value::Array(_) | Value::String(_) => true,
        Value::Null | Value::Bool(_) => true,
        Value::Number(number) => text.trim() == number.to_string(),
    }
}

/// Names the `NaN` or `Infinity` that alone keeps `text` from being a JSON object or array.
fn not_a_number(text: &str) -> Option<Wrong> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let (repaired, found) = without_non_numbers(text);
    let found = found?;
    exact::parse_result(&repaired).ok()?;
    Some(Wrong {
        message: format!("printed {found} in its JSON, which is not a JSON value; print null or leave the field out"),
        detail: beginning(text),
    })
}

/// The text with every bare `NaN`, `Infinity` and `-Infinity` outside strings replaced by null, and the first found.
fn without_non_numbers(text: &str) -> (String, Option<&'static str>) {
    let mut out = String::with_capacity(text.len());
    let mut found = None;
    let mut rest = text;
    let mut in_string = false;
    while let Some(next) = rest.chars().next() {
        let mut taken = next.len_utf8();
        match next {
            '"' => in_string = !in_string,
            '\\' if in_string => taken += rest[1..].chars().next().map_or(0, char::len_utf8),
            _ if !in_string => {
                if let Some(word) = ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| rest.starts_with(word)) {
                    found = found.or(Some(word));
                    out.push_str("null");
                    rest = &rest[word.len()..];
                    continue;
                }
            }
            _ => {}
        }
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    (out, found)
}

/// What the journal keeps of output that was not understood.
fn beginning(text: &str) -> String {
    text.chars().take(500).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn auto(text: &str) -> Result<Payload, Wrong> {
        decode(text.as_bytes().to_vec(), Expect::Auto)
    }

    #[test]
    fn json_stays_json_and_everything_else_stays_the_text_it_was() {
        let nested = json!({"status": "success", "data": {"count": 42, "items": ["a"]}});
        assert_eq!(auto(&format!("{nested}\n")), Ok(Payload::Json(nested)));
        assert_eq!(auto("\u{feff}[1, 2]"), Ok(Payload::Json(json!([1, 2]))));
        assert_eq!(auto("42\n"), Ok(Payload::Json(json!(42))));
        for text in ["1.10", "007", "1e2", "{'a': 1}", "{\"a\": 1} and more", "NaN", "完成", " two\n lines"] {
            assert_eq!(auto(&format!("{text}\n")), Ok(Payload::Text(text.to_owned())), "{text}");
        }
        assert_eq!(auto(""), Ok(Payload::Empty));
        assert_eq!(decode(b"{\"a\":1}\r\n".to_vec(), Expect::Text), Ok(Payload::Text("{\"a\":1}".to_owned())));
    }

    #[test]
    fn a_number_that_json_does_not_have_is_named_and_words_in_strings_are_left_alone() {
        for expect in [Expect::Auto, Expect::Json] {
            let wrong = decode(br#"{"count": 0, "mean": NaN, "max": Infinity}"#.to_vec(), expect).unwrap_err();
            assert!(wrong.message.contains("NaN"), "{wrong:?}");
            let wrong = decode(br#"["\"", -Infinity]"#.to_vec(), expect).unwrap_err();
            assert!(wrong.message.contains("-Infinity"), "{wrong:?}");
        }
        assert_eq!(auto(r#"{"note": "NaN"}"#), Ok(Payload::Json(json!({"note": "NaN"}))));
        assert_eq!(auto(r#"{"note": "NaN"} NaN"#), Ok(Payload::Text(r#"{"note": "NaN"} NaN"#.to_owned())));
    }

    #[test]
    fn output_that_breaks_the_promise_is_a_fault_and_bytes_are_bytes() {
        assert!(decode(b"done".to_vec(), Expect::Json).unwrap_err().message.contains("not JSON"));
        assert!(decode(b" \n".to_vec(), Expect::Json).unwrap_err().message.contains("nothing"));
        assert!(decode(vec![0xff, 0xfe], Expect::Text).unwrap_err().message.contains("UTF-8"));
        assert!(matches!(decode(vec![0xff], Expect::Auto), Ok(Payload::Binary { bytes, .. }) if bytes == [0xff]));
    }
}
