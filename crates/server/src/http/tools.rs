//! The tools, as this caller sees them.

use std::sync::Arc;

use axum::Extension;
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use reach_core::ToolId;
use serde::Deserialize;

use super::refusal::Refusal;
use super::{Surface, wire};
use crate::auth::Identity;
use crate::mcp;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    format: Option<String>,
}

pub(super) async fn list(
    State(surface): State<Arc<Surface>>,
    Extension(Identity(caller)): Extension<Identity>,
    query: Result<Query<Listing>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(listing) = query.map_err(bad_query)?;
    let tools = surface.road.engine.tools(&caller);
    match listing.format.as_deref() {
        None => {
            let tools = tools.iter().map(|spec| wire::Tool::from(&**spec)).collect();
            Ok(Json(wire::Tools { tools }).into_response())
        }
        Some("mcp") => {
            let tools = mcp::listing(&tools).map_err(|error| Refusal::new(reach_core::ErrorCode::Internal, error))?;
            Ok(Json(serde_json::json!({ "tools": tools })).into_response())
        }
        Some(other) => Err(Refusal::malformed(
            StatusCode::BAD_REQUEST,
            format!("the format {other:?} is not supported yet"),
            "Leave format out for Reach's own listing, or say format=mcp.",
        )),
    }
}

pub(super) async fn one(
    State(surface): State<Arc<Surface>>,
    Extension(Identity(caller)): Extension<Identity>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::Tool>, Refusal> {
    let Path(tool_id) = path.map_err(|_| Refusal::not_found("tool"))?;
    let spec = surface.road.engine.tool(&caller, &ToolId::asked(tool_id));
    let spec = spec.ok_or_else(|| Refusal::new(reach_core::ErrorCode::ToolNotFound, ""))?;
    Ok(Json(wire::Tool::from(&*spec)))
}

pub(super) fn bad_query(rejection: QueryRejection) -> Refusal {
    Refusal::malformed(StatusCode::BAD_REQUEST, rejection.body_text(), "Correct the query.")
}
