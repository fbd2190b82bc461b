//! Lossless near misses: `"2000"` where an integer is wanted.
//!
//! Only what has exactly one reading is converted, and only where the schema refuses the value as it was
//! sent: a valid value is never touched, text is never trimmed, a number never becomes text, and `"no"`,
//! `"12px"` or `1` never become a boolean. Each conversion is recorded by its pointer.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Cause;
use serde_json::Value;

use super::family::{Document, types_of};
use super::places::{escape, parent, segments};
use super::schema::Schema;
use crate::exact;

/// Conversions may uncover others (a decoded object holds its own); this many times they are looked for.
const ROUNDS: usize = 4;

/// The largest magnitude below which every integer is exact in a float.
const EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;

/// What to do with one value.
#[derive(Clone, Debug, PartialEq)]
enum Change {
    /// Put this in its place.
    Set(Value),
    /// It is null and may be left out.
    Drop,
}

/// Arguments after conversion, valid or not, and the pointers of what was converted.
pub(super) fn coerced(schema: &Schema, document: &Document<'_>, sent: &Value) -> (Value, Vec<String>) {
    let mut value = sent.clone();
    let mut done: Vec<String> = Vec::new();
    let mut rejected: Vec<String> = Vec::new();
    for _ in 0..ROUNDS {
        let search = Search { schema, document, value: &value };
        let mut changes: Vec<(String, Change)> = Vec::new();
        for error in schema.errors(&value) {
            for change in search.changes(&error).unwrap_or_default() {
                if !rejected.contains(&change.0) && !changes.iter().any(|(place, _)| *place == change.0) {
                    changes.push(change);
                }
            }
        }
        if changes.is_empty() {
            break;
        }
        let before = value.clone();
        for (place, change) in &changes {
            apply(&mut value, place, change);
        }
        let undone = not_helped(schema, &value, &changes);
        if undone.is_empty() {
            done.extend(changes.into_iter().map(|(place, _)| place));
            continue;
        }
        // Start the round again without what did not help.
        rejected.extend(undone.iter().cloned());
        value = before;
        for (place, change) in changes.iter().filter(|(place, _)| !undone.contains(place)) {
            apply(&mut value, place, change);
            done.push(place.clone());
        }
    }
    (value, done)
}

/// Decoded text that does not fit inside, and fields whose absence is refused.
fn not_helped(schema: &Schema, value: &Value, changes: &[(String, Change)]) -> Vec<String> {
    let mut undone = Vec::new();
    for error in schema.errors(value) {
        let at = error.instance_path().as_str();
        let missing = match error.kind() {
            Cause::Required { property } => property.as_str().map(|name| format!("{at}/{}", escape(name))),
            _ => None,
        };
        for (place, change) in changes {
            let is_below = at.strip_prefix(place.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            let is_undone = match change {
                Change::Set(Value::Array(_) | Value::Object(_)) => is_below,
                Change::Set(_) => false,
                Change::Drop => missing.as_ref() == Some(place),
            };
            if is_undone && !undone.contains(place) {
                undone.push(place.clone());
            }
        }
    }
    undone
}

struct Search<'a> {
    schema: &'a Schema,
    document: &'a Document<'a>,
    value: &'a Value,
}

impl Search<'_> {
    /// The changes that would mend this error; null when nothing lossless does.
    fn changes(&self, error: &ValidationError<'_>) -> Option<Vec<(String, Change)>> {
        let place = error.instance_path().as_str();
        let sent = self.value.pointer(place)?;
        let is_droppable = sent.is_null() && self.is_field(place);
        match error.kind() {
            Cause::Type { .. } | Cause::Enum { .. } | Cause::Constant { .. } if is_droppable => {
                Some(vec![(place.to_owned(), Change::Drop)])
            }
            Cause::Type { .. } => {
                let node = self.document.node(parent(error.schema_path().as_str()))?;
                converted(sent, &types_of(node)).map(|value| vec![(place.to_owned(), Change::Set(value))])
            }
            Cause::AnyOf { context } | Cause::OneOfNotValid { context } => self.only_way(place, context),
            _ => None,
        }
    }

    /// The changes of the one branch that fits after them; null when several do, differently.
    fn only_way(&self, place: &str, branches: &[Vec<ValidationError<'static>>]) -> Option<Vec<(String, Change)>> {
        let mut ways: Vec<(Vec<(String, Change)>, Value)> = Vec::new();
        for branch in branches {
            let all: Option<Vec<_>> = branch.iter().map(|error| self.changes(error)).collect();
            let Some(changes) = all.map(|all| all.concat()).filter(|changes| !changes.is_empty()) else { continue };
            let mut tried = self.value.clone();
            for (at, change) in &changes {
                apply(&mut tried, at, change);
            }
            let fails = self.schema.errors(&tried).any(|error| {
                error.instance_path().as_str() == place
                    && matches!(
                        error.kind(),
                        Cause::AnyOf { .. } | Cause::OneOfNotValid { .. } | Cause::OneOfMultipleValid { .. }
                    )
            });
            if !fails && !ways.iter().any(|(_, known)| *known == tried) {
                ways.push((changes, tried));
            }
        }
        if ways.len() == 1 { ways.pop().map(|(changes, _)| changes) } else { None }
    }

    fn is_field(&self, place: &str) -> bool {
        !place.is_empty() && self.value.pointer(parent(place)).is_some_and(Value::is_object)
    }
}

