//! What machines ask: alive, ready, figures, and the description of the API itself.
//!
//! The probes are open to everybody who can reach the listener, and therefore say one word only; why the
//! gateway is not ready is in its log and in `GET /v1/health`.

use std::sync::{Arc, LazyLock};

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use reach_core::ErrorCode;

use super::refusal::Refusal;
use super::{Surface, wire};

pub(super) async fn alive() -> Json<wire::Probe> {
    Json(wire::Probe { status: "ok" })
}

pub(super) async fn ready(State(surface): State<Arc<Surface>>) -> Result<Json<wire::Probe>, Refusal> {
    match surface.road.engine.ready().await {
        Ok(()) => Ok(Json(wire::Probe { status: "ok" })),
        Err(reason) => {
            tracing::debug!(reason = %reason, "not ready");
            Err(Refusal::new(ErrorCode::StoreUnavailable, "not ready; see the log or /v1/health"))
        }
    }
}

pub(super) async fn metrics(State(surface): State<Arc<Surface>>) -> Response {
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    let health = surface.road.engine.health().await;
    ([(CONTENT_TYPE, kind)], surface.road.metrics.text(&health)).into_response()
}

pub(super) async fn openapi() -> Response {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| crate::openapi::document().to_string());
    let kind = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, kind)], DOCUMENT.as_str()).into_response()
}
