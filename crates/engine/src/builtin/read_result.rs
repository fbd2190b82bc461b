//! `read_result`: reads back what was too long to show.
//!
//! An answer fits the limit by construction, so that reading a stored result never stores another. A caller
//! reaches its own results only; somebody else's and one that never was are told apart by nobody.

use std::sync::Arc;
use std::time::Duration;

use reach_core::{
    Adapter, Answer, Attempt, BoxFuture, Effect, Failure, FailureKind, Object, Payload, Phase, ToolId, ToolSpec,
};
use reach_store::Blobs;
use reach_store::blobs::Blob;
use serde_json::{Value, json};

use crate::shape::piece::{self, Request};

/// The id of the tool.
pub const TOOL_ID: &str = "read_result";

/// The tool and its body. `max_result_length` is both the promise of the spec and the size of a piece; less
/// than [`piece::FLOOR`] counts as that.
pub fn tool(blobs: Arc<dyn Blobs>, max_result_length: usize) -> (ToolSpec, Arc<dyn Adapter>) {
    let limit = max_result_length.max(piece::FLOOR);
    let mut spec = ToolSpec::new(
        ToolId::asked(TOOL_ID),
        "Reads back a result that was too long to show, piece by piece: give the blob named in meta.truncated, and a range \
         of characters, a range of lines, or a text to search for. next_offset says where the next piece begins; null \
         means that was the last.",
        input_schema(),
        Effect::Read,
    );
    spec.name = "Read result".to_owned();
    spec.use_when = Some("meta.truncated names a blob and the part you need is not shown".to_owned());
    spec.max_result_length = limit;
    (spec, Arc::new(ReadResult { blobs, limit }))
}

fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "blob": {"type": "string", "description": "The blob named in meta.truncated, such as b_0123", "minLength": 1},
            "offset": {"type": "integer", "minimum": 0, "description": "First character to read, or where a search goes on; take next_offset of the piece before"},
            "length": {"type": "integer", "minimum": 1, "description": "Characters to read; as many as fit when left out"},
            "start_line": {"type": "integer", "minimum": 1, "description": "First line to read, instead of offset"},
            "end_line": {"type": "integer", "minimum": 1, "description": "Last line to read"},
            "search": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Show the lines that hold this text, with their numbers and offsets"}
        },
        "required": ["blob"],
        "additionalProperties": false
    })
}

struct ReadResult {
    blobs: Arc<dyn Blobs>,
    limit: usize,
}

impl Adapter for ReadResult {
    fn kind(&self) -> &'static str {
        "builtin"
    }

    fn target(&self) -> &str {
        "blobs"
    }

    fn call<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let (id, request) = parse(&attempt.arguments)?;
            attempt.sent.set();
            let blob = self.blobs.get(attempt.caller.as_str(), &id).await.map_err(|error| {
                Failure::new(FailureKind::Unreachable, Phase::NotSent, "stored results cannot be read right now")
                    .with_detail(error.to_string())
            })?;
            let Some(blob) = blob else {
                return Err(Failure::new(
                    FailureKind::NotFound,
                    Phase::Answered,
                    "there is no such result of yours; take the blob from meta.truncated of a call you made",
                ));
            };
            let data = shown(blob, &request, self.limit)
                .map_err(|why| Failure::new(FailureKind::Rejected, Phase::Answered, why))?;
            Ok(Answer::from(Payload::Json(Value::Object(data))))
        })
    }

    fn check<'a>(&'a self, _timeout: Duration) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(async move {
            // Well formed and nobody's: the store has to look, and finds nothing.
            match self.blobs.get("", &format!("b_{}", "0".repeat(40))).await {
                Ok(_) => Ok("stored results can be read".to_owned()),
                Err(error) => {
                    Err(Failure::new(FailureKind::Unreachable, Phase::NotSent, "stored results cannot be read")
                        .with_detail(error.to_string()))
                }
            }
        })
    }
}

/// The blob asked for and the piece of it. The arguments were checked against the schema; a null is an
/// absent value.
fn parse(arguments: &Object) -> Result<(String, Request), Failure> {
    let mut rest: Object =
        arguments.iter().filter(|(_, value)| !value.is_null()).map(|(k, v)| (k.clone(), v.clone())).collect();
    let Some(Value::String(id)) = rest.shift_remove("blob") else {
        return Err(Failure::refused("`blob` names the stored result, as in meta.truncated"));
    };
    let request = serde_json::from_value(Value::Object(rest)).map_err(|error| Failure::refused(error.to_string()))?;
    Ok((id, request))
}

/// The piece, or of bytes that are no text their description.
fn shown(blob: Blob, request: &Request, limit: usize) -> Result<Object, String> {
    let size = blob.bytes.len();
    match String::from_utf8(blob.bytes) {
        Ok(text) if !text.contains('\0') => piece::read(&text, request, limit).map_err(|error| error.0),
        _ => {
            let media_type: String = blob.media_type.chars().filter(|c| !c.is_control()).take(60).collect();
            Ok(Object::from_iter([
                ("binary".to_owned(), json!(true)),
                ("media_type".to_owned(), json!(media_type)),
                ("bytes".to_owned(), json!(size)),
                ("note".to_owned(), json!("these bytes are no text and are not shown")),
            ]))
        }
    }
}

