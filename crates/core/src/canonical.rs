//! One text for equal JSON: key order and white space do not matter, numbers compare as written values.
//!
//! The fingerprint of a request is the SHA-256 of this text (DESIGN section 5, idempotency record).

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Object;

/// The canonical text of a value: keys sorted by code point, no white space. Linear in the size, plus
/// the sort of each object's keys.
pub fn text(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// The fingerprint of a request's arguments, as 64 hexadecimal digits.
pub fn fingerprint(arguments: &Object) -> String {
    let mut out = String::new();
    write_object(arguments, &mut out);
    hex(&Sha256::digest(out.as_bytes()))
}

/// Lower-case hexadecimal digits of bytes.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
    text
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(object) => write_object(object, out),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}

fn write_object(object: &Object, out: &mut String) {
    let mut keys: Vec<&String> = object.keys().collect();
    keys.sort_unstable();
    out.push('{');
    for (index, key) in keys.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(&Value::String(key.clone()), out);
        out.push(':');
        write(&object[key], out);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn key_order_does_not_matter_and_values_do() {
        let one = json!({"b": [1, {"y": 2, "x": null}], "a": "中"});
        let two = json!({"a": "中", "b": [1, {"x": null, "y": 2}]});
        let three = json!({"a": "中", "b": [1, {"x": null, "y": 3}]});
        assert_eq!(text(&one), r#"{"a":"中","b":[1,{"x":null,"y":2}]}"#);
        assert_eq!(fingerprint(one.as_object().unwrap()), fingerprint(two.as_object().unwrap()));
        assert_ne!(fingerprint(one.as_object().unwrap()), fingerprint(three.as_object().unwrap()));
    }
}
