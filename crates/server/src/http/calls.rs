//! A tool call over HTTP: from a request to a plan, from the envelope to an answer.
//!
//! When the client closes the connection, hyper drops this handler's future and with it the call's: what
//! only reads is aborted, a write that was sent is finished by the engine and answers the same key later.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use reach_core::exact::parse_arguments;
use reach_core::ids::IdError;
use reach_core::plan::Usage;
use reach_core::{Object, Plan, RequestId, SessionId, TraceId};

use super::refusal::{Refusal, answer};
use super::{Surface, wire};
use crate::auth::Identity;
use crate::road::{error_body, trace_of};

pub(super) async fn call(
    State(surface): State<Arc<Surface>>,
    Extension(Identity(caller)): Extension<Identity>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let tool_id = path.map_or_else(|_| String::new(), |Path(tool_id)| tool_id);
    let mut plan = Plan::new(tool_id, Object::new(), caller);
    if let Err(refusal) = fill(&mut plan, &headers, &body) {
        let envelope = surface.road.refuse(&plan, (*refusal.error).clone());
        return refusal.into_envelope(&envelope);
    }
    answer(&surface.road.call(plan).await)
}

/// Puts what the caller said into the plan. What was understood before a mistake is kept, so that the
/// refusal still names the request.
fn fill(plan: &mut Plan, headers: &HeaderMap, body: &[u8]) -> Result<(), Refusal> {
    if let Some(key) = key(headers)? {
        *plan = plan.clone().with_key(key);
    }
    if let Some(trace) = headers.get("traceparent").and_then(|value| trace_of(value.to_str().ok()?)) {
        plan.trace_id = TraceId::new(trace);
    }
    let request = parse(body)?;
    if let Some(session_id) = request.session_id {
        plan.session_id = SessionId::parse(&session_id).map_err(|error| unfit("session_id", error))?;
    }
    if let Some(trace_id) = request.trace_id {
        plan.trace_id = TraceId::parse(&trace_id).map_err(|error| unfit("trace_id", error))?;
    }
    if request.timeout_ms == Some(0) {
        return Err(wrong("timeout_ms is 0", "Leave timeout_ms out, or give the call at least one millisecond."));
    }
    if let Some(arguments) = request.arguments {
        plan.arguments = parse_arguments(arguments.get())
            .map_err(|error| Refusal::of(StatusCode::BAD_REQUEST, error_body(&error)))?;
    }
    plan.timeout = request.timeout_ms.map(Duration::from_millis);
    plan.priority = request.priority.map(Into::into).unwrap_or_default();
    plan.on_failure = request.on_failure.map(Into::into).unwrap_or_default();
    plan.step = request.step.unwrap_or_default();
    plan.question = request.question;
    plan.usage = request.usage.map(usage).transpose()?;
    Ok(())
}

fn key(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut keys = headers.get_all("idempotency-key").iter();
    match (keys.next(), keys.next()) {
        (None, _) => Ok(None),
        (Some(key), None) => {
            let text = key.to_str().map_err(|_| IdError::Key);
            let fit = text.and_then(|text| RequestId::parse(text).map(|_| text));
            fit.map(Some).map_err(|error| {
                wrong(format!("the Idempotency-Key {error}"), "Use a UUID, a fresh one for each new request.")
            })
        }
        (Some(_), Some(_)) => Err(wrong("there are two Idempotency-Key headers", "Send one.")),
    }
}

fn parse(body: &[u8]) -> Result<wire::CallRequest, Refusal> {
    const SHAPE: &str = "Send {\"arguments\": {...}}; see /openapi.json for the other fields.";
    serde_json::from_slice(body).map_err(|error| wrong(format!("the body cannot be read: {error}"), SHAPE))
}

/// Figures above this are a mistake: no model turn is a trillion tokens, and sums of them have to stay whole.
const USAGE_MAX: u64 = 1 << 40;

fn usage(given: wire::UsageFigures) -> Result<Usage, Refusal> {
    for (field, tokens) in [("input", given.input), ("output", given.output)] {
        if tokens > USAGE_MAX {
            return Err(wrong(
                format!("usage.{field} is {tokens} tokens; at most {USAGE_MAX} are taken"),
                "Give the tokens of the one model turn that led to this call, or leave usage out.",
            ));
        }
    }
    Ok(Usage { input: given.input, output: given.output })
}

