//! The line between callers and the writer thread.
//!
//! Two lines, in fact: wishes, which somebody waits for, and journal rows, which nobody does. Wishes go
//! first, so that a flood of rows never delays an intent; rows alone gather for a few milliseconds, so
//! that they share a commit. Both lines are bounded: a full line refuses wishes and drops (and counts)
//! rows. No disk is touched here, and the lock is only ever held for a push or a drain.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::errors::ledger_error;
use super::journal::EncodedRow;
use super::wish::Wish;
use crate::StoreError;

/// Wishes that may wait, and that one commit takes.
const WISHES_MAX: usize = 65_536;
const WISHES_PER_BATCH: usize = 512;

/// Journal rows that may wait, by number and by memory.
const ROWS_MAX: usize = 65_536;
const ROW_BYTES_MAX: usize = 64 << 20;

/// Rows that one commit takes: more when nobody waits for it.
const ROWS_PER_BATCH: usize = 4_096;
const ROWS_BESIDE_WISHES: usize = 256;

/// Rows that are enough for a commit of their own, and how long fewer wait for company.
const ROWS_ENOUGH: usize = 256;
const COMPANY: Duration = Duration::from_millis(5);

/// How long rows wait after the disk refused them.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Both lines.
#[derive(Default)]
pub(super) struct Queue {
    lines: Mutex<Lines>,
    wake: Condvar,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Lines {
    wishes: VecDeque<Wish>,
    /// Endings that the disk refused: tried again, though nobody waits for them any longer.
    endings: Vec<Wish>,
    rows: VecDeque<EncodedRow>,
    row_bytes: usize,
    /// Rows that ever got into the line, and rows that came to an end, written or lost.
    appended: u64,
    ended: u64,
    flushes: VecDeque<Flush>,
    /// The writer sleeps and has to be woken for a first row.
    asleep: bool,
    closed: bool,
}

/// Somebody who waits until `target` rows have come to an end.
struct Flush {
    target: u64,
    answer: oneshot::Sender<Result<(), StoreError>>,
}

/// What one commit is to hold.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) wishes: Vec<Wish>,
    pub(super) rows: Vec<EncodedRow>,
}

impl Queue {
    /// Puts a wish into the line, or answers it with the reason why not. There is always room for an
    /// ending: it frees a record, and there are never more of them than claims.
    pub(super) fn wish(&self, wish: Wish) {
        let mut lines = self.lines.lock();
        let refusal = if lines.closed {
            writer_gone()
        } else if lines.wishes.len() >= WISHES_MAX && !matches!(wish, Wish::Finish { .. }) {
            ledger_error("more requests wait for the disk than can be held; send fewer at once")
        } else {
            lines.wishes.push_back(wish);
            self.wake.notify_one();
            return;
        };
        drop(lines);
        // An ending that comes after the writer is settled by the next recovery.
        drop(wish.refuse(&refusal));
    }

    /// Puts a row into the line, or drops and counts it.
    pub(super) fn append(&self, row: EncodedRow) {
        let mut lines = self.lines.lock();
        let weight = row.weight();
        if lines.closed || lines.rows.len() >= ROWS_MAX || lines.row_bytes + weight > ROW_BYTES_MAX {
            drop(lines);
            self.count_dropped(1);
            return;
        }
        lines.row_bytes += weight;
        lines.appended += 1;
        lines.rows.push_back(row);
        if lines.asleep || lines.rows.len() == ROWS_ENOUGH {
            self.wake.notify_one();
        }
    }

    /// Asks to be told when all rows appended so far are written.
    pub(super) fn flush(&self) -> oneshot::Receiver<Result<(), StoreError>> {
        let (answer, told) = oneshot::channel();
        let mut lines = self.lines.lock();
        if lines.ended >= lines.appended {
            let _ = answer.send(Ok(()));
        } else if lines.closed {
            let _ = answer.send(Err(writer_gone()));
        } else {
            let target = lines.appended;
            lines.flushes.push_back(Flush { target, answer });
            self.wake.notify_one();
        }
        told
    }

