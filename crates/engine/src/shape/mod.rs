//! Shaping results: from whatever the upstream answered to what a model can read.
//!
//! Pure functions over values. [`data_of`] gives every payload the one form that envelopes have,
//! [`shorten`] fits it into a number of characters, [`blob_of`] is what is stored when it did not fit, and
//! [`piece`] reads from that. Lengths are counted in characters of compact JSON text, as callers receive it.
//! Nothing here stores, waits or knows a tool.

mod clip;
mod data;
mod measure;
pub mod piece;
mod text;

pub use data::{DataOrBinary, blob_of, data_of, query_of};
pub use measure::measure;

use reach_core::Object;
use reach_core::tool::Shape;
use serde_json::Value;

use clip::Shortener;

/// The smallest limit that [`shorten`] can keep; smaller ones count as this. The notice that everything
/// was left out has to fit.
pub const FLOOR: usize = 40;

/// A result that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Shaped {
    /// The result; always valid JSON, of at most the limit.
    pub data: Object,
    /// Set when something was left out.
    pub truncated: Option<Cut>,
}

/// What was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Characters of JSON shown.
    pub shown: u64,
    /// Characters of JSON in the whole result.
    pub total: u64,
    /// `clip` or `extract`: the word of [`reach_core::Truncated::how`].
    pub how: &'static str,
}

/// Fits `data` into `limit` characters of compact JSON (at least [`FLOOR`]).
///
/// Types stay what they are and keys stay where they can; the budget is spread so that small fields stay
/// whole and the largest lose detail. What is left out is told where it is missing: inside a text as
/// `… [900 of 1000 characters left out] …`, as the last element of an array (`"… 988 more of 1000"`), under
/// the key `…` of an object. [`Shape::Extract`] keeps the passages of texts and the elements of arrays that
/// share words with `query`, in their order with the gaps told (looking at the first 262,144 characters of
/// each); where none does, it clips.
/// Deterministic, and linear in the text for each level of nesting.
pub fn shorten(data: Object, limit: usize, how: Shape, query: &str) -> Shaped {
    let limit = limit.max(FLOOR);
    let value = Value::Object(data);
    let total = measure(&value);
    let (query, word) = match how {
        Shape::Clip => (None, "clip"),
        Shape::Extract => (Some(query), "extract"),
    };
    let (value, cut) = if total <= limit {
        (value, None)
    } else {
        let value = Shortener { query }.value(value, limit);
        let shown = measure(&value) as u64;
        (value, Some(Cut { shown, total: total as u64, how: word }))
    };
    match value {
        Value::Object(data) => Shaped { data, truncated: cut },
        // An object stays an object; this arm only spares a panic.
        other => Shaped { data: Object::from_iter([("value".to_owned(), other)]), truncated: cut },
    }
}

#[cfg(test)]
mod tests;
