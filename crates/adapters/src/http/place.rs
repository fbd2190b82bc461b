//! The URL of a request: a template parsed once, each value encoded for the place where it stands.
//!
//! Scheme, host, port and user information hold no placeholder, so an argument can never choose where a
//! request goes. In a path segment everything but unreserved characters is encoded and a value that
//! would name another folder is refused. What is rendered is compared with what the URL parser made of
//! it before it is used: a difference is refused, never sent.

use std::fmt::Write as _;

use reach_core::{Failure, Object, Problem};
use serde_json::Value;
use url::Url;

use super::config::Scalar;
use crate::shared::template::{Part, Template, plain};

/// A parsed URL template, with its query parameters.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Scheme, host and port with the path `/`.
    origin: Url,
    segments: Vec<Vec<Part>>,
    parameters: Vec<Parameter>,
}

/// One query parameter.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    /// Encoded.
    name: String,
    value: Vec<Part>,
    /// Literals of `url:` are already encoded; those of `query:` are not.
    encoded: bool,
}

impl Place {
    /// Parses `source`; problems point at `/url`.
    pub(crate) fn parse<'a>(
        source: &str,
        arguments: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Self, Vec<Problem>> {
        let template = Template::parse(source, arguments, "/url")?;
        let problem = |message: String, fix: &str| vec![Problem::new("/url", message, fix)];
        let first = match template.parts().first() {
            Some(Part::Literal(text)) => text.as_str(),
            _ => "",
        };
        if template.parts().iter().any(|part| matches!(part, Part::Literal(text) if text.contains(unfit))) {
            return Err(problem(
                "a url cannot hold white space, control characters or `\\`".into(),
                "write them percent-encoded, such as `%20`",
            ));
        }
        let Some((scheme, rest)) = first.split_once("://") else {
            return Err(problem(
                "a url starts with its scheme and host, without placeholders".into(),
                "write it whole, such as `https://orders.internal/v1/orders/{order_id}`",
            ));
        };
        let authority_ends = rest.find(['/', '?', '#']);
        if authority_ends.is_none() && template.parts().len() > 1 {
            return Err(problem(
                "an argument cannot choose the host or port of a request".into(),
                "write the host out and put placeholders after the next `/`; declare one tool per host",
            ));
        }
        let authority = &rest[..authority_ends.unwrap_or(rest.len())];
        if authority.contains('@') {
            return Err(problem(
                "a url holds no user name or password".into(),
                "declare a credential of kind `basic` and name it as `credential`",
            ));
        }
        let origin = Url::parse(&format!("{scheme}://{authority}/"))
            .map_err(|error| problem(format!("not a url: {error}"), "write `https://host/path`"))?;
        if !matches!(origin.scheme(), "http" | "https") {
            return Err(problem(
                format!("the scheme `{}` is not HTTP", origin.scheme()),
                "write `https://` or `http://`",
            ));
        }
        let mut parts = template.parts().to_vec();
        if let Some(Part::Literal(text)) = parts.first_mut() {
            text.drain(..scheme.len() + 3 + authority.len());
        }
        Self::after_authority(origin, parts)
    }

