//! What is kept of a JSON answer (`pick`, `select`) and whether it is a success at all (`success_when`).
//! Expressions are compiled when the tool is declared; evaluating one reads nothing but the answer.

use jmespath::{Expression, ToJmespath};
use reach_core::{Object, Problem};
use serde_json::Value;

use super::config::{Config, Expect};

/// The declared readings of a JSON answer.
#[derive(Debug)]
pub(crate) struct Selection {
    pick: Vec<(String, String)>,
    select: Option<Expression<'static>>,
    success_when: Option<Expression<'static>>,
}

impl Selection {
    pub(crate) fn parse(config: &Config, problems: &mut Vec<Problem>) -> Self {
        for (name, pointer) in &config.pick {
            if !pointer.is_empty() && !pointer.starts_with('/') {
                let dotted = pointer.trim_start_matches("$.").replace('.', "/");
                problems.push(Problem::new(
                    format!("/pick/{}", name.replace('~', "~0").replace('/', "~1")),
                    "not a JSON pointer",
                    format!("write it as `/{dotted}`"),
                ));
            }
        }
        if !config.pick.is_empty() && config.select.is_some() {
            problems.push(Problem::new("/select", "`pick` and `select` both choose the result", "keep one of the two"));
        }
        let selection = Self {
            pick: config.pick.iter().map(|(name, pointer)| (name.clone(), pointer.clone())).collect(),
            select: compile(config.select.as_deref(), "/select", problems),
            success_when: compile(config.success_when.as_deref(), "/success_when", problems),
        };
        if selection.needs_json() && config.expect == Some(Expect::Text) {
            problems.push(Problem::new(
                "/expect",
                "`pick`, `select` and `success_when` read JSON, and `expect: text` takes none",
                "write `expect: json`, or remove them",
            ));
        }
        selection
    }

    /// Whether an answer has to be JSON to be read.
    pub(crate) fn needs_json(&self) -> bool {
        !self.pick.is_empty() || self.select.is_some() || self.success_when.is_some()
    }

    /// Whether this answer counts as a success; the error says why it cannot be told.
    pub(crate) fn succeeded(&self, value: &Value) -> Result<bool, String> {
        match &self.success_when {
            Some(expression) => Ok(evaluate(expression, value)? == Value::Bool(true)),
            None => Ok(true),
        }
    }

    /// The part of the answer that is the result; `notes` hears of parts that were not there.
    pub(crate) fn shape(&self, value: Value, notes: &mut Vec<String>) -> Result<Value, String> {
        if let Some(expression) = &self.select {
            let selected = evaluate(expression, &value)?;
            if selected.is_null() {
                notes.push("select found nothing in the answer".into());
            }
            return Ok(selected);
        }
        if self.pick.is_empty() {
            return Ok(value);
        }
        let mut picked = Object::new();
        for (name, pointer) in &self.pick {
            match value.pointer(pointer) {
                Some(part) => {
                    picked.insert(name.clone(), part.clone());
                }
                None => notes.push(format!("pick: the answer has no {pointer}")),
            }
        }
        if picked.is_empty() {
            let pointers: Vec<&str> = self.pick.iter().map(|(_, pointer)| pointer.as_str()).collect();
            return Err(format!("the answer has none of {}", pointers.join(", ")));
        }
        Ok(Value::Object(picked))
    }
}

fn compile(source: Option<&str>, pointer: &str, problems: &mut Vec<Problem>) -> Option<Expression<'static>> {
    let compiled = jmespath::compile(&with_plain_literals(source?));
    compiled
        .map_err(|error| {
            // Only the first line: the rest draws the expression again.
            let text = error.to_string();
            let reason = text.lines().next().unwrap_or_default().to_owned();
            let fix = "write a JMESPath expression; text in it stands in single quotes, such as `state == 'ok'`";
            problems.push(Problem::new(pointer, format!("not a JMESPath expression: {reason}"), fix));
        })
        .ok()
}

