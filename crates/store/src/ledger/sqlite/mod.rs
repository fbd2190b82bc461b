//! The ledger in one SQLite file, which several processes may share on one machine.
//!
//! All writing is done by one thread ([`writer`]) that commits whatever waits in its [`queue`] at once,
//! so that sixteen callers share one sync of the disk. Reading goes past it, over a few connections of
//! its own ([`readers`]). Who owns which open record, and whether that process still lives, is the
//! kernel's word ([`owner`]). Read next: [`records`], the transitions.

mod errors;
mod journal;
mod owner;
mod pending;
mod prune;
mod queue;
mod readers;
mod records;
mod schema;
mod wish;
mod writer;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use reach_core::{BoxFuture, CallerId, JournalRow, SessionId, TraceId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::errors::{from_sqlite, ledger_error};
use self::journal::EncodedRow;
use self::owner::{Liveness, OwnerLock};
use self::pending::{PendingClaim, PendingIntend};
use self::prune::Horizon;
use self::queue::{Queue, writer_gone};
use self::readers::Readers;
use self::wish::{Reply, Wish};
use self::writer::{Counters, Writer};
use super::{BreakerLine, Claim, Claimed, Ending, Ledger, Pruned, RecordKey, Recovered, SessionLine, Unsettled};
use crate::StoreError;

/// The ledger in one SQLite file. Dropping it writes what still waits and lets go of its lock.
pub struct SqliteLedger {
    path: PathBuf,
    owner: Arc<str>,
    queue: Arc<Queue>,
    readers: Arc<Readers>,
    counters: Arc<Counters>,
    /// The last ping that went well, and how many batches had failed by then.
    pinged: Mutex<Option<(Instant, u64)>>,
    thread: Option<JoinHandle<()>>,
}

/// How long a ping that went well is believed.
const PING_HOLDS: Duration = Duration::from_secs(1);

impl SqliteLedger {
    /// Opens the ledger at `path`, and makes it and its folder where they do not exist. Blocks for some
    /// milliseconds. Fails when the file cannot be written, is damaged, is another program's or was
    /// written by a newer reach; the message says what to do.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = schema::open_writer(path)?;
        // Whoever comes by another spelling or a link must find the same lock files.
        let path = &std::fs::canonicalize(path)
            .map_err(|error| ledger_error(format!("cannot find {} again: {error}", path.display())))?;
        let (owner, lock) = OwnerLock::take(path)
            .map_err(|error| ledger_error(format!("cannot make a lock file beside {}: {error}", path.display())))?;
        let owner: Arc<str> = owner.into();
        let (queue, counters) = (Arc::<Queue>::default(), Arc::<Counters>::default());
        let writer = Writer {
            connection,
            queue: Arc::clone(&queue),
            counters: Arc::clone(&counters),
            owner: Arc::clone(&owner),
            _lock: lock,
        };
        let thread = std::thread::Builder::new()
            .name("reach-ledger".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| ledger_error(format!("cannot start its writer: {error}")))?;
        let readers = Arc::new(Readers::new(path.to_owned()));
        Ok(Self {
            path: path.to_owned(),
            owner,
            queue,
            readers,
            counters,
            pinged: Mutex::default(),
            thread: Some(thread),
        })
    }

    /// Transactions committed so far by this process.
    pub fn commits(&self) -> u64 {
        self.counters.commits.load(Ordering::Relaxed)
    }

    /// Those among [`Self::commits`] that waited for the disk.
    pub fn durable_commits(&self) -> u64 {
        self.counters.durable.load(Ordering::Relaxed)
    }

    /// Hands a wish to the writer at once, whether or not the returned future is ever polled.
    fn ask<T: Send + 'static>(&self, wish: impl FnOnce(Reply<T>) -> Wish) -> oneshot::Receiver<Result<T, StoreError>> {
        let (reply, answer) = oneshot::channel();
        self.queue.wish(wish(reply));
        answer
    }

    /// Reads what was written before, appended rows included.
    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&rusqlite::Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // What cannot be written now must not keep anybody from reading the rest.
        let _ = self.queue.flush().await;
        Arc::clone(&self.readers).read(query).await
    }

    /// Owners that are gone, with their locks where they left any: held until the records are settled.
    async fn gone(&self) -> Result<Vec<(String, Option<OwnerLock>)>, StoreError> {
        let (path, own) = (self.path.clone(), Arc::clone(&self.owner));
        Arc::clone(&self.readers)
            .read(move |connection| {
                let find = || -> std::io::Result<BTreeSet<String>> { owner::known(&path) };
                let mut owners =
                    find().map_err(|error| ledger_error(format!("cannot list its lock files: {error}")))?;
                owners.extend(records::open_owners(connection).map_err(|error| from_sqlite(&error))?);
                owners.remove(&*own);
                let mut gone = Vec::new();
                for id in owners {
                    match owner::liveness(&path, &id) {
                        Ok(Liveness::Gone(lock)) => gone.push((id, lock)),
                        Ok(Liveness::Alive) => {}
                        // Not knowing is not being dead.
                        Err(error) => tracing::warn!(%error, "cannot tell whether an owner of records still runs"),
                    }
                }
                Ok(gone)
            })
            .await
    }
}

impl Drop for SqliteLedger {
    fn drop(&mut self) {
        self.readers.close();
        self.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the ledger's writer had broken off");
        }
    }
}