fn unfit(field: &str, error: IdError) -> Refusal {
    wrong(format!("{field} {error}"), "Leave it out, or shorten it.")
}

fn wrong(message: impl Into<String>, hint: &str) -> Refusal {
    Refusal::malformed(StatusCode::BAD_REQUEST, message, hint)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use reach_core::{Caller, OnFailure, Priority};

    use super::*;

    fn filled(headers: &[(&'static str, &'static str)], body: &str) -> Result<Plan, Refusal> {
        let headers = headers
            .iter()
            .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let mut plan = Plan::new("t", Object::new(), Caller::local());
        fill(&mut plan, &headers, body.as_bytes()).map(|()| plan)
    }

    #[test]
    fn everything_a_caller_says_reaches_the_plan() {
        let plan = filled(
            &[("idempotency-key", "k-1")],
            r#"{"arguments":{"n":18446744073709551615},"timeout_ms":5,"priority":"high","on_failure":"return",
               "session_id":"s","trace_id":"t","step":3,"question":"why","usage":{"input":7,"output":8}}"#,
        )
        .unwrap();
        assert_eq!(plan.request_id.as_str(), "k-1");
        assert!(plan.keyed_by_caller);
        assert_eq!(plan.arguments["n"].to_string(), "18446744073709551615");
        assert_eq!(plan.timeout, Some(Duration::from_millis(5)));
        assert_eq!((plan.priority, plan.on_failure), (Priority::High, OnFailure::Return));
        assert_eq!((plan.session_id.as_str(), plan.trace_id.as_str(), plan.step), ("s", "t", 3));
        assert_eq!(plan.question.as_deref(), Some("why"));
        assert_eq!(plan.usage, Some(Usage { input: 7, output: 8 }));
    }

    #[test]
    fn the_trace_comes_from_traceparent_unless_the_body_says_otherwise() {
        let parent = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        assert_eq!(filled(&[parent], "{}").unwrap().trace_id.as_str(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(filled(&[parent], r#"{"trace_id":"mine"}"#).unwrap().trace_id.as_str(), "mine");
        assert!(filled(&[("traceparent", "junk")], "{}").unwrap().trace_id.as_str().starts_with("tr_"));
    }

    #[test]
    fn the_largest_usage_that_is_taken_reaches_the_plan() {
        let plan = filled(&[], r#"{"usage":{"input":1099511627776,"output":1099511627776}}"#).unwrap();
        assert_eq!(plan.usage, Some(Usage { input: 1 << 40, output: 1 << 40 }));
    }

    #[test]
    fn a_call_without_a_key_is_not_keyed() {
        let plan = filled(&[], "{}").unwrap();
        assert!(!plan.keyed_by_caller && plan.arguments.is_empty());
    }

    #[test]
    fn what_cannot_be_understood_is_refused_by_name() {
        let check = |headers: &[(&'static str, &'static str)], body: &str, word: &str| {
            let refusal = filled(headers, body).unwrap_err();
            assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
            assert!(refusal.error.message.contains(word), "{body}: {}", refusal.error.message);
        };
        check(&[("idempotency-key", "a b")], "{}", "Idempotency-Key");
        check(&[("idempotency-key", "")], "{}", "Idempotency-Key");
        check(&[("idempotency-key", "a"), ("idempotency-key", "b")], "{}", "two Idempotency-Key");
        check(&[], r#"{"argumnets":{}}"#, "argumnets");
        check(&[], r#"{"arguments":[]}"#, "");
        check(&[], r#"{"timeout_ms":0}"#, "timeout_ms");
        check(&[], r#"{"timeout_ms":-1}"#, "");
        check(&[], r#"{"priority":"urgent"}"#, "urgent");
        check(&[], r#"{"session_id":""}"#, "session_id");
        check(&[], r#"{"trace_id":"a\u0000"}"#, "trace_id");
        check(&[], r#"{"usage":{"input":1099511627777,"output":0}}"#, "usage.input");
        check(&[], r#"{"usage":{"input":0,"output":18446744073709551615}}"#, "usage.output");
        check(&[], r#"{"usage":{"input":-1,"output":0}}"#, "");
        check(&[], r#"{"arguments":{"n":18446744073709551616}}"#, "18446744073709551616");
        check(&[], "", "");
        check(&[], "[]", "");
        check(&[], "{", "");
    }
}
