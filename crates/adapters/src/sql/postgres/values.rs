//! PostgreSQL's binary values as JSON, without loss.
//!
//! A numeric is text with the digits it was stored with, a 64-bit integer a JSON integer, times are ISO
//! 8601, bytes base64. A type that is not known here is refused when the statement is prepared, by the name
//! of its column, before anything runs.

use chrono::{DateTime, Days, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta};
use reach_core::{Failure, Object, exact};
use serde_json::Value;
use tokio_postgres::types::{FromSql, Kind, Type};
use tokio_postgres::{Column, Row};

use crate::sql::failure::unreadable_column;
use crate::sql::rows::{bytes_value, float_value, small_float_value};

/// Refuses a result with a column that [`row`] could not read.
pub(super) fn check_columns(columns: &[Column]) -> Result<(), Failure> {
    match columns.iter().find(|column| !is_known(column.type_())) {
        Some(column) => Err(unreadable_column(column.name(), column.type_().name())),
        None => Ok(()),
    }
}

/// The values of a row, or the name of the column that cannot be read.
pub(super) fn row(row: &Row) -> Result<Vec<Value>, String> {
    let columns = row.columns().iter().enumerate();
    columns
        .map(|(index, column)| match row.try_get::<_, Option<Raw<'_>>>(index) {
            Ok(None) => Ok(Value::Null),
            Ok(Some(Raw(bytes))) => value(column.type_(), bytes).ok_or_else(|| column.name().to_owned()),
            Err(_) => Err(column.name().to_owned()),
        })
        .collect()
}

/// The bytes of a value, whatever its type.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn is_known(kind: &Type) -> bool {
    match kind.kind() {
        Kind::Array(inner) | Kind::Domain(inner) => is_known(inner),
        Kind::Composite(fields) => fields.iter().all(|field| is_known(field.type_())),
        Kind::Enum(_) => true,
        _ => is_scalar(kind),
    }
}

fn is_scalar(kind: &Type) -> bool {
    matches!(
        *kind,
        Type::BOOL
            | Type::INT2
            | Type::INT4
            | Type::INT8
            | Type::OID
            | Type::XID
            | Type::FLOAT4
            | Type::FLOAT8
            | Type::NUMERIC
            | Type::BYTEA
            | Type::UUID
            | Type::JSON
            | Type::JSONB
            | Type::DATE
            | Type::TIME
            | Type::TIMETZ
            | Type::TIMESTAMP
            | Type::TIMESTAMPTZ
            | Type::INTERVAL
            | Type::INET
            | Type::CIDR
            | Type::MACADDR
            | Type::BIT
            | Type::VARBIT
            | Type::VOID
    ) || is_text(kind)
}

fn is_text(kind: &Type) -> bool {
    matches!(*kind, Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::CHAR | Type::UNKNOWN | Type::XML)
        || kind.name() == "citext"
}

/// One value; `None` where the bytes are not what the type promises.
fn value(kind: &Type, bytes: &[u8]) -> Option<Value> {
    match kind.kind() {
        Kind::Array(inner) => return array(inner, bytes),
        Kind::Domain(inner) => return value(inner, bytes),
        Kind::Enum(_) => return text(bytes),
        Kind::Composite(fields) => {
            let mut input = Input(bytes);
            input.i32()?;
            let mut object = Object::new();
            for field in fields {
                input.i32()?;
                object.insert(field.name().to_owned(), element(field.type_(), &mut input)?);
            }
            return Some(Value::Object(object));
        }
        _ => {}
    }
    let mut input = Input(bytes);
    Some(match *kind {
        Type::VOID => Value::Null,
        Type::BOOL => (*bytes.first()? != 0).into(),
        Type::CHAR => char::from(*bytes.first()?).to_string().into(),
        Type::INT2 => input.i16()?.into(),
        Type::INT4 => input.i32()?.into(),
        Type::INT8 => input.i64()?.into(),
        Type::OID | Type::XID => u32::from_be_bytes(input.take()?).into(),
        Type::FLOAT4 => small_float_value(f32::from_be_bytes(input.take()?)),
        Type::FLOAT8 => float_value(f64::from_be_bytes(input.take()?)),
        Type::NUMERIC => numeric(&mut input)?.into(),
        Type::BYTEA => bytes_value(bytes),
        Type::UUID => uuid::Uuid::from_slice(bytes).ok()?.to_string().into(),
        Type::JSON => exact::parse_result(std::str::from_utf8(bytes).ok()?).ok()?,
        // The first byte is the version of the form, so far always 1.
        Type::JSONB => exact::parse_result(std::str::from_utf8(bytes.get(1..)?).ok()?).ok()?,
        Type::DATE => date(input.i32()?)?.into(),
        Type::TIME => time(input.i64()?)?.into(),
        Type::TIMETZ => {
            let clock = time(input.i64()?)?;
            format!("{clock}{}", offset(-input.i32()?)).into()
        }
        Type::TIMESTAMP => timestamp(input.i64()?, "")?.into(),
        Type::TIMESTAMPTZ => timestamp(input.i64()?, "+00:00")?.into(),
        Type::INTERVAL => {
            let (micros, days, months) = (input.i64()?, input.i32()?, input.i32()?);
            interval(months, days, micros).into()
        }
        Type::INET | Type::CIDR => address(bytes, *kind == Type::CIDR)?.into(),
        Type::MACADDR => {
            let parts: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            parts.join(":").into()
        }
        Type::BIT | Type::VARBIT => {
            let length = usize::try_from(input.i32()?).ok()?;
            let digits: String = input.0.iter().map(|byte| format!("{byte:08b}")).collect();
            digits.get(..length)?.into()
        }
        _ => return text(bytes),
    })
}

