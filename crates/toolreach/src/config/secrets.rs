//! Which parts of the file may never be printed.
//!
//! A report shows the line it complains about, and people paste reports into tickets. So every value under
//! `credentials`, `callers` and `state`, every value under a key that names a secret, everything under a key
//! that is not known (it may be one of those, misspelt), and the password of every URL is masked; values from
//! the environment never reach a message in the first place.

use std::collections::BTreeSet;
use std::ops::Range;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reach_core::redact;
use secrecy::{ExposeSecret, SecretString};

use super::schema::ADAPTERS;
use super::tree::{self, Data, Node};

/// What is printed for a hidden value.
pub(crate) const HIDDEN: &str = "***";

/// The sections whose values are hidden as a whole.
const SECTIONS: [&str; 3] = ["credentials", "callers", "state"];

/// Whether the value at this pointer may not be printed.
pub(crate) fn is_hidden(pointer: &str, node: Option<&Node>) -> bool {
    node.is_some_and(|node| node.from_environment)
        || tree::parts(pointer).enumerate().any(|(depth, part)| match depth {
            0 => SECTIONS.contains(&part.as_str()),
            // The name of a credential, as an adapter's part gives it, is none itself.
            3 if part == "credential" => false,
            _ => redact::is_secret_name(&part),
        })
}

/// Whether a key may be printed. In a hidden section a slip of the pen turns a value into a key
/// (`token sk-123` without its colon), so only what looks like the name of a field is shown there, and the
/// names that callers and credentials are declared under.
pub(crate) fn key_may_be_shown(parent: &str, key: &str) -> bool {
    !is_hidden(parent, None)
        || tree::parts(parent).count() == 1
        || (key.len() <= 24 && key.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
}

/// A pointer as it may be printed: keys that may not be shown are masked.
pub(crate) fn shown_pointer(pointer: &str) -> String {
    let (mut parent, mut shown) = (String::new(), String::new());
    for part in tree::parts(pointer) {
        let escaped = tree::escape(&part);
        shown.push('/');
        shown.push_str(if key_may_be_shown(&parent, &part) || part.parse::<usize>().is_ok() {
            &escaped
        } else {
            HIDDEN
        });
        parent.push('/');
        parent.push_str(&escaped);
    }
    shown
}

/// The words that say what kind of credential it is. Shown, because they help.
fn is_kind(pointer: &str, node: &Node) -> bool {
    let key = pointer.rsplit('/').next().unwrap_or_default();
    matches!(key, "kind" | "in")
        && node.text().is_some_and(|text| matches!(text, "bearer" | "basic" | "api_key" | "header" | "query"))
}

/// The stretches of the text, in characters, that are masked wherever its lines are shown.
pub(crate) fn hidden_ranges(root: &Node, unknown: &BTreeSet<String>) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    root.walk(&mut String::new(), &mut |pointer, node| {
        let below_unknown = unknown.iter().any(|key| is_below(pointer, key));
        if !below_unknown && (!is_hidden(pointer, None) || is_kind(pointer, node)) {
            return;
        }
        match &node.data {
            Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) => {
                ranges.push(node.place.offset..node.place.offset + node.place.length);
            }
            Data::Map(entries) => ranges.extend(
                entries
                    .iter()
                    .filter(|entry| below_unknown || !key_may_be_shown(pointer, &entry.key))
                    .map(|entry| entry.key_place.offset..entry.key_place.offset + entry.key_place.length),
            ),
            Data::List(_) => {}
        }
    });
    ranges
}

/// Whether `pointer` is `above` itself or something inside it.
pub(crate) fn is_below(pointer: &str, above: &str) -> bool {
    pointer.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The stretches of one line that hold a secret inside a URL, in characters: its password, and the values of
/// query parameters that are secrets by their name.
pub(crate) fn url_secrets(line: &[char]) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at + 3 <= line.len() {
        if line[at..at + 3] != [':', '/', '/'] {
            at += 1;
            continue;
        }
        let start = at + 3;
        let ends = |from: usize, marks: &[char]| {
            let ends = line[from..].iter().position(|c| c.is_whitespace() || marks.contains(c));
            ends.map_or(line.len(), |length| from + length)
        };
        let host_end = ends(start, &['/', '"', '\'', '?', '#', ',']);
        if let Some(sign) = line[start..host_end].iter().rposition(|c| *c == '@') {
            let colon = line[start..start + sign].iter().position(|c| *c == ':');
            ranges.push(colon.map_or(start, |colon| start + colon + 1)..start + sign);
        }
        let url_end = ends(host_end, &['"', '\'']);
        at = url_end.max(start);
        let mut parameter = ends(host_end, &['?', '"', '\'']) + 1;
        while parameter < url_end {
            let end = ends(parameter, &['&', '#', '"', '\'']);
            if let Some(equals) = line[parameter..end].iter().position(|c| *c == '=').map(|length| parameter + length) {
                let name: String = line[parameter..equals].iter().collect();
                if redact::is_secret_name(&name) && line.get(equals + 1) != Some(&'{') {
                    ranges.push(equals + 1..end);
                }
            }
            parameter = end + 1;
        }
    }
    ranges
}

