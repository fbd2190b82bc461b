//! The HTTP API: one table of endpoints, from which both the router and the OpenAPI document are built.
//!
//! Handlers are thin: parse, ask the engine or the ledger, wrap. [`guard`] has already decided who is
//! calling and has read the body; [`refusal`] says no in the shape the caller expects.

mod calls;
mod guard;
mod journal;
mod operate;
mod probes;
mod refusal;
mod tools;
pub(crate) mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};
use http::Method;
use reach_engine::Engine;
use schemars::{Schema, SchemaGenerator};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

use crate::Settings;
use crate::auth::{Callers, Gate, is_loopback};
use crate::mcp;
use crate::road::Road;

pub(crate) use refusal::{Refusal, only};

/// What every handler may need.
pub(crate) struct Surface {
    pub(crate) road: Road,
    callers: Callers,
    gate: Gate,
    loopback: bool,
    max_body_bytes: usize,
    body_timeout: Duration,
}

/// One endpoint: how it is reached, what it is for, and who serves it.
pub(crate) struct Endpoint {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// The operation id of the OpenAPI document.
    pub(crate) id: &'static str,
    /// One sentence for readers of the API.
    pub(crate) summary: &'static str,
    pub(crate) access: Access,
    /// Parameters in the query and in headers; those of the path are read from it.
    pub(crate) parameters: &'static [Parameter],
    pub(crate) request: Option<SchemaOf>,
    pub(crate) answer: Body,
    /// The body is the envelope whatever happens.
    pub(crate) envelope: bool,
    handler: fn(&Mount) -> MethodRouter<Arc<Surface>>,
}

pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Who may use an endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody who can reach the listener.
    Open,
    /// Every caller.
    Caller,
    /// Callers with the scope `reach:operate`.
    Operator,
}

/// A parameter that is not part of the path.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) place: &'static str,
    pub(crate) summary: &'static str,
}

