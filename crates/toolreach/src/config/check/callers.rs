//! Callers: keys that can be sent, cannot be guessed and tell one caller from another.

use std::collections::HashMap;

use reach_core::plan::Rate;
use reach_core::scope::{self, Scopes};
use reach_core::{Caller, CallerId};
use secrecy::ExposeSecret;

use super::Draft;
use crate::config::checked::DeclaredCaller;
use crate::config::sections;
use crate::config::tree::escape;

/// Characters of a key at least.
const KEY_MIN: usize = 16;

/// Every caller that is whole.
pub(super) fn check(draft: &mut Draft<'_>) -> Vec<DeclaredCaller> {
    let mut callers = Vec::new();
    let mut owners: HashMap<String, String> = HashMap::new();
    for name in draft.keys("/callers") {
        let pointer = format!("/callers/{}", escape(&name));
        if name.trim().is_empty() || name == "local" {
            let message = if name == "local" {
                "`local` is the name of whoever calls on this machine without a key"
            } else {
                "a caller has to have a name"
            };
            draft.add(pointer.as_str(), message, "give this caller another name");
        }
        let Some(part) = draft.part::<sections::Caller>(&pointer) else { continue };
        draft.secrets.push(part.key.clone());
        let key_pointer = format!("{pointer}/key");
        let key = part.key.expose_secret();
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            draft.add(
                key_pointer.as_str(),
                "the key holds a space, a line break or a character outside ASCII, and cannot be sent in a header",
                "use visible ASCII characters only; a line break at the end is the usual cause",
            );
        } else if key.len() < KEY_MIN {
            draft.add(
                key_pointer.as_str(),
                if key.is_empty() {
                    "the key is empty".to_owned()
                } else {
                    format!("the key has fewer than {KEY_MIN} characters")
                },
                "make one with `openssl rand -hex 24`",
            );
        }
        if let Some(other) = owners.insert(key.to_owned(), pointer.clone()) {
            let place = draft.line(&format!("{other}/key"));
            draft.add(
                key_pointer,
                format!("the key is also the key of another caller ({place})"),
                "give each caller a key of its own",
            );
        }
        for (index, pattern) in part.scopes.iter().enumerate() {
            scope(draft, format!("{pointer}/scopes/{index}"), pattern);
        }
        let caller = Caller { id: CallerId::new(&name), scopes: Scopes::new(part.scopes), rate: part.rate.map(rate) };
        callers.push(DeclaredCaller { caller, key: part.key });
    }
    callers
}

/// A scope of a caller, which may hold `*`.
fn scope(draft: &mut Draft<'_>, pointer: String, pattern: &str) {
    if !scope::is_pattern(pattern) {
        draft.add(
            pointer,
            "this scope is not well-formed",
            "write parts between colons, `*` only as a whole part: `order:read`, `order:*` or `*`",
        );
    }
}

/// A rate as the engine takes it.
pub(super) fn rate(part: sections::Rate) -> Rate {
    Rate { per_minute: part.per_minute, burst: part.burst.unwrap_or(part.per_minute) }
}
