//! Readers of the journal. A caller sees the rows of its own calls only, and a trace or session that holds
//! none of them does not exist for it; an operator sees all.

use std::sync::Arc;

use axum::Extension;
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use http::StatusCode;
use reach_core::{Caller, ErrorCode, JournalRow, SessionId, TraceId};
use reach_journal::timeline::Timeline;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::guard::is_operator;
use super::refusal::Refusal;
use super::{Surface, wire};
use crate::auth::Identity;

pub(super) async fn trace(
    State(surface): State<Arc<Surface>>,
    Extension(Identity(caller)): Extension<Identity>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::Trace>, Refusal> {
    let Path(trace_id) = path.map_err(|_| Refusal::not_found("trace"))?;
    let ledger = surface.road.engine.ledger();
    let rows = visible(ledger.trace(TraceId::new(&trace_id)).await?, &caller);
    if rows.is_empty() {
        return Err(Refusal::not_found("trace"));
    }
    let rows = rows.iter().map(json).collect::<Result<_, _>>()?;
    Ok(Json(wire::Trace { trace_id, rows }))
}

pub(super) async fn timeline(
    State(surface): State<Arc<Surface>>,
    Extension(Identity(caller)): Extension<Identity>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::SessionTimeline>, Refusal> {
    let Path(session_id) = path.map_err(|_| Refusal::not_found("session"))?;
    let ledger = surface.road.engine.ledger();
    let rows = visible(ledger.session(SessionId::new(&session_id)).await?, &caller);
    if rows.is_empty() {
        return Err(Refusal::not_found("session"));
    }
    let timeline = json(&Timeline::of(&rows))?;
    Ok(Json(wire::SessionTimeline { session_id, timeline }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Newest {
    limit: Option<u32>,
}

pub(super) async fn sessions(
    State(surface): State<Arc<Surface>>,
    Extension(Identity(caller)): Extension<Identity>,
    query: Result<Query<Newest>, QueryRejection>,
) -> Result<Json<wire::Sessions>, Refusal> {
    let Query(newest) = query.map_err(super::tools::bad_query)?;
    let limit = newest.limit.unwrap_or(50);
    if !(1..=1000).contains(&limit) {
        return Err(Refusal::malformed(
            StatusCode::BAD_REQUEST,
            format!("limit is {limit}"),
            "Ask for 1 to 1000 sessions.",
        ));
    }
    let ledger = surface.road.engine.ledger();
    let lines =
        if is_operator(&caller) { ledger.sessions(limit).await? } else { ledger.sessions_of(caller.id, limit).await? };
    Ok(Json(wire::Sessions { sessions: lines.into_iter().map(Into::into).collect() }))
}

fn visible(mut rows: Vec<JournalRow>, caller: &Caller) -> Vec<JournalRow> {
    if !is_operator(caller) {
        rows.retain(|row| row.caller == caller.id);
    }
    rows
}

fn json(value: &impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| {
        tracing::error!(error = %error, "the journal holds what cannot be written as JSON");
        Refusal::new(ErrorCode::Internal, "the journal cannot be shown; see the log")
    })
}
