//! One attempt as a database sees it: the text, the values and the limits.
//!
//! The adapter makes a [`Job`] out of an attempt before any connection is touched; whatever is wrong with
//! an argument is found here, where refusing costs nothing.

use std::borrow::Cow;
use std::time::Duration;

use reach_core::{Object, SentMark};
use serde_json::Value;
use tokio::time::Instant;

use super::place::Login;
use super::rows::Caps;

/// One attempt.
pub(super) struct Job<'a> {
    /// The text to prepare.
    pub(super) sql: Cow<'a, str>,
    /// The argument of each place.
    pub(super) parameters: &'a [String],
    pub(super) arguments: &'a Object,
    /// Run it where nothing can be changed.
    pub(super) reads: bool,
    /// When the attempt began.
    pub(super) begun: Instant,
    /// The time it has, from its beginning.
    pub(super) timeout: Duration,
    /// Whom to log in as.
    pub(super) login: Login,
    pub(super) caps: Caps,
    pub(super) sent: SentMark,
}

impl Job<'_> {
    /// The value of each place, in order; an argument that was not given is NULL.
    pub(super) fn values(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.parameters.iter().map(|name| (name.as_str(), self.arguments.get(name).unwrap_or(&Value::Null)))
    }

    /// Milliseconds from now until the server has to stop by itself, at least one: zero would mean never.
    /// Connecting and preparing have taken their part.
    pub(super) fn timeout_ms(&self) -> u64 {
        u64::try_from(self.timeout.saturating_sub(self.begun.elapsed()).as_millis())
            .unwrap_or(u64::MAX)
            .clamp(1, 86_400_000)
    }
}

/// A JSON number as text; `12.0` is the integer that JSON says it is.
pub(super) fn number_text(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if !number.is_i64() && !number.is_u64() && float.fract() == 0.0 && float.abs() < 9e15 => {
            format!("{float:.0}")
        }
        _ => number.to_string(),
    }
}
