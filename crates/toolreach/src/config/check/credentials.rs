//! Credentials: not empty, and fit for the place they travel in.

use std::collections::BTreeMap;
use std::sync::Arc;

use reach_core::{Credential, adapter};
use secrecy::{ExposeSecret, SecretString};

use super::Draft;
use crate::config::secrets;
use crate::config::sections::{self, KeyPlace};
use crate::config::tree::escape;

/// Headers that belong to the connection or the body; a key in one of them would break the request.
const RESERVED_HEADERS: [&str; 10] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "idempotency-key",
];

/// Every credential that is whole, by name. Declared names with problems map to `None`, so that a tool
/// that names one is not told that it does not exist.
pub(super) fn check(draft: &mut Draft<'_>) -> BTreeMap<String, Option<Arc<Credential>>> {
    let mut all = BTreeMap::new();
    for name in draft.keys("/credentials") {
        let pointer = format!("/credentials/{}", escape(&name));
        let credential = draft.part::<sections::Credential>(&pointer).and_then(|part| one(draft, &pointer, part));
        all.insert(name, credential.map(Arc::new));
    }
    all
}

fn one(draft: &mut Draft<'_>, pointer: &str, part: sections::Credential) -> Option<Credential> {
    match part {
        sections::Credential::Bearer { token } => {
            secret(draft, &format!("{pointer}/token"), &token, false).then_some(Credential::Bearer(token))
        }
        sections::Credential::Basic { username, password } => {
            let mut fits = secret(draft, &format!("{pointer}/password"), &password, true);
            if username.is_empty() || username.contains(|c: char| c == ':' || c.is_control()) {
                draft.add(
                    format!("{pointer}/username"),
                    "the user name is empty or holds a colon or a control character",
                    "write the name alone; the password has a key of its own",
                );
                fits = false;
            }
            draft.secrets.push(secrets::basic(&username, &password));
            fits.then_some(Credential::Basic { username, password })
        }
        sections::Credential::ApiKey { r#in, name, key } => {
            let fits = secret(draft, &format!("{pointer}/key"), &key, false);
            let place = match r#in {
                KeyPlace::Header => adapter::KeyPlace::Header,
                KeyPlace::Query => adapter::KeyPlace::Query,
            };
            let named = match r#in {
                KeyPlace::Header => is_header_name(&name),
                KeyPlace::Query => !name.is_empty() && !name.contains(|c: char| c.is_control() || c.is_whitespace()),
            };
            if !named {
                draft.add(
                    format!("{pointer}/name"),
                    "this cannot be the name of such a key",
                    "write the name of the header or query parameter, such as `X-API-Key`",
                );
            }
            (fits && named).then_some(Credential::ApiKey { place, name, key })
        }
    }
}

/// Whether a secret can be sent at all; remembers it for the scrubber.
fn secret(draft: &mut Draft<'_>, pointer: &str, secret: &SecretString, any_script: bool) -> bool {
    draft.secrets.push(secret.clone());
    let text = secret.expose_secret();
    if text.is_empty() {
        draft.add(pointer, "this secret is empty", "set it, or the environment variable that it comes from");
        return false;
    }
    let fits = text.chars().all(|c| !c.is_control() && (any_script || (c.is_ascii() && c != ' ')));
    if !fits {
        draft.add(
            pointer,
            "this secret holds a space, a line break or another character that cannot be sent",
            "check how it was copied: a line break at its end is the usual cause",
        );
    }
    fits
}

/// A header name by RFC 9110, and not one that belongs to the connection.
fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
        && !RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str())
}
