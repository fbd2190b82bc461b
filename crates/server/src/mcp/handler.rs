//! What the MCP server answers, whatever carries the messages.
//!
//! One handler serves one caller: over HTTP it is made for a single request, over a stream for the whole
//! connection. A tool that does not exist or is hidden walks the road like any other call, so that the
//! journal knows, and is then answered as a protocol error (`-32602`), the same for both.

use std::time::Duration;

use reach_core::exact::parse_arguments;
use reach_core::ids::IdError;
use reach_core::{Caller, Envelope, ErrorBody, ErrorCode, Object, Plan, RequestId, SessionId, ToolId, TraceId};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, InitializeRequestParams, InitializeResult, JsonObject,
    ListToolsResult, PaginatedRequestParams, RequestMetaObject, ServerCapabilities, ServerConfig, SubscriptionFilter,
    Tool,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{convert, exactness, names};
use crate::road::{Road, error_body, trace_of};

const KEY: &str = "reach/idempotency-key";
const SESSION: &str = "reach/session-id";
const TRACE: &str = "reach/trace-id";

/// The server for one caller.
pub(super) struct Handler {
    pub(super) road: Road,
    pub(super) caller: Caller,
    /// The conversation of calls that name none: the connection's, where there is one.
    pub(super) session: Option<SessionId>,
    /// Ends streams that do not end by themselves.
    pub(super) stop: CancellationToken,
}

impl Handler {
    /// The tool that a name of a listing stands for.
    fn tool_id(&self, name: &str) -> ToolId {
        let asked = ToolId::asked(name);
        if names::may_be_mapped(name) && self.road.engine.tool(&self.caller, &asked).is_none() {
            names::resolve(&self.road.engine.tools(&self.caller), name)
        } else {
            asked
        }
    }

    fn plan(&self, request: CallToolRequestParams, meta: &RequestMetaObject) -> Result<Plan, ErrorData> {
        let tool_id = self.tool_id(&request.name);
        let arguments: Object = request.arguments.unwrap_or_default();
        let mut plan = Plan::new(tool_id.as_str(), arguments, self.caller.clone());
        let text = |key: &str| match meta.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(ErrorData::invalid_params(format!("_meta[\"{key}\"] has to be text"), None)),
        };
        let unfit = |key: &str, error: IdError| ErrorData::invalid_params(format!("_meta[\"{key}\"] {error}"), None);
        let number =
            |key: &str| match meta.get(key) {
                None => Ok(None),
                Some(value) => value.as_u64().filter(|number| *number > 0).map(Some).ok_or_else(|| {
                    ErrorData::invalid_params(format!("_meta[\"{key}\"] has to be a number above 0"), None)
                }),
            };
        if let Some(key) = text(KEY)? {
            RequestId::parse(key).map_err(|error| unfit(KEY, error))?;
            plan = plan.with_key(key);
        }
        if let Some(session_id) = text(SESSION)? {
            plan.session_id = SessionId::parse(session_id).map_err(|error| unfit(SESSION, error))?;
        } else if let Some(session_id) = &self.session {
            plan.session_id = session_id.clone();
        }
        if let Some(trace_id) = text(TRACE)? {
            plan.trace_id = TraceId::parse(trace_id).map_err(|error| unfit(TRACE, error))?;
        } else if let Some(trace_id) = meta.get_traceparent().and_then(trace_of) {
            plan.trace_id = TraceId::new(trace_id);
        }
        plan.question = text("reach/question")?.map(str::to_owned);
        plan.timeout = number("reach/timeout-ms")?.map(Duration::from_millis);
        plan.step = number("reach/step")?.map_or(0, |step| u32::try_from(step).unwrap_or(u32::MAX));
        Ok(plan)
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
            .with_server_info(Implementation::new("reach", env!("CARGO_PKG_VERSION")).with_title("Reach"))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut info = self.negotiate_initialize(&request)?;
        if self.session.is_none() {
            // Without a connection of its own, a client of the old handshake has nowhere to be told.
            if let Some(tools) = &mut info.capabilities.tools {
                tools.list_changed = None;
            }
        }
        Ok(info)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let (mut changes, stop) = (self.road.engine.changes(), self.stop.clone());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { return },
                    () = stop.cancelled() => return,
                }
                if context.peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        });
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.road.engine.changes();
        loop {
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return Ok(()) },
                () = context.cancelled() => return Ok(()),
                () = self.stop.cancelled() => return Ok(()),
            }
            if context.accepted().tools_list_changed == Some(true)
                && context.sink().notify_tool_list_changed().await.is_err()
            {
                return Ok(());
            }
        }
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(convert::all(&self.road.engine.tools(&self.caller))))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let spec = self.road.engine.tool(&self.caller, &self.tool_id(name))?;
        convert::all(&[spec]).pop()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let asked = request.name.to_string();
        let plan = self.plan(request, &context.meta)?;
        let inexact = context.meta.get(exactness::MARK).and_then(Value::as_str);
        let envelope = if let Some(Err(error)) = inexact.map(parse_arguments) {
            self.road.refuse(&plan, error_body(&error))
        } else {
            // A cancelled request, a closed response stream and a closed connection all end here: the
            // call's future is dropped, and the engine decides what that means.
            tokio::select! {
                envelope = self.road.call(plan) => envelope,
                () = context.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
            }
        };
        match envelope.error.as_ref().filter(|error| error.code == ErrorCode::ToolNotFound) {
            Some(error) => Err(unknown_tool(&asked, error)),
            None => Ok(finished(&envelope)?.into()),
        }
    }
}

fn unknown_tool(asked: &str, error: &ErrorBody) -> ErrorData {
    let data = json!({"code": error.code, "hint": error.hint, "tool": asked});
    ErrorData::invalid_params(error.message.clone(), Some(data))
}

fn finished(envelope: &Envelope) -> Result<rmcp::model::CallToolResult, ErrorData> {
    convert::result(envelope).map_err(|error| {
        tracing::error!(error = %error, "an envelope cannot be written as JSON");
        ErrorData::internal_error("the gateway failed; see its log", None)
    })
}

/// rmcp and core mean the same by an object; the compiler holds them together.
const _: fn(JsonObject) -> Object = |object| object;
