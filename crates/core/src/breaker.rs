//! The circuit breaker as a value: it never waits and never looks at a clock.
//!
//! Opens on `failures` in a row, or when at least `window_percent` of at least `window_calls` calls of
//! the last `window_ms` failed. Stays open for `open_ms` x 2^n (at most `open_max_ms`, less up to a
//! quarter of jitter), then lets one probe through at a time; two successes close it. Whoever holds the
//! value (the board) serialises access; a shared board can store it whole.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// When a breaker opens and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Failures in a row that open it.
    pub failures: u32,
    /// The window of the failure rate.
    pub window_ms: u64,
    /// Calls the window must hold before the rate counts.
    pub window_calls: u32,
    /// Failed calls in a hundred that open it.
    pub window_percent: u32,
    /// How long it stays open the first time.
    pub open_ms: u64,
    /// How long it stays open at most.
    pub open_max_ms: u64,
    /// Successes in a row that close it again.
    pub successes: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            failures: 3,
            window_ms: 30_000,
            window_calls: 10,
            window_percent: 50,
            open_ms: 5_000,
            open_max_ms: 60_000,
            successes: 2,
        }
    }
}

/// A probe whose outcome is never reported (its process died) frees its place after this.
const PROBE_LEASE_MS: u64 = 60_000;

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateName {
    /// Calls pass.
    Closed,
    /// Calls are refused.
    Open,
    /// One probe at a time passes.
    HalfOpen,
    /// Refused until a person says otherwise.
    ForcedOpen,
    /// Calls pass and nothing is counted, until a person says otherwise.
    Disabled,
}

impl StateName {
    /// The word used in wire and journal.
    pub fn as_str(self) -> &'static str {
        match self {
            StateName::Closed => "closed",
            StateName::Open => "open",
            StateName::HalfOpen => "half_open",
            StateName::ForcedOpen => "forced_open",
            StateName::Disabled => "disabled",
        }
    }
}

/// What one attempt tells about its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// It answered, even if with a business refusal.
    Success,
    /// It could not be reached, broke, timed out or failed by its own word.
    Failure,
    /// It asked to slow down: counts for the rate, not for the row.
    Soft,
    /// Says nothing about it: cancelled, or stopped by a deadline shorter than the declared one.
    Nothing,
}

/// Whether a call may go out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It may. A probe must be reported with the same flag.
    Allowed {
        /// It is the one call that tests a half-open upstream.
        probe: bool,
    },
    /// It may not.
    Refused {
        /// Since when, on the board's clock.
        since_ms: u64,
        /// When to try again; null when only a person can open it.
        retry_after_ms: Option<u64>,
        /// The message of the failure that opened it, or who forced it.
        reason: String,
    },
}

/// A move from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Where it stood.
    pub from: StateName,
    /// Where it stands.
    pub to: StateName,
}

/// One breaker. All times are milliseconds on the holder's clock, which must not go backwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Breaker {
    state: StateName,
    since_ms: u64,
    open_until_ms: u64,
    times_opened: u32,
    failures_in_row: u32,
    successes_in_row: u32,
    probe_until_ms: Option<u64>,
    reason: String,
    recent: VecDeque<(u64, bool)>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            state: StateName::Closed,
            since_ms: 0,
            open_until_ms: 0,
            times_opened: 0,
            failures_in_row: 0,
            successes_in_row: 0,
            probe_until_ms: None,
            reason: String::new(),
            recent: VecDeque::new(),
        }
    }
}

/// Outcomes kept for the failure rate; older ones fall out even inside the window.
const RECENT_MAX: usize = 200;

impl Breaker {
    /// Where it stands now; an open breaker whose time has passed still says `open` until asked for a permit.
    pub fn state(&self) -> StateName {
        self.state
    }

    /// Since when it stands there.
    pub fn since_ms(&self) -> u64 {
        self.since_ms
    }

    /// What opened it; empty when nothing did.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Milliseconds until the next probe; null unless open by itself.
    pub fn retry_after_ms(&self, now_ms: u64) -> Option<u64> {
        (self.state == StateName::Open).then(|| self.open_until_ms.saturating_sub(now_ms))
    }

    /// Asks whether a call may go out now.
    pub fn permit(&mut self, now_ms: u64) -> (Permit, Option<Transition>) {
        let refused = |breaker: &Self, retry_after_ms| Permit::Refused {
            since_ms: breaker.since_ms,
            retry_after_ms,
            reason: breaker.reason.clone(),
        };
        match self.state {
            StateName::Closed | StateName::Disabled => (Permit::Allowed { probe: false }, None),
            StateName::ForcedOpen => (refused(self, None), None),
            StateName::Open if now_ms < self.open_until_ms => (refused(self, Some(self.open_until_ms - now_ms)), None),
            StateName::Open => {
                // `since_ms` keeps the moment it opened: that is what "unreachable since" means.
                self.state = StateName::HalfOpen;
                self.successes_in_row = 0;
                self.probe_until_ms = Some(now_ms + PROBE_LEASE_MS);
                (Permit::Allowed { probe: true }, Some(Transition { from: StateName::Open, to: StateName::HalfOpen }))
            }
            StateName::HalfOpen => match self.probe_until_ms {
                // Another probe is out; its answer is at most a call away.
                Some(until) if now_ms < until => (refused(self, Some(250)), None),
                _ => {
                    self.probe_until_ms = Some(now_ms + PROBE_LEASE_MS);
                    (Permit::Allowed { probe: true }, None)
                }
            },
        }
    }

