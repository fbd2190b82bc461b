//! A gateway to test against: the real engine on the real embedded stores, behind a real listener, with
//! tools whose bodies do what a test tells them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reach_core::redact::Scrubber;
use reach_core::scope::Scopes;
use reach_core::{
    Adapter, Answer, Attempt, BoxFuture, Caller, CallerId, Effect, Failure, FailureKind, Payload, Phase, ToolId,
    ToolSpec,
};
use reach_engine::{Declared, Engine, Registry, Stores};
use reach_server::{Callers, Drained, Server, Settings};
use reach_store::blobs::DirectoryBlobs;
use reach_store::board::MemoryBoard;
use reach_store::ledger::SqliteLedger;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What the bodies of the tools did.
#[derive(Default)]
pub(crate) struct Seen {
    /// Attempts that began, of every tool.
    pub(crate) started: AtomicUsize,
    /// Attempts of `wait` and `wait_write` that ended by themselves.
    pub(crate) finished: AtomicUsize,
    /// Attempts that were dropped before they ended.
    pub(crate) aborted: AtomicUsize,
    /// Lets one waiting attempt go on.
    pub(crate) release: Notify,
}

impl Seen {
    pub(crate) fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    pub(crate) fn finished(&self) -> usize {
        self.finished.load(Ordering::SeqCst)
    }

    pub(crate) fn aborted(&self) -> usize {
        self.aborted.load(Ordering::SeqCst)
    }
}

#[derive(Clone, Copy)]
enum Act {
    Echo,
    Wait,
    Down,
    Vanish,
    Panic,
}

struct Body {
    act: Act,
    target: String,
    seen: Arc<Seen>,
}

struct Aborted<'a>(&'a Seen, bool);

impl Drop for Aborted<'_> {
    fn drop(&mut self) {
        let count = if self.1 { &self.0.finished } else { &self.0.aborted };
        count.fetch_add(1, Ordering::SeqCst);
    }
}

impl Adapter for Body {
    fn kind(&self) -> &'static str {
        "test"
    }

    fn target(&self) -> &str {
        &self.target
    }

    fn call<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let mut aborted = Aborted(&self.seen, false);
            self.seen.started.fetch_add(1, Ordering::SeqCst);
            let result = match self.act {
                Act::Echo => Ok(Payload::Json(Value::Object(attempt.arguments.clone())).into()),
                Act::Wait => {
                    attempt.sent.set();
                    self.seen.release.notified().await;
                    Ok(Payload::Empty.into())
                }
                Act::Down => Err(Failure::new(FailureKind::Unreachable, Phase::NotSent, "connection refused")),
                Act::Vanish => {
                    attempt.sent.set();
                    Err(Failure::new(FailureKind::Interrupted, Phase::MaybeSent, "the connection was reset"))
                }
                Act::Panic => panic!("a defect of an adapter"),
            };
            aborted.1 = true;
            result
        })
    }

    fn check<'a>(&'a self, _timeout: Duration) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(async { Ok("here".to_owned()) })
    }
}

