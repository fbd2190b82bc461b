//! JSON in which no digit is lost.
//!
//! `serde_json` turns an integer beyond 64 bits into a float without a word, rounds long decimals, and
//! keeps the last of two equal keys. Before text from outside becomes a value, a scanner looks at every
//! number: what a value cannot hold exactly is kept as text (results) or refused by name (arguments). The
//! scanner is one linear pass without recursion or allocation; text that needs nothing is parsed in place.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use crate::Object;
use crate::arguments::{Fault, Kind, Refusal, field, refusal};

/// Arrays and objects inside one another that are read.
pub const DEPTH: usize = 128;

/// Characters of a number that a message shows.
const SHOWN: usize = 40;

/// Why text did not become a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExactError {
    /// The text is not JSON.
    #[error("not valid JSON: {0}")]
    Syntax(String),
    /// The text is JSON, but its outermost value is not an object.
    #[error("the arguments must be one JSON object, such as {{\"name\": \"value\"}}; found {0}")]
    NotAnObject(&'static str),
    /// `NaN` or an infinity, which JSON does not have.
    #[error("{field} is {token}, which is not a number that JSON has")]
    NotANumber {
        /// Where.
        field: String,
        /// As written.
        token: String,
    },
    /// An integer beyond 64 bits, or a decimal with more digits than a float holds.
    #[error("{field} is the number {number}, of which digits would be lost")]
    TooManyDigits {
        /// Where, for a reader.
        field: String,
        /// Where, as a JSON pointer.
        pointer: String,
        /// As written, clipped.
        number: String,
        /// Without a point or an exponent.
        is_integer: bool,
    },
    /// A key stands twice in one object.
    #[error("{field} is given twice")]
    DuplicateKey {
        /// Where, for a reader.
        field: String,
        /// Where, as a JSON pointer.
        pointer: String,
    },
    /// More than [`DEPTH`] arrays and objects inside one another.
    #[error("more than {DEPTH} arrays and objects inside one another")]
    TooDeep,
}

impl ExactError {
    /// The refusal of arguments for this reason.
    pub fn refusal(&self) -> Refusal {
        let (pointer, kind, sent, wanted, advice) = match self {
            Self::TooManyDigits { pointer, number, is_integer, .. } => {
                let kind = if *is_integer { Kind::IntegerTooBig } else { Kind::Other };
                let wanted = if *is_integer { "integer that fits into 64 bits" } else { "number of at most 15 digits" };
                (
                    pointer.as_str(),
                    kind,
                    Some(number.clone()),
                    wanted,
                    "digits would be lost; send it as text, in quotes",
                )
            }
            Self::DuplicateKey { pointer, .. } => {
                (pointer.as_str(), Kind::Other, None, "each field once", "it is given twice; send it once")
            }
            Self::NotANumber { token, .. } => ("", Kind::Other, Some(token.clone()), "JSON", "leave the field out"),
            Self::TooDeep => ("", Kind::Other, None, "at most 128 arrays and objects inside one another", "flatten it"),
            Self::Syntax(_) | Self::NotAnObject(_) => ("", Kind::Other, None, "one JSON object", ""),
        };
        let fault = Fault {
            pointer: pointer.to_owned(),
            kind,
            sent,
            wanted: wanted.to_owned(),
            advice: advice.to_owned(),
            send: None,
        };
        let told = refusal(vec![fault], 1, None);
        match self {
            Self::TooManyDigits { .. } | Self::DuplicateKey { .. } => told,
            Self::Syntax(_) | Self::NotAnObject(_) | Self::NotANumber { .. } | Self::TooDeep => {
                Refusal { message: self.to_string(), ..told }
            }
        }
    }
}

