//! Keeps numbers whole on their way through `rmcp`.
//!
//! `rmcp` parses messages with plain `serde_json`, which rounds an integer beyond 64 bits without a word.
//! A message whose numbers cannot be held is marked before it gets there, and the handler refuses the call
//! with the mark's text. A client can set the mark itself: it only refuses its own call.

use serde_json::Value;

/// Where the mark is put: a key of `params._meta`.
pub(super) const MARK: &str = "reach/inexact";

/// The message with a mark, if it is a call that cannot be held exactly; `None` to pass it as it is.
pub(super) fn marked(message: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(message).ok()?;
    let problem = reach_core::exact::parse_arguments(text).err()?.to_string();
    let mut value: Value = serde_json::from_str(text).ok()?;
    if value.get("method")? != "tools/call" {
        return None;
    }
    let params = value.get_mut("params")?.as_object_mut()?;
    let meta = params.entry("_meta").or_insert_with(|| Value::Object(Default::default()));
    meta.as_object_mut()?.insert(MARK.to_owned(), problem.into());
    serde_json::to_vec(&value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_with_a_number_that_cannot_be_held_is_marked_and_every_other_message_passes() {
        let call = |n: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"n":{n}}}}}}}"#)
        };
        let mark = |text: &str| {
            let value: Value = serde_json::from_slice(&marked(text.as_bytes())?).unwrap();
            Some(value["params"]["_meta"][MARK].as_str()?.to_owned())
        };
        assert_eq!(mark(&call("18446744073709551615")), None);
        let problem = mark(&call("18446744073709551616")).unwrap();
        assert!(problem.contains("18446744073709551616"), "{problem}");
        assert_eq!(mark(r#"{"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"}"#), None);
        assert_eq!(mark("no json"), None);
    }
}