/// The secrets inside the URLs of a text.
pub(crate) fn in_urls(text: &str) -> Vec<String> {
    let line: Vec<char> = text.chars().collect();
    let ranges = url_secrets(&line).into_iter().filter(|range| !range.is_empty());
    ranges.map(|range| line[range].iter().collect()).collect()
}

/// Every secret that is written into a tool rather than under `credentials`: in a URL, or under a key that
/// names a secret (a header `Authorization: Bearer ...`). For the scrubber.
pub(crate) fn in_tools(root: &Node) -> Vec<SecretString> {
    let mut found = Vec::new();
    root.walk(&mut String::new(), &mut |pointer, node| {
        let Some(text) = node.text() else { return };
        found.extend(in_urls(text));
        let parts: Vec<String> = tree::parts(pointer).collect();
        let [tools, _, adapter, .., key] = parts.as_slice() else { return };
        let is_in_adapter = tools == "tools" && ADAPTERS.contains(&adapter.as_str()) && parts.len() > 3;
        if is_in_adapter && key != "credential" && redact::is_secret_name(key) && !text.contains('{') {
            found.push(text.to_owned());
            // A header names its scheme first; an echo may hold the rest alone.
            found.extend(text.split_once(' ').map(|(_, token)| token.to_owned()));
        }
    });
    found.into_iter().map(SecretString::from).collect()
}

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A secret in every form in which a system may throw it back: as written, as a URL carries it, and as
/// what a URL in the file stands for.
pub(crate) fn forms(secret: &SecretString) -> Vec<SecretString> {
    let text = secret.expose_secret();
    let mut forms = vec![text.to_owned(), utf8_percent_encode(text, RESERVED).to_string()];
    forms.push(url::form_urlencoded::byte_serialize(text.as_bytes()).collect());
    forms.extend(percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned()));
    forms.sort_unstable();
    forms.dedup();
    forms.into_iter().map(SecretString::from).collect()
}

/// What the header of a `basic` credential holds: as good as the password.
pub(crate) fn basic(username: &str, password: &SecretString) -> SecretString {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(format!("{username}:{}", password.expose_secret())).into()
}

/// Whether a line of a file that is no YAML may be shown: it stands in a section that holds no secrets, and
/// names none itself.
pub(crate) fn line_may_be_shown(lines: &[&str], index: usize) -> bool {
    let Some(line) = lines.get(index) else { return false };
    let section = lines[..=index]
        .iter()
        .rev()
        .find(|line| line.chars().next().is_some_and(|c| !c.is_whitespace() && !matches!(c, '#' | '-')))
        .map(|line| line.split(':').next().unwrap_or_default().trim());
    let is_harmless =
        matches!(section, Some("version" | "server" | "upstreams" | "tools" | "imports" | "models" | "agents"));
    let words = line.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')));
    is_harmless && !words.into_iter().any(redact::is_secret_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_inside_urls_are_found_and_urls_without_are_left_alone() {
        assert_eq!(in_urls("postgres://bot:p@ss@db.internal:5432/stock"), ["p@ss"]);
        assert_eq!(in_urls("smtps://token@mail.internal"), ["token"]);
        assert_eq!(in_urls("see https://h/x?id=1&api_key=abc&n={n} and http://a:b@c"), ["abc", "b"]);
        assert_eq!(in_urls("https://h/x?token={token}"), [""; 0]);
        assert_eq!(in_urls("https://orders.internal/v1/@me://"), [""; 0]);
    }

    #[test]
    fn a_secret_is_known_in_the_forms_in_which_it_travels() {
        let known = |secret: &str| {
            let forms = forms(&secret.into()).into_iter();
            forms.map(|form| form.expose_secret().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(known("plain-0"), ["plain-0"]);
        assert_eq!(known("a/b+c d"), ["a%2Fb%2Bc%20d", "a%2Fb%2Bc+d", "a/b+c d"]);
        assert!(known("p%40ss").contains(&"p@ss".to_owned()), "the password of a URL, as the server knows it");
        assert_eq!(basic("bot", &"p".into()).expose_secret(), "Ym90OnA=");
    }

    #[test]
    fn lines_of_sections_with_secrets_are_not_shown_when_there_is_no_tree_to_mask_them_by() {
        let lines = ["callers:", "  bot: {key: \"abc", "tools:", "- tool_id: \"x", "  Authorization: \"Bearer abc"];
        let shown: Vec<bool> = (0..lines.len()).map(|index| line_may_be_shown(&lines, index)).collect();
        assert_eq!(shown, [false, false, true, true, false]);
    }
}
