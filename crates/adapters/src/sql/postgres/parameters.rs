//! Arguments as PostgreSQL parameters: text, typed by the server.
//!
//! The server knows what type each place has, and reads the text of a value as that type: a timestamp, a
//! uuid and a numeric of forty digits need no code here. Three things need some: an array for a place of
//! array type, bytes, and text with a NUL character, which PostgreSQL cannot hold.

use bytes::BytesMut;
use reach_core::Failure;
use serde_json::Value;
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type};

use crate::sql::job::{Job, number_text};
use crate::sql::rows::bytes_argument;

/// A value ready to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Null,
    Text(String),
    Bytes(Vec<u8>),
}

/// The value of each place.
pub(super) fn bind(job: &Job<'_>, types: &[Type]) -> Result<Vec<Bound>, Failure> {
    job.values().zip(types).map(|((name, value), kind)| bound(name, value, kind)).collect()
}

fn bound(name: &str, value: &Value, kind: &Type) -> Result<Bound, Failure> {
    let bytes = bytes_argument(value).filter(|_| *kind == Type::BYTEA);
    let bound = match (value, bytes) {
        (_, Some(bytes)) => return Ok(Bound::Bytes(bytes)),
        (Value::Null, _) => Bound::Null,
        (Value::String(text), _) if *kind == Type::BYTEA => return Ok(Bound::Bytes(text.clone().into_bytes())),
        (Value::String(text), _) => Bound::Text(text.clone()),
        (Value::Array(items), _) if matches!(kind.kind(), Kind::Array(_)) => {
            let mut out = String::new();
            array(items, &mut out);
            Bound::Text(out)
        }
        (Value::Number(number), _) => Bound::Text(number_text(number)),
        (Value::Bool(_) | Value::Array(_) | Value::Object(_), _) => Bound::Text(value.to_string()),
    };
    match &bound {
        Bound::Text(text) if text.contains('\0') => Err(Failure::refused(format!(
            "`{name}` contains a NUL character, which PostgreSQL cannot hold in text; remove it"
        ))),
        _ => Ok(bound),
    }
}

/// An array in the server's notation, every item quoted.
fn array(items: &[Value], out: &mut String) {
    out.push('{');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        let text = match item {
            Value::Null => {
                out.push_str("NULL");
                continue;
            }
            Value::Array(inner) => {
                array(inner, out);
                continue;
            }
            Value::String(text) => text.clone(),
            Value::Number(number) => number_text(number),
            Value::Bool(_) | Value::Object(_) => item.to_string(),
        };
        out.push('"');
        for letter in text.chars() {
            if matches!(letter, '"' | '\\') {
                out.push('\\');
            }
            out.push(letter);
        }
        out.push('"');
    }
    out.push('}');
}

impl ToSql for Bound {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Bound::Null => return Ok(IsNull::Yes),
            Bound::Text(text) => out.extend_from_slice(text.as_bytes()),
            Bound::Bytes(bytes) => out.extend_from_slice(bytes),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        match self {
            Bound::Null | Bound::Text(_) => Format::Text,
            Bound::Bytes(_) => Format::Binary,
        }
    }

    tokio_postgres::types::to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(value: Value, kind: &Type) -> String {
        match bound("a", &value, kind).unwrap() {
            Bound::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_become_the_text_that_the_server_reads() {
        assert_eq!(text(json!(12.0), &Type::INT4), "12");
        assert_eq!(text(json!(18_446_744_073_709_551_615_u64), &Type::NUMERIC), "18446744073709551615");
        assert_eq!(text(json!([1, null, "a\"\\,}"]), &Type::TEXT_ARRAY), "{\"1\",NULL,\"a\\\"\\\\,}\"}");
        assert_eq!(text(json!([1]), &Type::TEXT), "[1]");
        assert_eq!(text(json!({"a": [1]}), &Type::JSONB), "{\"a\":[1]}");
        assert_eq!(bound("a", &json!("\\x41"), &Type::BYTEA).unwrap(), Bound::Bytes(b"\\x41".to_vec()));
        assert_eq!(bound("a", &Value::Null, &Type::INT4).unwrap(), Bound::Null);
        assert!(bound("a", &json!("x\0y"), &Type::TEXT).unwrap_err().message.contains("`a`"));
    }
}
