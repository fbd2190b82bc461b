//! The body of a request: which arguments go into it, and their encoding.
//!
//! JSON keeps every type, null and digit of an argument. A field whose argument is absent is left out,
//! in every encoding; null survives where the encoding has one (JSON) and is left out where it has not.

use std::collections::BTreeSet;

use http::HeaderValue;
use reach_core::{Failure, Object, Problem};
use serde_json::Value;

use super::config::{Body, BodyKind, Method};
use super::place::encode;
use crate::shared::template::{Template, plain};

/// How a tool's arguments become a body.
#[derive(Clone, Debug)]
pub(crate) enum Encoder {
    None,
    Json(Shape),
    Form(Shape),
    Multipart(Vec<(String, MultipartField)>, Option<Rest>),
    Text(Template),
}

/// What stands in a JSON or form body.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// All arguments but those used elsewhere.
    Rest(Rest),
    /// One argument is the whole body.
    Argument(String),
    /// Declared fields.
    Fields(Vec<(String, Node)>),
}

/// The names of arguments that are used elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rest(BTreeSet<String>);

impl Rest {
    fn of(&self, arguments: &Object) -> Object {
        let left = arguments.iter().filter(|(name, _)| !self.0.contains(*name));
        left.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// A declared value with templates inside.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Text(Template),
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    Fixed(Value),
}

#[derive(Clone, Debug)]
pub(crate) enum MultipartField {
    Value(Node),
    File { content: Template, filename: Option<Template>, media_type: Option<String> },
}

/// A body ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) media_type: HeaderValue,
    pub(crate) bytes: Vec<u8>,
}

