//! The board of one process, in memory.
//!
//! Every breaker and every tool's window has its own small lock, so that reading the health of five
//! hundred tools never holds up a call. No lock outlives one function here. What is kept is bounded: an
//! idle rate is forgotten (it would start full anyway), and so is a closed breaker beyond the cap.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};
use reach_core::breaker::{Breaker, Permit, Settings, Signal, StateName, Transition};
use reach_core::plan::Rate;
use reach_core::window::Window;
use reach_core::{BoxFuture, ErrorCode};
use tokio::time::Instant;

use super::{Board, BreakerView, ToolHealth, rate};
use crate::StoreError;

/// Breakers, tools and busy rates that are remembered.
const BREAKERS_MAX: usize = 10_000;
const TOOLS_MAX: usize = 10_000;
const RATES_MAX: usize = 50_000;

/// The board of one process.
pub struct MemoryBoard {
    clock: Clock,
    jitter: Jitter,
    breakers: Shelf<Breaker>,
    tools: Shelf<Window>,
    rates: Mutex<Rates>,
}

impl MemoryBoard {
    /// An empty board whose clock starts now.
    pub fn new() -> Self {
        Self {
            clock: Clock::start(),
            jitter: Jitter::seeded(),
            breakers: Shelf::new(BREAKERS_MAX),
            tools: Shelf::new(TOOLS_MAX),
            rates: Mutex::default(),
        }
    }

    fn permit_now(&self, target: &str) -> (Permit, Option<Transition>) {
        let now = self.clock.unix_ms();
        self.breakers.with(target, |breaker| breaker.permit(now), |breaker| breaker.state() == StateName::Closed)
    }

    fn report_now(
        &self,
        target: &str,
        signal: Signal,
        probe: bool,
        reason: &str,
        settings: &Settings,
    ) -> Option<Transition> {
        let (now, jitter) = (self.clock.unix_ms(), self.jitter.next());
        self.breakers.with(
            target,
            |breaker| breaker.report(now, signal, probe, reason, settings, jitter),
            |breaker| breaker.state() == StateName::Closed,
        )
    }

    fn force_now(&self, target: &str, state: StateName, reason: &str) -> Transition {
        let now = self.clock.unix_ms();
        self.breakers.with(
            target,
            |breaker| breaker.force(now, state, reason),
            |breaker| breaker.state() == StateName::Closed,
        )
    }

    fn count_now(&self, tool_id: &str, code: Option<ErrorCode>, latency_ms: u64) {
        let now = self.clock.unix_ms();
        self.tools.with(tool_id, |window| window.add(now, code, latency_ms), |window| window.summary(now).calls == 0);
    }

    fn breaker_views(&self) -> Vec<BreakerView> {
        let now = self.clock.unix_ms();
        self.breakers.list(|target, breaker| BreakerView {
            target: target.to_owned(),
            state: breaker.state(),
            since_ms: breaker.since_ms(),
            retry_after_ms: breaker.retry_after_ms(now),
            reason: breaker.reason().to_owned(),
        })
    }

    fn tool_healths(&self) -> Vec<ToolHealth> {
        let now = self.clock.unix_ms();
        self.tools.list(|tool_id, window| ToolHealth { tool_id: tool_id.to_owned(), summary: window.summary(now) })
    }
}

impl Default for MemoryBoard {
    fn default() -> Self {
        Self::new()
    }
}

impl Board for MemoryBoard {
    fn permit<'a>(&'a self, target: &'a str) -> BoxFuture<'a, Result<(Permit, Option<Transition>), StoreError>> {
        Box::pin(async move { Ok(self.permit_now(target)) })
    }

    fn report<'a>(
        &'a self,
        target: &'a str,
        signal: Signal,
        probe: bool,
        reason: &'a str,
        settings: &'a Settings,
    ) -> BoxFuture<'a, Result<Option<Transition>, StoreError>> {
        Box::pin(async move { Ok(self.report_now(target, signal, probe, reason, settings)) })
    }

    fn force<'a>(
        &'a self,
        target: &'a str,
        state: StateName,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<Transition, StoreError>> {
        Box::pin(async move { Ok(self.force_now(target, state, reason)) })
    }

    fn take<'a>(&'a self, key: &'a str, rate: Rate) -> BoxFuture<'a, Result<Result<(), Duration>, StoreError>> {
        Box::pin(async move { Ok(self.rates.lock().take(key, self.clock.elapsed_ns(), rate)) })
    }

    fn count<'a>(
        &'a self,
        tool_id: &'a str,
        code: Option<ErrorCode>,
        latency_ms: u64,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.count_now(tool_id, code, latency_ms);
            Ok(())
        })
    }

    fn breakers(&self) -> BoxFuture<'_, Result<Vec<BreakerView>, StoreError>> {
        Box::pin(async move { Ok(self.breaker_views()) })
    }

    fn health(&self) -> BoxFuture<'_, Result<Vec<ToolHealth>, StoreError>> {
        Box::pin(async move { Ok(self.tool_healths()) })
    }
}

/// A clock that never goes backwards, shown as Unix time, and that tests can pause.
struct Clock {
    started: Instant,
    started_unix_ms: u64,
}

