//! Saying no over HTTP, before or beside the road.
//!
//! A refusal carries a code of the one table. Where a tool call is concerned it becomes the envelope, like
//! every other end of a call; everywhere else it becomes a problem document (RFC 9457) with our code as a
//! member. The status is the code's, unless HTTP has a more exact one for what was wrong with the request.

use std::any::Any;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use reach_core::{Envelope, ErrorBody, ErrorCode};

use super::wire;
use crate::auth::{Intruder, Unknown};

/// A request that was turned away.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) error: Box<ErrorBody>,
    pub(crate) status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { error: Box::new(ErrorBody::new(code, message)), status: status_of(code), headers: Vec::new() }
    }

    /// An error under a status of its own.
    pub(crate) fn of(status: StatusCode, error: ErrorBody) -> Self {
        Self { error: Box::new(error), status, headers: Vec::new() }
    }

    /// A request that is wrong in itself, with the reader's hint.
    pub(crate) fn malformed(status: StatusCode, message: impl Into<String>, hint: &str) -> Self {
        let mut error = ErrorBody::new(ErrorCode::InvalidArguments, message);
        error.hint = Some(hint.to_owned());
        Self { error: Box::new(error), status, headers: Vec::new() }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("there is no such {what}, or it is not available to this caller"))
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same as the end of a tool call.
    pub(crate) fn into_envelope(self, envelope: &Envelope) -> Response {
        let mut response = answer(envelope);
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers);
        response
    }
}

impl From<Intruder> for Refusal {
    fn from(intruder: Intruder) -> Self {
        match intruder {
            Intruder::NoHost => Self::malformed(StatusCode::BAD_REQUEST, intruder.to_string(), "Send one Host header."),
            Intruder::Host | Intruder::Origin | Intruder::CrossSite => {
                Self::new(ErrorCode::Forbidden, intruder.to_string())
            }
        }
    }
}

impl From<Unknown> for Refusal {
    fn from(unknown: Unknown) -> Self {
        let (message, challenge) = match unknown {
            Unknown::NoKey => ("a key is needed: Authorization: Bearer KEY", "Bearer realm=\"reach\""),
            Unknown::Key => ("the key is not known", "Bearer realm=\"reach\", error=\"invalid_token\""),
        };
        Self::new(ErrorCode::Unauthenticated, message)
            .with_header(WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
    }
}

impl From<reach_engine::store::StoreError> for Refusal {
    fn from(error: reach_engine::store::StoreError) -> Self {
        tracing::warn!(error = %error, "a reader found a store unavailable");
        let mut refusal = Self::new(ErrorCode::StoreUnavailable, format!("the {} cannot be read now", error.store));
        refusal.error.retryable = true;
        refusal
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { error, status, headers } = self;
        let problem = wire::Problem {
            r#type: format!("urn:reach:error:{}", error.code),
            title: error.code.row().meaning.to_owned(),
            status: status.as_u16(),
            detail: error.message,
            code: error.code.to_string(),
            hint: error.hint,
            retryable: error.retryable,
            retry_after_ms: error.retry_after_ms,
        };
        let mut response = axum::Json(problem).into_response();
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(wait) = error.retry_after_ms {
            response.headers_mut().insert(RETRY_AFTER, seconds(wait));
        }
        response.headers_mut().extend(headers);
        response
    }
}

/// The envelope as an HTTP answer: its code's status, its wait, its request id.
pub(crate) fn answer(envelope: &Envelope) -> Response {
    let mut response = axum::Json(envelope).into_response();
    *response.status_mut() = envelope.code().map_or(StatusCode::OK, status_of);
    let headers = response.headers_mut();
    if let Some(wait) = envelope.error.as_ref().and_then(|error| error.retry_after_ms) {
        headers.insert(RETRY_AFTER, seconds(wait));
    }
    if let Ok(id) = HeaderValue::from_str(envelope.meta.request_id.as_str()) {
        headers.insert(HeaderName::from_static("x-request-id"), id);
    }
    response
}

fn status_of(code: ErrorCode) -> StatusCode {
    StatusCode::from_u16(code.row().http_status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Retry-After counts whole seconds: rounded up, so that nobody comes back too early.
fn seconds(millis: u64) -> HeaderValue {
    HeaderValue::from(millis.div_ceil(1000))
}

pub(crate) async fn no_such_path() -> Refusal {
    let mut refusal = Refusal::new(ErrorCode::NotFound, "there is no such path");
    refusal.error.hint = Some("See /openapi.json for every path.".into());
    refusal
}

pub(crate) async fn no_such_method() -> Refusal {
    Refusal::malformed(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path does not take this method",
        "See the Allow header, or /openapi.json.",
    )
}

pub(crate) fn panicked(_panic: Box<dyn Any + Send + 'static>) -> Response<Body> {
    tracing::error!("a handler panicked");
    Refusal::new(ErrorCode::Internal, "the gateway failed; see its log").into_response()
}

/// The methods that a service of its own takes.
pub(crate) fn only(methods: &'static str) -> Refusal {
    Refusal::malformed(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method", "See the Allow header.")
        .with_header(ALLOW, HeaderValue::from_static(methods))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_rounded_up_to_whole_seconds() {
        assert_eq!(seconds(0), "0");
        assert_eq!(seconds(1), "1");
        assert_eq!(seconds(1000), "1");
        assert_eq!(seconds(1001), "2");
    }

    #[test]
    fn every_code_of_the_table_has_a_real_status() {
        for row in reach_core::error::TABLE {
            assert_eq!(status_of(row.code).as_u16(), row.http_status, "{}", row.name);
        }
    }
}
