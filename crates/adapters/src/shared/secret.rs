//! Text of a declaration that may hold a secret: a password in a URL, a token in an environment value.
//!
//! It reads like a string and never prints: `Debug` and `Serialize` show a mask. Whoever needs the text
//! asks for it by name, so that every place that touches a secret can be found.

use std::borrow::Cow;
use std::fmt;

use reach_core::redact::MASK;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

/// A string of `reach.yaml` that may hold a secret.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct SecretText(SecretString);

impl SecretText {
    /// The text itself.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

impl JsonSchema for SecretText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SecretText".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "writeOnly": true})
    }
}