impl Encoder {
    /// Reads the declaration. `used` are the arguments that stand in URL or headers already; problems
    /// point at `/body`. An argument that would go nowhere is one of them.
    pub(crate) fn parse<'a>(
        body: Option<&Body>,
        method: Method,
        used: &BTreeSet<String>,
        arguments: impl Iterator<Item = &'a str> + Clone,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let left: Vec<&str> = arguments.clone().filter(|name| !used.contains(*name)).collect();
        let Some(body) = body else {
            // Without declared arguments of its own, a POST has no body rather than an empty object.
            return if method.has_body() && !left.is_empty() {
                Encoder::Json(Shape::Rest(Rest(used.clone())))
            } else {
                Encoder::None
            };
        };
        check_keys(body, problems);
        let encoder = match body.kind {
            BodyKind::None => Encoder::None,
            BodyKind::Text => {
                let source = body.template.as_deref().unwrap_or_default();
                match Template::parse(source, arguments, "/body/template") {
                    Ok(template) => Encoder::Text(template),
                    Err(found) => {
                        problems.extend(found);
                        return Encoder::None;
                    }
                }
            }
            BodyKind::Json | BodyKind::Form => {
                let shape = match (&body.argument, &body.fields) {
                    (Some(name), _) => {
                        if !arguments.clone().any(|known| known == name) {
                            problems.push(Problem::new(
                                "/body/argument",
                                format!("`{name}` is no argument of this tool"),
                                "name one of the properties of input_schema",
                            ));
                        }
                        Shape::Argument(name.clone())
                    }
                    (None, Some(fields)) => Shape::Fields(parse_fields(fields, "/body/fields", &arguments, problems)),
                    (None, None) => Shape::Rest(Rest(used.clone())),
                };
                if body.kind == BodyKind::Form { Encoder::Form(shape) } else { Encoder::Json(shape) }
            }
            BodyKind::Multipart => match &body.fields {
                Some(fields) => Encoder::Multipart(parse_multipart(fields, &arguments, problems), None),
                None => Encoder::Multipart(Vec::new(), Some(Rest(used.clone()))),
            },
        };
        if !encoder.takes_the_rest() {
            let mine = encoder.arguments();
            for name in left.into_iter().filter(|name| !mine.contains(*name)) {
                problems.push(Problem::new(
                    "/body",
                    format!("the argument `{name}` is used nowhere"),
                    format!("put `{{{name}}}` into url, query, headers or body, or remove it from input_schema"),
                ));
            }
        }
        encoder
    }

    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Encoder::None)
    }

    /// Whether `headers` may name another media type: a multipart boundary and the form encoding are fixed.
    pub(crate) fn media_type_is_free(&self) -> bool {
        matches!(self, Encoder::Json(_) | Encoder::Text(_))
    }

    fn takes_the_rest(&self) -> bool {
        matches!(self, Encoder::Json(Shape::Rest(_)) | Encoder::Form(Shape::Rest(_)) | Encoder::Multipart(_, Some(_)))
    }

    fn arguments(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        match self {
            Encoder::None | Encoder::Json(Shape::Rest(_)) | Encoder::Form(Shape::Rest(_)) => {}
            Encoder::Json(Shape::Argument(name)) | Encoder::Form(Shape::Argument(name)) => {
                names.insert(name.clone());
            }
            Encoder::Json(Shape::Fields(fields)) | Encoder::Form(Shape::Fields(fields)) => {
                fields.iter().for_each(|(_, node)| node.collect(&mut names));
            }
            Encoder::Multipart(fields, _) => {
                for (_, field) in fields {
                    match field {
                        MultipartField::Value(node) => node.collect(&mut names),
                        MultipartField::File { content, filename, .. } => {
                            let templates = std::iter::once(content).chain(filename);
                            names.extend(templates.flat_map(Template::arguments).map(str::to_owned));
                        }
                    }
                }
            }
            Encoder::Text(template) => names.extend(template.arguments().map(str::to_owned)),
        }
        names
    }

    /// The body for these arguments; `None` where there is none to send.
    pub(crate) fn encode(&self, arguments: &Object) -> Result<Option<Encoded>, Failure> {
        let encoded = match self {
            Encoder::None => return Ok(None),
            Encoder::Json(shape) => {
                let value = match shape {
                    Shape::Rest(rest) => Value::Object(rest.of(arguments)),
                    Shape::Fields(fields) => Value::Object(render_fields(fields, arguments)),
                    Shape::Argument(name) => match arguments.get(name) {
                        Some(value) => value.clone(),
                        None => return Ok(None),
                    },
                };
                Encoded {
                    media_type: HeaderValue::from_static("application/json"),
                    bytes: value.to_string().into_bytes(),
                }
            }
            Encoder::Form(shape) => {
                let fields = match shape {
                    Shape::Rest(rest) => rest.of(arguments),
                    Shape::Fields(fields) => render_fields(fields, arguments),
                    Shape::Argument(_) => Object::new(),
                };
                Encoded {
                    media_type: HeaderValue::from_static("application/x-www-form-urlencoded"),
                    bytes: form(&fields).into_bytes(),
                }
            }
            Encoder::Multipart(fields, rest) => multipart(fields, rest.as_ref(), arguments)?,
            Encoder::Text(template) => match template.render(arguments) {
                Some(text) => Encoded {
                    media_type: HeaderValue::from_static("text/plain; charset=utf-8"),
                    bytes: text.into_bytes(),
                },
                None => {
                    let missing = template.arguments().find(|name| arguments.get(*name).is_none_or(Value::is_null));
                    return Err(Failure::refused(format!(
                        "`{}` is missing: the body of the request needs it",
                        missing.unwrap_or("an argument")
                    )));
                }
            },
        };
        Ok(Some(encoded))
    }
}

impl Node {
    fn collect(&self, names: &mut BTreeSet<String>) {
        match self {
            Node::Text(template) => names.extend(template.arguments().map(str::to_owned)),
            Node::Object(fields) => fields.iter().for_each(|(_, node)| node.collect(names)),
            Node::Array(items) => items.iter().for_each(|node| node.collect(names)),
            Node::Fixed(_) => {}
        }
    }