/// The tools of every house.
pub(crate) fn registry(seen: &Arc<Seen>) -> Registry {
    let open = json!({"type": "object"});
    let order = json!({"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]});
    let echo = json!({"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "integer"}}});
    let tools = [
        ("echo", Act::Echo, Effect::Read, None, &echo),
        ("order_status", Act::Echo, Effect::Read, Some("order:read"), &order),
        ("delete_order", Act::Echo, Effect::Write, Some("order:write"), &order),
        ("wait", Act::Wait, Effect::Read, None, &open),
        ("wait_write", Act::Wait, Effect::Write, None, &open),
        ("down", Act::Down, Effect::Read, None, &open),
        ("vanish", Act::Vanish, Effect::Write, None, &open),
        ("panic", Act::Panic, Effect::Read, None, &open),
        ("查询天气", Act::Echo, Effect::Idempotent, None, &echo),
    ];
    let declared = tools.map(|(id, act, effect, scope, schema)| {
        let mut spec = ToolSpec::new(ToolId::parse(id).unwrap(), format!("Does {id}."), schema.clone(), effect);
        spec.scope = scope.map(str::to_owned);
        spec.timeout = Duration::from_secs(20);
        let adapter = Arc::new(Body { act, target: format!("test:{id}"), seen: seen.clone() });
        Declared { spec, adapter, credential: None, check: None }
    });
    Registry::build(declared.into(), &HashMap::new(), Scrubber::default()).unwrap()
}

/// A running gateway.
pub(crate) struct House {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Engine,
    pub(crate) callers: Callers,
    pub(crate) seen: Arc<Seen>,
    pub(crate) http: reqwest::Client,
    stop: CancellationToken,
    served: JoinHandle<Drained>,
    _folder: tempfile::TempDir,
}

/// An engine on fresh stores in `folder`.
pub(crate) fn engine(folder: &tempfile::TempDir, seen: &Arc<Seen>) -> Engine {
    let ledger = SqliteLedger::open(&folder.path().join("ledger.db")).unwrap();
    let blobs = DirectoryBlobs::open(&folder.path().join("blobs"), 1 << 24).unwrap();
    let stores = Stores { ledger: Arc::new(ledger), board: Arc::new(MemoryBoard::new()), blobs: Arc::new(blobs) };
    Engine::new(registry(seen), stores)
}

/// The callers of a house with keys: `reader` (key-r), `writer` (key-w), `operator` (key-o).
pub(crate) fn callers() -> Callers {
    let caller = |id: &str, scopes: &[&str]| Caller {
        id: CallerId::new(id),
        scopes: Scopes::new(scopes.iter().copied()),
        rate: None,
    };
    Callers::new([
        (caller("reader", &["order:read"]), "key-r".into()),
        (caller("writer", &["order:*"]), "key-w".into()),
        (caller("operator", &["reach:operate"]), "key-o".into()),
    ])
}

impl House {
    /// Without callers: everybody on this machine is the local caller.
    pub(crate) async fn local() -> Self {
        Self::with(Settings::default(), Callers::default()).await
    }

    /// With the three callers.
    pub(crate) async fn keyed() -> Self {
        Self::with(Settings::default(), callers()).await
    }

    pub(crate) async fn with(settings: Settings, callers: Callers) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let seen = Arc::<Seen>::default();
        let engine = engine(&folder, &seen);
        let settings = Settings { listen: "127.0.0.1:0".parse().unwrap(), ..settings };
        let server = Server::bind(settings, engine.clone(), callers.clone()).await.unwrap();
        let address = server.address();
        let stop = CancellationToken::new();
        let served = tokio::spawn(server.serve(stop.clone().cancelled_owned()));
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build().unwrap();
        Self { address, engine, callers, seen, http, stop, served, _folder: folder }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Gives the order to stop.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// How stopping went.
    pub(crate) async fn stopped(self) -> Drained {
        self.served.await.unwrap()
    }

    pub(crate) async fn get(&self, key: &str, path: &str) -> Said {
        Said::of(self.http.get(self.url(path)).bearer_auth(key)).await
    }

    pub(crate) async fn post(&self, key: &str, path: &str, body: Value) -> Said {
        Said::of(self.http.post(self.url(path)).bearer_auth(key).json(&body)).await
    }

    /// Calls a tool with arguments.
    pub(crate) async fn call(&self, key: &str, tool: &str, arguments: Value) -> Said {
        self.post(key, &format!("/v1/tools/{tool}/calls"), json!({"arguments": arguments})).await
    }

    /// Calls a tool under an idempotency key.
    pub(crate) async fn call_keyed(&self, key: &str, tool: &str, arguments: Value, request: &str) -> Said {
        let request = self
            .http
            .post(self.url(&format!("/v1/tools/{tool}/calls")))
            .bearer_auth(key)
            .header("idempotency-key", request)
            .json(&json!({"arguments": arguments}));
        Said::of(request).await
    }
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
    pub(crate) json: Value,
}

impl Said {
    pub(crate) async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Self { status, headers, text, json }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The code of an envelope or a problem.
    pub(crate) fn code(&self) -> &str {
        let code = if self.json["code"].is_string() { &self.json["code"] } else { &self.json["error"]["code"] };
        code.as_str().unwrap_or_default()
    }
}

/// Waits until something is so, at most five seconds.
pub(crate) async fn eventually(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    while !so().await {
        assert!(tokio::time::Instant::now() < deadline, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// An envelope without what differs by nature between two calls.
pub(crate) fn without_ids(mut envelope: Value) -> Value {
    for field in ["request_id", "trace_id", "session_id", "duration_ms"] {
        if let Some(meta) = envelope["meta"].as_object_mut() {
            meta.remove(field);
        }
    }
    envelope
}