    /// Tells how a permitted call went. `jitter` is a random number in 0..1; `reason` is kept when the
    /// breaker opens.
    pub fn report(
        &mut self,
        now_ms: u64,
        signal: Signal,
        probe: bool,
        reason: &str,
        settings: &Settings,
        jitter: f64,
    ) -> Option<Transition> {
        match self.state {
            StateName::Disabled | StateName::ForcedOpen => None,
            // A call that began before it opened says nothing new.
            StateName::Open => None,
            StateName::HalfOpen if !probe => None,
            StateName::HalfOpen => {
                self.probe_until_ms = None;
                match signal {
                    Signal::Nothing | Signal::Soft => None,
                    Signal::Failure => Some(self.open(now_ms, reason, settings, jitter)),
                    Signal::Success => {
                        self.successes_in_row += 1;
                        (self.successes_in_row >= settings.successes).then(|| {
                            let from = self.state;
                            *self = Self { since_ms: now_ms, ..Self::default() };
                            Transition { from, to: StateName::Closed }
                        })
                    }
                }
            }
            StateName::Closed => {
                match signal {
                    Signal::Nothing => return None,
                    Signal::Success => self.failures_in_row = 0,
                    Signal::Failure => self.failures_in_row += 1,
                    Signal::Soft => {}
                }
                self.remember(now_ms, signal != Signal::Success, settings);
                (self.failures_in_row >= settings.failures || self.rate_exceeded(settings))
                    .then(|| self.open(now_ms, reason, settings, jitter))
            }
        }
    }

    /// By hand: `ForcedOpen`, `Disabled`, or `Closed` to give it back to itself.
    pub fn force(&mut self, now_ms: u64, state: StateName, reason: &str) -> Transition {
        let from = self.state;
        *self = Self { state, since_ms: now_ms, reason: reason.to_owned(), ..Self::default() };
        Transition { from, to: state }
    }

    fn open(&mut self, now_ms: u64, reason: &str, settings: &Settings, jitter: f64) -> Transition {
        let from = self.state;
        let doubled = settings.open_ms.saturating_mul(1u64.checked_shl(self.times_opened.min(20)).unwrap_or(u64::MAX));
        let pause = doubled.min(settings.open_max_ms);
        let pause = pause - (pause as f64 * 0.25 * jitter.clamp(0.0, 1.0)) as u64;
        if from != StateName::HalfOpen {
            self.since_ms = now_ms;
        }
        self.state = StateName::Open;
        self.open_until_ms = now_ms + pause;
        self.times_opened += 1;
        self.failures_in_row = 0;
        self.successes_in_row = 0;
        self.probe_until_ms = None;
        self.reason = reason.to_owned();
        self.recent.clear();
        Transition { from, to: StateName::Open }
    }

    fn remember(&mut self, now_ms: u64, failed: bool, settings: &Settings) {
        self.recent.push_back((now_ms, failed));
        while self.recent.len() > RECENT_MAX
            || self.recent.front().is_some_and(|(at, _)| at + settings.window_ms < now_ms)
        {
            self.recent.pop_front();
        }
    }

