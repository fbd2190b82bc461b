//! The headers of a request: declared templates and what every request carries. Nothing of a caller's
//! own headers ever arrives here; each request's headers are built anew.
//!
//! A name is checked when the tool is declared; a value when it is rendered, because that is where an
//! argument could bring a line break along.

use std::collections::BTreeMap;

use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reach_core::adapter::KeyPlace;
use reach_core::{Attempt, Credential, Failure, Object, Problem};
use secrecy::ExposeSecret;

use super::config::Expect;
use crate::shared::template::Template;

/// The declared headers of a tool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headers {
    declared: Vec<(HeaderName, Template)>,
}

/// Names that no declaration may set, with what to do instead.
const RESERVED: &[(&str, &str)] = &[
    ("authorization", "declare a credential and name it as `credential`"),
    ("host", "the host of `url` is sent"),
    ("content-length", "the length of the body is sent"),
    ("accept-encoding", "compressed answers are asked for and unpacked anyway"),
    ("expect", "remove it: bodies are sent without asking first"),
    ("connection", "remove it: connections are managed here"),
    ("keep-alive", "remove it: connections are managed here"),
    ("proxy-authenticate", "remove it: no proxy is used"),
    ("proxy-authorization", "remove it: no proxy is used"),
    ("proxy-connection", "remove it: no proxy is used"),
    ("te", "remove it: it belongs to the connection"),
    ("trailer", "remove it: it belongs to the connection"),
    ("transfer-encoding", "remove it: it belongs to the connection"),
    ("upgrade", "remove it: it belongs to the connection"),
];

impl Headers {
    /// Checks names and parses templates; problems point at `/headers/NAME`.
    pub(crate) fn parse<'a>(
        source: &BTreeMap<String, String>,
        arguments: impl Iterator<Item = &'a str> + Clone,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut headers = Self::default();
        for (name, value) in source {
            let pointer = format!("/headers/{}", name.replace('~', "~0").replace('/', "~1"));
            let parsed = parse_name(name, &pointer).and_then(|known| {
                if headers.contains(&known) {
                    return Err(vec![Problem::new(&pointer, "this header is declared twice", "keep one of the two")]);
                }
                let template = Template::parse(value, arguments.clone(), &pointer)?;
                if template.arguments().next().is_none() && encode(value).is_err() {
                    return Err(vec![Problem::new(
                        &pointer,
                        "a header holds visible ASCII characters only",
                        "send other text in the query or the body",
                    )]);
                }
                if known.as_str() == "cookie" && template.arguments().next().is_some() {
                    let fix = "write a fixed cookie, or send the value in the query or the body";
                    return Err(vec![Problem::new(&pointer, "an argument cannot be a cookie", fix)]);
                }
                Ok((known, template))
            });
            match parsed {
                Ok(header) => headers.declared.push(header),
                Err(found) => problems.extend(found),
            }
        }
        headers
    }

    pub(crate) fn contains(&self, name: &HeaderName) -> bool {
        self.declared.iter().any(|(known, _)| known == name)
    }

    /// The names of the arguments they use.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.declared.iter().flat_map(|(_, template)| template.arguments())
    }

    /// The declared headers for these arguments. Refuses a value that a header cannot carry unchanged.
    pub(crate) fn render(&self, arguments: &Object) -> Result<HeaderMap, Failure> {
        let mut map = HeaderMap::new();
        for (name, template) in &self.declared {
            let Some(text) = template.render(arguments) else { continue };
            let value = encode(&text).map_err(|reason| {
                let arguments: Vec<String> = template.arguments().map(|name| format!("`{name}`")).collect();
                Failure::refused(format!("{} cannot go into the header {name}: {reason}", arguments.join(", ")))
            })?;
            map.insert(name, value);
        }
        Ok(map)
    }
}

/// A header name that a declaration may set.
pub(crate) fn parse_name(name: &str, pointer: &str) -> Result<HeaderName, Vec<Problem>> {
    let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
        vec![Problem::new(pointer, "not the name of a header", "use letters, digits and `-`, such as `X-Shop-Id`")]
    })?;
    match RESERVED.iter().find(|(reserved, _)| *reserved == known.as_str()) {
        Some((reserved, fix)) => {
            Err(vec![Problem::new(pointer, format!("the header `{reserved}` cannot be declared"), *fix)])
        }
        None => Ok(known),
    }
}

/// Text as a header value, exactly, or the reason why it cannot be one. Bytes beyond ASCII are refused
/// because receivers disagree on what they mean, and some turn them into line breaks.
fn encode(text: &str) -> Result<HeaderValue, &'static str> {
    if text.chars().any(char::is_control) {
        return Err("it holds a line break or another control character");
    }
    if !text.is_ascii() {
        return Err("it holds characters beyond ASCII");
    }
    if text.starts_with(' ') || text.ends_with(' ') {
        return Err("it starts or ends with a space, which receivers remove");
    }
    HeaderValue::from_str(text).map_err(|_| "a header cannot hold it")
}

