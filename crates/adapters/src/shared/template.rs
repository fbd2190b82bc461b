//! Templates with `{argument}` placeholders, parsed once when the tool is declared.
//!
//! A template never evaluates anything: it is literal text and names of arguments. `{{` and `}}` are
//! literal braces. What a value may look like in its place (a path segment, an argv item, a mail header)
//! is decided by the adapter that renders it: this module hands out the parts and joins nothing unasked.

use reach_core::{Object, Problem, nearest};
use serde_json::Value;

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

/// One part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text of the operator.
    Literal(String),
    /// The name of an argument.
    Argument(String),
}

impl Template {
    /// Parses `source`; every placeholder has to name one of `arguments`. Problems carry `pointer`.
    pub fn parse<'a>(
        source: &str,
        arguments: impl Iterator<Item = &'a str> + Clone,
        pointer: &str,
    ) -> Result<Self, Vec<Problem>> {
        let mut parts = Vec::new();
        let mut problems = Vec::new();
        let mut literal = String::new();
        let mut rest = source;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let doubled = rest[at..].starts_with("{{") || rest[at..].starts_with("}}");
            if doubled {
                literal.push_str(&rest[at..=at]);
                rest = &rest[at + 2..];
                continue;
            }
            if rest[at..].starts_with('}') {
                problems.push(Problem::new(pointer, "a `}` without its `{`", "write `}}` for a literal brace"));
                literal.push('}');
                rest = &rest[at + 1..];
                continue;
            }
            let Some(end) = rest[at..].find('}').map(|end| at + end) else {
                problems.push(Problem::new(pointer, "a `{` without its `}`", "write `{{` for a literal brace"));
                rest = &rest[at + 1..];
                continue;
            };
            let name = &rest[at + 1..end];
            if arguments.clone().any(|known| known == name) {
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                }
                parts.push(Part::Argument(name.to_owned()));
            } else {
                let fix = match nearest::nearest(name, arguments.clone(), 1).first() {
                    Some(near) => format!("did you mean `{{{near}}}`?"),
                    None => {
                        format!("add `{name}` to the properties of input_schema, or write `{{{{` for a literal brace")
                    }
                };
                problems.push(Problem::new(
                    pointer,
                    format!("placeholder `{{{name}}}` names no argument of this tool"),
                    fix,
                ));
            }
            rest = &rest[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        if problems.is_empty() { Ok(Self { parts }) } else { Err(problems) }
    }

    /// The parts in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The names of the arguments it uses.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Argument(name) => Some(name.as_str()),
            Part::Literal(_) => None,
        })
    }

    /// The argument, where the template is exactly one placeholder and nothing else.
    pub fn sole_argument(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Argument(name)] => Some(name),
            _ => None,
        }
    }

    /// Joins literals and values as plain text. `None` when an argument is absent or null: a missing
    /// value is never written as an empty one.
    pub fn render(&self, arguments: &Object) -> Option<String> {
        self.render_with(arguments, |text| text.to_owned())
    }

    /// The same with every value passed through `encode`; literals are left alone.
    pub fn render_with(&self, arguments: &Object, encode: impl Fn(&str) -> String) -> Option<String> {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Argument(name) => out.push_str(&encode(&plain(arguments.get(name)?)?)),
            }
        }
        Some(out)
    }
}

/// A value as plain text: a string as it is, everything else as JSON; `None` for null.
pub fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => Some(value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(source: &str) -> Result<Template, Vec<Problem>> {
        Template::parse(source, ["id", "note"].into_iter(), "/url")
    }

    #[test]
    fn placeholders_are_replaced_and_doubled_braces_are_literal() {
        let template = parse("/a/{id}/{{x}}?n={note}").unwrap();
        let arguments = json!({"id": 7, "note": "{id}"});
        assert_eq!(template.render(arguments.as_object().unwrap()).unwrap(), "/a/7/{x}?n={id}");
    }

    #[test]
    fn an_absent_or_null_value_renders_nothing_at_all() {
        let template = parse("{id}").unwrap();
        assert_eq!(template.render(json!({}).as_object().unwrap()), None);
        assert_eq!(template.render(json!({"id": null}).as_object().unwrap()), None);
        assert_eq!(template.sole_argument(), Some("id"));
    }

    #[test]
    fn all_problems_of_a_template_are_reported_at_once() {
        let problems = parse("{ids} } {").unwrap_err();
        assert_eq!(problems.len(), 3);
        assert_eq!(problems[0].fix, "did you mean `{id}`?");
    }
}