/// Parses JSON from an upstream. An integer beyond 64 bits, and a decimal that a float cannot give back,
/// become strings with all their digits. Equal keys: the last one counts, as everywhere.
///
/// Errors: bad JSON, `NaN` and infinities by name, too deep.
pub fn parse_result(text: &str) -> Result<Value, ExactError> {
    let scan = Scan::of(text, usize::MAX);
    let parsed = if scan.inexact.is_empty() {
        serde_json::from_str(text)
    } else {
        let mut quoted = String::with_capacity(text.len() + 2 * scan.inexact.len());
        let mut copied = 0;
        for number in &scan.inexact {
            quoted.push_str(&text[copied..number.start]);
            quoted.push('"');
            quoted.push_str(&text[number.clone()]);
            quoted.push('"');
            copied = number.end;
        }
        quoted.push_str(&text[copied..]);
        serde_json::from_str(&quoted)
    };
    parsed.map_err(|error| explained(text, &scan, &error))
}

/// Parses the arguments of a call: one object, no number that would lose digits, no key twice.
pub fn parse_arguments(text: &str) -> Result<Object, ExactError> {
    match parse_strict(text)? {
        Value::Object(arguments) => Ok(arguments),
        Value::Null => Err(ExactError::NotAnObject("null")),
        Value::Bool(_) => Err(ExactError::NotAnObject("a boolean")),
        Value::Number(_) => Err(ExactError::NotAnObject("a number")),
        Value::String(_) => Err(ExactError::NotAnObject("text")),
        Value::Array(_) => Err(ExactError::NotAnObject("a list")),
    }
}

/// Any value under the rules of arguments.
pub(crate) fn parse_strict(text: &str) -> Result<Value, ExactError> {
    let scan = Scan::of(text, 1);
    let twice = RefCell::new(None);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed =
        Strict { twice: &twice }.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    if let Some(mut path) = twice.take() {
        path.reverse();
        let pointer: String = path.concat();
        return Err(ExactError::DuplicateKey { field: field::path(&pointer, None), pointer });
    }
    let value = parsed.map_err(|error| explained(text, &scan, &error))?;
    match scan.inexact.first() {
        None => Ok(value),
        Some(number) => {
            let pointer = pointer_at(text, number.start);
            let number = &text[number.clone()];
            Err(ExactError::TooManyDigits {
                field: field::path(&pointer, Some(&value)),
                pointer,
                number: clipped(number),
                is_integer: !number.contains(['.', 'e', 'E']),
            })
        }
    }
}

/// Whether a JSON number keeps its value as a [`Value`].
pub(crate) fn is_exact(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    if exponent.is_none() && !mantissa.contains('.') {
        return digits.len() < 19 || number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    }
    // Fifteen digits always survive a float of ordinary size.
    if exponent.is_none() && mantissa.len() <= 16 {
        return true;
    }
    let Ok(read) = serde_json::from_str::<f64>(number) else { return false };
    decimal(number) == decimal(&format!("{read:e}"))
}

/// A decimal number as its digits without outer zeros and the power of ten of the last digit.
fn decimal(number: &str) -> Option<(String, i64)> {
    let number = number.strip_prefix('-').unwrap_or(number);
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let mut exponent: i64 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    exponent -= i64::try_from(fraction.len()).ok()?;
    let digits = format!("{whole}{fraction}");
    let kept = digits.trim_start_matches('0').trim_end_matches('0');
    if kept.is_empty() {
        return Some((String::new(), 0));
    }
    let zeros = digits.len() - digits.trim_end_matches('0').len();
    Some((kept.to_owned(), exponent + i64::try_from(zeros).ok()?))
}

fn clipped(number: &str) -> String {
    if number.len() > SHOWN { format!("{}…", &number[..SHOWN]) } else { number.to_owned() }
}

/// What the scanner found outside strings.
#[derive(Debug, Default)]
struct Scan {
    /// Numbers that a value cannot hold exactly, in order.
    inexact: Vec<Range<usize>>,
    /// The first `NaN` or infinity.
    not_a_number: Option<Range<usize>>,
    is_deep: bool,
}

