//! One attempt: the adapter under a deadline, with a panic caught and the phase read from its mark.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use reach_core::{Adapter, Answer, Attempt, Failure, FailureKind, Phase};
use tokio::time::Instant;

use crate::crash;

/// How an attempt ended.
pub(crate) struct Outcome {
    pub(crate) result: Result<Answer, Failure>,
    pub(crate) duration: Duration,
}

/// What an adapter is told of the time there is. A server that stops by itself (`statement_timeout`) needs
/// a moment to say so: its word that nothing was done is worth more than ours that nobody knows.
pub(crate) fn told(timeout: Duration) -> Duration {
    timeout - (timeout / 10).min(Duration::from_millis(250))
}

/// Makes one attempt and always ends by `timeout`. Dropping the future aborts it.
pub(crate) async fn attempt(adapter: &dyn Adapter, attempt: &Attempt, timeout: Duration) -> Outcome {
    let started = Instant::now();
    crash::point("before_send");
    let guarded = AssertUnwindSafe(adapter.call(attempt)).catch_unwind();
    let result = match tokio::time::timeout(timeout, guarded).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(panicked(panic.as_ref(), attempt.sent.phase())),
        Err(_) => Err(Failure::new(
            FailureKind::Timeout,
            attempt.sent.phase(),
            format!("no answer within {} ms", timeout.as_millis()),
        )),
    };
    crash::point("after_answer");
    Outcome { result: result.map_err(never_silent), duration: started.elapsed() }
}

/// A panic is a defect of ours: the caller learns that, the journal learns the words.
fn panicked(panic: &(dyn std::any::Any + Send), phase: Phase) -> Failure {
    let words = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without words".to_owned());
    Failure::new(FailureKind::Internal, phase, "a defect in the gateway stopped this call")
        .with_detail(format!("panic: {words}"))
}

/// An adapter that fails without a word still gives the caller a sentence.
fn never_silent(mut failure: Failure) -> Failure {
    if failure.message.trim().is_empty() {
        failure.message = "the upstream failed without saying why".to_owned();
    }
    failure
}