/// What a successful answer holds.
pub(crate) enum Body {
    Json(SchemaOf),
    /// JSON of a shape that another document defines.
    Foreign(&'static str),
    Text(&'static str),
}

/// What endpoints that are services of their own are built from.
pub(crate) struct Mount {
    road: Road,
    max_body_bytes: usize,
    stop: CancellationToken,
}

fn schema<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const CALL_HEADERS: &[Parameter] = &[
    Parameter {
        name: "Idempotency-Key",
        place: "header",
        summary: "Names the request: 1 to 255 visible ASCII characters. The same key with the same arguments is \
                  carried out once and answered again; with others it is refused.",
    },
    Parameter { name: "traceparent", place: "header", summary: "W3C trace context; its trace id is taken." },
];

/// Every endpoint there is.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    let read = |path, id, summary, answer: SchemaOf, handler| Endpoint {
        method: Method::GET,
        path,
        id,
        summary,
        access: Access::Caller,
        parameters: &[],
        request: None,
        answer: Body::Json(answer),
        envelope: false,
        handler,
    };
    vec![
        Endpoint {
            parameters: &[Parameter {
                name: "format",
                place: "query",
                summary: "`mcp` for the listing as an MCP server gives it; without it, Reach's own.",
            }],
            ..read("/v1/tools", "listTools", "The tools this caller may use.", schema::<wire::Tools>, |_| {
                get(tools::list)
            })
        },
        read("/v1/tools/{tool_id}", "getTool", "One tool, if this caller may use it.", schema::<wire::Tool>, |_| {
            get(tools::one)
        }),
        Endpoint {
            method: Method::POST,
            parameters: CALL_HEADERS,
            request: Some(schema::<wire::CallRequest>),
            envelope: true,
            ..read(
                "/v1/tools/{tool_id}/calls",
                "callTool",
                "Calls a tool; always answers with the envelope. Closing the connection cancels the call: what only \
                 reads is aborted, a write already sent is finished and answers the same key later.",
                schema::<wire::Envelope>,
                |_| post(calls::call),
            )
        },
        read(
            "/v1/traces/{trace_id}",
            "getTrace",
            "The journal rows of a trace, as far as they are this caller's.",
            schema::<wire::Trace>,
            |_| get(journal::trace),
        ),
        Endpoint {
            parameters: &[Parameter {
                name: "limit",
                place: "query",
                summary: "How many at most: 1 to 1000, 50 if absent.",
            }],
            ..read(
                "/v1/sessions",
                "listSessions",
                "The newest sessions, as far as they are this caller's.",
                schema::<wire::Sessions>,
                |_| get(journal::sessions),
            )
        },
        read(
            "/v1/sessions/{session_id}/timeline",
            "getTimeline",
            "A session call by call, with the times to draw bars from.",
            schema::<wire::SessionTimeline>,
            |_| get(journal::timeline),
        ),
        read(
            "/v1/health",
            "getHealth",
            "Health of the tools this caller may use; breakers and degradation for operators.",
            schema::<wire::Health>,
            |_| get(operate::health),
        ),
        Endpoint {
            method: Method::POST,
            access: Access::Operator,
            request: Some(schema::<wire::BreakerRequest>),
            ..read(
                "/v1/health/breakers",
                "moveBreaker",
                "Sets a breaker by hand.",
                schema::<wire::BreakerMoved>,
                |_| post(operate::breaker),
            )
        },
        Endpoint {
            access: Access::Operator,
            ..read(
                "/v1/unsettled",
                "listUnsettled",
                "Requests whose outcome is unknown.",
                schema::<wire::UnsettledList>,
                |_| get(operate::unsettled),
            )
        },
        Endpoint {
            method: Method::POST,
            access: Access::Operator,
            request: Some(schema::<wire::SettleRequest>),
            ..read(
                "/v1/unsettled/settle",
                "settle",
                "Says what became of a request whose outcome was unknown.",
                schema::<wire::Settled>,
                |_| post(operate::settle),
            )
        },
        Endpoint {
            method: Method::POST,
            answer: Body::Foreign("A JSON-RPC message of the Model Context Protocol, as JSON or as an event stream."),
            ..read(
                "/mcp",
                "mcp",
                "The tools as an MCP server (streamable HTTP, revisions up to 2026-07-28).",
                schema::<wire::Envelope>,
                mcp::mount,
            )
        },
        Endpoint {
            access: Access::Open,
            ..read("/healthz", "alive", "Whether the process is alive.", schema::<wire::Probe>, |_| get(probes::alive))
        },
        Endpoint {
            access: Access::Open,
            ..read("/readyz", "ready", "Whether new calls are taken.", schema::<wire::Probe>, |_| get(probes::ready))
        },
        Endpoint {
            access: Access::Operator,
            answer: Body::Text("Prometheus text format 0.0.4."),
            ..read("/metrics", "metrics", "Figures for Prometheus.", schema::<wire::Probe>, |_| get(probes::metrics))
        },
        Endpoint {
            access: Access::Open,
            answer: Body::Foreign("An OpenAPI 3.1 document."),
            ..read("/openapi.json", "openapi", "This document.", schema::<wire::Probe>, |_| get(probes::openapi))
        },
    ]
}

/// The whole API as one service.
pub(crate) fn router(
    engine: Engine,
    callers: Callers,
    gate: Gate,
    settings: &Settings,
    address: SocketAddr,
    stop: CancellationToken,
) -> Router {
    let road = Road::new(engine);
    let mount = Mount { road: road.clone(), max_body_bytes: settings.max_body_bytes, stop };
    let surface = Arc::new(Surface {
        road,
        callers,
        gate,
        loopback: is_loopback(address.ip()),
        max_body_bytes: settings.max_body_bytes,
        body_timeout: settings.body_timeout,
    });
    let mut router = Router::new();
    for endpoint in endpoints() {
        router = router.route(endpoint.path, (endpoint.handler)(&mount));
    }
    router
        .fallback(refusal::no_such_path)
        .method_not_allowed_fallback(refusal::no_such_method)
        .layer(from_fn_with_state(surface.clone(), guard::guard))
        .layer(CatchPanicLayer::custom(refusal::panicked))
        .with_state(surface)
}

impl Mount {
    pub(crate) fn road(&self) -> Road {
        self.road.clone()
    }

    pub(crate) fn max_body_bytes(&self) -> usize {
        self.max_body_bytes
    }

    pub(crate) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }
}
