//! What the journal and the log may hold of arguments: everything but secrets.
//!
//! A value is masked when its key names a secret (in any spelling: `api_token`, `Password`, `X-API-KEY`)
//! or when the schema marks it `"writeOnly": true` or `"format": "password"`. Text from outside is
//! scrubbed of the secrets we know, so that an upstream that echoes our key does not leak it.

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::Object;

/// What stands where a secret was.
pub const MASK: &str = "[secret]";

/// Parts of a key's name that make its value a secret, compared without case and punctuation.
const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apitoken",
    "accesstoken",
    "refreshtoken",
    "authtoken",
    "bearertoken",
    "idtoken",
    "sessiontoken",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "authorization",
    "credential",
    "cookie",
];

/// Keys that are secret as a whole word only: `token` is, `max_tokens` is not.
const SECRET_WORDS: &[&str] = &["token", "pwd", "auth", "key", "pin", "cvv", "cvc", "otp"];

/// Whether the value under this key is a secret by its name.
pub fn is_secret_name(key: &str) -> bool {
    let folded: String = if key.is_ascii() {
        key.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase() as char).collect()
    } else {
        key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    SECRET_NAMES.iter().any(|name| folded.contains(name)) || SECRET_WORDS.contains(&folded.as_str())
}

/// Arguments with every secret masked, at every depth.
pub fn arguments(arguments: &Object, schema: &Value) -> Value {
    // A copy that is masked in place is cheaper than one that is built anew: nothing is hashed again.
    let mut copy = arguments.clone();
    mask_object(&mut copy, Some(schema));
    Value::Object(copy)
}

fn mask_object(object: &mut Object, schema: Option<&Value>) {
    let properties = schema.and_then(|schema| schema.get("properties"));
    for (key, value) in object {
        let schema = properties.and_then(|all| all.get(key));
        if is_secret_name(key) || schema.is_some_and(is_secret_schema) {
            *value = Value::from(MASK);
        } else {
            mask(value, schema);
        }
    }
}

fn mask(value: &mut Value, schema: Option<&Value>) {
    match value {
        Value::Object(inner) => mask_object(inner, schema),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.get("items"));
            items.iter_mut().for_each(|item| mask(item, schema));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The texts and numbers that [`arguments`] masks, for a [`Scrubber`]: an upstream that complains may quote
/// what it was sent.
pub fn secrets_of(arguments: &Object, schema: &Value) -> Vec<SecretString> {
    let mut found = Vec::new();
    collect(arguments, Some(schema), false, &mut found);
    found
}

fn collect(source: &Object, schema: Option<&Value>, hidden: bool, found: &mut Vec<SecretString>) {
    for (key, value) in source {
        let schema = schema.and_then(|schema| schema.get("properties")).and_then(|all| all.get(key));
        let hidden = hidden || is_secret_name(key) || schema.is_some_and(is_secret_schema);
        collect_value(value, schema, hidden, found);
    }
}

fn collect_value(value: &Value, schema: Option<&Value>, hidden: bool, found: &mut Vec<SecretString>) {
    match value {
        Value::Object(inner) => collect(inner, schema, hidden, found),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.get("items"));
            items.iter().for_each(|item| collect_value(item, schema, hidden, found));
        }
        Value::String(text) if hidden => {
            found.push(text.as_str().into());
            // As it stands in a JSON body that is quoted back.
            let written = value.to_string();
            let written = written.trim_matches('"');
            if written != text {
                found.push(written.into());
            }
        }
        Value::Number(number) if hidden => found.push(number.to_string().into()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_secret_schema(schema: &Value) -> bool {
    schema.get("writeOnly") == Some(&Value::Bool(true))
        || schema.get("format").is_some_and(|format| format == "password")
}

/// The secrets this process knows, to be taken out of text that came from outside. Cheap to clone.
#[derive(Clone, Default)]
pub struct Scrubber(Arc<[SecretString]>);

impl std::fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scrubber({} secrets)", self.0.len())
    }
}

/// Secrets shorter than this are not scrubbed: taking `a` out of every text would destroy it.
const SCRUB_MIN: usize = 6;

/// How much of a longer secret already counts as the secret.
const SCRUB_PREFIX: usize = 20;