    /// `None` where the argument is absent; a null argument stays null where it is the whole value.
    fn render(&self, arguments: &Object) -> Option<Value> {
        match self {
            Node::Text(template) => match template.sole_argument() {
                Some(name) => arguments.get(name).cloned(),
                None => template.render(arguments).map(Value::String),
            },
            Node::Object(fields) => Some(Value::Object(render_fields(fields, arguments))),
            Node::Array(items) => Some(items.iter().filter_map(|item| item.render(arguments)).collect()),
            Node::Fixed(value) => Some(value.clone()),
        }
    }
}

fn render_fields(fields: &[(String, Node)], arguments: &Object) -> Object {
    fields.iter().filter_map(|(name, node)| Some((name.clone(), node.render(arguments)?))).collect()
}

/// Keys of `body:` that have no effect beside the others.
fn check_keys(body: &Body, problems: &mut Vec<Problem>) {
    let kind = body.kind.word();
    let mut misplaced = |key: &str, fix: &str| {
        problems.push(Problem::new(format!("/body/{key}"), format!("`{key}` has no effect for kind `{kind}`"), fix));
    };
    if body.argument.is_some() && body.kind != BodyKind::Json {
        misplaced("argument", "use `fields`, or for `text` the template `{argument}`");
    }
    if body.fields.is_some() && matches!(body.kind, BodyKind::Text | BodyKind::None) {
        misplaced("fields", "choose kind `json`, `form` or `multipart`");
    }
    if body.template.is_some() && body.kind != BodyKind::Text {
        misplaced("template", "choose kind `text`");
    }
    if body.argument.is_some() && body.fields.is_some() {
        misplaced("fields", "keep either `argument` or `fields`");
    }
    if body.kind == BodyKind::Text && body.template.is_none() {
        problems.push(Problem::new("/body", "a text body needs a `template`", "write it, such as `{note}`"));
    }
}

fn parse_fields<'a>(
    fields: &Object,
    pointer: &str,
    arguments: &(impl Iterator<Item = &'a str> + Clone),
    problems: &mut Vec<Problem>,
) -> Vec<(String, Node)> {
    let step = |name: &str| format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
    fields.iter().map(|(name, value)| (name.clone(), parse_node(value, &step(name), arguments, problems))).collect()
}

fn parse_node<'a>(
    value: &Value,
    pointer: &str,
    arguments: &(impl Iterator<Item = &'a str> + Clone),
    problems: &mut Vec<Problem>,
) -> Node {
    match value {
        Value::String(text) => match Template::parse(text, arguments.clone(), pointer) {
            Ok(template) => Node::Text(template),
            Err(found) => {
                problems.extend(found);
                Node::Fixed(Value::Null)
            }
        },
        Value::Object(fields) => Node::Object(parse_fields(fields, pointer, arguments, problems)),
        Value::Array(items) => Node::Array(
            items
                .iter()
                .enumerate()
                .map(|(index, item)| parse_node(item, &format!("{pointer}/{index}"), arguments, problems))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => Node::Fixed(value.clone()),
    }
}

fn parse_multipart<'a>(
    fields: &Object,
    arguments: &(impl Iterator<Item = &'a str> + Clone),
    problems: &mut Vec<Problem>,
) -> Vec<(String, MultipartField)> {
    let mut parsed = Vec::new();
    for (name, value) in fields {
        let pointer = format!("/body/fields/{}", name.replace('~', "~0").replace('/', "~1"));
        let Value::Object(file) = value else {
            parsed.push((name.clone(), MultipartField::Value(parse_node(value, &pointer, arguments, problems))));
            continue;
        };
        let unknown = file.keys().find(|key| !["content", "filename", "media_type"].contains(&key.as_str()));
        let Some(content) = file.get("content").filter(|_| unknown.is_none()) else {
            problems.push(Problem::new(
                pointer,
                "a file part has `content`, and may have `filename` and `media_type`",
                "write `{content: \"{text}\", filename: notes.txt, media_type: text/plain}`",
            ));
            continue;
        };
        let mut template = |key: &str, value: &Value| {
            let pointer = format!("{pointer}/{key}");
            let Some(text) = value.as_str() else {
                problems.push(Problem::new(pointer, format!("`{key}` has to be text"), "write a template"));
                return None;
            };
            Template::parse(text, arguments.clone(), &pointer).map_err(|found| problems.extend(found)).ok()
        };
        let content = template("content", content);
        let filename = file.get("filename").and_then(|value| template("filename", value));
        let media_type = file.get("media_type").and_then(Value::as_str).map(str::to_owned);
        if media_type.as_ref().is_some_and(|text| HeaderValue::from_str(text).is_err()) {
            problems.push(Problem::new(
                format!("{pointer}/media_type"),
                "not a media type",
                "write it as `type/subtype`, such as `text/csv`",
            ));
        }
        if let Some(content) = content {
            parsed.push((name.clone(), MultipartField::File { content, filename, media_type }));
        }
    }
    parsed
}

/// `a=1&b=2`; a list becomes one pair per item, null is left out, an object is its JSON.
fn form(fields: &Object) -> String {
    let mut out = String::new();
    for (name, value) in fields {
        for item in items(value) {
            if !out.is_empty() {
                out.push('&');
            }
            out.push_str(&form_encode(name));
            out.push('=');
            out.push_str(&form_encode(&item));
        }
    }
    out
}

/// The form encoding writes a space as `+`; everything else is percent-encoded as in a URL.
fn form_encode(text: &str) -> String {
    encode(text).replace("%20", "+")
}

fn items(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(plain).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            plain(value).into_iter().collect()
        }
    }
}