/// What every request carries by itself; declared headers are laid over it.
pub(crate) fn standard(expect: Option<Expect>, attempt: &Attempt) -> HeaderMap {
    let mut map = HeaderMap::new();
    let accept = match expect {
        None | Some(Expect::Json) => "application/json, */*;q=0.5",
        Some(Expect::Text | Expect::Any) => "*/*",
    };
    map.insert(ACCEPT, HeaderValue::from_static(accept));
    map.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    if let Ok(id) = encode(attempt.request_id.as_str()) {
        map.insert(HeaderName::from_static("x-request-id"), id);
    }
    if let Some(parent) = trace_parent(attempt) {
        map.insert(HeaderName::from_static("traceparent"), parent);
    }
    map
}

/// W3C trace context, where our trace id has the 32 digits that it needs.
fn trace_parent(attempt: &Attempt) -> Option<HeaderValue> {
    let id = attempt.trace_id.as_str();
    let id = id.strip_prefix("tr_").unwrap_or(id);
    let digits = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if id.len() != 32 || !id.chars().all(digits) || id.chars().all(|c| c == '0') {
        return None;
    }
    let (_, span) = uuid::Uuid::now_v7().as_u64_pair();
    HeaderValue::from_str(&format!("00-{id}-{span:016x}-01")).ok()
}

/// Puts a credential where it belongs in the headers; one that travels in the query is left to the URL.
pub(crate) fn authorise(map: &mut HeaderMap, credential: Option<&Credential>) -> Result<(), Failure> {
    let Some(credential) = credential else { return Ok(()) };
    let (name, value) = match credential {
        Credential::Bearer(token) => (AUTHORIZATION, format!("Bearer {}", token.expose_secret())),
        Credential::Basic { username, password } => (AUTHORIZATION, basic(username, password.expose_secret())),
        Credential::ApiKey { place: KeyPlace::Header, name, key } => {
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| Failure::refused("the credential names no valid header"))?;
            (name, key.expose_secret().to_owned())
        }
        Credential::ApiKey { place: KeyPlace::Query, .. } => return Ok(()),
    };
    let mut value = encode(&value).map_err(|_| Failure::refused("the credential holds what a header cannot carry"))?;
    value.set_sensitive(true);
    map.insert(name, value);
    Ok(())
}

pub(crate) fn basic(username: &str, password: &str) -> String {
    use base64::Engine as _;
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{username}:{password}")))
}

#[cfg(test)]
mod tests {
    use reach_core::{Effect, ToolId};
    use serde_json::json;

    use super::*;

    fn parse(name: &str, value: &str) -> Result<Headers, Vec<Problem>> {
        let mut problems = Vec::new();
        let source = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let headers = Headers::parse(&source, ["note"].into_iter(), &mut problems);
        if problems.is_empty() { Ok(headers) } else { Err(problems) }
    }

    #[test]
    fn a_value_that_a_header_cannot_carry_exactly_is_refused_by_name() {
        let headers = parse("X-Note", "{note}").unwrap();
        for value in [
            "a\r\nX-Evil: 1",
            "a\nb",
            "a\rb",
            "a\0b",
            "\u{560d}\u{560a}X: 1",
            "a\u{85}b",
            "a\u{2028}b",
            " a",
            "a ",
            "\ta",
        ] {
            let failure = headers.render(json!({"note": value}).as_object().unwrap()).unwrap_err();
            assert_eq!(failure.kind, reach_core::FailureKind::Refused);
            assert!(failure.message.contains("`note`"), "{}", failure.message);
        }
        assert_eq!(headers.render(json!({"note": "a b"}).as_object().unwrap()).unwrap()["x-note"], "a b");
        assert!(headers.render(json!({}).as_object().unwrap()).unwrap().is_empty());
    }

    #[test]
    fn names_that_belong_to_the_connection_or_to_a_credential_are_problems_with_a_fix() {
        for name in ["Authorization", "HOST", "content-length", "Transfer-Encoding", "a b", "x:y", ""] {
            assert!(parse(name, "x").is_err(), "{name}");
        }
        assert!(parse("Authorization", "{note}").unwrap_err()[0].fix.contains("credential"));
        assert!(parse("Cookie", "{note}").is_err());
        assert!(parse("X-Fixed", "a\nb").is_err());
    }

    #[test]
    fn the_trace_context_carries_our_trace() {
        let attempt = Attempt::new(ToolId::asked("t"), Object::new(), Effect::Read);
        let map = standard(None, &attempt);
        let digits = attempt.trace_id.as_str().trim_start_matches("tr_");
        assert!(map["traceparent"].to_str().unwrap().starts_with(&format!("00-{digits}-")));
        assert_eq!(map["x-request-id"], attempt.request_id.as_str());
    }
}
