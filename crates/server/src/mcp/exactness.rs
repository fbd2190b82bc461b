//! Keeps numbers whole on their way through `rmcp`.
//!
//! `rmcp` parses messages with plain `serde_json`, which rounds an integer beyond 64 bits without a word.
//! A call whose arguments cannot be held is marked before it gets there, and the handler refuses it with
//! the reason. A client can set the mark itself: it only refuses its own call.

use std::borrow::Cow;

use reach_core::exact::parse_arguments;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Where the mark is put: a key of `params._meta`. Its value is the arguments as they were written.
pub(super) const MARK: &str = "reach/inexact-arguments";

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: &'a RawValue,
}

/// The message with a mark, if it is a call whose arguments cannot be held exactly; `None` to pass it as
/// it is. Everything else that may be wrong with a message is `rmcp`'s to say.
pub(super) fn marked(message: &[u8]) -> Option<Vec<u8>> {
    let call: Message<'_> = serde_json::from_slice(message).ok()?;
    if call.method != "tools/call" || parse_arguments(call.params.arguments.get()).is_ok() {
        return None;
    }
    let mut value: Value = serde_json::from_slice(message).ok()?;
    let params = value.get_mut("params")?.as_object_mut()?;
    let meta = params.entry("_meta").or_insert_with(|| Value::Object(Default::default()));
    meta.as_object_mut()?.insert(MARK.to_owned(), call.params.arguments.get().into());
    // What cannot be held must not be looked at either.
    params.insert("arguments".to_owned(), Value::Object(Default::default()));
    serde_json::to_vec(&value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_with_a_number_that_cannot_be_held_is_marked_and_every_other_message_passes() {
        let call = |n: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"n":{n}}}}}}}"#
            )
        };
        let mark = |text: &str| {
            let value: Value = serde_json::from_slice(&marked(text.as_bytes())?).unwrap();
            Some(value["params"]["_meta"][MARK].as_str()?.to_owned())
        };
        assert_eq!(mark(&call("18446744073709551615")), None);
        assert_eq!(mark(&call("18446744073709551616")).as_deref(), Some(r#"{"n":18446744073709551616}"#));
        assert_eq!(mark(r#"{"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"}"#), None);
        assert_eq!(mark("no json"), None);
    }
}
