//! The waiting line of one upstream: at most so many calls at once, the rest wait by priority.
//!
//! Within one priority the line is first come, first served. A place is given back when its [`Place`] is
//! dropped, whatever happened to the call; a waiter that goes away leaves the line.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use reach_core::Priority;
use tokio::sync::oneshot;

/// Calls that may wait for one upstream; more are turned away at once.
const WAITING_MAX: usize = 1_024;

/// The line of one upstream.
#[derive(Debug)]
pub(crate) struct Line {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    cap: usize,
    busy: usize,
    arrivals: u64,
    // Highest priority first, then by arrival: the first key is served next.
    waiting: BTreeMap<(std::cmp::Reverse<Priority>, u64), oneshot::Sender<Place>>,
}

/// A place at the upstream.
#[derive(Debug)]
pub(crate) struct Place {
    line: Option<Arc<Line>>,
}

impl Line {
    /// A line that lets `cap` calls through at once.
    pub(crate) fn new(cap: usize) -> Arc<Self> {
        let state = State { cap: cap.max(1), busy: 0, arrivals: 0, waiting: BTreeMap::new() };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Changes the cap; calls that hold a place keep it.
    pub(crate) fn set_cap(self: &Arc<Self>, cap: usize) {
        self.state.lock().cap = cap.max(1);
        while self.serve_next() {}
    }

    /// Waits for a place. `None` when the line itself is full. Dropping the future leaves the line.
    pub(crate) async fn enter(self: &Arc<Self>, priority: Priority) -> Option<Place> {
        let (key, receiver) = {
            let mut state = self.state.lock();
            if state.busy < state.cap && state.waiting.is_empty() {
                state.busy += 1;
                return Some(Place { line: Some(Arc::clone(self)) });
            }
            if state.waiting.len() >= WAITING_MAX {
                return None;
            }
            state.arrivals += 1;
            let key = (std::cmp::Reverse(priority), state.arrivals);
            let (sender, receiver) = oneshot::channel();
            state.waiting.insert(key, sender);
            (key, receiver)
        };
        let waiter = Waiter { line: self, key };
        let place = receiver.await.ok();
        drop(waiter);
        place
    }

    /// Hands a free place to the next waiter; says whether it did.
    fn serve_next(self: &Arc<Self>) -> bool {
        let next = {
            let mut state = self.state.lock();
            if state.busy >= state.cap {
                return false;
            }
            let Some((_, sender)) = state.waiting.pop_first() else { return false };
            state.busy += 1;
            sender
        };
        // A waiter that has just gone drops the place, which serves the one behind it.
        drop(next.send(Place { line: Some(Arc::clone(self)) }));
        true
    }
}

/// Takes a waiter out of the line when its future ends or is dropped.
struct Waiter<'a> {
    line: &'a Arc<Line>,
    key: (std::cmp::Reverse<Priority>, u64),
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.line.state.lock().waiting.remove(&self.key);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(line) = self.line.take() {
            line.state.lock().busy -= 1;
            line.serve_next();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_line_is_ordered_by_priority_and_then_by_arrival() {
        let line = Line::new(1);
        let held = line.enter(Priority::Normal).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiters = Vec::new();
        for (name, priority) in [
            ("low", Priority::Low),
            ("first", Priority::Normal),
            ("second", Priority::Normal),
            ("high", Priority::High),
        ] {
            let (line, order) = (Arc::clone(&line), Arc::clone(&order));
            let mut waiter = Box::pin(async move {
                let place = line.enter(priority).await.unwrap();
                order.lock().push(name);
                drop(place);
            });
            assert!((&mut waiter).now_or_never().is_none());
            waiters.push(waiter);
        }
        drop(held);
        futures_util::future::join_all(waiters).await;
        assert_eq!(*order.lock(), ["high", "first", "second", "low"]);
    }

    #[tokio::test]
    async fn a_waiter_that_goes_away_leaves_no_place_behind() {
        let line = Line::new(1);
        let held = line.enter(Priority::Normal).await.unwrap();
        let mut gone = Box::pin(line.enter(Priority::High));
        assert!((&mut gone).now_or_never().is_none());
        drop(gone);
        drop(held);
        assert!(line.enter(Priority::Low).now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn a_raised_cap_serves_the_waiting_at_once() {
        let line = Line::new(1);
        let _held = line.enter(Priority::Normal).await.unwrap();
        let mut waiter = Box::pin(line.enter(Priority::Normal));
        assert!((&mut waiter).now_or_never().is_none());
        line.set_cap(2);
        assert!(waiter.now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn a_full_line_turns_the_next_call_away() {
        let line = Line::new(1);
        let _held = line.enter(Priority::Normal).await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..WAITING_MAX {
            let mut waiter = Box::pin(line.enter(Priority::Normal));
            assert!((&mut waiter).now_or_never().is_none());
            waiting.push(waiter);
        }
        assert!(line.enter(Priority::High).now_or_never().is_some_and(|place| place.is_none()));
    }
}
