//! The door of the engine: what every surface calls.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use reach_core::breaker::{StateName, Transition};
use reach_core::{Caller, Effect, Envelope, ErrorBody, ErrorCode, Meta, Phase, Plan, ToolId, ToolSpec};
use reach_store::board::{BreakerView, ToolHealth};
use reach_store::{Blobs, Board, Ledger, StoreError};
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::crash;
use crate::executor::{Road, Walk};
use crate::registry::Registry;

/// The three stores.
#[derive(Clone)]
pub struct Stores {
    /// Durable.
    pub ledger: Arc<dyn Ledger>,
    /// Fast.
    pub board: Arc<dyn Board>,
    /// Large.
    pub blobs: Arc<dyn Blobs>,
}

/// What `GET /v1/health` and `reach health` show.
#[derive(Clone, Debug, Serialize)]
pub struct HealthReport {
    /// The figures of each tool in the last five minutes.
    pub tools: Vec<ToolHealth>,
    /// Every breaker that was asked.
    pub breakers: Vec<BreakerView>,
    /// What does not work of our own: a store that is gone, journal rows dropped. Empty when all is well.
    pub degraded: Vec<String>,
}

/// The engine. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    registry: ArcSwap<Registry>,
    stores: Stores,
    changes: watch::Sender<u64>,
    calls: TaskTracker,
    draining: AtomicBool,
    notice: parking_lot::Mutex<Option<String>>,
}

