//! The door of the API: everything that is the same for every request, in order.
//!
//! Is it addressed to us and not by a foreign page; who is calling; is a POST really JSON (so that a plain
//! form of a web page cannot be one); has the body arrived whole, in time and in size. Only then does a
//! handler run. Each refusal here has happened before anything else did.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE,
    VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use reach_core::{Caller, Object, Plan, RequestId};
use tokio::time::timeout;

use super::refusal::Refusal;
use super::{Access, Surface, endpoints};
use crate::auth::{Identity, Passage};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub(super) async fn guard(State(surface): State<Arc<Surface>>, request: Request, next: Next) -> Response {
    let echo = request
        .headers()
        .get(&X_REQUEST_ID)
        .filter(|id| id.to_str().is_ok_and(|id| RequestId::parse(id).is_ok()))
        .cloned();
    let passage = match surface.gate.check(request.uri(), request.headers()) {
        Ok(passage) => passage,
        Err(intruder) => return named(refused(&request, intruder.into()), echo),
    };
    let response = if request.method() == Method::OPTIONS && passage != Passage::Program {
        preflight()
    } else {
        match admit(&surface, request).await {
            Ok(request) => next.run(request).await,
            Err(response) => *response,
        }
    };
    named(shared(response, passage), echo)
}

/// Who is calling, and with what body. The error is an answer, ready to send.
async fn admit(surface: &Surface, mut request: Request) -> Result<Request, Box<Response>> {
    let access = access(&request);
    if access != Access::Open {
        match surface.callers.identify(request.headers(), surface.loopback) {
            Ok(Identity(caller)) => {
                if access == Access::Operator && !is_operator(&caller) {
                    let message = format!("this needs the scope {}", crate::OPERATE);
                    return Err(Box::new(Refusal::new(reach_core::ErrorCode::Forbidden, message).into_response()));
                }
                request.extensions_mut().insert(Identity(caller));
            }
            Err(unknown) => return Err(Box::new(refused(&request, unknown.into()))),
        }
    }
    if request.method() == Method::POST {
        if !is_json(request.headers()) {
            let refusal = Refusal::malformed(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body has to be JSON and say so",
                "Send Content-Type: application/json.",
            );
            return Err(Box::new(refused(&request, refusal)));
        }
        let (parts, body) = request.into_parts();
        let read = read_body(&parts.headers, body, surface.max_body_bytes, surface.body_timeout).await;
        return match read {
            Ok(bytes) => Ok(Request::from_parts(parts, Body::from(bytes))),
            Err(refusal) => Err(Box::new(refused(&Request::from_parts(parts, Body::empty()), refusal))),
        };
    }
    // No other method has a body with a meaning; one is never read.
    Ok(request)
}

async fn read_body(headers: &HeaderMap, body: Body, cap: usize, patience: Duration) -> Result<bytes::Bytes, Refusal> {
    let too_large = || {
        Refusal::malformed(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is larger than {cap} bytes"),
            "Send less, or ask the operator to raise the limit.",
        )
        .with_header(CONNECTION, HeaderValue::from_static("close"))
    };
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|declared| declared > cap as u64) {
        return Err(too_large());
    }
    match timeout(patience, Limited::new(body, cap).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Refusal::malformed(
            StatusCode::BAD_REQUEST,
            "the body broke off",
            "Nothing happened; send the request again.",
        )),
        Err(_) => {
            let mut refusal = Refusal::malformed(
                StatusCode::REQUEST_TIMEOUT,
                format!("the body did not arrive within {} ms", patience.as_millis()),
                "Nothing happened; send the request again, faster.",
            );
            refusal.error.retryable = true;
            Err(refusal.with_header(CONNECTION, HeaderValue::from_static("close")))
        }
    }
}

/// `application/json` or a `+json` type: nothing that a form or a plain cross-origin request can send.
fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let Ok(text) = value.to_str() else { return false };
    let kind = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

