//! The one way from any surface onto the road: it counts, and turns a defect into an envelope.
//!
//! A surface that cannot even build a plan (text that is no JSON, a key that is no key) still answers with
//! an envelope and leaves an event, so that the journal knows every call that was ever tried.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use reach_core::exact::ExactError;
use reach_core::{Envelope, ErrorBody, ErrorCode, Event, EventKind, JournalRow, Meta, Phase, Plan};
use reach_engine::Engine;
use serde_json::Value;
use tokio::time::Instant;

use crate::metrics::Metrics;

/// The engine as surfaces use it. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(crate) struct Road {
    pub(crate) engine: Engine,
    pub(crate) metrics: Arc<Metrics>,
}

impl Road {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine, metrics: Arc::default() }
    }

    /// Walks the road. Dropping the future is how a caller's leaving reaches the engine, which aborts a
    /// read and finishes in the background what was sent.
    pub(crate) async fn call(&self, plan: Plan) -> Envelope {
        let _under_way = self.metrics.begin();
        let started = Instant::now();
        let (tool, meta) = (plan.tool_id.clone(), Meta::of(&plan));
        let envelope = match AssertUnwindSafe(self.engine.call(plan)).catch_unwind().await {
            Ok(envelope) => envelope,
            Err(_) => {
                let duration_ms = millis(started.elapsed());
                tracing::error!(trace_id = %meta.trace_id, tool_id = %tool, "the road panicked");
                // Nobody knows how far it got, so the phase errs towards the unsafe side.
                let meta = Meta { duration_ms, phase: Phase::MaybeSent, ..meta };
                Envelope::error(tool, ErrorBody::new(ErrorCode::Internal, "the gateway failed; see its log"), meta)
            }
        };
        self.metrics.count(&envelope, started.elapsed());
        envelope
    }

    /// Answers a call that never became a plan, and leaves its event.
    pub(crate) fn refuse(&self, plan: &Plan, error: ErrorBody) -> Envelope {
        let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis);
        let event = |kind| Event { at_ms, kind };
        let (code, message) = (error.code, error.message.clone());
        self.engine.ledger().append(JournalRow {
            at_ms,
            trace_id: plan.trace_id.clone(),
            session_id: plan.session_id.clone(),
            request_id: plan.request_id.clone(),
            step: plan.step,
            tool_id: plan.tool_id.clone(),
            caller: plan.caller.id.clone(),
            events: vec![
                event(EventKind::Received { input: Value::Null, effect: None }),
                event(EventKind::Refused { code, reason: code, detail: message.clone() }),
                event(EventKind::Finished {
                    code: Some(code),
                    attempts: 0,
                    duration_ms: 0,
                    upstream_ms: 0,
                    served_by: None,
                    phase: Phase::Rejected,
                    replayed: false,
                    result_size: 0,
                    tokens: Default::default(),
                    message: Some(message),
                }),
            ],
        });
        let envelope = Envelope::error(plan.tool_id.clone(), error, Meta::of(plan));
        self.metrics.count(&envelope, Duration::ZERO);
        envelope
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What a caller reads about arguments that no value can hold exactly.
pub(crate) fn error_body(error: &ExactError) -> ErrorBody {
    let refusal = error.refusal();
    let mut body = ErrorBody::new(ErrorCode::InvalidArguments, refusal.message);
    body.details = Some(serde_json::json!({ "problems": refusal.problems }));
    body
}

/// The trace id of a W3C `traceparent`, if it is one.
pub(crate) fn trace_of(traceparent: &str) -> Option<&str> {
    let mut parts = traceparent.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let known = hex(version, 2) && version != "ff" && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
    let more = parts.next().is_some() && version == "00";
    (known && !more && trace.bytes().any(|byte| byte != b'0')).then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_id_is_taken_from_a_well_formed_traceparent_only() {
        let id = "0af7651916cd43dd8448eb211c80319c";
        assert_eq!(trace_of(&format!("00-{id}-b7ad6b7169203331-01")), Some(id));
        assert_eq!(trace_of(&format!("01-{id}-b7ad6b7169203331-01-more")), Some(id));
        for bad in [
            "",
            "00",
            &format!("00-{id}-b7ad6b7169203331"),
            &format!("00-{id}-b7ad6b7169203331-01-more"),
            &format!("ff-{id}-b7ad6b7169203331-01"),
            &format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            &format!("00-{}-b7ad6b7169203331-01", id.to_uppercase()),
        ] {
            assert_eq!(trace_of(bad), None, "{bad}");
        }
    }
}
