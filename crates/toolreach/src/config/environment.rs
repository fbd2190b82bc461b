//! The second pass: `${NAME}` and `${NAME:-default}` in text become the environment's values.
//!
//! Only values are expanded, never keys; expanded text is neither expanded again nor read as YAML, so that
//! a value from outside cannot add a key. `$${` is a literal `${`; a `$` without a brace is just a `$`.
//! What came from the environment is marked, and no report ever prints it.

use std::collections::BTreeMap;
use std::env::VarError;

use reach_core::Problem;

use super::tree::{self, Data, Node};

/// Where variables come from. The process's own in production, a map in tests.
pub trait Environment: Sync {
    /// The value of one variable.
    ///
    /// # Errors
    /// `NotPresent` when it is not set, `NotUnicode` when it is set to something that is no text.
    fn get(&self, name: &str) -> Result<String, VarError>;
}

/// The environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn get(&self, name: &str) -> Result<String, VarError> {
        std::env::var(name)
    }
}

impl Environment for BTreeMap<String, String> {
    fn get(&self, name: &str) -> Result<String, VarError> {
        BTreeMap::get(self, name).cloned().ok_or(VarError::NotPresent)
    }
}

/// Expands every text of the tree in place. Problems carry absolute pointers. Returns the values that came
/// from the environment, for the report to keep out of its own words.
pub(crate) fn expand(root: &mut Node, environment: &dyn Environment, problems: &mut Vec<Problem>) -> Vec<String> {
    let mut values = Vec::new();
    expand_node(root, &mut String::new(), environment, problems, &mut values);
    values
}

fn expand_node(
    node: &mut Node,
    pointer: &mut String,
    environment: &dyn Environment,
    problems: &mut Vec<Problem>,
    values: &mut Vec<String>,
) {
    let length = pointer.len();
    match &mut node.data {
        Data::Text(text) if text.contains("${") => match expand_text(text, environment) {
            Ok(expanded) => {
                *text = expanded.text;
                node.from_environment = expanded.is_changed;
                values.extend(expanded.values);
            }
            Err(found) => problems.extend(found.into_iter().map(|problem| problem.under(pointer))),
        },
        Data::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                pointer.push_str(&format!("/{index}"));
                expand_node(item, pointer, environment, problems, values);
                pointer.truncate(length);
            }
        }
        Data::Map(entries) => {
            for entry in entries {
                pointer.push('/');
                pointer.push_str(&tree::escape(&entry.key));
                expand_node(&mut entry.node, pointer, environment, problems, values);
                pointer.truncate(length);
            }
        }
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) => {}
    }
}

/// Text after expansion, and the parts of it that came from outside.
struct Expanded {
    text: String,
    is_changed: bool,
    values: Vec<String>,
}

/// Expands one text; all its problems at once.
fn expand_text(source: &str, environment: &dyn Environment) -> Result<Expanded, Vec<Problem>> {
    let mut expanded = Expanded { text: String::new(), is_changed: false, values: Vec::new() };
    let mut problems = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            expanded.text.push_str(&rest[..at - 1]);
            expanded.text.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        expanded.text.push_str(&rest[..at]);
        let inner = &rest[at + 2..];
        let Some(end) = inner.find('}') else {
            problems.push(Problem::new("", "a `${` without its `}`", "write `${NAME}`, or `$${` for a literal `${`"));
            rest = "";
            break;
        };
        match variable(&inner[..end], environment) {
            Ok(Value::Set(value)) => {
                expanded.text.push_str(&value);
                expanded.is_changed = true;
                expanded.values.push(value);
            }
            Ok(Value::Default(value)) => {
                expanded.text.push_str(value);
                expanded.is_changed = true;
            }
            Err(problem) => problems.push(problem),
        }
        rest = &inner[end + 1..];
    }
    expanded.text.push_str(rest);
    if problems.is_empty() { Ok(expanded) } else { Err(problems) }
}

/// What a variable stands for: a value from outside, or the default written in the file.
enum Value<'a> {
    Set(String),
    Default(&'a str),
}

/// The value for what stands between the braces.
fn variable<'a>(inner: &'a str, environment: &dyn Environment) -> Result<Value<'a>, Problem> {
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let well_formed = name
        .chars()
        .enumerate()
        .all(|(index, c)| c == '_' || c.is_ascii_alphabetic() || (index > 0 && c.is_ascii_digit()))
        && !name.is_empty();
    if !well_formed {
        return Err(Problem::new(
            "",
            "between `${` and `}` stands no variable name",
            "write `${NAME}` or `${NAME:-default}` with letters, digits and `_`, or `$${` for a literal `${`",
        ));
    }
    match (environment.get(name), default) {
        (Ok(value), Some(default)) if value.is_empty() => Ok(Value::Default(default)),
        (Ok(value), _) => Ok(Value::Set(value)),
        (Err(VarError::NotPresent), Some(default)) => Ok(Value::Default(default)),
        (Err(VarError::NotPresent), None) => Err(Problem::new(
            "",
            format!("the environment variable `{name}` is not set"),
            format!("set `{name}` before starting, or write `${{{name}:-default}}`"),
        )),
        (Err(VarError::NotUnicode(_)), _) => Err(Problem::new(
            "",
            format!("the environment variable `{name}` is not UTF-8 text"),
            format!("set `{name}` to text"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<String, Vec<String>> {
        let environment: BTreeMap<String, String> = [("HOST", "orders"), ("EMPTY", ""), ("TRAP", "${HOST}: {a: b}")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        expand_text(text, &environment)
            .map(|expanded| expanded.text)
            .map_err(|problems| problems.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn variables_and_defaults_are_replaced_wherever_they_stand_in_a_text() {
        assert_eq!(expand("https://${HOST}:${PORT:-8080}/").unwrap(), "https://orders:8080/");
        assert_eq!(expand("${EMPTY}").unwrap(), "");
        assert_eq!(expand("${EMPTY:-x}").unwrap(), "x");
        assert_eq!(expand("${MISSING:-}").unwrap(), "");
        assert_eq!(expand("${MISSING:-a:-b}").unwrap(), "a:-b");
    }

    #[test]
    fn a_doubled_dollar_and_a_dollar_without_a_brace_stay_literal() {
        assert_eq!(expand("$${HOST}").unwrap(), "${HOST}");
        assert_eq!(expand("$HOST costs $5 $$").unwrap(), "$HOST costs $5 $$");
        assert_eq!(expand("a$${HOST}b${HOST}").unwrap(), "a${HOST}borders");
    }

    #[test]
    fn what_came_from_outside_is_not_expanded_again() {
        assert_eq!(expand("${TRAP}").unwrap(), "${HOST}: {a: b}");
    }

    #[test]
    fn every_problem_of_a_text_is_named_and_no_value_is() {
        assert_eq!(
            expand("${MISSING} ${1x} ${} ${HOST").unwrap_err(),
            [
                "the environment variable `MISSING` is not set",
                "between `${` and `}` stands no variable name",
                "between `${` and `}` stands no variable name",
                "a `${` without its `}`",
            ]
        );
    }
}