pub(crate) fn is_operator(caller: &Caller) -> bool {
    caller.scopes.allow(Some(crate::OPERATE))
}

/// Who may use the route that was matched. A path that no route has is a caller's matter, so that strangers
/// learn nothing.
fn access(request: &Request) -> Access {
    static OTHERS: LazyLock<Vec<(&'static str, Access)>> = LazyLock::new(|| {
        let others = endpoints().into_iter().filter(|endpoint| endpoint.access != Access::Caller);
        others.map(|endpoint| (endpoint.path, endpoint.access)).collect()
    });
    let matched = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    OTHERS.iter().find(|(path, _)| *path == matched).map_or(Access::Caller, |(_, access)| *access)
}

/// A refusal in the shape that this request expects.
fn refused(request: &Request, refusal: Refusal) -> Response {
    match tool_called(request.method(), request.uri().path()) {
        Some(tool) => {
            let plan = Plan::new(tool, Object::new(), Caller::local());
            let meta = reach_core::Meta::of(&plan);
            let envelope = reach_core::Envelope::error(plan.tool_id, (*refusal.error).clone(), meta);
            refusal.into_envelope(&envelope)
        }
        None => refusal.into_response(),
    }
}

/// The tool, where the request is a tool call.
fn tool_called(method: &Method, path: &str) -> Option<String> {
    let tool = path.strip_prefix("/v1/tools/")?.strip_suffix("/calls")?;
    (method == Method::POST && !tool.contains('/')).then(|| decoded(tool))
}

fn decoded(segment: &str) -> String {
    let mut bytes = segment.bytes();
    let mut text = Vec::with_capacity(segment.len());
    while let Some(byte) = bytes.next() {
        let escaped = (byte == b'%').then(|| {
            let mut rest = bytes.clone();
            let pair = [rest.next()?, rest.next()?];
            u8::from_str_radix(std::str::from_utf8(&pair).ok()?, 16).ok()
        });
        match escaped.flatten() {
            Some(decoded) => {
                bytes.nth(1);
                text.push(decoded);
            }
            None => text.push(byte),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn preflight() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(
        ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static(
            "authorization, content-type, idempotency-key, traceparent, tracestate, x-request-id, \
             mcp-protocol-version, mcp-method, mcp-name",
        ),
    );
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Lets an allowed page read the answer.
fn shared(mut response: Response, passage: Passage) -> Response {
    if let Passage::Page(origin) = passage {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("x-request-id, retry-after"));
        headers.append(VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// What every answer carries: the name of its request (a call's request id, else what the client sent), and
/// that it is nobody else's to keep or to reinterpret.
fn named(mut response: Response, echo: Option<HeaderValue>) -> Response {
    let headers = response.headers_mut();
    if !headers.contains_key(&X_REQUEST_ID) {
        let fresh = || HeaderValue::from_str(RequestId::fresh().as_str()).ok();
        if let Some(id) = echo.or_else(fresh) {
            headers.insert(X_REQUEST_ID, id);
        }
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_types_are_json() {
        let check =
            |kind: &'static str| is_json(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]));
        assert!(check("application/json") && check("Application/JSON; charset=utf-8") && check("application/x+json"));
        for form in
            ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/x+json"]
        {
            assert!(!check(form), "{form}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }

    #[test]
    fn a_tool_call_is_recognised_by_its_path_and_its_tool_is_decoded() {
        let tool = |path: &str| tool_called(&Method::POST, path);
        assert_eq!(tool("/v1/tools/a.b/calls").as_deref(), Some("a.b"));
        assert_eq!(tool("/v1/tools/%E6%9F%A5/calls").as_deref(), Some("查"));
        assert_eq!(tool("/v1/tools/100%/calls").as_deref(), Some("100%"));
        assert_eq!(tool("/v1/tools/a/b/calls"), None);
        assert_eq!(tool("/v1/tools/a"), None);
        assert_eq!(tool_called(&Method::GET, "/v1/tools/a/calls"), None);
    }
}