    fn after_authority(origin: Url, parts: Vec<Part>) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let (path, query) = split_once(parts, '?');
        let literals = || path.iter().chain(query.iter().flatten());
        for part in literals() {
            let Part::Literal(text) = part else { continue };
            if text.contains('#') {
                problems.push(Problem::new("/url", "a fragment is never sent", "remove `#` and what follows it"));
            }
            if has_stray_percent(text) {
                problems.push(Problem::new("/url", "a `%` without two hexadecimal digits", "write `%25` for a `%`"));
            }
        }
        // The path starts with its first `/`, so that the part before it is empty.
        let mut segments = split(path, '/');
        if segments.len() > 1 {
            segments.remove(0);
        }
        for segment in &segments {
            if let [Part::Literal(text)] = segment.as_slice()
                && is_dots(text)
            {
                problems.push(Problem::new("/url", "`.` and `..` are no path segments", "write the path they lead to"));
            }
        }
        let mut parameters = Vec::new();
        for pair in query.map(|query| split(query, '&')).unwrap_or_default() {
            if pair.is_empty() {
                continue;
            }
            let (name, value) = split_once(pair, '=');
            let name = match name.as_slice() {
                [Part::Literal(name)] => encode_literal(name),
                _ => {
                    problems.push(Problem::new(
                        "/url",
                        "a placeholder can stand for the value of a query parameter only",
                        "write `?name={argument}`",
                    ));
                    continue;
                }
            };
            parameters.push(Parameter { name, value: value.unwrap_or_default(), encoded: true });
        }
        if problems.is_empty() { Ok(Self { origin, segments, parameters }) } else { Err(problems) }
    }

    /// Adds a parameter of the key `query:`.
    pub(crate) fn add(&mut self, parameter: Parameter) -> Result<(), Problem> {
        if self.parameters.iter().any(|known| known.name == parameter.name) {
            let pointer = format!("/query/{}", parameter.name);
            return Err(Problem::new(pointer, "this parameter is in `url` too", "keep one of the two"));
        }
        self.parameters.push(parameter);
        Ok(())
    }

    /// Adds an argument as the parameter of the same name.
    pub(crate) fn add_argument(&mut self, name: &str) {
        let value = vec![Part::Argument(name.to_owned())];
        self.parameters.push(Parameter { name: encode(name), value, encoded: false });
    }

    /// The names of the arguments it uses.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &str> {
        let parts = self.segments.iter().flatten().chain(self.parameters.iter().flat_map(|one| &one.value));
        parts.filter_map(|part| match part {
            Part::Argument(name) => Some(name.as_str()),
            Part::Literal(_) => None,
        })
    }

    /// Scheme, host and port with the path `/`.
    pub(crate) fn origin(&self) -> &Url {
        &self.origin
    }

    /// The URL for these arguments; `extra` is one more parameter (an API key). Refuses what a path
    /// segment cannot hold, naming the argument.
    pub(crate) fn render(&self, arguments: &Object, extra: Option<(&str, &str)>) -> Result<Url, Failure> {
        let mut path = String::new();
        for segment in &self.segments {
            path.push('/');
            path.push_str(&render_segment(segment, arguments)?);
        }
        let mut query = String::new();
        for parameter in &self.parameters {
            for value in parameter.values(arguments) {
                let separator = if query.is_empty() { "" } else { "&" };
                let _ = write!(query, "{separator}{}={value}", parameter.name);
            }
        }
        if let Some((name, value)) = extra {
            let separator = if query.is_empty() { "" } else { "&" };
            let _ = write!(query, "{separator}{}={}", encode(name), encode(value));
        }
        let origin = self.origin.as_str().trim_end_matches('/');
        let mark = if query.is_empty() { "" } else { "?" };
        let url = Url::parse(&format!("{origin}{path}{mark}{query}"))
            .map_err(|error| Failure::refused(format!("these arguments make no valid url: {error}")))?;
        if url.origin() != self.origin.origin() || url.path() != path || url.fragment().is_some() {
            return Err(Failure::refused("these arguments would change where the request goes"));
        }
        Ok(url)
    }
}

impl Parameter {
    /// The parameter `name` of the key `query:`; problems point at `/query/NAME`.
    pub(crate) fn parse<'a>(
        name: &str,
        value: &Scalar,
        arguments: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Self, Vec<Problem>> {
        let pointer = format!("/query/{}", name.replace('~', "~0").replace('/', "~1"));
        let value = match value {
            Scalar::Text(text) => Template::parse(text, arguments, &pointer)?.parts().to_vec(),
            Scalar::Number(number) => vec![Part::Literal(number.to_string())],
            Scalar::Flag(flag) => vec![Part::Literal(flag.to_string())],
        };
        Ok(Self { name: encode(name), value, encoded: false })
    }

    /// Nothing where an argument is absent or null; one per item where the value is a list.
    fn values(&self, arguments: &Object) -> Vec<String> {
        if let [Part::Argument(name)] = self.value.as_slice()
            && let Some(Value::Array(items)) = arguments.get(name)
        {
            return items.iter().filter_map(plain).map(|item| encode(&item)).collect();
        }
        let mut text = String::new();
        for part in &self.value {
            match part {
                Part::Literal(literal) if self.encoded => text.push_str(&encode_literal(literal)),
                Part::Literal(literal) => text.push_str(&encode(literal)),
                Part::Argument(name) => match arguments.get(name).and_then(plain) {
                    Some(value) => text.push_str(&encode(&value)),
                    None => return Vec::new(),
                },
            }
        }
        vec![text]
    }
}