fn text(bytes: &[u8]) -> Option<Value> {
    std::str::from_utf8(bytes).ok().map(Value::from)
}

/// Big-endian input.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }

    fn i16(&mut self) -> Option<i16> {
        self.take().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }
}

/// A value behind its length; a length of -1 is NULL.
fn element(kind: &Type, input: &mut Input<'_>) -> Option<Value> {
    match usize::try_from(input.i32()?) {
        Ok(length) => value(kind, input.slice(length)?),
        Err(_) => Some(Value::Null),
    }
}

fn array(inner: &Type, bytes: &[u8]) -> Option<Value> {
    let mut input = Input(bytes);
    let dimensions = usize::try_from(input.i32()?).ok().filter(|count| *count <= 6)?;
    input.slice(8)?;
    let mut lengths = Vec::new();
    for _ in 0..dimensions {
        lengths.push(usize::try_from(input.i32()?).ok()?);
        input.i32()?;
    }
    nested(inner, &lengths, &mut input)
}

fn nested(inner: &Type, lengths: &[usize], input: &mut Input<'_>) -> Option<Value> {
    let Some((length, deeper)) = lengths.split_first() else { return Some(Value::Array(Vec::new())) };
    let mut items = Vec::new();
    for _ in 0..*length {
        items.push(if deeper.is_empty() { element(inner, input)? } else { nested(inner, deeper, input)? });
    }
    Some(Value::Array(items))
}

/// Groups of four decimal digits, the first worth 10000^weight, with as many decimals as were stored.
fn numeric(input: &mut Input<'_>) -> Option<String> {
    let (count, weight, sign, scale) = (input.i16()?, input.i16()?, input.i16()?, input.i16()?);
    match u16::from_be_bytes(sign.to_be_bytes()) {
        0xC000 => return Some("NaN".to_owned()),
        0xD000 => return Some("Infinity".to_owned()),
        0xF000 => return Some("-Infinity".to_owned()),
        _ => {}
    }
    let mut groups = Vec::new();
    for _ in 0..count {
        groups.push(input.i16()?);
    }
    let group = |at: i32| usize::try_from(at).ok().and_then(|at| groups.get(at)).copied().unwrap_or(0);
    let mut out = if sign == 0 { String::new() } else { "-".to_owned() };
    if weight < 0 {
        out.push('0');
    }
    for at in 0..=i32::from(weight) {
        out.push_str(&if at == 0 { group(at).to_string() } else { format!("{:04}", group(at)) });
    }
    if scale > 0 {
        let scale = usize::try_from(scale).ok()?;
        let mut decimals = String::new();
        let mut at = i32::from(weight) + 1;
        while decimals.len() < scale {
            decimals.push_str(&format!("{:04}", group(at)));
            at += 1;
        }
        out.push('.');
        out.push_str(&decimals[..scale]);
    }
    Some(out)
}

/// PostgreSQL counts from the first day of 2000.
fn epoch() -> Option<NaiveDate> {
    NaiveDate::from_ymd_opt(2000, 1, 1)
}

fn date(days: i32) -> Option<String> {
    match days {
        i32::MAX => return Some("infinity".to_owned()),
        i32::MIN => return Some("-infinity".to_owned()),
        _ => {}
    }
    let distance = Days::new(days.unsigned_abs().into());
    let day = if days < 0 { epoch()?.checked_sub_days(distance)? } else { epoch()?.checked_add_days(distance)? };
    Some(day.format("%Y-%m-%d").to_string())
}