    /// Rows that were dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Adds to the dropped rows.
    pub(super) fn count_dropped(&self, rows: u64) {
        self.dropped.fetch_add(rows, Ordering::Relaxed);
    }

    /// Waits for work. `failing`: the last commit did not succeed, so that what nobody waits for is tried
    /// again less often. `None` when the ledger is closed and nothing is left.
    pub(super) fn next(&self, failing: bool) -> Option<Batch> {
        let mut lines = self.lines.lock();
        let mut gathered = false;
        loop {
            let enough = !failing && (lines.rows.len() >= ROWS_ENOUGH || !lines.endings.is_empty());
            let nothing = lines.rows.is_empty() && lines.endings.is_empty();
            if !lines.wishes.is_empty() || !lines.flushes.is_empty() || enough || gathered {
                return Some(lines.take());
            }
            if lines.closed {
                return (!nothing).then(|| lines.take());
            }
            if nothing {
                lines.asleep = true;
                self.wake.wait(&mut lines);
                lines.asleep = false;
            } else {
                let company = if failing { AFTER_FAILURE } else { COMPANY };
                gathered = self.wake.wait_for(&mut lines, company).timed_out();
            }
        }
    }

    /// Tells that rows came to an end, and whoever waited for them.
    pub(super) fn ended(&self, rows: usize) {
        let mut lines = self.lines.lock();
        lines.ended += rows as u64;
        while lines.flushes.front().is_some_and(|flush| flush.target <= lines.ended) {
            if let Some(flush) = lines.flushes.pop_front() {
                let _ = flush.answer.send(Ok(()));
            }
        }
    }

    /// Puts back what could not be written, rows before all others, and tells whoever waits for them.
    pub(super) fn put_back(&self, Batch { wishes, rows }: Batch, error: &StoreError) {
        let mut lines = self.lines.lock();
        lines.endings.extend(wishes);
        for row in rows.into_iter().rev() {
            lines.row_bytes += row.weight();
            lines.rows.push_front(row);
        }
        for flush in lines.flushes.drain(..) {
            let _ = flush.answer.send(Err(error.clone()));
        }
    }

    /// Keeps endings for a later batch.
    pub(super) fn put_aside(&self, endings: Vec<Wish>) {
        self.lines.lock().endings.extend(endings);
    }

    /// Takes nothing more; what waits is still written.
    pub(super) fn close(&self) {
        self.lines.lock().closed = true;
        self.wake.notify_one();
    }

    /// Whether the ledger is being closed.
    pub(super) fn is_closed(&self) -> bool {
        self.lines.lock().closed
    }

    /// The writer is gone: nobody may wait for it any longer. Returns the number of rows lost.
    pub(super) fn abandon(&self) -> usize {
        let mut lines = self.lines.lock();
        lines.closed = true;
        let lost = lines.rows.len();
        lines.rows.clear();
        lines.row_bytes = 0;
        // Dropping a sender tells the receiver.
        lines.wishes.clear();
        lines.endings.clear();
        lines.flushes.clear();
        drop(lines);
        self.count_dropped(lost as u64);
        lost
    }
}

impl Lines {
    fn take(&mut self) -> Batch {
        let waiting = self.wishes.len().min(WISHES_PER_BATCH);
        let rows = self.rows.len().min(if waiting > 0 { ROWS_BESIDE_WISHES } else { ROWS_PER_BATCH });
        let mut wishes: Vec<Wish> = self.wishes.drain(..waiting).collect();
        // Whoever waits goes first.
        wishes.append(&mut self.endings);
        let batch = Batch { wishes, rows: self.rows.drain(..rows).collect() };
        self.row_bytes -= batch.rows.iter().map(EncodedRow::weight).sum::<usize>();
        batch
    }
}

/// The writer broke off or was closed.
pub(super) fn writer_gone() -> StoreError {
    ledger_error("its writer has stopped; restart reach")
}
