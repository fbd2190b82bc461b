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
use http::Method;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http_body_util::BodyExt;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

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
        let response: Response = service.handle(exact(request).await).await.map(Body::new);
        response
    })
}

/// The request with its call marked, where a number in it cannot be held.
async fn exact(request: Request) -> Request {
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
    Request::from_parts(parts, Body::from(bytes))
}
