//! Steps 11 (second half) and 12: the result made readable, the outcome made durable, the envelope out.

use reach_core::tool::Shape;
use reach_core::{Envelope, EventKind, Object, Phase, Truncated, tokens};
use serde_json::json;

use super::{Failed, Served, Walk};
use crate::call::Record;
use crate::gate::Held;
use crate::registry::Tool;
use crate::shape;

/// Bytes up to which a result is shortened where it is; larger ones go to a thread of their own.
const SHORTENED_IN_PLACE: usize = 200_000;

impl Walk<'_> {
    /// Ends the call: whatever happened before, an envelope comes out of here.
    pub(super) async fn conclude(mut self, head: Option<&Tool>, served: Served, held: Option<Held>) -> Envelope {
        let (envelope, record, size) = match served {
            Ok(data) => {
                self.meta.phase = Phase::Answered;
                let (data, text) = self.make_readable(head, data).await;
                self.meta.tokens.tool_result = tokens::estimate(&text);
                let size = text.chars().count() as u64;
                (self.seal(Ok(data)), Record::Done, size)
            }
            Err(failed) => {
                self.meta.phase = failed.phase;
                let record = failed.record;
                let text = failed.error.message.as_str();
                self.meta.tokens.tool_result = tokens::estimate(text);
                (self.seal(Err(failed)), record, 0)
            }
        };
        if let Some(held) = held {
            self.settle(held, record, &envelope).await;
        }
        self.answer_sized(envelope, size)
    }

    /// Answers with an envelope that was made before: replayed, or settled by verification.
    pub(super) fn answer(mut self, mut envelope: Envelope) -> Envelope {
        self.journal.add(EventKind::Replayed);
        envelope.meta.duration_ms = self.journal.elapsed_ms();
        self.answer_sized(envelope, 0)
    }

    fn answer_sized(mut self, envelope: Envelope, size: u64) -> Envelope {
        let upstream_ms = self.upstream_time.as_millis() as u64;
        self.journal.finish(&envelope, upstream_ms, size);
        envelope
    }

    fn seal(&mut self, served: Served) -> Envelope {
        if let Some(usage) = self.plan.usage {
            self.meta.tokens.input = usage.input;
            self.meta.tokens.output = usage.output;
            self.meta.tokens.counted = tokens::Counted::Usage;
        }
        self.meta.duration_ms = self.journal.elapsed_ms();
        let tool = self.plan.tool_id.clone();
        match served {
            Ok(data) => Envelope::ok(tool, data, self.meta.clone()),
            Err(Failed { error, .. }) => Envelope::error(tool, *error, self.meta.clone()),
        }
    }

    /// The result as the caller reads it, and its text. What is too long is shortened, and the whole kept
    /// where `read_result` finds it; what fits, as most results do, is not copied.
    async fn make_readable(&mut self, head: Option<&Tool>, data: Object) -> (Object, String) {
        let (limit, how) = head.map_or((reach_core::tool::MAX_RESULT_LENGTH, Shape::Clip), |tool| {
            (tool.spec.max_result_length, tool.spec.shape)
        });
        // Most results fit: they are written once, and neither copied nor shortened.
        let text = compact(&data);
        if self.whole || text.chars().count() <= limit {
            return (data, text);
        }
        let query = shape::query_of(&self.plan.arguments, self.plan.question.as_deref());
        let whole = data.clone();
        let shaped = if text.len() <= SHORTENED_IN_PLACE {
            shape::shorten(data, limit, how, &query)
        } else {
            // Megabytes take a second: not on a thread that other calls need.
            match tokio::task::spawn_blocking(move || shape::shorten(data, limit, how, &query)).await {
                Ok(shaped) => shaped,
                Err(defect) => std::panic::resume_unwind(defect.into_panic()),
            }
        };
        let Some(cut) = shaped.truncated else { return (shaped.data, text) };
        let (media_type, bytes) = shape::blob_of(&whole);
        let blob = self.spill(media_type, bytes).await;
        self.journal.add(EventKind::Shortened { shown: cut.shown, total: cut.total, blob: blob.clone() });
        self.meta.truncated = Some(Truncated { shown: cut.shown, total: cut.total, blob, how: cut.how.to_owned() });
        let text = compact(&shaped.data);
        (shaped.data, text)
    }

    /// Bytes that are no text: stored once, shown as type, size and reference.
    pub(super) async fn store_binary(&mut self, media_type: String, bytes: Vec<u8>) -> Object {
        // A type that a server declares does not make its bytes unreadable: what is text can be read back.
        let bytes = self.road.registry.scrubber.bytes(bytes);
        let size = bytes.len() as u64;
        let blob = self.spill(&media_type, bytes).await;
        self.meta.truncated = Some(Truncated { shown: 0, total: size, blob: blob.clone(), how: "binary".to_owned() });
        let mut data = Object::new();
        data.insert("binary".to_owned(), json!({ "media_type": media_type, "bytes": size, "blob": blob }));
        data
    }

    async fn spill(&mut self, media_type: &str, bytes: Vec<u8>) -> Option<String> {
        match self.road.stores.blobs.put(self.plan.caller.id.as_str(), media_type, bytes).await {
            Ok(id) => Some(id),
            Err(error) => {
                self.degraded("blobs", &format!("{error}; the whole result was not kept"));
                None
            }
        }
    }
}

fn compact(data: &Object) -> String {
    serde_json::to_string(data).unwrap_or_default()
}
