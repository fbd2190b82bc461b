//! An upstream's own explanation of a failure, as one clean line for a model: the words it put into a
//! JSON body under the names that APIs use for them, the title of an HTML page, or the text itself.
//! What comes from outside stays text: control characters go, and the line is clipped.

use serde_json::Value;

/// The most characters of an explanation.
const LONGEST: usize = 500;

/// The most items of a list of errors that are told.
const MOST: usize = 5;

/// How deep an explanation is looked for.
const DEEPEST: usize = 8;

/// Keys that hold words, folded to lower-case letters and digits.
const WORDS: &[&str] = &[
    "message",
    "msg",
    "errmsg",
    "errormessage",
    "errormsg",
    "errordescription",
    "detail",
    "details",
    "title",
    "reason",
    "description",
    "error",
    "errors",
    "fault",
    "faultstring",
    "cause",
    "usermessage",
    "exception",
];

/// Keys that hold a code worth telling.
const CODES: &[&str] = &["code", "errcode", "errorcode", "errno", "subcode", "type", "retcode", "status"];

/// Keys that say which part of the request is meant.
const FIELDS: &[&str] = &["loc", "field", "param", "parameter", "pointer", "path", "property", "name"];

/// The explanation in the text of a body; `None` where there is none.
pub(crate) fn explanation(text: &str) -> Option<String> {
    let text = text.trim();
    let line = if let Ok(value) = serde_json::from_str::<Value>(text) {
        json(&value)?
    } else if looks_like_html(text) {
        title(text)?
    } else {
        text.to_owned()
    };
    let line = clean(&line);
    (!line.is_empty()).then_some(line)
}

/// The explanation in a JSON body: its own words, else the whole of it.
pub(crate) fn json(value: &Value) -> Option<String> {
    if value.is_null() || value.as_object().is_some_and(|object| object.is_empty()) {
        return None;
    }
    Some(words(value, DEEPEST).unwrap_or_else(|| value.to_string()))
}

/// One line without control characters, of at most 500 characters.
pub(crate) fn clean(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() || is_invisible(c) { ' ' } else { c }).collect();
    let joined = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    match joined.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &joined[..at]),
        None => joined,
    }
}

/// Characters that change how the text around them is shown.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

pub(crate) fn looks_like_html(text: &str) -> bool {
    let head: String = text.trim_start().chars().take(256).collect::<String>().to_ascii_lowercase();
    head.starts_with("<!doctype html")
        || head.starts_with("<html")
        || head.starts_with("<head")
        || head.starts_with("<body")
        || head.starts_with("<!--") && text.to_ascii_lowercase().contains("<html")
}

/// The title of an HTML page.
pub(crate) fn title(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let open = lower.find("<title")?;
    let start = open + lower[open..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let title = &text[start..end];
    let plain = title.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'");
    Some(clean(&plain.replace("&amp;", "&"))).filter(|title| !title.is_empty())
}

fn words(value: &Value, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    match value {
        Value::Null | Value::Bool(_) => None,
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Array(items) => {
            let told: Vec<String> = items.iter().filter_map(|item| words(item, depth)).take(MOST).collect();
            let more = items.len().saturating_sub(MOST);
            let tail = if more > 0 { format!("; and {more} more") } else { String::new() };
            (!told.is_empty()).then(|| told.join("; ") + &tail)
        }
        Value::Object(object) => {
            let mut texts: Vec<String> = Vec::new();
            let mut codes = Vec::new();
            let mut field = None;
            for (key, value) in object {
                let name = folded(key);
                if WORDS.contains(&name.as_str()) {
                    let text = match value {
                        Value::Object(inner) if name == "errors" => by_field(inner, depth),
                        _ => None,
                    };
                    texts.extend(text.or_else(|| words(value, depth)).filter(|text| !texts.contains(text)));
                } else if CODES.contains(&name.as_str()) && (value.is_number() || value.is_string()) {
                    codes.push(format!("{key} {}", words(value, depth)?));
                } else if FIELDS.contains(&name.as_str()) {
                    field = field.or_else(|| place(value));
                }
            }
            if texts.is_empty() {
                return None;
            }
            let field = field.map(|field| format!("{field}: ")).unwrap_or_default();
            let codes = if codes.is_empty() { String::new() } else { format!(" ({})", codes.join(", ")) };
            Some(format!("{field}{}{codes}", texts.join(": ")))
        }
    }
}

/// `{"errors": {"date": ["is bad"]}}`: each key is a field.
fn by_field(errors: &serde_json::Map<String, Value>, depth: usize) -> Option<String> {
    let known = |key: &String| WORDS.contains(&folded(key).as_str()) || CODES.contains(&folded(key).as_str());
    if errors.keys().any(known) {
        return None;
    }
    let told = errors.iter().filter_map(|(key, value)| Some(format!("{key}: {}", words(value, depth)?)));
    let told: Vec<String> = told.take(MOST).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// `["body", "date"]` or `"/date"` as a name.
fn place(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(steps) => {
            let steps: Vec<String> = steps.iter().filter_map(crate::shared::template::plain).collect();
            (!steps.is_empty()).then(|| steps.join("."))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn folded(key: &str) -> String {
    key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_found_wherever_apis_put_them() {
        for (body, wanted) in [
            (r#"{"detail":[{"loc":["body","date"],"msg":"bad date"}]}"#, "body.date: bad date"),
            (r#"{"error":"boom"}"#, "boom"),
            (r#"{"errcode":310000,"errmsg":"keywords not in content"}"#, "keywords not in content (errcode 310000)"),
            (
                r#"{"error":{"code":400,"message":"no such user","status":"INVALID"}}"#,
                "no such user (code 400, status INVALID)",
            ),
            (r#"{"errors":{"date":["is bad","is old"],"sku":["unknown"]}}"#, "date: is bad; is old; sku: unknown"),
            (r#"{"errors":[{"field":"sku","message":"unknown"}]}"#, "sku: unknown"),
            (
                r#"{"title":"Out of stock","detail":"only 2 left","type":"about:blank"}"#,
                "Out of stock: only 2 left (type about:blank)",
            ),
            (r#"{"ok":false,"left":3}"#, r#"{"ok":false,"left":3}"#),
            (r#""just text""#, "just text"),
            ("<!DOCTYPE html><html><head><title> 502 Bad\n Gateway </title></head>…", "502 Bad Gateway"),
            ("plain words\r\nin two lines\u{1b}[31m", "plain words in two lines [31m"),
        ] {
            assert_eq!(explanation(body).as_deref(), Some(wanted));
        }
        for silent in ["", "  ", "{}", "null", "<html><body>x</body></html>"] {
            assert_eq!(explanation(silent), None, "{silent}");
        }
    }

    #[test]
    fn an_explanation_is_one_short_line() {
        let long = explanation(&"杭".repeat(10_000)).unwrap();
        assert_eq!(long.chars().count(), 501);
        assert!(long.ends_with('…'));
        let deep = "{\"error\":".repeat(60) + "\"x\"" + &"}".repeat(60);
        assert!(explanation(&deep).unwrap().chars().count() <= 501);
    }
}