fn render_segment(segment: &[Part], arguments: &Object) -> Result<String, Failure> {
    let mut text = String::new();
    for part in segment {
        let name = match part {
            Part::Literal(literal) => {
                text.push_str(&encode_literal(literal));
                continue;
            }
            Part::Argument(name) => name,
        };
        let value = match arguments.get(name) {
            None | Some(Value::Null) => {
                return Err(Failure::refused(format!("`{name}` is missing: the address of the request needs it")));
            }
            Some(Value::Array(_) | Value::Object(_)) => {
                return Err(Failure::refused(format!("`{name}` has to be text or a number: it is part of a path")));
            }
            Some(value) => plain(value).unwrap_or_default(),
        };
        if value.is_empty() {
            return Err(Failure::refused(format!("`{name}` is empty: the address of the request needs it")));
        }
        text.push_str(&encode(&value));
    }
    if is_dots(&text) {
        let name = segment.iter().find_map(|part| match part {
            Part::Argument(name) => Some(name.as_str()),
            Part::Literal(_) => None,
        });
        return Err(Failure::refused(format!(
            "`{}` cannot be `.` or `..`: that would change the path of the request",
            name.unwrap_or("url")
        )));
    }
    Ok(text)
}

/// What no part of a URL may hold as it stands: the parser would drop or change it without a word.
fn unfit(c: char) -> bool {
    c.is_whitespace() || c.is_control() || c == '\\'
}

/// A segment that the URL parser takes as "here" or "one up", encoded or not.
fn is_dots(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    plain == "." || plain == ".."
}