fn apply(value: &mut Value, place: &str, change: &Change) {
    match change {
        Change::Set(new) => {
            if let Some(slot) = value.pointer_mut(place) {
                *slot = new.clone();
            }
        }
        Change::Drop => {
            let name = segments(place).last();
            let object = value.pointer_mut(parent(place)).and_then(Value::as_object_mut);
            if let (Some(object), Some(name)) = (object, name) {
                object.shift_remove(&name);
            }
        }
    }
}

/// Text as the one value of these types that it spells, where there is exactly one.
pub(super) fn converted(value: &Value, types: &[&str]) -> Option<Value> {
    let text = value.as_str()?;
    let wants = |name: &str| types.contains(&name);
    if (wants("integer") || wants("number")) && is_integer(text) {
        return text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from)).ok();
    }
    if wants("number") && is_decimal(text) {
        return exact::is_exact(text).then(|| serde_json::from_str(text).ok()).flatten();
    }
    if wants("boolean") && matches!(text, "true" | "false") {
        return Some(Value::Bool(text == "true"));
    }
    let opens = text.trim_start().bytes().next();
    if (wants("object") && opens == Some(b'{')) || (wants("array") && opens == Some(b'[')) {
        return exact::parse_strict(text).ok();
    }
    None
}

/// Whether text spells an integer that 64 bits cannot hold.
pub(super) fn is_long_integer(text: &str) -> bool {
    is_integer(text) && text.parse::<i64>().is_err() && text.parse::<u64>().is_err()
}

/// `-?(0|[1-9][0-9]*)`, but not `-0`: a leading zero marks a code, not a quantity.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_plain && (text == "0" || !digits.starts_with('0'))
}

/// An integer part as above or a zero, a point, digits; no exponent.
fn is_decimal(text: &str) -> bool {
    let Some((whole, fraction)) = text.split_once('.') else { return false };
    let is_whole = is_integer(whole) || whole == "-0";
    is_whole && !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

/// White space and the invisible characters that pasted text brings along.
pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{200B}' | '\u{200C}' | '\u{200D}' | '\u{2060}' | '\u{FEFF}')
}

/// Text without white space at its ends. For advice; nothing is ever sent trimmed.
pub(super) fn trimmed(text: &str) -> &str {
    text.trim_matches(is_blank)
}

/// Whether some number may need a second look: too big for 64 bits, or (with `whole`) written `3.0`.
pub(super) fn has_odd_number(value: &Value, whole: bool) -> bool {
    match value {
        Value::Number(number) if number.is_f64() => {
            number.as_f64().is_some_and(|float| is_beyond(float) || (whole && whole_number(float).is_some()))
        }
        Value::Array(items) => items.iter().any(|item| has_odd_number(item, whole)),
        Value::Object(object) => object.values().any(|value| has_odd_number(value, whole)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Pointers of the numbers that stand where an integer is wanted and are too big for 64 bits; with
/// `whole`, numbers such as `3.0` are rewritten there as integers and added to `done`.
pub(super) fn settle_integers(
    document: &Document<'_>,
    value: &mut Value,
    whole: bool,
    done: &mut Vec<String>,
) -> Vec<String> {
    let mut odd = Vec::new();
    odd_numbers(value, &mut String::new(), whole, &mut odd);
    let mut too_big = Vec::new();
    for place in odd {
        let family = document.family_at(&place);
        let types = family.types();
        if !types.contains(&"integer") || types.contains(&"number") {
            continue;
        }
        let Some(slot) = value.pointer_mut(&place) else { continue };
        match slot.as_f64().and_then(whole_number) {
            Some(integer) => {
                *slot = Value::from(integer);
                done.push(place);
            }
            None => too_big.push(place),
        }
    }
    too_big
}

fn odd_numbers(value: &Value, place: &mut String, whole: bool, found: &mut Vec<String>) {
    let length = place.len();
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                place.push_str(&format!("/{index}"));
                odd_numbers(item, place, whole, found);
                place.truncate(length);
            }
        }
        Value::Object(object) => {
            for (name, value) in object {
                place.push_str(&format!("/{}", escape(name)));
                odd_numbers(value, place, whole, found);
                place.truncate(length);
            }
        }
        number if has_odd_number(number, whole) => found.push(place.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_beyond(float: f64) -> bool {
    !(-9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0).contains(&float)
}

/// The integer a float stands for, where every digit is certain.
fn whole_number(float: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "the magnitude was checked")]
    (float.fract() == 0.0 && float.abs() <= EXACT_FLOAT).then_some(float as i64)
}