impl Clock {
    fn start() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), started_unix_ms: u64::try_from(unix.as_millis()).unwrap_or(0) }
    }

    fn unix_ms(&self) -> u64 {
        self.started_unix_ms + u64::try_from(self.started.elapsed().as_millis()).unwrap_or(0)
    }

    fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Random numbers that need be neither secret nor good, only different in every process (splitmix64).
struct Jitter(AtomicU64);

impl Jitter {
    fn seeded() -> Self {
        Self(AtomicU64::new(std::hash::RandomState::new().build_hasher().finish()))
    }

    /// The next one, from 0 to less than 1.
    fn next(&self) -> f64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Named values, each under a lock of its own, at most `max` of them.
struct Shelf<T> {
    max: usize,
    values: RwLock<HashMap<Arc<str>, Arc<Mutex<T>>>>,
}

impl<T: Default> Shelf<T> {
    fn new(max: usize) -> Self {
        Self { max, values: RwLock::default() }
    }

    /// Works on one value, made when it is asked for the first time. Beyond the cap, those that are
    /// `idle` make room; when none is, an arbitrary one.
    fn with<R>(&self, name: &str, work: impl FnOnce(&mut T) -> R, idle: impl Fn(&T) -> bool) -> R {
        if let Some(value) = self.values.read().get(name) {
            return work(&mut value.lock());
        }
        let mut values = self.values.write();
        if values.len() >= self.max && !values.contains_key(name) {
            values.retain(|_, value| !idle(&value.lock()));
            if values.len() >= self.max
                && let Some(any) = values.keys().next().cloned()
            {
                values.remove(&any);
            }
        }
        let value = values.entry(Arc::from(name)).or_default();
        work(&mut value.lock())
    }

    /// Shows every value, by name.
    fn list<R>(&self, show: impl Fn(&str, &T) -> R) -> Vec<R> {
        let mut values: Vec<_> = self.values.read().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        values.sort_by(|one, other| one.0.cmp(&other.0));
        values.iter().map(|(name, value)| show(name, &value.lock())).collect()
    }
}

/// When each rate will be idle again, in nanoseconds of the board's clock.
#[derive(Default)]
struct Rates {
    idle_at: HashMap<Arc<str>, u64>,
    sweep_at: usize,
}

impl Rates {
    fn take(&mut self, key: &str, now_ns: u64, rate: Rate) -> Result<(), Duration> {
        if let Some(idle_at) = self.idle_at.get_mut(key) {
            *idle_at = rate::take(*idle_at, now_ns, rate)?;
            return Ok(());
        }
        if self.idle_at.len() >= self.sweep_at.max(1_024) {
            self.sweep(now_ns);
        }
        self.idle_at.insert(Arc::from(key), rate::take(0, now_ns, rate)?);
        Ok(())
    }

    /// An idle rate and one that was never asked are the same. Beyond the cap the half that is nearest
    /// to being idle goes, too: those callers gain at most one burst.
    fn sweep(&mut self, now_ns: u64) {
        self.idle_at.retain(|_, idle_at| *idle_at > now_ns);
        if self.idle_at.len() >= RATES_MAX {
            let mut times: Vec<u64> = self.idle_at.values().copied().collect();
            let (_, middle, _) = times.select_nth_unstable(RATES_MAX / 2);
            let middle = *middle;
            self.idle_at.retain(|_, idle_at| *idle_at > middle);
        }
        self.sweep_at = (self.idle_at.len() * 2).min(RATES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_A_SECOND: Rate = Rate { per_minute: 60, burst: 1 };

    #[test]
    fn idle_rates_are_forgotten_and_busy_ones_stay_within_the_cap() {
        let mut rates = Rates::default();
        for caller in 0..10_000 {
            assert!(rates.take(&format!("idle-{caller}"), 0, ONE_A_SECOND).is_ok());
        }
        let later = 2_000_000_000;
        for caller in 0..200_000 {
            assert!(rates.take(&format!("busy-{caller}"), later, ONE_A_SECOND).is_ok());
            assert!(rates.idle_at.len() <= RATES_MAX);
        }
        assert!(!rates.idle_at.keys().any(|key| key.starts_with("idle")));
        assert!(rates.take("busy-199999", later, ONE_A_SECOND).is_err(), "the newest are remembered");
    }

    #[test]
    fn beyond_the_cap_closed_breakers_make_room_and_open_ones_stay() {
        let shelf: Shelf<Breaker> = Shelf::new(10);
        let closed = |breaker: &Breaker| breaker.state() == StateName::Closed;
        shelf.with("down", |breaker| breaker.force(1, StateName::ForcedOpen, "x"), closed);
        for target in 0..100 {
            shelf.with(&format!("up-{target}"), |breaker| breaker.permit(1), closed);
        }
        let shown = shelf.list(|name, breaker| (name.to_owned(), breaker.state()));
        assert!(shown.len() <= 10);
        assert!(shown.contains(&("down".to_owned(), StateName::ForcedOpen)));
    }

    #[test]
    fn jitter_stays_in_the_unit_interval_and_moves() {
        let jitter = Jitter::seeded();
        let drawn: Vec<f64> = (0..1_000).map(|_| jitter.next()).collect();
        assert!(drawn.iter().all(|number| (0.0..1.0).contains(number)));
        let mean = drawn.iter().sum::<f64>() / 1_000.0;
        assert!((0.4..0.6).contains(&mean), "{mean}");
    }
}
