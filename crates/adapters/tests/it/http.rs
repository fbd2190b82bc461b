//! The `http` adapter in the shared suite, and what its tests stand on. What is sent is in
//! `http_request`, what comes back in `http_answer`, where it may go in `http_address`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reach_adapters::http::{Config, build};
use reach_adapters::shared::Declared;
use reach_core::{Adapter, Answer, Attempt, BoxFuture, Effect, Failure, Payload, Problem, ToolId};
use reach_kit::http::{Behaviour, Reply, Server};
use serde_json::{Value, json};

use crate::suite::{self, Fault, Scene, Stage};

/// A declared tool as a test calls it.
pub struct Tool {
    pub adapter: Arc<dyn Adapter>,
    pub effect: Effect,
}

/// Declares a tool: the key `http:` and the properties of its input_schema.
pub fn declare(http: Value, properties: Value) -> Result<Tool, Vec<Problem>> {
    declare_with(http, properties, None, Duration::from_secs(10))
}

pub fn declare_with(
    http: Value,
    properties: Value,
    effect: Option<Effect>,
    timeout: Duration,
) -> Result<Tool, Vec<Problem>> {
    let config: Config = serde_json::from_value(http).expect("the shape of the declaration is right");
    let effect = effect.unwrap_or(config.default_effect());
    let schema = json!({"type": "object", "properties": properties});
    let tool_id = ToolId::asked("tool");
    let declared = Declared { tool_id: &tool_id, input_schema: &schema, effect, timeout, base: Path::new(".") };
    Ok(Tool { adapter: build(config, &declared)?, effect })
}

impl Tool {
    pub fn attempt(&self, arguments: Value) -> Attempt {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        Attempt::new(ToolId::asked("tool"), arguments, self.effect)
    }

    pub async fn call(&self, arguments: Value) -> Result<Answer, Failure> {
        self.adapter.call(&self.attempt(arguments)).await
    }

    /// The JSON of a call that works.
    pub async fn json(&self, arguments: Value) -> Value {
        match self.call(arguments).await.expect("the call works").payload {
            Payload::Json(value) => value,
            other => panic!("no JSON: {other:?}"),
        }
    }

    /// The failure of a call that does not work.
    pub async fn failure(&self, arguments: Value) -> Failure {
        self.call(arguments).await.expect_err("the call fails")
    }
}

/// A public case of `suites/` or the shared list, by its id.
pub fn suite_file(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suites").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).expect("the suite is there")).expect("the suite is JSON")
}

struct HttpStage;

impl Stage for HttpStage {
    fn scene(&self, fault: Fault) -> BoxFuture<'_, Result<Scene, &'static str>> {
        Box::pin(async move {
            let server = Server::start().await.expect("a free port");
            server.always(match fault {
                Fault::None | Fault::Refused => Behaviour::Answer(Reply::json(200, r#"{"ok":true}"#)),
                Fault::Stall | Fault::Cancelled => Behaviour::Stall,
                Fault::Reset => Behaviour::Reset,
                Fault::HalfAnswer => Behaviour::Raw(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"ok\":"
                        .to_vec(),
                ),
                Fault::Oversize => Behaviour::Answer(Reply::json(200, format!("\"{}\"", "x".repeat(10_000)))),
                Fault::Malformed => Behaviour::Answer(Reply::json(200, "this is no JSON")),
                Fault::ExpiredCredential => Behaviour::Answer(Reply::json(401, r#"{"error":"token expired"}"#)),
            });
            let url = server.url("/orders/{id}");
            let gone = server.gone();
            let keep: Box<dyn std::any::Any + Send> = match fault {
                Fault::Refused => Box::new(server.stop().await),
                _ => Box::new(server),
            };
            let http = json!({"method": "POST", "url": url, "max_response_bytes": 1000});
            let tool = declare(http, json!({"id": {"type": "string"}})).expect("a right declaration");
            let attempt = tool.attempt(json!({"id": "OD1"}));
            Ok(Scene { adapter: tool.adapter, attempt, gone: Box::pin(gone), keep })
        })
    }
}

#[tokio::test]
async fn the_http_adapter_keeps_the_promise_of_the_suite() {
    suite::run(&HttpStage).await;
}