fn evaluate(expression: &Expression<'static>, value: &Value) -> Result<Value, String> {
    let found = value.to_jmespath().and_then(|data| expression.search(data));
    let found = found.map_err(|error| format!("its expression cannot read the answer: {}", error.reason))?;
    serde_json::to_value(&*found).map_err(|error| format!("its expression gave no JSON: {error}"))
}

/// JMESPath wants literals in backticks, and people write `errcode == 0` or `ok == true`. A bare number,
/// `true`, `false` or `null` right after a comparison gets them; a field of such a name cannot be meant.
fn with_plain_literals(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 4);
    let mut rest = source;
    let mut after_comparison = false;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' | '`' => quoted_length(rest, first),
            '=' | '!' | '<' | '>' if rest[1..].starts_with('=') => 2,
            _ if word(first) => rest.find(|c: char| !word(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, tail) = rest.split_at(length);
        let literal = matches!(token, "true" | "false" | "null") || serde_json::from_str::<f64>(token).is_ok();
        if after_comparison && literal {
            out.push_str(&format!("`{token}`"));
        } else {
            out.push_str(token);
        }
        if !token.trim().is_empty() {
            after_comparison = matches!(token, "==" | "!=" | "<" | "<=" | ">" | ">=");
        }
        rest = tail;
    }
    out
}

fn word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+')
}

/// The length of a quoted token with both its quotes, or of the rest where the end is missing.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bare_literals_after_a_comparison_are_taken_for_what_they_look_like() {
        for (source, wanted) in [
            ("errcode == 0", "errcode == `0`"),
            ("a.b>=-1.5 && ok==true", "a.b>=`-1.5` && ok==`true`"),
            ("items[?n < 3].id | [0]", "items[?n < `3`].id | [0]"),
            ("a == `0` || b == '== 0' || \"c == 1\" == null", "a == `0` || b == '== 0' || \"c == 1\" == `null`"),
            ("'杭州' == \"城市\"", "'杭州' == \"城市\""),
        ] {
            assert_eq!(with_plain_literals(source), wanted);
        }
    }

    fn selection(declared: Value) -> Result<Selection, Vec<Problem>> {
        let mut problems = Vec::new();
        let selection = Selection::parse(&serde_json::from_value(declared).unwrap(), &mut problems);
        if problems.is_empty() { Ok(selection) } else { Err(problems) }
    }

    #[test]
    fn only_true_is_a_success() {
        let selection = selection(json!({"url": "http://h/", "success_when": "ok"})).unwrap();
        assert_eq!(selection.succeeded(&json!({"ok": true})), Ok(true));
        for not in [json!({"ok": "false"}), json!({"ok": 1}), json!({}), json!([1]), json!(null)] {
            assert_eq!(selection.succeeded(&not), Ok(false), "{not}");
        }
    }

    #[test]
    fn selecting_keeps_every_digit() {
        let selection = selection(json!({"url": "http://h/", "select": "{id: id, n: n}"})).unwrap();
        let value = json!({"id": 18_446_744_073_709_551_615_u64, "n": -9_007_199_254_740_993_i64, "x": 1});
        let shaped = selection.shape(value, &mut Vec::new()).unwrap();
        assert_eq!(shaped.to_string(), r#"{"id":18446744073709551615,"n":-9007199254740993}"#);
    }

    #[test]
    fn what_cannot_be_read_is_a_problem_of_the_declaration() {
        let problems = selection(json!({"url": "http://h/", "expect": "text", "pick": {"a": "$.b.c"},
            "select": "a[", "success_when": "=="}))
        .unwrap_err();
        let pointers: Vec<&str> = problems.iter().map(|problem| problem.pointer.as_str()).collect();
        assert_eq!(pointers, ["/pick/a", "/select", "/select", "/success_when", "/expect"]);
        assert_eq!(problems[0].fix, "write it as `/b/c`");
    }
}
