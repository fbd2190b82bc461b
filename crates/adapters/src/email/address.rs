//! Mail addresses: from templates and values to mailboxes, one value never becoming two.
//!
//! An address is taken apart here by a narrower grammar than the standards allow (no comments, no quoted
//! local parts, no routes): everything those are used for today is an attempt to be read differently by two
//! programs. `lettre` then checks what is left.

use lettre::Address;
use lettre::message::Mailbox;
use reach_core::{Failure, Object, Problem};
use serde_json::Value;

use crate::shared::template::{Template, plain};

/// The longest name beside an address, in characters: encoded, it still fits on a line.
const NAME_MAX: usize = 100;

/// One item of `to`, `cc`, `bcc`, `reply_to` or `from`.
pub(super) enum Entry {
    /// Exactly one placeholder: one address, one `Name <address>`, or a list of them.
    Free(String),
    /// A name and an address, or an address alone, each a template of its own.
    Built { name: Option<Template>, address: Template },
}

impl Entry {
    /// Compiles one item; what holds no placeholder is checked at once.
    pub(super) fn compile(source: &str, arguments: &[&str], pointer: &str) -> Result<Self, Vec<Problem>> {
        let parse = |text: &str| Template::parse(text, arguments.iter().copied(), pointer);
        if let Some(name) = parse(source)?.sole_argument() {
            return Ok(Entry::Free(name.to_owned()));
        }
        let source = source.trim();
        let entry = match source.strip_suffix('>').and_then(|rest| rest.rsplit_once('<')) {
            Some((name, address)) => {
                let name = unquoted(name.trim()).unwrap_or_else(|| name.trim().to_owned());
                Entry::Built { name: Some(parse(&name)?), address: parse(address)? }
            }
            None => Entry::Built { name: None, address: parse(source)? },
        };
        let wrong = |message: String| {
            let fix = "write bot@example.com or Shop <bot@example.com>; several addresses as a list";
            vec![Problem::new(pointer, message, fix)]
        };
        if entry.is_constant() {
            entry.mailboxes(&Object::new()).map_err(|failure| wrong(failure.message))?;
        } else if has_control(source) {
            return Err(wrong("an address cannot hold line breaks or control characters".to_owned()));
        }
        Ok(entry)
    }

    /// Whether it is the operator's word alone.
    pub(super) fn is_constant(&self) -> bool {
        match self {
            Entry::Free(_) => false,
            Entry::Built { name, address } => {
                name.iter().chain([address]).all(|template| template.arguments().next().is_none())
            }
        }
    }

    /// The mailboxes of one call: none if an argument was not given, a refusal that names the argument if a
    /// value is not one address.
    pub(super) fn mailboxes(&self, arguments: &Object) -> Result<Vec<Mailbox>, Failure> {
        match self {
            Entry::Free(argument) => match arguments.get(argument) {
                None | Some(Value::Null) => Ok(Vec::new()),
                Some(Value::Array(items)) => items.iter().map(|item| mailbox(item, argument)).collect(),
                Some(value) => Ok(vec![mailbox(value, argument)?]),
            },
            Entry::Built { name, address } => {
                let missing = |argument: &str| arguments.get(argument).is_none_or(Value::is_null);
                if address.arguments().any(missing) {
                    return Ok(Vec::new());
                }
                let name = match name {
                    Some(name) => display_name(name, arguments)?,
                    None => None,
                };
                let named = || named(address);
                // A value inside an address is part of a local part or a domain, never an address of its own.
                for argument in address.arguments() {
                    let value = arguments.get(argument).and_then(plain).unwrap_or_default();
                    if address.sole_argument().is_none() && !value.chars().all(is_atom) {
                        return Err(Failure::refused(format!(
                            "`{argument}` may hold only letters, digits and `.-_+` here"
                        )));
                    }
                }
                let text = address.render(arguments).unwrap_or_default();
                let address = bare_address(&text).ok_or_else(|| not_an_address(&named(), &text))?;
                Ok(vec![Mailbox::new(name.filter(|name| !name.is_empty()), address)])
            }
        }
    }
}

fn named(template: &Template) -> String {
    match template.arguments().map(|name| format!("`{name}`")).collect::<Vec<_>>() {
        names if names.is_empty() => "this".to_owned(),
        names => names.join(" and "),
    }
}

fn not_an_address(named: &str, text: &str) -> Failure {
    let why = match text {
        _ if text.is_empty() => "it is empty",
        _ if has_control(text) => "it holds a line break or another control character",
        _ if text.matches('@').count() > 1 => "it holds more than one address",
        _ if text.trim() != text => "it has white space around it",
        _ => "write it like name@example.com",
    };
    Failure::refused(format!("{named} is not one mail address: {why}"))
}

/// A value in the place of a whole mailbox.
fn mailbox(value: &Value, argument: &str) -> Result<Mailbox, Failure> {
    let Value::String(text) = value else {
        return Err(Failure::refused(format!("`{argument}` is not a mail address: it is no text")));
    };
    parse_mailbox(text).ok_or_else(|| not_an_address(&format!("`{argument}`"), text))
}