impl Scrubber {
    /// Knows these secrets. Longest first, so that a secret that contains another goes as a whole.
    pub fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let mut known: Vec<SecretString> =
            secrets.into_iter().filter(|secret| secret.expose_secret().len() >= SCRUB_MIN).collect();
        known.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        Self(known.into())
    }

    /// Knows these secrets as well. Shares what it knows where there are none.
    pub fn with(&self, more: Vec<SecretString>) -> Self {
        if more.is_empty() { self.clone() } else { Self::new(self.0.iter().cloned().chain(more)) }
    }

    /// Masks every known secret in bytes that may be text. Bytes that are no UTF-8 hold what they held: nobody is
    /// shown them.
    pub fn bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        match String::from_utf8(bytes) {
            Ok(text) if self.0.iter().any(|secret| holds(&text, secret.expose_secret())) => {
                self.text(&text).into_bytes()
            }
            Ok(text) => text.into_bytes(),
            Err(error) => error.into_bytes(),
        }
    }

    /// Masks every known secret, and the first 20 characters of a longer one, wherever it stands.
    pub fn text(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for secret in self.0.iter() {
            let secret = secret.expose_secret();
            if out.contains(secret) {
                out = out.replace(secret, MASK);
            }
            if let Some(prefix) = secret.char_indices().nth(SCRUB_PREFIX).map(|(at, _)| &secret[..at])
                && out.contains(prefix)
            {
                out = out.replace(prefix, MASK);
            }
        }
        out
    }

    /// Masks every known secret in every string and key of a value.
    pub fn value(&self, value: &mut Value) {
        if self.0.is_empty() {
            return;
        }
        match value {
            Value::String(text) => {
                if self.0.iter().any(|secret| holds(text, secret.expose_secret())) {
                    *text = self.text(text);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(object) => self.object(object),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Masks every known secret in every string and key of an object.
    pub fn object(&self, object: &mut Object) {
        if self.0.is_empty() {
            return;
        }
        object.values_mut().for_each(|value| self.value(value));
        if object.keys().any(|key| self.0.iter().any(|secret| holds(key, secret.expose_secret()))) {
            *object = std::mem::take(object).into_iter().map(|(key, value)| (self.text(&key), value)).collect();
        }
    }
}

fn holds(text: &str, secret: &str) -> bool {
    // Most texts are shorter than what would count, and need no search.
    if text.len() < secret.len().min(SCRUB_PREFIX) {
        return false;
    }
    let start = secret.char_indices().nth(SCRUB_PREFIX).map_or(secret.len(), |(at, _)| at);
    text.contains(&secret[..start])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_masked_by_name_and_by_schema_at_every_depth() {
        let schema = json!({"type": "object", "properties": {"note": {"type": "string", "format": "password"}}});
        let input = json!({"mode": "cloud", "api_token": "sk-REAL-1", "nested": [{"Password": "pw-REAL-2"}], "note": "x", "max_tokens": 5});
        let out = arguments(input.as_object().unwrap(), &schema);
        assert_eq!(
            out,
            json!({"mode": "cloud", "api_token": MASK, "nested": [{"Password": MASK}], "note": MASK, "max_tokens": 5})
        );
    }

    #[test]
    fn what_is_masked_in_arguments_is_taken_out_of_foreign_text_as_well() {
        let schema = json!({"type": "object", "properties": {"note": {"type": "string", "writeOnly": true}}});
        let input = json!({"api_token": "sk-REAL-1", "deep": [{"Password": {"old": ["pw-REAL-2"], "pin": 12345678}}], "note": "note-REAL", "free": "open-text"});
        let known = Scrubber::new(["key-REAL-3".into()]).with(secrets_of(input.as_object().unwrap(), &schema));
        let echo = "sk-REAL-1 pw-REAL-2 12345678 note-REAL key-REAL-3 open-text";
        assert_eq!(known.text(echo), format!("{MASK} {MASK} {MASK} {MASK} {MASK} open-text"));
        assert_eq!(known.bytes(echo.into()), known.text(echo).into_bytes());
        assert_eq!(known.bytes(vec![0xff, b'a']), [0xff, b'a']);
    }

    #[test]
    fn a_known_secret_and_its_first_twenty_characters_are_scrubbed_from_foreign_text() {
        assert!(is_secret_name("Pässword-Secret") && is_secret_name("X-API-Key") && !is_secret_name("Schlüssel"));
        let scrubber = Scrubber::new(["key-REAL-3".into(), "0123456789abcdefghijKLMNOP".into()]);
        assert_eq!(scrubber.text("request had X-API-KEY: key-REAL-3"), format!("request had X-API-KEY: {MASK}"));
        assert_eq!(scrubber.text("cut: 0123456789abcdefghij"), format!("cut: {MASK}"));
        let mut value = json!({"echo": ["key-REAL-3"], "key-REAL-3": 1});
        scrubber.value(&mut value);
        assert_eq!(value, json!({"echo": [MASK], MASK: 1}));
    }
}
