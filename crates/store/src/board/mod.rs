//! The board: what all calls look at and nobody mourns: breakers, health, rates.
//!
//! The rules are values of `reach-core` ([`reach_core::breaker::Breaker`], [`reach_core::window::Window`]); the board only holds them. It may be
//! lost at any moment: the road then decides locally and says so.

mod memory;
mod rate;

pub use memory::MemoryBoard;

use reach_core::BoxFuture;
use reach_core::ErrorCode;
use reach_core::breaker::{Permit, Settings, Signal, StateName, Transition};
use reach_core::plan::Rate;
use reach_core::window::Summary;
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// A breaker as a person sees it. Times are milliseconds since the Unix epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerView {
    /// The upstream, or the tool with a breaker of its own.
    pub target: String,
    /// Where it stands.
    pub state: StateName,
    /// Since when.
    pub since_ms: u64,
    /// Milliseconds until the next probe, while open.
    pub retry_after_ms: Option<u64>,
    /// What opened it.
    pub reason: String,
}

/// The health of one tool in the last five minutes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolHealth {
    /// The tool.
    pub tool_id: String,
    /// Its figures.
    #[serde(flatten)]
    pub summary: Summary,
}

/// The fast store. `Err` means that the board itself is gone; the caller goes on without.
pub trait Board: Send + Sync + 'static {
    /// Asks the breaker of a target. `Refused.since_ms` is milliseconds since the Unix epoch.
    fn permit<'a>(&'a self, target: &'a str) -> BoxFuture<'a, Result<(Permit, Option<Transition>), StoreError>>;

    /// Tells the breaker of a target how a permitted call went.
    fn report<'a>(
        &'a self,
        target: &'a str,
        signal: Signal,
        probe: bool,
        reason: &'a str,
        settings: &'a Settings,
    ) -> BoxFuture<'a, Result<Option<Transition>, StoreError>>;

    /// Sets a breaker by hand.
    fn force<'a>(
        &'a self,
        target: &'a str,
        state: StateName,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<Transition, StoreError>>;

    /// Takes one call out of a rate (GCRA). `Err(wait)` inside `Ok` says how long until one is free.
    fn take<'a>(
        &'a self,
        key: &'a str,
        rate: Rate,
    ) -> BoxFuture<'a, Result<Result<(), std::time::Duration>, StoreError>>;

    /// Counts one call of a tool.
    fn count<'a>(
        &'a self,
        tool_id: &'a str,
        code: Option<ErrorCode>,
        latency_ms: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Every breaker that was ever asked.
    fn breakers(&self) -> BoxFuture<'_, Result<Vec<BreakerView>, StoreError>>;

    /// Every tool that was ever counted.
    fn health(&self) -> BoxFuture<'_, Result<Vec<ToolHealth>, StoreError>>;
}