fn time(micros: i64) -> Option<String> {
    // The one value beyond the clock: midnight at the end of the day.
    if micros == 86_400_000_000 {
        return Some("24:00:00".to_owned());
    }
    let seconds = u32::try_from(micros / 1_000_000).ok()?;
    let nanos = u32::try_from(micros % 1_000_000).ok()? * 1000;
    Some(NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanos)?.format("%H:%M:%S%.f").to_string())
}

fn timestamp(micros: i64, zone: &str) -> Option<String> {
    match micros {
        i64::MAX => return Some("infinity".to_owned()),
        i64::MIN => return Some("-infinity".to_owned()),
        _ => {}
    }
    let start: NaiveDateTime = epoch()?.and_time(NaiveTime::MIN);
    let moment: DateTime<chrono::Utc> = start.and_utc().checked_add_signed(TimeDelta::microseconds(micros))?;
    Some(format!("{}{zone}", moment.format("%Y-%m-%dT%H:%M:%S%.f")))
}

fn offset(seconds_east: i32) -> String {
    let (sign, seconds) = (if seconds_east < 0 { '-' } else { '+' }, seconds_east.abs());
    format!("{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60)
}

/// An ISO 8601 duration; each part keeps its own sign, as PostgreSQL keeps them apart.
fn interval(months: i32, days: i32, micros: i64) -> String {
    let mut out = "P".to_owned();
    for (amount, unit) in [(months / 12, 'Y'), (months % 12, 'M'), (days, 'D')] {
        if amount != 0 {
            out.push_str(&format!("{amount}{unit}"));
        }
    }
    if micros != 0 || out == "P" {
        out.push('T');
        let (seconds, fraction) = (micros / 1_000_000, (micros % 1_000_000).abs());
        let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        for (amount, unit) in [(hours, 'H'), (minutes, 'M')] {
            if amount != 0 {
                out.push_str(&format!("{amount}{unit}"));
            }
        }
        if fraction != 0 {
            let sign = if micros < 0 { "-" } else { "" };
            let digits = format!("{fraction:06}");
            out.push_str(&format!("{sign}{}.{}S", rest.abs(), digits.trim_end_matches('0')));
        } else if rest != 0 || (hours == 0 && minutes == 0) {
            out.push_str(&format!("{rest}S"));
        }
    }
    out
}

fn address(bytes: &[u8], network: bool) -> Option<String> {
    let [family, bits, _, _, rest @ ..] = bytes else { return None };
    let (address, whole) = match family {
        2 => (std::net::IpAddr::from(<[u8; 4]>::try_from(rest).ok()?), 32),
        _ => (std::net::IpAddr::from(<[u8; 16]>::try_from(rest).ok()?), 128),
    };
    Some(if network || *bits != whole { format!("{address}/{bits}") } else { address.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics_keep_the_digits_they_were_stored_with() {
        let text = |parts: &[i16]| {
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_be_bytes()).collect();
            numeric(&mut Input(&bytes)).unwrap()
        };
        assert_eq!(text(&[2, 0, 0, 2, 12, 3000]), "12.30");
        assert_eq!(text(&[0, 0, 0, 0]), "0");
        assert_eq!(text(&[0, 0, 0, 3]), "0.000");
        assert_eq!(text(&[1, -2, 0x4000, 8, 12]), "-0.00000012");
        assert_eq!(text(&[1, 2, 0, 0, 7]), "700000000");
        assert_eq!(text(&[0, 0, i16::from_be_bytes([0xC0, 0]), 0]), "NaN");
    }

    #[test]
    fn durations_keep_their_parts_apart() {
        assert_eq!(interval(14, -3, 3_723_500_000), "P1Y2M-3DT1H2M3.5S");
        assert_eq!(interval(0, 0, 0), "PT0S");
        assert_eq!(interval(0, 0, -500_000), "PT-0.5S");
    }

    #[test]
    fn broken_bytes_are_no_value_and_no_panic() {
        for kind in [
            Type::NUMERIC,
            Type::INT8,
            Type::TIMESTAMP,
            Type::INT4_ARRAY,
            Type::INET,
            Type::VARBIT,
            Type::UUID,
            Type::JSONB,
        ] {
            for length in 0..12 {
                let _ = value(&kind, &vec![0x7f; length]);
            }
        }
        assert_eq!(value(&Type::INT8, &[1]), None);
    }
}
