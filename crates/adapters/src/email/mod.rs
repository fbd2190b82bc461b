//! The `email` adapter: one mail per call, handed to one mail server over SMTP.
//!
//! A mail counts as sent only when the server has said so after the content. Until the content starts to
//! leave, nothing has happened; from then on, without the server's word, the outcome is unknown. Values
//! reach headers only through `lettre`'s structured types, and a value with a control character is
//! refused, never cleaned: there is nothing a line break in a name or an address could honestly mean.
//!
//! Read on in [`server`] (the URL), [`address`] (templates to mailboxes), [`compose`] (arguments to a
//! message), [`wire`] (commands and replies), [`conversation`] (the order of things, and what each
//! failure means).

mod address;
mod compose;
mod conversation;
mod server;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use reach_core::{Adapter, Answer, Attempt, BoxFuture, Effect, Failure, Payload, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::shared::Declared;
use crate::shared::secret::SecretText;
use compose::Form;
use server::Server;

/// What the key `email:` of a tool may hold.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The mail server: `smtps://user:password@host` (TLS from the first byte, port 465) or
    /// `smtp://user:password@host` (STARTTLS required, port 587; plain on loopback only). `?tls=starttls`,
    /// `?tls=implicit` or `?tls=none` says it outright; `?ca=FILE` trusts the certificates in a PEM file
    /// instead of the public ones. Characters such as `@` in a password are percent-encoded.
    pub smtp: SecretText,
    /// The name of a credential whose user name and password (`basic`) or token (`bearer`, with the user name in
    /// the URL) replace those of the URL.
    #[serde(default)]
    pub credential: Option<String>,
    /// The sender: `bot@example.com` or `Shop <bot@example.com>`; placeholders allowed.
    pub from: String,
    /// The recipients. An item that is exactly one placeholder takes one address or a list of them; an
    /// item whose argument was not given is left out.
    pub to: Addresses,
    /// Recipients of copies.
    #[serde(default)]
    pub cc: Addresses,
    /// Recipients of blind copies.
    #[serde(default)]
    pub bcc: Addresses,
    /// Where answers go.
    #[serde(default)]
    pub reply_to: Addresses,
    /// The subject.
    pub subject: String,
    /// The text.
    pub body: String,
    /// The same as HTML, for readers that show it. Values are escaped as text: put placeholders between tags or
    /// in quoted attributes, never into scripts, styles or whole URLs.
    #[serde(default)]
    pub html: Option<String>,
    /// Who may be written to, such as `*@example.com`; `*` stands for anything but `@`. Empty: anybody.
    #[serde(default)]
    pub allowed_recipients: Vec<String>,
    /// The most recipients of one mail, copies included. Default 10.
    #[serde(default = "max_recipients")]
    pub max_recipients: usize,
}

fn max_recipients() -> usize {
    10
}

/// One address template or several.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Addresses {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Default for Addresses {
    fn default() -> Self {
        Addresses::Many(Vec::new())
    }
}

impl Config {
    /// The effect of a tool that does not declare one.
    pub fn default_effect(&self) -> Effect {
        Effect::Write
    }
}

/// Builds the adapter of one declared tool, or says everything that is wrong with the declaration. Reads
/// the file of `?ca=`.
pub fn build(config: Config, declared: &Declared<'_>) -> Result<Arc<dyn Adapter>, Vec<Problem>> {
    match (Server::parse(config.smtp.expose(), declared.base), Form::compile(&config, declared)) {
        (Ok(server), Ok(form)) => Ok(Arc::new(Email { target: server.target(), server, form })),
        (server, form) => Err(server.err().into_iter().flatten().chain(form.err().into_iter().flatten()).collect()),
    }
}

/// The adapter of one declared mail.
struct Email {
    server: Server,
    form: Form,
    target: String,
}

impl Adapter for Email {
    fn kind(&self) -> &'static str {
        "email"
    }

    fn target(&self) -> &str {
        &self.target
    }

    fn call<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let mail = self.form.compose(attempt)?;
            let reply = conversation::send(&self.server, &mail, attempt).await?;
            let shown: Vec<&str> =
                mail.recipients.iter().filter(|one| one.shown).map(|one| one.address.as_ref()).collect();
            let everybody: Vec<&str> = mail.recipients.iter().map(|one| one.address.as_ref()).collect();
            Ok(Answer {
                notes: vec![format!("{} took {} for {}", self.target, mail.message_id, everybody.join(", "))],
                payload: Payload::Json(json!({
                    "accepted": shown,
                    "message_id": mail.message_id,
                    "reply": reply.line(),
                })),
            })
        })
    }

    fn check<'a>(&'a self, timeout: Duration) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(conversation::greet(&self.server, timeout))
    }
}
