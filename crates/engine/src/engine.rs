//! The door of the engine: what every surface calls.

use std::sync::Arc;

use reach_core::breaker::{StateName, Transition};
use reach_core::{Caller, Envelope, Plan, ToolId, ToolSpec};
use reach_store::board::{BreakerView, ToolHealth};
use reach_store::{Blobs, Board, Ledger, StoreError};
use serde::Serialize;

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
pub struct Engine {}

impl Engine {
    /// An engine over these stores, with these tools.
    pub fn new(_registry: Registry, _stores: Stores) -> Self {
        Self {}
    }

    /// Walks one plan down the road. Always answers, within the plan's deadline. Dropping the future
    /// cancels the call: what only reads is aborted; a write that was sent is finished in the background.
    pub async fn call(&self, _plan: Plan) -> Envelope {
        unreachable!()
    }

    /// The tools this caller may use, in the order declared; built-in tools last.
    pub fn tools(&self, _caller: &Caller) -> Vec<Arc<ToolSpec>> {
        Vec::new()
    }

    /// One tool, if this caller may use it.
    pub fn tool(&self, _caller: &Caller, _tool_id: &ToolId) -> Option<Arc<ToolSpec>> {
        None
    }

    /// Replaces the tools without dropping a call: calls under way finish with the old ones.
    pub fn replace(&self, _registry: Registry) {}

    /// Counts up by one at every [`Engine::replace`]; surfaces that announce changes watch it.
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        tokio::sync::watch::channel(0).1
    }

    /// Health of tools, breakers and stores.
    pub async fn health(&self) -> HealthReport {
        HealthReport { tools: Vec::new(), breakers: Vec::new(), degraded: Vec::new() }
    }

    /// Sets a breaker by hand; `None` when no tool has this target.
    pub async fn force(
        &self,
        _target: &str,
        _state: StateName,
        _reason: &str,
    ) -> Result<Option<Transition>, StoreError> {
        Ok(None)
    }

    /// The journal and the records, for readers.
    pub fn ledger(&self) -> Arc<dyn Ledger> {
        unreachable!()
    }

    /// Whether new calls are taken: stores reachable and not draining.
    pub async fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    /// Takes no new calls (`SHUTTING_DOWN`) and waits until those under way have ended and the journal
    /// is written, at most `patience`. Returns how many were still running.
    pub async fn drain(&self, _patience: std::time::Duration) -> usize {
        0
    }
}
