//! Whether and when one more attempt is made: the only retry layer there is (DESIGN section 5).
//!
//! At most three attempts at one tool, full jitter from 100 ms doubling, a wait the upstream asked for
//! honoured when it fits the deadline, and a retry budget per upstream: a fifth of recent calls, so that
//! retries cannot triple the load on something that is already failing.

use std::time::Duration;

use parking_lot::Mutex;

use super::verdict::Repeat;

/// Attempts at one tool, the first included.
pub(crate) const ATTEMPTS: u32 = 3;

/// The longest first pause.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Time an attempt needs to be worth starting.
pub(crate) const WORTH_TRYING: Duration = Duration::from_millis(5);

/// One more attempt, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait, then try.
    After(Duration),
    /// The table forbids it.
    Forbidden,
    /// All attempts are used.
    NoAttempts,
    /// The pause would not fit the deadline.
    NoTime,
    /// The upstream's retry budget is used up.
    NoBudget,
}

/// Decides. `made` counts the attempts at this tool so far; `random` is in 0..1; `budget` is asked last,
/// because asking spends.
pub(crate) fn next(
    repeat: Repeat,
    made: u32,
    asked_for: Option<Duration>,
    remaining: Duration,
    random: f64,
    budget: impl FnOnce() -> bool,
) -> Next {
    let jittered = FIRST_PAUSE.mul_f64(random.clamp(0.0, 1.0) * f64::from(1u32 << made.saturating_sub(1).min(10)));
    let pause = match repeat {
        Repeat::Never => return Next::Forbidden,
        Repeat::Soon => jittered,
        Repeat::AfterDelay => asked_for.map_or(jittered, |wait| wait + jittered / 4),
    };
    if made >= ATTEMPTS {
        return Next::NoAttempts;
    }
    if pause + WORTH_TRYING > remaining {
        return Next::NoTime;
    }
    if !budget() {
        return Next::NoBudget;
    }
    Next::After(pause)
}

/// The retry budget of one upstream: every call pays in a fifth of a retry, every retry takes one out.
/// Starts with ten, holds at most a hundred.
#[derive(Debug)]
pub(crate) struct Budget(Mutex<u32>);

/// One retry, in the unit the budget is counted in (fifths).
const RETRY: u32 = 5;

impl Default for Budget {
    fn default() -> Self {
        Self(Mutex::new(10 * RETRY))
    }
}

impl Budget {
    /// A call was made: pay in.
    pub(crate) fn pay_in(&self) {
        let mut fifths = self.0.lock();
        *fifths = (*fifths + 1).min(100 * RETRY);
    }

    /// Takes one retry out, if there is one.
    pub(crate) fn spend(&self) -> bool {
        let mut fifths = self.0.lock();
        match fifths.checked_sub(RETRY) {
            Some(left) => {
                *fifths = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn three_attempts_with_pauses_that_double_at_most() {
        assert_eq!(next(Repeat::Soon, 1, None, LONG, 1.0, || true), Next::After(Duration::from_millis(100)));
        assert_eq!(next(Repeat::Soon, 2, None, LONG, 1.0, || true), Next::After(Duration::from_millis(200)));
        assert_eq!(next(Repeat::Soon, 2, None, LONG, 0.0, || true), Next::After(Duration::ZERO));
        assert_eq!(next(Repeat::Soon, 3, None, LONG, 1.0, || true), Next::NoAttempts);
        assert_eq!(next(Repeat::Never, 1, None, LONG, 1.0, || true), Next::Forbidden);
    }

    #[test]
    fn a_wait_the_upstream_asked_for_is_kept_if_it_fits_and_refused_if_not() {
        let asked = Some(Duration::from_secs(2));
        assert_eq!(next(Repeat::AfterDelay, 1, asked, LONG, 0.0, || true), Next::After(Duration::from_secs(2)));
        assert_eq!(next(Repeat::AfterDelay, 1, asked, Duration::from_secs(1), 0.0, || true), Next::NoTime);
    }

    #[test]
    fn the_budget_allows_a_fifth_of_calls_in_the_long_run() {
        let budget = Budget::default();
        let at_first = (0..100).filter(|_| budget.spend()).count();
        assert_eq!(at_first, 10);
        for _ in 0..100 {
            budget.pay_in();
        }
        assert_eq!((0..100).filter(|_| budget.spend()).count(), 20);
    }

    #[test]
    fn the_budget_is_not_spent_when_there_is_no_time() {
        let budget = Budget::default();
        next(Repeat::Soon, 1, None, Duration::ZERO, 1.0, || budget.spend());
        assert_eq!((0..100).filter(|_| budget.spend()).count(), 10);
    }
}
