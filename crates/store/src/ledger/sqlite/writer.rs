//! The one thread that writes: takes what waits, puts it into one transaction, commits, answers.
//!
//! A batch that holds an intent or an ending waits for the disk (`synchronous = full`); claims and
//! journal rows alone are safe from a crash of the process and leave the syncing to the next checkpoint.
//! A failed commit answers everybody in it and leaves the thread alive: the next batch tries anew, and
//! journal rows and known endings wait for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

use super::errors::{from_sqlite, ledger_error, will_never_fit};
use super::journal::{self, EncodedRow, SessionTally};
use super::owner::OwnerLock;
use super::queue::{Batch, Queue};
use super::wish::{Answer, Left, Wish};
use crate::StoreError;

/// Commits so far: the proof that many clients share one.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) commits: AtomicU64,
    pub(super) durable: AtomicU64,
    /// Batches that the disk refused, in whole or in part.
    pub(super) failed: AtomicU64,
}

/// The thread's belongings.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) queue: Arc<Queue>,
    pub(super) counters: Arc<Counters>,
    pub(super) owner: Arc<str>,
    /// Held for as long as this thread can write.
    pub(super) _lock: OwnerLock,
}

impl Writer {
    /// Runs until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let _gone = AbandonOnExit(Arc::clone(&self.queue));
        let (mut failing, mut full_sync) = (false, false);
        while let Some(batch) = self.queue.next(failing) {
            let rows = batch.rows.len();
            let written = catch_unwind(AssertUnwindSafe(|| self.write(batch, &mut full_sync)));
            failing = match written {
                Ok(Ok(again)) => {
                    self.queue.ended(rows);
                    self.put_aside(again)
                }
                Ok(Err((back, error))) => {
                    self.counters.failed.fetch_add(1, Ordering::Relaxed);
                    if !failing {
                        tracing::warn!(error = %error.message, "the ledger cannot be written");
                    }
                    self.queue.put_back(back, &error);
                    // On the way out there is no later attempt; what is left is counted as dropped.
                    if self.queue.is_closed() {
                        return;
                    }
                    true
                }
                Err(_) => {
                    // The waiting callers know by their dropped channels.
                    tracing::error!("the ledger's writer broke off in one batch and goes on with the next");
                    let _ = self.connection.execute_batch("rollback");
                    self.queue.count_dropped(rows as u64);
                    self.queue.ended(rows);
                    false
                }
            };
        }
    }

    /// Keeps endings that SQLite refused one by one for a later batch. Returns whether there are any.
    fn put_aside(&self, again: Vec<Wish>) -> bool {
        // On the way out there is no later batch; the next recovery settles what they leave.
        let failing = !again.is_empty() && !self.queue.is_closed();
        if failing {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
            self.queue.put_aside(again);
        }
        failing
    }

    /// Writes one batch and answers everybody in it. Returns the endings that SQLite refused though it took
    /// the rest. On failure the rows come back, and the endings that were known.
    fn write(&mut self, batch: Batch, full_sync: &mut bool) -> Result<Vec<Wish>, (Batch, StoreError)> {
        let Batch { mut wishes, rows } = batch;
        if wishes.is_empty() && rows.is_empty() {
            return Ok(Vec::new());
        }
        let durable = wishes.iter().any(Wish::is_durable);
        let mut answers = Vec::with_capacity(wishes.len());
        match self.commit(&mut wishes, &rows, durable, full_sync, &mut answers) {
            Ok(lost) => {
                self.queue.count_dropped(lost);
                self.counters.commits.fetch_add(1, Ordering::Relaxed);
                self.counters.durable.fetch_add(u64::from(durable), Ordering::Relaxed);
                let mut again = Vec::new();
                for left in answers.into_iter().map(Answer::send) {
                    match left {
                        Left::Nothing => {}
                        Left::GiveBack(unused) => self.queue.wish(unused),
                        Left::Again(ending) => again.push(ending),
                    }
                }
                Ok(again)
            }
            Err(error) => {
                if !self.connection.is_autocommit()
                    && let Err(error) = self.connection.execute_batch("rollback")
                {
                    tracing::error!(%error, "the ledger cannot roll back");
                }
                let granted = answers.into_iter().filter_map(|answer| answer.fail(&error));
                let endings = granted.chain(wishes.into_iter().rev().filter_map(|wish| wish.refuse(&error))).collect();
                Err((Batch { wishes: endings, rows }, error))
            }
        }
    }

    /// One transaction. Wishes that were granted leave `wishes` and wait in `answers`. Returns how many
    /// rows SQLite will never take.
    fn commit(
        &mut self,
        wishes: &mut Vec<Wish>,
        rows: &[EncodedRow],
        durable: bool,
        full_sync: &mut bool,
        answers: &mut Vec<Answer>,
    ) -> Result<u64, StoreError> {
        let sqlite = |error| from_sqlite(&error);
        let connection = &self.connection;
        if durable != *full_sync {
            // Not possible inside a transaction.
            let mode = if durable { "pragma synchronous = full" } else { "pragma synchronous = normal" };
            connection.execute_batch(mode).map_err(sqlite)?;
            *full_sync = durable;
        }
        connection.prepare_cached("begin immediate").and_then(|mut begin| begin.execute([])).map_err(sqlite)?;
        let mut tally = SessionTally::default();
        let mut unheard = None;
        wishes.reverse();
        while let (None, Some(wish)) = (&unheard, wishes.pop()) {
            let (answer, error) = wish.grant(connection, &self.owner, &mut tally);
            answers.push(answer);
            unheard = error;
        }
        if let Some(error) = unheard {
            return Err(error);
        }
        let mut lost = 0;
        for row in rows {
            match journal::insert(connection, row) {
                Ok(()) => tally.add(row),
                Err(error) if will_never_fit(&error) && !connection.is_autocommit() => {
                    tracing::warn!(%error, "a journal row cannot be written");
                    lost += 1;
                }
                Err(error) => return Err(from_sqlite(&error)),
            }
        }
        tally.write(connection).map_err(sqlite)?;
        if connection.is_autocommit() {
            return Err(ledger_error("SQLite gave up the transaction"));
        }
        connection.prepare_cached("commit").and_then(|mut commit| commit.execute([])).map_err(sqlite)?;
        Ok(lost)
    }
}

/// However the thread ends, nobody waits for it afterwards.
struct AbandonOnExit(Arc<Queue>);

impl Drop for AbandonOnExit {
    fn drop(&mut self) {
        let lost = self.0.abandon();
        if lost > 0 {
            tracing::warn!(rows = lost, "journal rows were lost because the ledger could not be written");
        }
    }
}

#[cfg(test)]
mod tests;
