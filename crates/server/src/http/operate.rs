//! What operators look at and do by hand: health, breakers, unknown outcomes.

use std::sync::Arc;

use axum::Extension;
use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use http::StatusCode;
use reach_core::breaker::StateName;
use reach_core::{CallerId, Envelope, ErrorCode, Meta, Object, Phase, Plan, RequestId, ToolId};
use reach_engine::store::ledger::{Ending, RecordKey, Unsettled};

use super::guard::is_operator;
use super::refusal::Refusal;
use super::{Surface, wire};
use crate::auth::Identity;

/// How many unknown outcomes are listed.
const UNSETTLED_MAX: u32 = 1000;

pub(super) async fn health(
    State(surface): State<Arc<Surface>>,
    Extension(Identity(caller)): Extension<Identity>,
) -> Result<Json<wire::Health>, Refusal> {
    let engine = &surface.road.engine;
    let report = engine.health().await;
    let operator = is_operator(&caller);
    let seen = |tool_id: &str| operator || engine.tool(&caller, &ToolId::asked(tool_id)).is_some();
    let mut tools = Vec::new();
    for tool in report.tools.iter().filter(|tool| seen(&tool.tool_id)) {
        let figures = serde_json::to_value(tool);
        tools.push(figures.map_err(|_| Refusal::new(ErrorCode::Internal, "the figures cannot be shown"))?);
    }
    Ok(Json(wire::Health {
        tools,
        breakers: operator.then(|| report.breakers.into_iter().map(Into::into).collect()),
        degraded: operator.then_some(report.degraded),
    }))
}

pub(super) async fn breaker(
    State(surface): State<Arc<Surface>>,
    body: Result<Json<wire::BreakerRequest>, JsonRejection>,
) -> Result<Json<wire::BreakerMoved>, Refusal> {
    let Json(request) = body.map_err(bad_body)?;
    if request.reason.trim().is_empty() || request.reason.chars().count() > 500 {
        return Err(Refusal::malformed(
            StatusCode::BAD_REQUEST,
            "reason is empty or longer than 500 characters",
            "Say why in a sentence; everybody who is refused will read it.",
        ));
    }
    let state = match request.state {
        wire::BreakerWord::Closed => StateName::Closed,
        wire::BreakerWord::ForcedOpen => StateName::ForcedOpen,
        wire::BreakerWord::Disabled => StateName::Disabled,
    };
    let moved = surface.road.engine.force(&request.target, state, &request.reason).await?;
    let moved = moved.ok_or_else(|| Refusal::not_found("target"))?;
    tracing::info!(target_name = %request.target, from = moved.from.as_str(), to = moved.to.as_str(), reason = %request.reason, "a breaker was set by hand");
    Ok(Json(wire::BreakerMoved {
        target: request.target,
        from: moved.from.as_str().to_owned(),
        to: moved.to.as_str().to_owned(),
    }))
}

pub(super) async fn unsettled(State(surface): State<Arc<Surface>>) -> Result<Json<wire::UnsettledList>, Refusal> {
    let records = surface.road.engine.ledger().unsettled(UNSETTLED_MAX).await?;
    Ok(Json(wire::UnsettledList { unsettled: records.into_iter().map(Into::into).collect() }))
}

pub(super) async fn settle(
    State(surface): State<Arc<Surface>>,
    body: Result<Json<wire::SettleRequest>, JsonRejection>,
) -> Result<Json<wire::Settled>, Refusal> {
    let Json(request) = body.map_err(bad_body)?;
    let key = RecordKey {
        caller: CallerId::new(&request.caller),
        tool_id: ToolId::asked(&request.tool_id),
        request_id: RequestId::new(&request.request_id),
    };
    let ledger = surface.road.engine.ledger();
    let records = ledger.unsettled(u32::MAX).await?;
    let mine = |record: &&Unsettled| {
        record.caller == key.caller && record.tool_id == key.tool_id && record.request_id == key.request_id
    };
    let record = records.iter().find(mine).ok_or_else(|| Refusal::not_found("unsettled request"))?;
    let ending =
        if request.done { Ending::Done { envelope: settled(record, request.data)? } } else { Ending::Released };
    if !ledger.settle(key, ending).await? {
        return Err(Refusal::not_found("unsettled request"));
    }
    Ok(Json(wire::Settled { request_id: request.request_id, done: request.done }))
}

/// The envelope that answers the key from now on.
fn settled(record: &Unsettled, data: Object) -> Result<String, Refusal> {
    let mut plan = Plan::new(record.tool_id.as_str(), Object::new(), reach_core::Caller::local());
    plan.request_id = record.request_id.clone();
    plan.trace_id = record.trace_id.clone();
    plan.session_id = record.session_id.clone();
    let meta = Meta { phase: Phase::Answered, served_by: Some(record.tool_id.clone()), ..Meta::of(&plan) };
    serde_json::to_string(&Envelope::ok(record.tool_id.clone(), data, meta))
        .map_err(|_| Refusal::new(ErrorCode::Internal, "the envelope cannot be written"))
}

fn bad_body(rejection: JsonRejection) -> Refusal {
    Refusal::malformed(StatusCode::BAD_REQUEST, rejection.body_text(), "See /openapi.json for the body of this path.")
}
