//! From arguments to a whole message and its envelope.
//!
//! The message is built by `lettre` from structured parts; the envelope is built here from the same
//! mailboxes and never read back from a header. A missing value is refused by name, not written as nothing.

use std::hash::{Hash, Hasher};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use lettre::Address;
use lettre::message::header::{self, ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Body, Mailbox, Mailboxes, Message, MultiPart, SinglePart};
use reach_core::{Attempt, Failure, FailureKind, Object, Phase, Problem};

use super::address::{Entry, covers, has_control, header_text};
use super::{Addresses, Config};
use crate::shared::Declared;
use crate::shared::template::Template;

/// The longest word of a subject that goes out as it is, in bytes. A line may have 998.
const WORD_MAX: usize = 500;

/// The declared mail with its placeholders.
pub(super) struct Form {
    from: Entry,
    to: Vec<Entry>,
    cc: Vec<Entry>,
    bcc: Vec<Entry>,
    reply_to: Vec<Entry>,
    subject: Template,
    body: Template,
    html: Option<Template>,
    allowed_recipients: Vec<String>,
    max_recipients: usize,
}

/// A mail ready to be handed over.
pub(super) struct Mail {
    pub(super) sender: Address,
    /// Each once, in the order to, cc, bcc.
    pub(super) recipients: Vec<Recipient>,
    /// Headers and body.
    pub(super) content: Vec<u8>,
    /// With its angle brackets.
    pub(super) message_id: String,
}

/// One recipient of the envelope.
pub(super) struct Recipient {
    pub(super) address: Address,
    /// Whether the caller may read of it: not so for the operator's own blind copies.
    pub(super) shown: bool,
}

impl Form {
    /// Compiles the templates; every problem at once.
    pub(super) fn compile(config: &Config, declared: &Declared<'_>) -> Result<Self, Vec<Problem>> {
        let arguments: Vec<&str> = declared.arguments().collect();
        let mut problems = Vec::new();
        let mut entries = |addresses: &Addresses, key: &str| -> Vec<Entry> {
            let (sources, many) = match addresses {
                Addresses::One(source) => (std::slice::from_ref(source), false),
                Addresses::Many(sources) => (sources.as_slice(), true),
            };
            let mut compiled = Vec::new();
            for (at, source) in sources.iter().enumerate() {
                let pointer = if many { format!("/{key}/{at}") } else { format!("/{key}") };
                match Entry::compile(source, &arguments, &pointer) {
                    Ok(entry) => compiled.push(entry),
                    Err(found) => problems.extend(found),
                }
            }
            compiled
        };
        let from = entries(&Addresses::One(config.from.clone()), "from").pop();
        let (to, cc) = (entries(&config.to, "to"), entries(&config.cc, "cc"));
        let (bcc, reply_to) = (entries(&config.bcc, "bcc"), entries(&config.reply_to, "reply_to"));
        let mut template = |source: &str, key: &str| {
            let pointer = format!("/{key}");
            Template::parse(source, arguments.iter().copied(), &pointer).map_err(|found| problems.extend(found)).ok()
        };
        let (subject, body) = (template(&config.subject, "subject"), template(&config.body, "body"));
        let html = config.html.as_deref().map(|source| template(source, "html"));
        if has_control(&config.subject) {
            let message = "a subject cannot hold line breaks or control characters";
            problems.push(Problem::new("/subject", message, "write it on one line"));
        }
        if matches!(&config.to, Addresses::Many(items) if items.is_empty()) {
            problems.push(Problem::new("/to", "nobody to write to", "write an address or a placeholder"));
        }
        if config.max_recipients == 0 {
            problems.push(Problem::new(
                "/max_recipients",
                "no recipient is allowed",
                "leave it out, or write at least 1",
            ));
        }
        for (at, pattern) in config.allowed_recipients.iter().enumerate() {
            if pattern.matches('@').count() != 1 {
                problems.push(Problem::new(
                    format!("/allowed_recipients/{at}"),
                    "this pattern covers no mail address",
                    "write it like *@example.com; `*` stands for anything but `@`",
                ));
            }
        }
        match (from, subject, body, html) {
            (Some(from), Some(subject), Some(body), html @ (None | Some(Some(_)))) if problems.is_empty() => {
                let form = Self {
                    from,
                    to,
                    cc,
                    bcc,
                    reply_to,
                    subject,
                    body,
                    html: html.flatten(),
                    allowed_recipients: config.allowed_recipients.clone(),
                    max_recipients: config.max_recipients,
                };
                form.forbidden_constants()
            }
            _ => Err(problems),
        }
    }

