//! A gateway in a box: a scripted upstream, an engine over SQLite, memory and a directory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use reach_core::redact::Scrubber;
use reach_core::scope::Scopes;
use reach_core::{
    Adapter, Answer, Attempt, BoxFuture, Caller, CallerId, Effect, Envelope, EventKind, Failure, FailureKind, Object,
    Payload, Phase, Plan, ToolId, ToolSpec,
};
use reach_engine::{Declared, Engine, Registry, Stores, UpstreamSettings};
use reach_store::blobs::DirectoryBlobs;
use reach_store::board::MemoryBoard;
use reach_store::ledger::SqliteLedger;
use serde_json::{Value, json};

/// What the upstream does with one attempt.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Answers.
    Answer(Value),
    /// Answers with text.
    Text(String),
    /// Fails before anything left.
    Refuse,
    /// Fails after the request left.
    Fail(FailureKind, Option<Duration>),
    /// Takes the request and answers after a while.
    After(Duration, Value),
    /// Takes the request and never answers.
    Stall,
    /// Panics before (false) or after (true) the request left.
    Panic(bool),
}

/// An upstream that plays its script, then answers `{"served": n}`; counts what it carried out.
#[derive(Debug)]
pub(crate) struct Upstream {
    target: String,
    script: Mutex<std::collections::VecDeque<Act>>,
    pub(crate) asked: AtomicU32,
    pub(crate) effects: AtomicU32,
    pub(crate) seen: Mutex<Vec<(Object, Option<String>)>>,
}

impl Upstream {
    pub(crate) fn new(target: &str, script: impl IntoIterator<Item = Act>) -> Arc<Self> {
        Arc::new(Self {
            target: target.to_owned(),
            script: Mutex::new(script.into_iter().collect()),
            asked: AtomicU32::new(0),
            effects: AtomicU32::new(0),
            seen: Mutex::new(Vec::new()),
        })
    }

    pub(crate) fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn effects(&self) -> u32 {
        self.effects.load(Ordering::SeqCst)
    }
}

struct Body(Arc<Upstream>);

impl Adapter for Body {
    fn kind(&self) -> &'static str {
        "scripted"
    }

    fn target(&self) -> &str {
        &self.0.target
    }

    fn call<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let upstream = &self.0;
            let number = upstream.asked.fetch_add(1, Ordering::SeqCst) + 1;
            upstream.seen.lock().push((attempt.arguments.clone(), attempt.upstream_key.clone()));
            let act = upstream.script.lock().pop_front().unwrap_or(Act::Answer(json!({ "served": number })));
            if let Act::Refuse = act {
                return Err(Failure::new(FailureKind::Unreachable, Phase::NotSent, "connection refused"));
            }
            if let Act::Panic(false) = act {
                panic!("before the send");
            }
            attempt.sent.set();
            upstream.effects.fetch_add(1, Ordering::SeqCst);
            match act {
                Act::Answer(value) => Ok(Payload::Json(value).into()),
                Act::Text(text) => Ok(Payload::Text(text).into()),
                Act::After(pause, value) => {
                    tokio::time::sleep(pause).await;
                    Ok(Payload::Json(value).into())
                }
                Act::Stall => std::future::pending().await,
                Act::Fail(kind, wait) => {
                    let phase = match kind {
                        FailureKind::Interrupted | FailureKind::Timeout => Phase::MaybeSent,
                        _ => Phase::Answered,
                    };
                    Err(Failure::new(kind, phase, "as scripted").with_retry_after(wait))
                }
                Act::Panic(_) | Act::Refuse => panic!("after the send"),
            }
        })
    }

    fn check<'a>(&'a self, _timeout: Duration) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(async { Ok("scripted".to_owned()) })
    }
}

/// A tool with one string argument `id`.
pub(crate) fn tool(name: &str, effect: Effect) -> ToolSpec {
    let schema = json!({
        "type": "object",
        "properties": {"id": {"type": "string"}, "note": {"type": "string"}},
        "required": ["id"],
    });
    ToolSpec::new(ToolId::parse(name).unwrap(), "A tool of the tests.", schema, effect)
}

/// The box.
pub(crate) struct Gateway {
    pub(crate) engine: Engine,
    pub(crate) stores: Stores,
    _folder: tempfile::TempDir,
}

impl Gateway {
    pub(crate) fn new(tools: Vec<(ToolSpec, Arc<Upstream>)>) -> Self {
        Self::with_settings(tools, HashMap::new())
    }

    pub(crate) fn with_settings(
        tools: Vec<(ToolSpec, Arc<Upstream>)>,
        settings: HashMap<String, UpstreamSettings>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stores = Stores {
            ledger: Arc::new(SqliteLedger::open(&folder.path().join("ledger.db")).unwrap()),
            board: Arc::new(MemoryBoard::default()),
            blobs: Arc::new(DirectoryBlobs::open(&folder.path().join("blobs"), 1 << 30).unwrap()),
        };
        let engine = Engine::new(registry(tools, &stores, &settings), stores.clone());
        Self { engine, stores, _folder: folder }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Envelope {
        self.engine.call(plan(tool, arguments)).await
    }

    pub(crate) async fn call_with_key(&self, tool: &str, key: &str, arguments: Value) -> Envelope {
        self.engine.call(plan(tool, arguments).with_key(key)).await
    }

    /// Every step of every call with this envelope's trace.
    pub(crate) async fn steps(&self, envelope: &Envelope) -> Vec<EventKind> {
        self.stores.ledger.flush().await.unwrap();
        let rows = self.stores.ledger.trace(envelope.meta.trace_id.clone()).await.unwrap();
        rows.into_iter().flat_map(|row| row.events).map(|event| event.kind).collect()
    }
}

/// Compiles tools as the composition root does.
pub(crate) fn registry(
    tools: Vec<(ToolSpec, Arc<Upstream>)>,
    stores: &Stores,
    settings: &HashMap<String, UpstreamSettings>,
) -> Registry {
    let mut declared: Vec<Declared> = tools
        .into_iter()
        .map(|(spec, upstream)| Declared { spec, adapter: Arc::new(Body(upstream)), credential: None, check: None })
        .collect();
    let (spec, adapter) = reach_engine::builtin::read_result::tool(Arc::clone(&stores.blobs), 2_000);
    declared.push(Declared { spec, adapter, credential: None, check: None });
    Registry::build(declared, settings, Scrubber::new(["canary-secret-1".into()])).unwrap()
}

pub(crate) fn plan(tool: &str, arguments: Value) -> Plan {
    Plan::new(tool, arguments.as_object().unwrap().clone(), Caller::local())
}

pub(crate) fn caller(name: &str, scopes: &[&str]) -> Caller {
    Caller { id: CallerId::new(name), scopes: Scopes::new(scopes.iter().copied()), rate: None }
}
