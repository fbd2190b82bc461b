//! How many characters a value takes as compact JSON, without writing it.

use serde_json::Value;

/// Characters of the compact JSON text of `value`, exactly as `serde_json` writes it. Linear.
pub fn measure(value: &Value) -> usize {
    measure_upto(value, usize::MAX)
}

/// The same, but stops soon after `enough`: the answer is exact up to it, and more than it otherwise.
pub(super) fn measure_upto(value: &Value, enough: usize) -> usize {
    let mut sum = 0;
    add(value, enough, &mut sum);
    sum
}

fn add(value: &Value, enough: usize, sum: &mut usize) {
    match value {
        Value::Null => *sum += 4,
        Value::Bool(yes) => *sum += if *yes { 4 } else { 5 },
        Value::Number(number) => *sum += number.to_string().len(),
        Value::String(text) => *sum += text_upto(text, enough.saturating_sub(*sum)),
        Value::Array(items) => {
            *sum += 2 + items.len().saturating_sub(1);
            for item in items {
                if *sum > enough {
                    return;
                }
                add(item, enough, sum);
            }
        }
        Value::Object(entries) => {
            *sum += 2 + entries.len().saturating_sub(1);
            for (key, value) in entries {
                if *sum > enough {
                    return;
                }
                *sum += text_upto(key, enough.saturating_sub(*sum)) + 1;
                add(value, enough, sum);
            }
        }
    }
}

/// Characters of a string as JSON, quotes included; stops soon after `enough`.
pub(super) fn text_upto(text: &str, enough: usize) -> usize {
    let mut sum = 2usize;
    for c in text.chars() {
        sum += width(c);
        if sum > enough {
            return sum;
        }
    }
    sum
}

/// Characters of a string as JSON, quotes included.
pub(super) fn text(text: &str) -> usize {
    text_upto(text, usize::MAX)
}

/// Characters that one character takes inside a JSON string.
pub(super) fn width(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => 1,
    }
}
