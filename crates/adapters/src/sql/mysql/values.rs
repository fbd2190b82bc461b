//! MySQL values as JSON without loss, and arguments as MySQL parameters.
//!
//! A decimal arrives as text and stays text; dates become ISO 8601; what a column holds is text unless its
//! character set says that it is bytes.

use mysql_async::consts::{ColumnFlags, ColumnType};
use mysql_async::{Column, Row, Value as Bound};
use reach_core::{Failure, exact};
use serde_json::Value;

use crate::sql::job::Job;
use crate::sql::rows::{bytes_argument, bytes_value, float_value, small_float_value};

/// The character set of bytes.
const BINARY: u16 = 63;

/// The value of each place.
pub(super) fn bind(job: &Job<'_>) -> Result<Vec<Bound>, Failure> {
    Ok(job.values().map(|(_, value)| bound(value)).collect())
}

fn bound(value: &Value) -> Bound {
    match value {
        Value::Null => Bound::NULL,
        Value::Bool(yes) => Bound::Int(i64::from(*yes)),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(integer), _, _) => Bound::Int(integer),
            (None, Some(integer), _) => Bound::UInt(integer),
            (None, None, Some(float)) => Bound::Double(float),
            (None, None, None) => Bound::Bytes(number.to_string().into_bytes()),
        },
        Value::String(text) => Bound::Bytes(text.clone().into_bytes()),
        Value::Array(_) | Value::Object(_) => {
            Bound::Bytes(bytes_argument(value).unwrap_or_else(|| value.to_string().into_bytes()))
        }
    }
}

/// The values of a row.
pub(super) fn row(row: Row, columns: &[Column]) -> Vec<Value> {
    let values = row.unwrap_raw().into_iter().map(|value| value.unwrap_or(Bound::NULL));
    values.zip(columns).map(|(value, column)| decode(value, column)).collect()
}

fn decode(value: Bound, column: &Column) -> Value {
    match value {
        Bound::NULL => Value::Null,
        Bound::Int(integer) => integer.into(),
        Bound::UInt(integer) => integer.into(),
        Bound::Float(float) => small_float_value(float),
        Bound::Double(float) => float_value(float),
        Bound::Date(year, month, day, hour, minute, second, micros) => {
            let date = format!("{year:04}-{month:02}-{day:02}");
            match column.column_type() {
                ColumnType::MYSQL_TYPE_DATE | ColumnType::MYSQL_TYPE_NEWDATE => date,
                _ => format!("{date}T{hour:02}:{minute:02}:{second:02}{}", fraction(micros)),
            }
            .into()
        }
        Bound::Time(negative, days, hours, minutes, seconds, micros) => {
            let sign = if negative { "-" } else { "" };
            let hours = u64::from(days) * 24 + u64::from(hours);
            format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{}", fraction(micros)).into()
        }
        Bound::Bytes(bytes) => of_bytes(bytes, column),
    }
}

fn of_bytes(bytes: Vec<u8>, column: &Column) -> Value {
    match column.column_type() {
        ColumnType::MYSQL_TYPE_BIT => bit(&bytes),
        ColumnType::MYSQL_TYPE_JSON => match std::str::from_utf8(&bytes).ok().map(exact::parse_result) {
            Some(Ok(value)) => value,
            _ => text_or_bytes(bytes),
        },
        ColumnType::MYSQL_TYPE_GEOMETRY => bytes_value(&bytes),
        ColumnType::MYSQL_TYPE_STRING
        | ColumnType::MYSQL_TYPE_VAR_STRING
        | ColumnType::MYSQL_TYPE_VARCHAR
        | ColumnType::MYSQL_TYPE_TINY_BLOB
        | ColumnType::MYSQL_TYPE_MEDIUM_BLOB
        | ColumnType::MYSQL_TYPE_LONG_BLOB
        | ColumnType::MYSQL_TYPE_BLOB
            if column.character_set() == BINARY && column.flags().contains(ColumnFlags::BINARY_FLAG) =>
        {
            bytes_value(&bytes)
        }
        _ => text_or_bytes(bytes),
    }
}

fn text_or_bytes(bytes: Vec<u8>) -> Value {
    match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(error) => bytes_value(error.as_bytes()),
    }
}

/// BIT(n) is a number of at most 64 bits, most significant byte first.
fn bit(bytes: &[u8]) -> Value {
    bytes.iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte)).into()
}

fn fraction(micros: u32) -> String {
    if micros == 0 { String::new() } else { format!(".{:06}", micros).trim_end_matches('0').to_owned() }
}
