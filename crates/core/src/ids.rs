//! Identifiers as types, so that a tool's name can never be passed where a trace's is wanted.
//!
//! A [`ToolId`] is checked when made; the others are opaque text that callers may choose themselves. What a caller
//! chose comes in through `parse`, on every surface alike; `new` is for text that was let in before.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! opaque_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps text that was checked before, such as what a store returned; see `parse` for a caller's.
            pub fn new(text: impl AsRef<str>) -> Self {
                Self(Arc::from(text.as_ref()))
            }

            /// A fresh identifier that sorts by the time it was made (UUID version 7).
            pub fn fresh() -> Self {
                Self(Arc::from(format!(concat!($prefix, "{}"), uuid::Uuid::now_v7().simple())))
            }

            /// The identifier as it travels on the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }
    };
}

opaque_id!(
    /// One request of one caller; also its idempotency key.
    RequestId, "r_"
);
opaque_id!(
    /// One chain of cause: everything that happened because of one question.
    TraceId, "tr_"
);
opaque_id!(
    /// One conversation: the calls an agent made for one user or task.
    SessionId, "s_"
);
opaque_id!(
    /// The name under which an operator declared a caller.
    CallerId, "c_"
);

/// The longest request, session or trace id that a caller may choose, in characters.
pub const ID_MAX: usize = 255;

impl RequestId {
    /// Takes an idempotency key that a caller chose: 1 to [`ID_MAX`] visible ASCII characters, since it
    /// travels in a header.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let fits = (1..=ID_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self::new(text)) } else { Err(IdError::Key) }
    }
}

impl SessionId {
    /// Takes the name of a conversation that a caller chose: 1 to [`ID_MAX`] characters, none of them a control.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        named(text).map(Self::new)
    }
}

impl TraceId {
    /// Takes the name of a chain of cause that a caller chose: 1 to [`ID_MAX`] characters, none of them a control.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        named(text).map(Self::new)
    }
}

fn named(text: &str) -> Result<&str, IdError> {
    let fits = (1..=ID_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    if fits { Ok(text) } else { Err(IdError::Name) }
}

/// Why text that a caller chose cannot be an identifier. Reads on after the name of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Of an idempotency key.
    #[error("is not 1 to {ID_MAX} visible ASCII characters")]
    Key,
    /// Of a session or trace.
    #[error("is not 1 to {ID_MAX} characters without control characters")]
    Name,
}

/// The longest tool id, in characters. MCP allows 128; OpenAI's 64 is reached by mapping.
pub const TOOL_ID_MAX: usize = 128;

/// The name of a tool: letters, digits, `_`, `-`, `.` of any script; unique without regard to case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ToolId(Arc<str>);

impl ToolId {
    /// Checks the alphabet and the length; the error says which character is not allowed.
    pub fn parse(text: &str) -> Result<Self, ToolIdError> {
        if text.is_empty() {
            return Err(ToolIdError::Empty);
        }
        if let Some(found) = text.chars().find(|c| !c.is_alphanumeric() && !matches!(c, '_' | '-' | '.')) {
            return Err(ToolIdError::Character(found));
        }
        if text.chars().count() > TOOL_ID_MAX {
            return Err(ToolIdError::TooLong);
        }
        Ok(Self(Arc::from(text)))
    }

    /// Takes text as the *asked-for* name of a tool without checking it: a caller may ask for
    /// anything, and an id that no tool has is answered with `TOOL_NOT_FOUND`.
    pub fn asked(text: impl AsRef<str>) -> Self {
        Self(Arc::from(text.as_ref()))
    }

    /// The id as declared.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form under which ids collide: `Order_Query` and `order_query` are the same tool.
    pub fn folded(&self) -> String {
        self.0.to_lowercase()
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ToolId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::asked(String::deserialize(deserializer)?))
    }
}

/// Why text cannot be a tool id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolIdError {
    /// There is no text.
    #[error("a tool id cannot be empty")]
    Empty,
    /// A character outside letters, digits, `_`, `-`, `.`.
    #[error("a tool id holds only letters, digits, `_`, `-` and `.`; found {0:?}")]
    Character(char),
    /// More than [`TOOL_ID_MAX`] characters.
    #[error("a tool id has at most {TOOL_ID_MAX} characters")]
    TooLong,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_id_takes_letters_of_any_script_and_refuses_spaces_and_slashes() {
        assert!(ToolId::parse("order_status.query-2").is_ok());
        assert!(ToolId::parse("查询天气").is_ok());
        assert_eq!(ToolId::parse("Google Search"), Err(ToolIdError::Character(' ')));
        assert_eq!(ToolId::parse("todo/write"), Err(ToolIdError::Character('/')));
        assert_eq!(ToolId::parse(""), Err(ToolIdError::Empty));
        assert_eq!(ToolId::parse(&"x".repeat(129)), Err(ToolIdError::TooLong));
    }

    #[test]
    fn a_key_is_visible_ascii_and_not_endless() {
        for good in ["a", "\"8e03978e-40d5\"", &"k".repeat(255)] {
            assert_eq!(RequestId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "schlüssel", "a\tb", &"k".repeat(256)] {
            assert_eq!(RequestId::parse(bad), Err(IdError::Key), "{bad}");
        }
    }

    #[test]
    fn a_session_and_a_trace_are_named_in_any_script_without_control_characters() {
        for good in ["a b", "会话", &"会".repeat(255)] {
            assert_eq!(SessionId::parse(good).unwrap().as_str(), good);
            assert_eq!(TraceId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a\u{0}", "a\nb", "\u{1b}[2J", &"会".repeat(256)] {
            assert_eq!(SessionId::parse(bad), Err(IdError::Name), "{bad}");
            assert_eq!(TraceId::parse(bad), Err(IdError::Name), "{bad}");
        }
    }

    #[test]
    fn fresh_ids_differ_and_sort_by_time() {
        let (first, second) = (RequestId::fresh(), RequestId::fresh());
        assert!(first < second);
        assert!(first.as_str().starts_with("r_"));
    }
}