    fn rate_exceeded(&self, settings: &Settings) -> bool {
        let calls = self.recent.len() as u64;
        let failed = self.recent.iter().filter(|(_, failed)| *failed).count() as u64;
        calls >= u64::from(settings.window_calls) && failed * 100 >= calls * u64::from(settings.window_percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_JITTER: f64 = 0.0;

    fn fail(breaker: &mut Breaker, now: u64, probe: bool) -> Option<Transition> {
        breaker.report(now, Signal::Failure, probe, "refused", &Settings::default(), NO_JITTER)
    }

    fn succeed(breaker: &mut Breaker, now: u64, probe: bool) -> Option<Transition> {
        breaker.report(now, Signal::Success, probe, "", &Settings::default(), NO_JITTER)
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        for now in 0..3 {
            fail(&mut breaker, now, false);
        }
        assert_eq!(breaker.state(), StateName::Open);
        breaker
    }

    #[test]
    fn three_failures_in_a_row_open_it_and_a_success_between_does_not() {
        let mut breaker = Breaker::default();
        assert!(fail(&mut breaker, 0, false).is_none());
        assert!(fail(&mut breaker, 1, false).is_none());
        assert!(succeed(&mut breaker, 2, false).is_none());
        assert!(fail(&mut breaker, 3, false).is_none());
        assert!(fail(&mut breaker, 4, false).is_none());
        assert_eq!(fail(&mut breaker, 5, false), Some(Transition { from: StateName::Closed, to: StateName::Open }));
    }

    #[test]
    fn half_of_ten_calls_failing_opens_it_even_when_never_three_in_a_row() {
        let mut breaker = Breaker::default();
        let mut opened_at = None;
        for now in 0..20 {
            let moved = if now % 2 == 0 { succeed(&mut breaker, now, false) } else { fail(&mut breaker, now, false) };
            if moved.is_some() {
                opened_at = Some(now);
                break;
            }
        }
        assert_eq!(opened_at, Some(9));
    }

    #[test]
    fn calls_older_than_the_window_do_not_count_for_the_rate() {
        let mut breaker = Breaker::default();
        for index in 0..20 {
            let now = index * 20_000;
            let moved = if index % 2 == 0 { succeed(&mut breaker, now, false) } else { fail(&mut breaker, now, false) };
            assert!(moved.is_none());
        }
    }

    #[test]
    fn open_refuses_with_the_wait_then_one_probe_passes_and_two_successes_close_it() {
        let mut breaker = opened();
        assert_eq!(
            breaker.permit(1_002).0,
            Permit::Refused { since_ms: 2, retry_after_ms: Some(4_000), reason: "refused".into() }
        );
        assert_eq!(breaker.permit(5_002).0, Permit::Allowed { probe: true });
        assert!(matches!(breaker.permit(5_003).0, Permit::Refused { .. }), "one probe at a time");
        assert!(succeed(&mut breaker, 5_010, true).is_none());
        assert_eq!(breaker.permit(5_011).0, Permit::Allowed { probe: true });
        assert_eq!(
            succeed(&mut breaker, 5_020, true),
            Some(Transition { from: StateName::HalfOpen, to: StateName::Closed })
        );
        assert_eq!(breaker.permit(5_021).0, Permit::Allowed { probe: false });
    }

    #[test]
    fn a_failed_probe_opens_it_for_twice_as_long_up_to_the_cap() {
        let mut breaker = opened();
        let mut now = 5_002;
        let mut waits = Vec::new();
        for _ in 0..5 {
            assert_eq!(breaker.permit(now).0, Permit::Allowed { probe: true });
            fail(&mut breaker, now, true);
            let wait = breaker.retry_after_ms(now).unwrap();
            waits.push(wait);
            now += wait;
        }
        assert_eq!(waits, [10_000, 20_000, 40_000, 60_000, 60_000]);
        assert_eq!(breaker.since_ms(), 2, "unreachable since the first opening");
    }

    #[test]
    fn a_cancelled_probe_gives_its_place_to_the_next_call() {
        let mut breaker = opened();
        breaker.permit(5_002);
        breaker.report(5_003, Signal::Nothing, true, "", &Settings::default(), NO_JITTER);
        assert_eq!(breaker.permit(5_004).0, Permit::Allowed { probe: true });
    }

    #[test]
    fn a_probe_that_is_never_reported_frees_its_place_by_lease() {
        let mut breaker = opened();
        breaker.permit(5_002);
        assert!(matches!(breaker.permit(65_001).0, Permit::Refused { .. }));
        assert_eq!(breaker.permit(65_002).0, Permit::Allowed { probe: true });
    }

    #[test]
    fn soft_failures_open_by_rate_only() {
        let mut breaker = Breaker::default();
        let soft = |breaker: &mut Breaker, now| {
            breaker.report(now, Signal::Soft, false, "429", &Settings::default(), NO_JITTER)
        };
        for now in 0..9 {
            assert!(soft(&mut breaker, now).is_none());
        }
        assert!(soft(&mut breaker, 9).is_some());
    }

    #[test]
    fn forced_open_refuses_until_closed_by_hand_and_disabled_never_opens() {
        let mut breaker = Breaker::default();
        breaker.force(7, StateName::ForcedOpen, "maintenance");
        assert_eq!(
            breaker.permit(1_000_000).0,
            Permit::Refused { since_ms: 7, retry_after_ms: None, reason: "maintenance".into() }
        );
        breaker.force(8, StateName::Disabled, "");
        for now in 8..20 {
            assert!(fail(&mut breaker, now, false).is_none());
        }
        assert_eq!(breaker.permit(20).0, Permit::Allowed { probe: false });
    }

    #[test]
    fn jitter_shortens_the_pause_by_at_most_a_quarter() {
        let mut breaker = Breaker::default();
        for now in 0..3 {
            breaker.report(now, Signal::Failure, false, "x", &Settings::default(), 1.0);
        }
        assert_eq!(breaker.retry_after_ms(2), Some(3_750));
    }
}