fn has_stray_percent(text: &str) -> bool {
    text.match_indices('%').any(|(at, _)| {
        let digits = text.as_bytes().get(at + 1..at + 3);
        !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Splits at every `separator` inside literals; a literal without text leaves no part.
fn split(parts: Vec<Part>, separator: char) -> Vec<Vec<Part>> {
    let mut groups = Vec::new();
    let mut group = Vec::new();
    for part in parts {
        let Part::Literal(text) = part else {
            group.push(part);
            continue;
        };
        for (index, piece) in text.split(separator).enumerate() {
            if index > 0 {
                groups.push(std::mem::take(&mut group));
            }
            if !piece.is_empty() {
                group.push(Part::Literal(piece.to_owned()));
            }
        }
    }
    groups.push(group);
    groups
}

/// Splits at the first `separator` inside a literal.
fn split_once(parts: Vec<Part>, separator: char) -> (Vec<Part>, Option<Vec<Part>>) {
    let mut before = Vec::new();
    let mut parts = parts.into_iter();
    while let Some(part) = parts.next() {
        if let Part::Literal(text) = &part
            && let Some((head, tail)) = text.split_once(separator)
        {
            let mut after = Vec::new();
            for (piece, into) in [(head, &mut before), (tail, &mut after)] {
                if !piece.is_empty() {
                    into.push(Part::Literal(piece.to_owned()));
                }
            }
            after.extend(parts);
            return (before, Some(after));
        }
        before.push(part);
    }
    (before, None)
}

/// Percent-encodes everything but the unreserved characters of RFC 3986.
pub(crate) fn encode(text: &str) -> String {
    encode_but(text, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~'))
}

/// Leaves what the operator wrote as it is, as far as a URL can hold it.
fn encode_literal(text: &str) -> String {
    encode_but(text, |byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/?".contains(&byte))
}

fn encode_but(text: &str, keep: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if keep(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place(source: &str) -> Result<Place, Vec<Problem>> {
        Place::parse(source, ["id", "kind", "q"].into_iter())
    }

    fn rendered(source: &str, arguments: Value) -> Result<String, String> {
        let url = place(source).unwrap().render(arguments.as_object().unwrap(), None);
        url.map(|url| url.to_string()).map_err(|failure| failure.message)
    }

    #[test]
    fn every_value_is_encoded_for_its_place() {
        assert_eq!(
            rendered(
                "https://h/v1/{kind}/{id}.json?q={q}&fixed=a%20b",
                json!({"kind": "a/b", "id": 7, "q": "x&y=1 z"})
            ),
            Ok("https://h/v1/a%2Fb/7.json?q=x%26y%3D1%20z&fixed=a%20b".into())
        );
        assert_eq!(rendered("https://h", json!({})), Ok("https://h/".into()));
        assert_eq!(rendered("https://h/a/", json!({})), Ok("https://h/a/".into()));
        assert_eq!(
            rendered("https://h/杭州/{id}", json!({"id": true})),
            Ok("https://h/%E6%9D%AD%E5%B7%9E/true".into())
        );
    }

    #[test]
    fn a_parameter_without_a_value_is_left_out_and_a_list_is_repeated() {
        assert_eq!(rendered("https://h/?q={q}&a=1", json!({})), Ok("https://h/?a=1".into()));
        assert_eq!(rendered("https://h/?q={q}", json!({"q": null})), Ok("https://h/".into()));
        assert_eq!(rendered("https://h/?q={q}", json!({"q": ""})), Ok("https://h/?q=".into()));
        assert_eq!(
            rendered("https://h/?q={q}", json!({"q": ["a", 2, "c d"]})),
            Ok("https://h/?q=a&q=2&q=c%20d".into())
        );
    }

    #[test]
    fn a_segment_never_becomes_a_step_through_folders() {
        for (source, arguments) in [
            ("https://h/{id}", json!({"id": ".."})),
            ("https://h/{id}/x", json!({"id": "."})),
            ("https://h/{id}{kind}/x", json!({"id": ".", "kind": "."})),
            ("https://h/{id}./x", json!({"id": "."})),
            ("https://h/.{id}/x", json!({"id": "."})),
            ("https://h/%2e{id}/x", json!({"id": "."})),
            ("https://h/{id}%2E", json!({"id": "."})),
            ("https://h/{id}", json!({"id": ""})),
            ("https://h/{id}", json!({"id": ["a"]})),
        ] {
            assert!(rendered(source, arguments.clone()).is_err(), "{source} {arguments}");
        }
        assert_eq!(rendered("https://h/{id}", json!({"id": "..."})), Ok("https://h/...".into()));
        assert_eq!(rendered("https://h/{id}", json!({"id": "%2e%2e"})), Ok("https://h/%252e%252e".into()));
    }

    #[test]
    fn an_argument_can_never_choose_scheme_host_port_or_user() {
        for source in [
            "{q}://h/",
            "{q}",
            "https://{q}/x",
            "https://{q}.example.com/x",
            "https://example.com{q}",
            "https://example.com:{q}/x",
            "https://{q}@example.com/",
            "https://user:pw@example.com/",
            "ftp://example.com/",
            "https://example.com\\{q}/",
            "https://exa\tmple.com/{q}",
            "example.com/{q}",
            "https://h/../a",
            "https://h/a#{q}",
            "https://h/?{q}=1",
            "https://h/50%",
            "https:///x",
        ] {
            assert!(place(source).is_err(), "{source}");
        }
    }

    proptest::proptest! {
        /// Whatever the value: it is refused, or it stands whole in its own segment and parameter.
        #[test]
        fn no_value_leaves_its_place(id in "\\PC*|[./\\\\%?#@:{}a\r\n\t ]{0,8}", q in "\\PC*") {
            let place = place("https://host:8443/a/{id}/b?q={q}&z=1").unwrap();
            let arguments = json!({"id": id, "q": q});
            match place.render(arguments.as_object().unwrap(), None) {
                Err(failure) => {
                    assert_eq!(failure.phase, reach_core::Phase::Rejected);
                    assert!(id.is_empty() || is_dots(&id), "{id:?}");
                }
                Ok(url) => {
                    let segments: Vec<&str> = url.path_segments().unwrap().collect();
                    assert_eq!((segments.len(), segments[0], segments[2]), (3, "a", "b"));
                    let decoded: Vec<u8> = url::form_urlencoded::parse(format!("x={}", segments[1]).as_bytes())
                        .flat_map(|(_, value)| value.into_owned().into_bytes())
                        .collect();
                    assert_eq!(String::from_utf8(decoded).unwrap(), id);
                    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
                    assert_eq!(pairs, [("q".to_owned(), q), ("z".to_owned(), "1".to_owned())]);
                    assert_eq!(&url[..url::Position::BeforePath], "https://host:8443");
                }
            }
        }
    }
}