impl Ledger for SqliteLedger {
    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Claimed, StoreError>> {
        let key = claim.key.clone();
        let answer = self.ask(|reply| Wish::Claim { claim, reply });
        Box::pin(PendingClaim::new(Arc::clone(&self.queue), key, answer))
    }

    fn intend(&self, key: RecordKey, epoch: u64, row: JournalRow) -> BoxFuture<'_, Result<(), StoreError>> {
        let row = match EncodedRow::encode(row) {
            Ok(row) => row,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let answer = self.ask(|reply| Wish::Intend { key: key.clone(), epoch, row, reply });
        Box::pin(PendingIntend::new(Arc::clone(&self.queue), key, epoch, answer))
    }

    fn finish(&self, key: RecordKey, epoch: u64, ending: Ending) -> BoxFuture<'_, Result<(), StoreError>> {
        let answer = self.ask(|reply| Wish::Finish { key, epoch, ending, reply });
        Box::pin(told(answer))
    }

    fn append(&self, row: JournalRow) {
        match EncodedRow::encode(row) {
            Ok(row) => self.queue.append(row),
            Err(error) => {
                tracing::warn!(error = %error.message, "a journal row was dropped");
                self.queue.count_dropped(1);
            }
        }
    }

    fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(told(self.queue.flush()))
    }

    fn recover(&self) -> BoxFuture<'_, Result<Recovered, StoreError>> {
        Box::pin(async move {
            let gone = self.gone().await?;
            if gone.is_empty() {
                return Ok(Recovered::default());
            }
            let (ids, locks): (Vec<_>, Vec<_>) = gone.into_iter().unzip();
            let recovered = told(self.ask(|reply| Wish::Recover { gone: ids, reply })).await?;
            drop(locks);
            Ok(recovered)
        })
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let (now, failed) = (Instant::now(), self.counters.failed.load(Ordering::Relaxed));
            let holds = |(at, failures): &(Instant, u64)| *failures == failed && now.duration_since(*at) < PING_HOLDS;
            if !self.queue.is_closed() && self.pinged.lock().as_ref().is_some_and(holds) {
                return Ok(());
            }
            told(self.ask(|reply| Wish::Ping { reply })).await?;
            // SQLite goes on writing to a file that was removed, and all of it would be lost.
            if !tokio::fs::try_exists(&self.path).await.unwrap_or(false) {
                return Err(ledger_error("its file was removed while reach runs; restart reach"));
            }
            *self.pinged.lock() = Some((now, failed));
            Ok(())
        })
    }

    fn trace(&self, trace_id: TraceId) -> BoxFuture<'_, Result<Vec<JournalRow>, StoreError>> {
        Box::pin(self.read(move |connection| journal::of_trace(connection, &trace_id)))
    }

    fn session(&self, session_id: SessionId) -> BoxFuture<'_, Result<Vec<JournalRow>, StoreError>> {
        Box::pin(self.read(move |connection| journal::of_session(connection, &session_id)))
    }

    fn sessions(&self, limit: u32) -> BoxFuture<'_, Result<Vec<SessionLine>, StoreError>> {
        Box::pin(self.read(move |connection| journal::sessions(connection, limit).map_err(|error| from_sqlite(&error))))
    }

    fn sessions_of(&self, caller: CallerId, limit: u32) -> BoxFuture<'_, Result<Vec<SessionLine>, StoreError>> {
        Box::pin(self.read(move |connection| {
            journal::sessions_of(connection, &caller, limit).map_err(|error| from_sqlite(&error))
        }))
    }

    fn since(&self, at_ms: u64, limit: u32) -> BoxFuture<'_, Result<Vec<JournalRow>, StoreError>> {
        Box::pin(self.read(move |connection| journal::since(connection, at_ms, limit)))
    }

    fn breakers(&self) -> BoxFuture<'_, Result<Vec<BreakerLine>, StoreError>> {
        Box::pin(self.read(journal::breakers))
    }

    fn prune(&self, journal_before_ms: u64, records_before_ms: u64) -> BoxFuture<'_, Result<Pruned, StoreError>> {
        let before = Horizon { journal_ms: journal_before_ms, records_ms: records_before_ms };
        Box::pin(async move {
            let mut all = Pruned::default();
            loop {
                let batch = told(self.ask(|reply| Wish::Prune { before, reply })).await?;
                all.rows += batch.rows;
                all.records += batch.records;
                if batch.rows.max(batch.records) < u64::from(prune::BATCH) {
                    return Ok(all);
                }
            }
        })
    }

    fn unsettled(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Unsettled>, StoreError>> {
        Box::pin(
            self.read(move |connection| records::unsettled(connection, limit).map_err(|error| from_sqlite(&error))),
        )
    }

    fn settle(&self, key: RecordKey, ending: Ending) -> BoxFuture<'_, Result<bool, StoreError>> {
        let answer = self.ask(|reply| Wish::Settle { key, ending, reply });
        Box::pin(told(answer))
    }
}

/// What the writer answers; a writer that broke off answers, too.
async fn told<T>(answer: oneshot::Receiver<Result<T, StoreError>>) -> Result<T, StoreError> {
    answer.await.unwrap_or_else(|_| Err(writer_gone()))
}
