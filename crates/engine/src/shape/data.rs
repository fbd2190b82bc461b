//! The one form of a result, and the form in which the whole of it is stored.

use reach_core::{Object, Payload};
use serde_json::Value;

/// A result as an envelope can carry it, or bytes that it cannot.
#[derive(Clone, Debug, PartialEq)]
pub enum DataOrBinary {
    /// For `data`.
    Data(Object),
    /// For the blobs; the envelope tells type, size and reference.
    Binary {
        /// The media type as the adapter said.
        media_type: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// Nothing becomes `{}`, an object stays as it is, everything else becomes `{"value": ...}`; bytes stay
/// apart. Moves, never copies.
pub fn data_of(payload: Payload) -> DataOrBinary {
    let value = match payload {
        Payload::Empty => return DataOrBinary::Data(Object::new()),
        Payload::Json(Value::Object(data)) => return DataOrBinary::Data(data),
        Payload::Binary { media_type, bytes } => return DataOrBinary::Binary { media_type, bytes },
        Payload::Json(value) => value,
        Payload::Text(text) => Value::String(text),
    };
    DataOrBinary::Data(Object::from_iter([("value".to_owned(), value)]))
}

/// The media type and bytes under which the whole of `data` is stored: a lone text as it is, all else as
/// indented JSON, so that lines mean something to who reads it back.
pub fn blob_of(data: &Object) -> (&'static str, Vec<u8>) {
    match data.get("value") {
        Some(Value::String(text)) if data.len() == 1 => ("text/plain; charset=utf-8", text.clone().into_bytes()),
        // Writing a map with text keys into memory cannot fail; compact text stands in for the compiler.
        _ => (
            "application/json",
            serde_json::to_vec_pretty(data).unwrap_or_else(|_| Value::Object(data.clone()).to_string().into_bytes()),
        ),
    }
}

/// What to rank a result against: the question, where it is known, and the words of the arguments.
pub fn query_of(arguments: &Object, question: Option<&str>) -> String {
    fn collect(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::String(text) => into.push(text.clone()),
            Value::Number(number) => into.push(number.to_string()),
            Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
            Value::Object(entries) => entries.values().for_each(|value| collect(value, into)),
            Value::Null | Value::Bool(_) => {}
        }
    }
    let mut words: Vec<String> = question.map(str::to_owned).into_iter().collect();
    arguments.values().for_each(|value| collect(value, &mut words));
    words.join("\n")
}
