//! SQLite's values as JSON without loss, and arguments as SQLite values.
//!
//! SQLite types values, not columns; the declared type of a column only helps where JSON has two forms for
//! one value: a decimal stored as a float is written with the decimals of its column, if that is still the
//! same number, and text in a JSON column is parsed.

use reach_core::{Failure, exact};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Error, Row};
use serde_json::Value;

use crate::sql::job::Job;
use crate::sql::rows::{bytes_argument, bytes_value, float_value};

/// A value ready to be bound.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Bound {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl ToSql for Bound {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Bound::Null => ValueRef::Null,
            Bound::Integer(integer) => ValueRef::Integer(*integer),
            Bound::Real(float) => ValueRef::Real(*float),
            Bound::Text(text) => ValueRef::Text(text.as_bytes()),
            Bound::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// The value of each place.
pub(super) fn bind(job: &Job<'_>) -> Result<Vec<Bound>, Failure> {
    job.values().map(|(name, value)| bound(name, value)).collect()
}

fn bound(name: &str, value: &Value) -> Result<Bound, Failure> {
    Ok(match value {
        Value::Null => Bound::Null,
        Value::Bool(yes) => Bound::Integer(i64::from(*yes)),
        Value::Number(number) => match (number.as_i64(), number.is_u64(), number.as_f64()) {
            (Some(integer), _, _) => Bound::Integer(integer),
            (None, false, Some(float)) => Bound::Real(float),
            _ => {
                let message = format!("`{name}` is larger than the 64-bit integers of SQLite; send it as a string");
                return Err(Failure::refused(message));
            }
        },
        Value::String(text) => Bound::Text(text.clone()),
        Value::Array(_) | Value::Object(_) => match bytes_argument(value) {
            Some(bytes) => Bound::Bytes(bytes),
            None => Bound::Text(value.to_string()),
        },
    })
}

/// The values of a row; `None` where a value alone is larger than `cap`.
pub(super) fn row(row: &Row<'_>, kinds: &[Option<String>], cap: usize) -> Result<Option<Vec<Value>>, Error> {
    let mut values = Vec::with_capacity(kinds.len());
    for (index, kind) in kinds.iter().enumerate() {
        let stored = row.get_ref(index)?;
        if let ValueRef::Text(bytes) | ValueRef::Blob(bytes) = stored
            && bytes.len() > cap
        {
            return Ok(None);
        }
        values.push(decode(stored, kind.as_deref().unwrap_or_default()));
    }
    Ok(Some(values))
}

fn decode(stored: ValueRef<'_>, kind: &str) -> Value {
    match stored {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(integer) => match decimals(kind) {
            Some(places) if places > 0 => format!("{integer}.{}", "0".repeat(places)).into(),
            Some(_) => integer.to_string().into(),
            None => integer.into(),
        },
        ValueRef::Real(float) => match decimals(kind) {
            Some(places) => decimal(float, places),
            None => float_value(float),
        },
        ValueRef::Blob(bytes) => bytes_value(bytes),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if kind.starts_with("JSON") => exact::parse_result(text).unwrap_or_else(|_| text.into()),
            Ok(text) => text.into(),
            Err(_) => bytes_value(bytes),
        },
    }
}

/// The decimals of a column declared `DECIMAL(p,s)` or `NUMERIC(p,s)`.
fn decimals(kind: &str) -> Option<usize> {
    let behind = kind.strip_prefix("DECIMAL").or_else(|| kind.strip_prefix("NUMERIC"))?;
    let inside = behind.trim().strip_prefix('(')?.strip_suffix(')')?;
    let scale = inside.split_once(',').map_or("0", |(_, scale)| scale);
    scale.trim().parse().ok().filter(|places| *places <= 30)
}

/// A float of a decimal column as the text it was written as; with more digits where the column holds more.
fn decimal(float: f64, places: usize) -> Value {
    let fixed = format!("{float:.places$}");
    if fixed.parse() == Ok(float) { fixed.into() } else { float_value(float).to_string().trim_matches('"').into() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_decimal_column_keeps_its_decimals_and_never_loses_more() {
        assert_eq!(decode(ValueRef::Real(12.3), "DECIMAL(10,2)"), json!("12.30"));
        assert_eq!(decode(ValueRef::Integer(12), "NUMERIC(10, 2)"), json!("12.00"));
        assert_eq!(decode(ValueRef::Real(12.345), "DECIMAL(10,2)"), json!("12.345"));
        assert_eq!(decode(ValueRef::Real(12.3), "REAL"), json!(12.3));
        assert_eq!(decode(ValueRef::Text(b"12.30"), "DECIMAL(10,2)"), json!("12.30"));
        assert_eq!(decode(ValueRef::Text(b"{\"a\": 1}"), "JSON"), json!({"a": 1}));
        assert_eq!(decode(ValueRef::Text(&[0xff]), "TEXT"), json!({"encoding": "base64", "data": "/w=="}));
    }

    #[test]
    fn an_integer_beyond_sqlite_is_refused_by_name() {
        assert!(bound("n", &json!(u64::MAX)).unwrap_err().message.contains("`n`"));
        assert_eq!(bound("n", &json!(i64::MIN)).unwrap(), Bound::Integer(i64::MIN));
    }
}