impl Scan {
    /// Looks at every token once; stops collecting numbers after `enough`.
    fn of(text: &str, enough: usize) -> Self {
        let bytes = text.as_bytes();
        let mut scan = Self::default();
        let (mut at, mut depth) = (0, 0usize);
        while at < bytes.len() {
            match bytes[at] {
                b'"' => at = string_end(bytes, at),
                b'{' | b'[' => {
                    depth += 1;
                    scan.is_deep |= depth > DEPTH;
                    at += 1;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    at += 1;
                }
                b'-' | b'0'..=b'9' => {
                    let end = number_end(bytes, at);
                    let number = &text[at..end];
                    if scan.inexact.len() < enough && is_number(number) && !is_exact(number) && !is_key(bytes, end) {
                        scan.inexact.push(at..end);
                    }
                    at = end;
                }
                b'N' | b'I' | b'n' | b'i' if scan.not_a_number.is_none() => {
                    let end = word_end(bytes, at);
                    if matches!(text[at..end].to_ascii_lowercase().as_str(), "nan" | "infinity" | "inf") {
                        let start = if at > 0 && bytes[at - 1] == b'-' { at - 1 } else { at };
                        scan.not_a_number = Some(start..end);
                    }
                    at = end;
                }
                byte if byte.is_ascii_alphabetic() => at = word_end(bytes, at),
                _ => at += 1,
            }
        }
        scan
    }
}

/// The index after a string that starts at `at`, or the end of the text.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn number_end(bytes: &[u8], at: usize) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    at + 1 + bytes[at + 1..].iter().take_while(|byte| is_part(byte)).count()
}

fn word_end(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count().max(1)
}

/// The grammar of a JSON number; anything else is left for the parser to refuse.
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let all_digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    all_digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(all_digits)
        && exponent.is_none_or(|exponent| all_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

/// A number before a colon is no value: quoting it would make bad JSON good.
fn is_key(bytes: &[u8], end: usize) -> bool {
    bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

/// The error of a parser, with what the scanner knows better.
fn explained(text: &str, scan: &Scan, error: &serde_json::Error) -> ExactError {
    if scan.is_deep || error.to_string().contains("recursion limit exceeded") {
        return ExactError::TooDeep;
    }
    if let Some(found) = &scan.not_a_number {
        let pointer = pointer_at(text, found.start);
        return ExactError::NotANumber { field: field::path(&pointer, None), token: text[found.clone()].to_owned() };
    }
    ExactError::Syntax(error.to_string())
}

/// The JSON pointer of the value at an offset. A second pass, for messages only; no recursion.
fn pointer_at(text: &str, offset: usize) -> String {
    enum Level {
        Item(usize),
        Field(String),
    }
    let bytes = text.as_bytes();
    let mut levels: Vec<Level> = Vec::new();
    let mut last_string = 0..0;
    let mut at = 0;
    while at < offset.min(bytes.len()) {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at);
                last_string = at..end;
                at = end;
                continue;
            }
            b'{' => levels.push(Level::Field(String::new())),
            b'[' => levels.push(Level::Item(0)),
            b'}' | b']' => {
                levels.pop();
            }
            b':' => {
                if let Some(Level::Field(name)) = levels.last_mut() {
                    *name = serde_json::from_str(&text[last_string.clone()]).unwrap_or_default();
                }
            }
            b',' => {
                if let Some(Level::Item(index)) = levels.last_mut() {
                    *index += 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    let mut pointer = String::new();
    for level in levels {
        match level {
            Level::Item(index) => pointer.push_str(&format!("/{index}")),
            Level::Field(name) => pointer.push_str(&segment(&name)),
        }
    }
    pointer
}

fn segment(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Builds a value and stops at the first key that stands twice; `twice` then holds the pointer's segments,
/// innermost first, put together on the way out of the recursion so that good text pays nothing.
#[derive(Clone, Copy)]
struct Strict<'s> {
    twice: &'s RefCell<Option<Vec<String>>>,
}

impl Strict<'_> {
    fn inside<T, E>(&self, result: Result<T, E>, segment: impl FnOnce() -> String) -> Result<T, E> {
        if result.is_err()
            && let Some(path) = self.twice.borrow_mut().as_mut()
        {
            path.push(segment());
        }
        result
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = self.inside(items.next_element_seed(self), || format!("/{}", list.len()))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Object::new();
        while let Some(name) = fields.next_key::<String>()? {
            if object.contains_key(&name) {
                *self.twice.borrow_mut() = Some(vec![segment(&name)]);
                return Err(A::Error::custom("a key stands twice"));
            }
            let value = self.inside(fields.next_value_seed(self), || segment(&name))?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}