fn multipart(fields: &[(String, MultipartField)], rest: Option<&Rest>, arguments: &Object) -> Result<Encoded, Failure> {
    let mut parts: Vec<(String, String)> = Vec::new();
    for (name, value) in rest.map(|rest| rest.of(arguments)).unwrap_or_default() {
        parts.extend(items(&value).into_iter().map(|item| (disposition(&name, None, None), item)));
    }
    for (name, field) in fields {
        match field {
            MultipartField::Value(node) => {
                let values = node.render(arguments).map(|value| items(&value)).unwrap_or_default();
                parts.extend(values.into_iter().map(|item| (disposition(name, None, None), item)));
            }
            MultipartField::File { content, filename, media_type } => {
                let Some(content) = content.render(arguments) else { continue };
                let filename = filename.as_ref().and_then(|template| template.render(arguments));
                parts.push((disposition(name, filename.as_deref(), media_type.as_deref()), content));
            }
        }
    }
    let boundary = format!("reach-{}", uuid::Uuid::now_v7().simple());
    if parts.iter().any(|(head, content)| head.contains(&boundary) || content.contains(&boundary)) {
        return Err(Failure::refused("an argument holds the boundary of this request"));
    }
    let mut bytes = Vec::new();
    for (head, content) in &parts {
        bytes.extend_from_slice(format!("--{boundary}\r\n{head}\r\n\r\n{content}\r\n").as_bytes());
    }
    bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let media_type = HeaderValue::from_str(&format!("multipart/form-data; boundary={boundary}"))
        .map_err(|_| Failure::refused("no boundary for this request"))?;
    Ok(Encoded { media_type, bytes })
}

fn disposition(name: &str, filename: Option<&str>, media_type: Option<&str>) -> String {
    let mut head = format!("Content-Disposition: form-data; name=\"{}\"", quoted(name));
    if let Some(filename) = filename {
        head.push_str(&format!("; filename=\"{}\"", quoted(filename)));
        head.push_str(&format!("\r\nContent-Type: {}", media_type.unwrap_or("application/octet-stream")));
    } else if let Some(media_type) = media_type {
        head.push_str(&format!("\r\nContent-Type: {media_type}"));
    }
    head
}

/// The escapes of HTML forms: a name can neither end its quotes nor its line.
fn quoted(text: &str) -> String {
    text.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}
