//! Answers that are under way, and what happens when nobody waits for them any longer.
//!
//! A caller that goes away between asking and being told has sent nothing: its claim must not stay open
//! until the process ends. So a claim, and an intent, whose future is dropped before it answers is given
//! back to whoever tries next.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::queue::{Queue, writer_gone};
use super::wish::finish_unheard;
use crate::StoreError;
use crate::ledger::{Claimed, Ending, RecordKey};

/// A claim under way.
pub(super) struct PendingClaim {
    queue: Arc<Queue>,
    key: RecordKey,
    answer: oneshot::Receiver<Result<Claimed, StoreError>>,
}

impl PendingClaim {
    pub(super) fn new(
        queue: Arc<Queue>,
        key: RecordKey,
        answer: oneshot::Receiver<Result<Claimed, StoreError>>,
    ) -> Self {
        Self { queue, key, answer }
    }
}

impl Future for PendingClaim {
    type Output = Result<Claimed, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(context).map(|answer| answer.unwrap_or_else(|_| Err(writer_gone())))
    }
}

impl Drop for PendingClaim {
    fn drop(&mut self) {
        // Either the answer is already in the channel, or the writer will find the channel closed.
        self.answer.close();
        if let Ok(Ok(Claimed::Fresh { epoch })) = self.answer.try_recv() {
            self.queue.wish(finish_unheard(self.key.clone(), epoch, Ending::Released));
        }
    }
}

/// An intent under way.
pub(super) struct PendingIntend {
    queue: Arc<Queue>,
    key: RecordKey,
    epoch: u64,
    answer: oneshot::Receiver<Result<(), StoreError>>,
    told: bool,
}

impl PendingIntend {
    pub(super) fn new(
        queue: Arc<Queue>,
        key: RecordKey,
        epoch: u64,
        answer: oneshot::Receiver<Result<(), StoreError>>,
    ) -> Self {
        Self { queue, key, epoch, answer, told: false }
    }
}

impl Future for PendingIntend {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = std::task::ready!(Pin::new(&mut self.answer).poll(context));
        self.told = true;
        Poll::Ready(answer.unwrap_or_else(|_| Err(writer_gone())))
    }
}

impl Drop for PendingIntend {
    fn drop(&mut self) {
        if !self.told {
            // Behind the intent in the same line, so that it finds what the intent left.
            self.queue.wish(finish_unheard(self.key.clone(), self.epoch, Ending::Released));
        }
    }
}