    /// The operator's own recipients have to be allowed by the operator's own list.
    fn forbidden_constants(self) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        for (key, entries) in [("to", &self.to), ("cc", &self.cc), ("bcc", &self.bcc)] {
            for entry in entries.iter().filter(|entry| entry.is_constant()) {
                for mailbox in entry.mailboxes(&Object::new()).unwrap_or_default() {
                    if !self.allows(&mailbox.email) {
                        let message = format!("{} is not covered by allowed_recipients", mailbox.email);
                        problems.push(Problem::new(format!("/{key}"), message, "add a pattern that covers it"));
                    }
                }
            }
        }
        if problems.is_empty() { Ok(self) } else { Err(problems) }
    }

    fn allows(&self, address: &Address) -> bool {
        self.allowed_recipients.is_empty()
            || self.allowed_recipients.iter().any(|pattern| covers(pattern, address.as_ref()))
    }

    /// The mail of one call, or a refusal that names the argument at fault.
    pub(super) fn compose(&self, attempt: &Attempt) -> Result<Mail, Failure> {
        let arguments = &attempt.arguments;
        let from = self
            .from
            .mailboxes(arguments)?
            .into_iter()
            .next()
            .ok_or_else(|| Failure::refused("the mail has no sender: its argument was not given"))?;
        let all = |entries: &[Entry]| -> Result<Vec<(Mailbox, bool)>, Failure> {
            let mut found = Vec::new();
            for entry in entries {
                found.extend(entry.mailboxes(arguments)?.into_iter().map(|mailbox| (mailbox, entry.is_constant())));
            }
            Ok(found)
        };
        let (to, cc, bcc) = (all(&self.to)?, all(&self.cc)?, all(&self.bcc)?);
        let reply_to = all(&self.reply_to)?;
        let recipients = self.recipients(&to, &cc, &bcc)?;
        let subject =
            header_text(&self.subject, arguments)?.ok_or_else(|| missing(&self.subject, arguments, "subject"))?;
        let body = self.body.render(arguments).ok_or_else(|| missing(&self.body, arguments, "body"))?;

        let message_id = message_id(attempt, &from.email);
        let sender = from.email.clone();
        let mut builder = Message::builder()
            .header(header::From::from(Mailboxes::from(from)))
            .raw_header(subject_line(subject))
            .message_id(Some(message_id.clone()))
            .raw_header(HeaderValue::new(
                HeaderName::new_from_ascii_str("Auto-Submitted"),
                "auto-generated".to_owned(),
            ));
        if !to.is_empty() {
            builder = builder.header(header::To::from(mailboxes(to)));
        }
        if !cc.is_empty() {
            builder = builder.header(header::Cc::from(mailboxes(cc)));
        }
        if !reply_to.is_empty() {
            builder = builder.header(header::ReplyTo::from(mailboxes(reply_to)));
        }
        let addresses = recipients.iter().map(|one| one.address.clone()).collect();
        let envelope = lettre::address::Envelope::new(Some(sender.clone()), addresses).map_err(internal)?;
        let builder = builder.envelope(envelope);
        let plain = SinglePart::builder().header(ContentType::TEXT_PLAIN).body(encoded(&body));
        let message = match &self.html {
            None => builder.singlepart(plain),
            Some(html) => {
                let html = html.render_with(arguments, escape_html).ok_or_else(|| missing(html, arguments, "html"))?;
                let html = SinglePart::builder().header(ContentType::TEXT_HTML).body(encoded(&html));
                builder.multipart(MultiPart::alternative().singlepart(plain).singlepart(html))
            }
        };
        let content = message.map_err(internal)?.formatted();
        Ok(Mail { sender, recipients, content, message_id })
    }

    /// Everybody once; refused when nobody, too many, or somebody who may not be written to.
    fn recipients(
        &self,
        to: &[(Mailbox, bool)],
        cc: &[(Mailbox, bool)],
        bcc: &[(Mailbox, bool)],
    ) -> Result<Vec<Recipient>, Failure> {
        let mut recipients: Vec<Recipient> = Vec::new();
        let open = to.iter().chain(cc).map(|(mailbox, _)| (mailbox, true));
        for (mailbox, shown) in open.chain(bcc.iter().map(|(mailbox, constant)| (mailbox, !constant))) {
            if !self.allows(&mailbox.email) {
                return Err(Failure::refused(format!(
                    "{} is not among the allowed recipients of this tool",
                    mailbox.email
                )));
            }
            if !recipients.iter().any(|known| known.address == mailbox.email) {
                recipients.push(Recipient { address: mailbox.email.clone(), shown });
            }
        }
        match recipients.len() {
            0 => Err(Failure::refused("the mail has no recipient: give at least one address")),
            count if count > self.max_recipients => Err(Failure::refused(format!(
                "the mail has {count} recipients and this tool allows {} in one mail",
                self.max_recipients
            ))),
            _ => Ok(recipients),
        }
    }
}

