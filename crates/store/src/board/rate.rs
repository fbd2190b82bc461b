//! The rate rule (GCRA) as a function over one number: the moment at which the rate would be idle again.
//!
//! One call costs one interval; a burst of `n` may run `n` intervals ahead. No counters, no windows, no
//! timers: whoever holds the number (a board) stores it back.

use std::time::Duration;

use reach_core::plan::Rate;

const MINUTE_NS: u64 = 60_000_000_000;

/// Takes one call at `now_ns`. `idle_at_ns` is what the last granted call left behind (0 for none).
/// Grants with the number to keep, or says how long until exactly this call is free. A refusal costs
/// nothing.
pub(crate) fn take(idle_at_ns: u64, now_ns: u64, rate: Rate) -> Result<u64, Duration> {
    let interval = MINUTE_NS / u64::from(rate.per_minute.max(1));
    let ahead_allowed = interval.saturating_mul(u64::from(rate.burst.max(1)));
    let next = idle_at_ns.max(now_ns).saturating_add(interval);
    match (next - now_ns).checked_sub(ahead_allowed) {
        None | Some(0) => Ok(next),
        Some(wait) => Err(Duration::from_nanos(wait)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIXTY: Rate = Rate { per_minute: 60, burst: 3 };
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_burst_passes_at_once_and_the_next_call_waits_exactly_one_interval() {
        let mut idle_at = 0;
        for _ in 0..3 {
            idle_at = take(idle_at, 0, SIXTY).unwrap();
        }
        assert_eq!(take(idle_at, 0, SIXTY), Err(Duration::from_secs(1)));
        assert_eq!(take(idle_at, SECOND / 4, SIXTY), Err(Duration::from_millis(750)));
        assert!(take(idle_at, SECOND - 1, SIXTY).is_err());
        assert!(take(idle_at, SECOND, SIXTY).is_ok());
    }

    #[test]
    fn refusals_do_not_push_the_next_free_call_away() {
        let mut idle_at = 0;
        for _ in 0..3 {
            idle_at = take(idle_at, 0, SIXTY).unwrap();
        }
        for now in 0..1_000 {
            assert!(take(idle_at, now, SIXTY).is_err());
        }
        assert!(take(idle_at, SECOND, SIXTY).is_ok());
    }

    #[test]
    fn a_pause_refills_the_burst_and_no_more_than_the_burst() {
        let mut idle_at = take(0, 0, SIXTY).unwrap();
        for _ in 0..3 {
            idle_at = take(idle_at, 3_600 * SECOND, SIXTY).unwrap();
        }
        assert_eq!(take(idle_at, 3_600 * SECOND, SIXTY), Err(Duration::from_secs(1)));
    }

    #[test]
    fn a_rate_of_zero_is_read_as_one() {
        let zero = Rate { per_minute: 0, burst: 0 };
        let idle_at = take(0, 0, zero).unwrap();
        assert_eq!(take(idle_at, 0, zero), Err(Duration::from_secs(60)));
    }

    proptest! {
        #[test]
        fn never_more_than_burst_plus_the_long_run(
            per_minute in 1u32..6_000,
            burst in 1u32..50,
            pauses in prop::collection::vec(0u64..2_000_000_000, 1..300),
        ) {
            let rate = Rate { per_minute, burst };
            let (mut now, mut idle_at, mut granted) = (0u64, 0, 0u64);
            for pause in pauses {
                now += pause;
                if let Ok(next) = take(idle_at, now, rate) {
                    idle_at = next;
                    granted += 1;
                }
            }
            let interval = MINUTE_NS / u64::from(per_minute);
            prop_assert!(granted <= u64::from(burst) + now / interval + 1);
        }

        #[test]
        fn whoever_waits_as_told_is_let_through(per_minute in 1u32..100_000, burst in 1u32..20, calls in 1usize..60) {
            let rate = Rate { per_minute, burst };
            let (mut now, mut idle_at) = (7u64, 0);
            for _ in 0..calls {
                if let Err(wait) = take(idle_at, now, rate) {
                    now += u64::try_from(wait.as_nanos()).unwrap();
                }
                idle_at = take(idle_at, now, rate).unwrap();
            }
        }
    }
}