#[cfg(test)]
mod tests {
    use reach_core::CallerId;
    use reach_store::blobs::DirectoryBlobs;
    use tempfile::TempDir;

    use super::*;
    use crate::shape::measure;

    /// A store in a folder of its own.
    fn shelf() -> (TempDir, Arc<DirectoryBlobs>) {
        let folder = tempfile::tempdir().unwrap();
        let blobs = DirectoryBlobs::open(&folder.path().join("blobs"), 1 << 30).unwrap();
        (folder, Arc::new(blobs))
    }

    /// Files in the store's folder.
    fn stored(folder: &TempDir) -> usize {
        let shards = std::fs::read_dir(folder.path().join("blobs")).unwrap();
        shards.map(|shard| std::fs::read_dir(shard.unwrap().path()).unwrap().count()).sum()
    }

    async fn call(tool: &Arc<dyn Adapter>, caller: &str, arguments: Value) -> Result<Value, Failure> {
        let mut attempt = Attempt::new(ToolId::asked(TOOL_ID), arguments.as_object().unwrap().clone(), Effect::Read);
        attempt.caller = CallerId::new(caller);
        match tool.call(&attempt).await?.payload {
            Payload::Json(value) => Ok(value),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_stored_result_is_read_to_its_end_without_storing_another() {
        let (folder, shelf) = shelf();
        let text: String = (0..5_000).map(|n| format!("第{n}行 \"quoted\"\n")).collect();
        let id = shelf.put("bot", "text/plain", text.clone().into_bytes()).await.unwrap();
        let (spec, tool) = tool(shelf.clone(), 2_000);
        let (mut whole, mut offset) = (String::new(), 0);
        loop {
            let piece = call(&tool, "bot", json!({"blob": id, "offset": offset})).await.unwrap();
            assert!(measure(&piece) <= spec.max_result_length);
            whole.push_str(piece["text"].as_str().unwrap());
            match piece["next_offset"].as_u64() {
                Some(next) => offset = next,
                None => break,
            }
        }
        assert_eq!(whole, text);
        assert_eq!(stored(&folder), 1);
        let found = call(&tool, "bot", json!({"blob": id, "search": "第4321行"})).await.unwrap();
        assert_eq!(found["matches"][0]["line"], 4_322);
        let lines =
            call(&tool, "bot", json!({"blob": id, "start_line": 3, "end_line": 3, "offset": null})).await.unwrap();
        assert_eq!(lines["text"], "第2行 \"quoted\"\n");
    }

    #[tokio::test]
    async fn anothers_result_is_the_same_as_none_at_all() {
        let (_folder, shelf) = shelf();
        let id = shelf.put("bot", "text/plain", b"secret".to_vec()).await.unwrap();
        let (_, tool) = tool(shelf, 2_000);
        let others = call(&tool, "spy", json!({"blob": id})).await.unwrap_err();
        let none = call(&tool, "spy", json!({"blob": format!("b_{}", "a".repeat(40))})).await.unwrap_err();
        assert_eq!(others, none);
        assert_eq!(others.kind, FailureKind::NotFound);
    }

    #[tokio::test]
    async fn case_c006_bytes_are_described_and_not_dumped() {
        let (_folder, shelf) = shelf();
        let id = shelf.put("bot", "image/png", b"\x89PNG\r\n\x1a\n\0\0\0".repeat(20_000)).await.unwrap();
        let (_, tool) = tool(shelf, 2_000);
        let shown = call(&tool, "bot", json!({"blob": id})).await.unwrap();
        assert_eq!(
            (&shown["binary"], &shown["media_type"], &shown["bytes"]),
            (&json!(true), &json!("image/png"), &json!(220_000))
        );
        assert!(measure(&shown) <= piece::FLOOR);
    }

    #[test]
    fn the_spec_promises_what_the_pieces_keep() {
        let (_folder, shelf) = shelf();
        let (spec, _) = tool(shelf.clone(), 10);
        assert_eq!(spec.max_result_length, piece::FLOOR);
        let (spec, _) = tool(shelf, 2_000);
        assert_eq!((spec.max_result_length, spec.effect), (2_000, Effect::Read));
        assert_eq!(spec.input_schema["additionalProperties"], false);
    }

    #[tokio::test]
    async fn wrong_pieces_and_a_missing_store_are_told_apart() {
        let (folder, shelf) = shelf();
        let id = shelf.put("bot", "text/plain", b"abc".to_vec()).await.unwrap();
        let (_, good) = tool(shelf, 2_000);
        let past = call(&good, "bot", json!({"blob": id, "offset": 9})).await.unwrap_err();
        assert_eq!(past.kind, FailureKind::Rejected);
        assert_eq!(call(&good, "bot", json!({})).await.unwrap_err().kind, FailureKind::Refused);
        assert!(good.check(Duration::from_secs(1)).await.is_ok());
        let blobs = folder.path().join("blobs");
        std::fs::remove_dir_all(&blobs).unwrap();
        std::fs::write(&blobs, "no folder any more").unwrap();
        let failure = call(&good, "bot", json!({"blob": id})).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (FailureKind::Unreachable, Phase::NotSent));
        assert!(!failure.message.contains(folder.path().to_str().unwrap()), "{}", failure.message);
        assert!(good.check(Duration::from_secs(1)).await.is_err());
    }
}