impl Engine {
    /// An engine over these stores, with these tools.
    pub fn new(registry: Registry, stores: Stores) -> Self {
        let inner = Inner {
            registry: ArcSwap::from_pointee(registry),
            stores,
            changes: watch::Sender::new(0),
            calls: TaskTracker::new(),
            draining: AtomicBool::new(false),
            notice: parking_lot::Mutex::new(None),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Walks one plan down the road. Always answers, within the plan's deadline. Dropping the future
    /// cancels the call: what only reads is aborted; a write that was sent is finished in the background,
    /// recorded, and answers the same key later.
    pub async fn call(&self, plan: Plan) -> Envelope {
        if self.inner.draining.load(Ordering::SeqCst) {
            return refused(&plan, ErrorCode::ShuttingDown);
        }
        let registry = self.inner.registry.load_full();
        let may_outlive_caller =
            registry.find(&plan.tool_id).is_some_and(|tool| matches!(tool.spec.effect, Effect::Keyed | Effect::Write));
        let road = Road { registry, stores: self.inner.stores.clone() };
        let envelope = if may_outlive_caller {
            self.call_detached(road, plan).await
        } else {
            // Counted, so that a drain waits for it; dropped with its caller.
            let counted = self.inner.calls.token();
            let envelope = guarded(road, &plan, &CancellationToken::new()).await;
            drop(counted);
            envelope
        };
        crash::point("before_reply");
        envelope
    }

    async fn call_detached(&self, road: Road, plan: Plan) -> Envelope {
        let cancelled = CancellationToken::new();
        let caller_left = cancelled.clone().drop_guard();
        let fallback_plan = plan.clone();
        let task = self.inner.calls.spawn(async move { guarded(road, &plan, &cancelled).await });
        let envelope = match task.await {
            Ok(envelope) => envelope,
            Err(_) => refused(&fallback_plan, ErrorCode::Internal),
        };
        caller_left.disarm();
        envelope
    }

    /// The tools this caller may use, in the order declared.
    pub fn tools(&self, caller: &Caller) -> Vec<Arc<ToolSpec>> {
        let registry = self.inner.registry.load();
        registry.available(caller).map(|tool| Arc::clone(&tool.spec)).collect()
    }

    /// One tool, if this caller may use it.
    pub fn tool(&self, caller: &Caller, tool_id: &ToolId) -> Option<Arc<ToolSpec>> {
        let registry = self.inner.registry.load();
        let tool = registry.find(tool_id)?;
        caller.scopes.allow(tool.spec.scope.as_deref()).then(|| Arc::clone(&tool.spec))
    }

    /// Replaces the tools without dropping a call: calls under way finish with the old ones.
    pub fn replace(&self, mut registry: Registry) {
        registry.take_over(&self.inner.registry.load());
        self.inner.registry.store(Arc::new(registry));
        self.inner.changes.send_modify(|count| *count += 1);
    }

    /// Counts up by one at every [`Engine::replace`]; surfaces that announce changes watch it.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Health of tools, breakers and stores.
    pub async fn health(&self) -> HealthReport {
        let stores = &self.inner.stores;
        let mut degraded: Vec<String> = self.inner.notice.lock().clone().into_iter().collect();
        let tools = stores.board.health().await.unwrap_or_else(|error| {
            degraded.push(error.to_string());
            Vec::new()
        });
        let breakers = stores.board.breakers().await.unwrap_or_default();
        if let Err(error) = stores.ledger.ping().await {
            degraded.push(format!("{error}: writes are refused, reads go on"));
        }
        let dropped = stores.ledger.dropped();
        if dropped > 0 {
            degraded.push(format!("{dropped} journal rows were dropped: the disk does not keep up"));
        }
        HealthReport { tools, breakers, degraded }
    }

    /// Something about this gateway that whoever looks at its health should know, until it is taken back.
    pub fn notice(&self, words: Option<String>) {
        *self.inner.notice.lock() = words;
    }

    /// Sets a breaker by hand: `ForcedOpen`, `Disabled`, or `Closed` to give it back to itself. `None` when
    /// no tool has this target.
    pub async fn force(&self, target: &str, state: StateName, reason: &str) -> Result<Option<Transition>, StoreError> {
        let known = self.inner.registry.load().all().any(|tool| tool.breaker_key() == target);
        if !known {
            return Ok(None);
        }
        self.inner.stores.board.force(target, state, reason).await.map(Some)
    }

    /// The targets whose breakers can be set by hand.
    pub fn targets(&self) -> Vec<String> {
        let mut targets: Vec<String> = self.inner.registry.load().all().map(|tool| tool.breaker_key()).collect();
        targets.sort();
        targets.dedup();
        targets
    }

    /// The journal and the records, for readers.
    pub fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::clone(&self.inner.stores.ledger)
    }

    /// Whether new calls are taken: the ledger can be written and nobody is draining. The words say why not.
    pub async fn ready(&self) -> Result<(), String> {
        if self.inner.draining.load(Ordering::SeqCst) {
            return Err("shutting down".to_owned());
        }
        self.inner.stores.ledger.ping().await.map_err(|error| error.to_string())
    }

    /// Takes no new calls (`SHUTTING_DOWN`) and waits until those under way have ended and the journal
    /// is written, at most `patience`. Returns how many were still running.
    pub async fn drain(&self, patience: Duration) -> usize {
        self.inner.draining.store(true, Ordering::SeqCst);
        self.inner.calls.close();
        let left = match tokio::time::timeout(patience, self.inner.calls.wait()).await {
            Ok(()) => 0,
            Err(_) => self.inner.calls.len(),
        };
        if let Err(error) = self.inner.stores.ledger.flush().await {
            tracing::warn!(%error, "the journal could not be written to its end");
        }
        left
    }
}

/// Walks with a panic caught: a defect of ours ends in the same shape as everything else, and what may have
/// been sent by then is not called rejected.
async fn guarded(road: Road, plan: &Plan, caller_left: &CancellationToken) -> Envelope {
    let walk = Walk::of(&road, plan);
    let committed = walk.committed();
    match AssertUnwindSafe(walk.run(caller_left)).catch_unwind().await {
        Ok(envelope) => envelope,
        Err(_) => {
            tracing::error!(trace_id = %plan.trace_id, tool_id = %plan.tool_id, "a call panicked");
            defect(plan, committed.load(Ordering::SeqCst))
        }
    }
}

fn defect(plan: &Plan, committed: bool) -> Envelope {
    if !committed {
        return refused(plan, ErrorCode::Internal);
    }
    let message = format!("a defect in the gateway stopped `{}` after it may have been sent", plan.tool_id);
    let meta = Meta { phase: Phase::MaybeSent, attempts: 1, ..Meta::of(plan) };
    Envelope::error(plan.tool_id.clone(), ErrorBody::new(ErrorCode::OutcomeUnknown, message), meta)
}

fn refused(plan: &Plan, code: ErrorCode) -> Envelope {
    let mut error = ErrorBody::new(code, "");
    error.retryable = code == ErrorCode::ShuttingDown;
    Envelope::error(plan.tool_id.clone(), error, Meta { phase: Phase::Rejected, ..Meta::of(plan) })
}
