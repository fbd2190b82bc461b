//! Blocking work for an async caller that may go away at any moment.
//!
//! A thread cannot be dropped, so the work asks before it does what cannot be undone: [`Leave::commit`]
//! sets the attempt's mark and fails once the caller has gone, in one step. Whoever drops the call
//! therefore knows: either the mark is set, or nothing will ever happen.

use std::sync::Arc;

use parking_lot::Mutex;
use reach_core::{Failure, FailureKind, SentMark};

use super::failure::Error;

/// The leave to go on.
#[derive(Debug)]
pub(super) struct Leave {
    has_gone: Mutex<bool>,
    sent: SentMark,
}

impl Leave {
    pub(super) fn new(sent: SentMark) -> Self {
        Self { has_gone: Mutex::new(false), sent }
    }

    /// Fails once the caller has gone. Long work asks between files.
    pub(super) fn check(&self) -> Result<(), Error> {
        if *self.has_gone.lock() { Err(Error::Gone) } else { Ok(()) }
    }

    /// Asks for the last time: what follows may change something. Afterwards the attempt counts as sent.
    pub(super) fn commit(&self) -> Result<(), Error> {
        let has_gone = self.has_gone.lock();
        if *has_gone {
            return Err(Error::Gone);
        }
        self.sent.set();
        Ok(())
    }

    pub(super) fn withdraw(&self) {
        *self.has_gone.lock() = true;
    }
}

/// Withdraws the leave when the call is dropped.
struct Caller(Arc<Leave>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.withdraw();
    }
}

/// Runs `job` on a thread for blocking work. Dropping the future withdraws its leave.
pub(super) async fn run<T: Send + 'static>(
    sent: &SentMark,
    job: impl FnOnce(&Leave) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let leave = Arc::new(Leave::new(sent.clone()));
    let caller = Caller(Arc::clone(&leave));
    let outcome = tokio::task::spawn_blocking(move || job(&leave)).await;
    drop(caller);
    outcome.unwrap_or_else(|error| {
        let message = "the file adapter failed by a defect of its own";
        Err(Failure::new(FailureKind::Internal, sent.phase(), message).with_detail(error.to_string()))
    })
}
