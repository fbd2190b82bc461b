//! MCP under `/mcp`: stateless, one POST per message.
//!
//! [`crate::http`] has already checked Host, Origin and key and has read the body. No sessions are given
//! out, so that any instance can answer any request: a request that shows a session id comes from before
//! a restart or from somebody else, and is told so with 404, upon which clients start anew.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::exactness;
use super::handler::Handler;
use crate::auth::Identity;
use crate::http::{Mount, Refusal, only};

/// The service for the router.
pub(crate) fn mount<S: Clone + Send + Sync + 'static>(mount: &Mount) -> MethodRouter<S> {
    let (road, stop) = (mount.road(), mount.stop());
    // Host and Origin are checked by the gate for every path alike.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(mount.max_body_bytes())
        .with_cancellation_token(stop.clone())
        .disable_allowed_hosts()
        .disable_allowed_origins();
    any(move |Extension(Identity(caller)): Extension<Identity>, request: Request| async move {
        if request.headers().contains_key("mcp-session-id") {
            return Refusal::not_found("session").into_response();
        }
        if request.method() != Method::POST {
            return only("POST").into_response();
        }
        let factory =
            move || Ok(Handler { road: road.clone(), caller: caller.clone(), session: None, stop: stop.clone() });
        let service = StreamableHttpService::new(factory, Arc::new(NeverSessionManager::default()), config);
        let (request, body) = exact(request).await;
        let response: Response = service.handle(request).await.map(Body::new);
        if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            // What `rmcp` cannot read it calls a wrong media type, in plain text.
            return unreadable(&body).unwrap_or(response);
        }
        response
    })
}

/// The request with its call marked, where a number in it cannot be held, and its body.
async fn exact(request: Request) -> (Request, Bytes) {
    let (mut parts, body) = request.into_parts();
    // The body was read by the guard: this neither waits nor fails.
    let bytes = body.collect().await.map(|collected| collected.to_bytes()).unwrap_or_default();
    let bytes = match exactness::marked(&bytes) {
        Some(marked) => {
            parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(marked.len()));
            marked.into()
        }
        None => bytes,
    };
    (Request::from_parts(parts, Body::from(bytes.clone())), bytes)
}

/// What is said about a body that is no message, as JSON-RPC says it; `None` if it is one.
fn unreadable(body: &[u8]) -> Option<Response> {
    let (code, message) = match serde_json::from_slice::<IgnoredAny>(body) {
        Err(error) => (-32700, format!("the body is not JSON: {error}")),
        Ok(_) if serde_json::from_slice::<ClientJsonRpcMessage>(body).is_ok() => return None,
        Ok(_) if body.trim_ascii_start().starts_with(b"[") => {
            (-32600, "a list is not taken: send one JSON-RPC message a request".to_owned())
        }
        Ok(_) => (-32600, "the body is not a JSON-RPC 2.0 message".to_owned()),
    };
    let id = serde_json::from_slice::<Value>(body).ok().and_then(|message| message.get("id").cloned());
    let id = id.filter(|id| id.is_string() || id.is_i64() || id.is_u64()).unwrap_or_default();
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    Some((StatusCode::BAD_REQUEST, axum::Json(error)).into_response())
}
