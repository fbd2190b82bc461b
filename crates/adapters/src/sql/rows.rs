//! Rows of a result as JSON, under the caps of their tool.
//!
//! Every database hands its rows to one [`Rows`]: it names the columns (two of the same name get two
//! names), counts what is shown and what is there, and refuses a result that is too large while it is still
//! arriving.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reach_core::{Failure, FailureKind, Object, Payload, Phase};
use serde_json::{Value, json};

/// How much of a result is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

/// Rows as they arrive.
#[derive(Debug)]
pub(super) struct Rows {
    caps: Caps,
    names: Vec<String>,
    rows: Vec<Value>,
    bytes: usize,
    seen: u64,
}

/// The result is larger than its cap.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

impl Rows {
    pub(super) fn new(caps: Caps) -> Self {
        Self { caps, names: Vec::new(), rows: Vec::new(), bytes: 0, seen: 0 }
    }

    /// Names the columns: the second `id` becomes `id_2`, a column without a name `column_1`.
    pub(super) fn columns<'a>(&mut self, written: impl Iterator<Item = &'a str>) {
        for (index, name) in written.enumerate() {
            let wanted = if name.is_empty() { format!("column_{}", index + 1) } else { name.to_owned() };
            let mut unique = wanted.clone();
            let mut count = 1;
            while self.names.contains(&unique) {
                count += 1;
                unique = format!("{wanted}_{count}");
            }
            self.names.push(unique);
        }
    }

    /// Whether another row would still be shown.
    pub(super) fn has_room(&self) -> bool {
        self.rows.len() < self.caps.rows
    }

    /// Counts a row that is not looked at.
    pub(super) fn and_more(&mut self) {
        self.seen += 1;
    }

    /// The rows that came, shown or not.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    fn more(&self) -> bool {
        self.seen > self.rows.len() as u64
    }

    /// Takes a row; one beyond the cap of rows is only counted.
    pub(super) fn push(&mut self, values: impl Iterator<Item = Value>) -> Result<(), TooLarge> {
        self.seen += 1;
        if !self.has_room() {
            return Ok(());
        }
        let mut row = Object::with_capacity(self.names.len());
        for (name, value) in self.names.iter().zip(values) {
            self.bytes += name.len() + weight(&value);
            row.insert(name.clone(), value);
        }
        if self.bytes > self.caps.bytes {
            return Err(TooLarge);
        }
        self.rows.push(Value::Object(row));
        Ok(())
    }

    /// What a reading tool answers.
    pub(super) fn into_read(self) -> Payload {
        let (count, more) = (self.rows.len(), self.more());
        Payload::Json(json!({"rows": self.rows, "row_count": count, "more": more}))
    }

    /// What a writing tool answers: rows only where the statement returns some.
    pub(super) fn into_write(self, affected: u64) -> Payload {
        let mut answer = Object::new();
        answer.insert("affected".to_owned(), affected.into());
        if !self.names.is_empty() {
            let more = self.more();
            answer.insert("rows".to_owned(), Value::Array(self.rows));
            answer.insert("more".to_owned(), more.into());
        }
        Payload::Json(Value::Object(answer))
    }

    /// The failure of a result that is too large.
    pub(super) fn too_large(caps: Caps, undone: bool) -> Failure {
        let undone = if undone { "; the change was rolled back" } else { "" };
        let message = format!("the result is larger than {} bytes{undone}; ask for fewer rows or columns", caps.bytes);
        Failure::new(FailureKind::Oversize, Phase::Answered, message)
    }
}

/// About as many bytes as the value has as JSON.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| weight(item) + 1).sum(),
        Value::Object(fields) => fields.iter().map(|(name, item)| name.len() + 3 + weight(item)).sum(),
    }
}

/// Bytes as JSON.
pub(super) fn bytes_value(bytes: &[u8]) -> Value {
    json!({"encoding": "base64", "data": STANDARD.encode(bytes)})
}

/// The bytes of an argument written in the form in which bytes are answered.
pub(super) fn bytes_argument(value: &Value) -> Option<Vec<u8>> {
    let fields = value.as_object().filter(|fields| fields.len() == 2)?;
    if fields.get("encoding")?.as_str()? != "base64" {
        return None;
    }
    STANDARD.decode(fields.get("data")?.as_str()?).ok()
}

/// A float as JSON; what JSON has no number for is text.
pub(super) fn float_value(number: f64) -> Value {
    match serde_json::Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None if number.is_nan() => "NaN".into(),
        None if number > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// A 32-bit float with the digits it is written with, not those of its 64-bit neighbour.
pub(super) fn small_float_value(number: f32) -> Value {
    float_value(number.to_string().parse().unwrap_or(f64::from(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(names: &[&str]) -> Rows {
        let mut rows = Rows::new(Caps { rows: 2, bytes: 100 });
        rows.columns(names.iter().copied());
        rows
    }

    #[test]
    fn columns_of_one_name_are_all_kept() {
        let mut rows = rows(&["id", "id_2", "id", "", "id"]);
        rows.push((1..=5).map(Value::from)).unwrap();
        let Payload::Json(answer) = rows.into_read() else { panic!("json") };
        assert_eq!(answer["rows"][0], json!({"id": 1, "id_2": 2, "id_3": 3, "column_4": 4, "id_4": 5}));
    }

    #[test]
    fn rows_beyond_the_cap_are_noted_and_bytes_beyond_it_are_refused() {
        let mut taken = rows(&["a"]);
        for number in 0..3 {
            taken.push([Value::from(number)].into_iter()).unwrap();
        }
        let Payload::Json(answer) = taken.into_read() else { panic!("json") };
        assert_eq!(answer, json!({"rows": [{"a": 0}, {"a": 1}], "row_count": 2, "more": true}));
        assert_eq!(rows(&["a"]).push(["x".repeat(100).into()].into_iter()), Err(TooLarge));
    }

    #[test]
    fn bytes_go_in_as_they_come_out() {
        let value = bytes_value(&[0xde, 0xad]);
        assert_eq!(value, json!({"encoding": "base64", "data": "3q0="}));
        assert_eq!(bytes_argument(&value), Some(vec![0xde, 0xad]));
        assert_eq!(bytes_argument(&json!({"encoding": "base64", "data": "3q0=", "more": 1})), None);
    }
}