fn mailboxes(all: Vec<(Mailbox, bool)>) -> Mailboxes {
    all.into_iter().map(|(mailbox, _)| mailbox).collect()
}

fn internal(error: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Internal, Phase::NotSent, "the mail could not be put together")
        .with_detail(error.to_string())
}

fn missing(template: &Template, arguments: &Object, part: &str) -> Failure {
    let absent = template.arguments().find(|name| arguments.get(*name).is_none_or(serde_json::Value::is_null));
    Failure::refused(format!("`{}` was not given, and the {part} needs it", absent.unwrap_or("an argument")))
}

/// The subject as a header. Text that looks like an encoded word already (`=?utf-8?q?...?=`) is encoded itself, so
/// that its reader sees it as it was written; so is a word too long for a line.
fn subject_line(subject: String) -> HeaderValue {
    let name = HeaderName::new_from_ascii_str("Subject");
    if !subject.contains("=?") && subject.split(' ').all(|word| word.len() <= WORD_MAX) {
        return HeaderValue::new(name, subject);
    }
    let mut words: Vec<String> = vec![String::new()];
    for c in subject.chars() {
        match words.last_mut() {
            // 45 bytes are 60 in base64, and 72 of the 75 allowed with what stands around them.
            Some(word) if word.len() + c.len_utf8() <= 45 => word.push(c),
            _ => words.push(c.to_string()),
        }
    }
    let encoded: Vec<String> = words.iter().map(|word| format!("=?utf-8?B?{}?=", BASE64.encode(word))).collect();
    HeaderValue::dangerous_new_pre_encoded(name, subject, encoded.join("\r\n "))
}

/// Text as a body part: lines end in CRLF, and what seven bits cannot carry is encoded.
fn encoded(text: &str) -> Body {
    let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n");
    let odd = text.chars().any(|c| c.is_control() && !matches!(c, '\r' | '\n' | '\t'));
    match odd.then(|| Body::new_with_encoding(text.clone(), ContentTransferEncoding::QuotedPrintable)) {
        Some(Ok(body)) => body,
        None | Some(Err(_)) => Body::new(text),
    }
}

fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// The same for every attempt of a call, and readable: whoever has the request or the trace finds the mail,
/// and the other way round. Both are in it because callers choose request ids, and two mails with one
/// id would be shown as one.
fn message_id(attempt: &Attempt, sender: &Address) -> String {
    let (request, trace) = (id_text(attempt.request_id.as_str()), id_text(attempt.trace_id.as_str()));
    format!("<{request}.{trace}@{}>", sender.domain())
}

/// Letters, digits, `_` and `-` as they are, other bytes as `=XX`. A long id keeps its beginning and a digest
/// of the whole, so that two of them stay two.
fn id_text(id: &str) -> String {
    let mut out = String::new();
    for byte in id.bytes() {
        if out.len() > 60 {
            let mut hasher = std::hash::DefaultHasher::new();
            id.hash(&mut hasher);
            out.push_str(&format!("={:016X}", hasher.finish()));
            return out;
        }
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("={byte:02X}"));
        }
    }
    if out.is_empty() { "none".to_owned() } else { out }
}