/// `a@b.example`, `Name <a@b.example>` or `"Name, with specials" <a@b.example>`.
fn parse_mailbox(text: &str) -> Option<Mailbox> {
    // Before anything is trimmed: some control characters count as white space.
    if has_control(text) {
        return None;
    }
    let Some((name, address)) = text.strip_suffix('>').and_then(|rest| rest.rsplit_once('<')) else {
        return Some(Mailbox::new(None, bare_address(text)?));
    };
    let name = name.trim();
    let name = match unquoted(name) {
        Some(name) => name,
        None if name.contains(['"', '\\', '<', '>', '(', ')', '[', ']', ',', ';', ':', '@']) => return None,
        None => name.to_owned(),
    };
    if !is_name(&name) {
        return None;
    }
    Some(Mailbox::new(Some(name).filter(|name| !name.is_empty()), bare_address(address)?))
}

/// The inside of a quoted string, if the whole text is one.
fn unquoted(text: &str) -> Option<String> {
    let mut inside = String::new();
    let mut rest = text.strip_prefix('"')?.strip_suffix('"').filter(|_| text.len() >= 2)?.chars();
    while let Some(next) = rest.next() {
        match next {
            '\\' => inside.push(rest.next()?),
            '"' => return None,
            other => inside.push(other),
        }
    }
    Some(inside)
}

/// One bare address; its domain in ASCII.
fn bare_address(text: &str) -> Option<Address> {
    let (local, domain) = text.split_once('@')?;
    // `%` and `!` once routed mail past the domain that was checked.
    if !local.chars().all(is_atom) || local.contains(['%', '!']) || !domain.chars().all(is_atom) {
        return None;
    }
    let Ok(url::Host::Domain(domain)) = url::Host::parse(domain) else { return None };
    Address::new(local, domain).ok()
}

/// What a local part or a domain may be made of.
fn is_atom(c: char) -> bool {
    c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c)
}

/// Text for a header: `None` if an argument was not given, a refusal if a value could end the line.
pub(super) fn header_text(template: &Template, arguments: &Object) -> Result<Option<String>, Failure> {
    for argument in template.arguments() {
        if arguments.get(argument).and_then(plain).is_some_and(|value| has_control(&value)) {
            return Err(Failure::refused(format!(
                "`{argument}` may not hold line breaks or control characters: it goes into a header of the mail"
            )));
        }
    }
    Ok(template.render(arguments))
}

/// A name beside an address: one line, short enough for it, and nothing that its reader would decode.
fn display_name(template: &Template, arguments: &Object) -> Result<Option<String>, Failure> {
    let name = header_text(template, arguments)?;
    if name.as_ref().is_some_and(|name| !is_name(name)) {
        return Err(Failure::refused(format!(
            "{} does not make a name: at most {NAME_MAX} characters, without control characters and `=?`",
            named(template)
        )));
    }
    Ok(name)
}

fn is_name(text: &str) -> bool {
    !has_control(text) && !text.contains("=?") && text.chars().count() <= NAME_MAX
}

/// Characters that end a line somewhere, or that no header may hold.
pub(super) fn has_control(text: &str) -> bool {
    text.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'))
}

/// Whether `pattern` (`*` stands for any run without `@`) covers the address, without regard to case.
pub(super) fn covers(pattern: &str, address: &str) -> bool {
    let (pattern, address) = (pattern.to_lowercase(), address.to_lowercase());
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == address };
    let Some(mut left) = address.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        let at = if parts.peek().is_none() {
            left.len().checked_sub(part.len()).filter(|_| left.ends_with(part))
        } else {
            left.find(part)
        };
        match at {
            Some(at) if !left[..at].contains('@') => left = &left[at + part.len()..],
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_its_domain_and_nothing_that_only_looks_like_it() {
        for (pattern, address, wanted) in [
            ("*@example.com", "a@example.com", true),
            ("*@example.com", "A.b@EXAMPLE.com", true),
            ("*@example.com", "a@example.com.evil.org", false),
            ("*@example.com", "a@evil-example.com", false),
            ("*@example.com", "a@b@example.com", false),
            ("*@*.example.com", "a@mail.example.com", true),
            ("*@*.example.com", "a@example.com", false),
            ("shop-*@example.com", "shop-7@example.com", true),
            ("shop-*@example.com", "shop@example.com", false),
            ("a@example.com", "b@example.com", false),
            ("*", "a@example.com", false),
            ("*@*", "a@example.com", true),
            ("a*a@x.org", "a@x.org", false),
        ] {
            assert_eq!(covers(pattern, address), wanted, "{pattern} {address}");
        }
    }

    #[test]
    fn one_text_is_one_mailbox_or_none() {
        let read = |text: &str| parse_mailbox(text).map(|found| (found.name, found.email.to_string()));
        assert_eq!(read("a@b.org"), Some((None, "a@b.org".to_owned())));
        assert_eq!(read("Ann Lee <a@b.org>"), Some((Some("Ann Lee".to_owned()), "a@b.org".to_owned())));
        assert_eq!(
            read("\"Lee, \\\"Ann\\\"\" <a@b.org>"),
            Some((Some("Lee, \"Ann\"".to_owned()), "a@b.org".to_owned()))
        );
        assert_eq!(read("李 <a@例子.测试>"), Some((Some("李".to_owned()), "a@xn--fsqu00a.xn--0zwm56d".to_owned())));
        for text in [
            "a@b.org, c@d.org",
            "a@b.org c@d.org",
            "x, y <a@b.org>",
            "c@d.org <a@b.org>",
            "<a@b.org",
            "a@b.org>",
            "<a@b.org> <c@d.org>",
            "\"a\"@b.org",
            "a@[127.0.0.1]",
            "a%c.org@b.org",
            "c.org!a@b.org",
            "a@b.org\n",
            "",
            "@",
            "a@",
            "@b.org",
            "a(c)@b.org",
            "a@127.0.0.1",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
