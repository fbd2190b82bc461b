//! The ledger: what must survive a crash.
//!
//! An idempotency record goes `claimed -> in_flight -> done | unknown`, or back to `released` when nothing
//! was sent. `claimed` and `in_flight` never expire by time: they belong to an owner (one process), and
//! only [`Ledger::recover`] of another process settles them, after the kernel has confirmed that the
//! owner is gone. Every transition compares owner and epoch, so that a late writer loses.

mod sqlite;

pub use sqlite::SqliteLedger;

use reach_core::breaker::StateName;
use reach_core::{BoxFuture, CallerId, Effect, JournalRow, RequestId, SessionId, ToolId, TraceId};
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// What names one record: (caller, tool asked for, request_id).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordKey {
    /// Who asked.
    pub caller: CallerId,
    /// The tool asked for: the head of its fallback chain.
    pub tool_id: ToolId,
    /// The caller's key.
    pub request_id: RequestId,
}

/// A claim on a record.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The record.
    pub key: RecordKey,
    /// SHA-256 of the canonical arguments, in hexadecimal.
    pub fingerprint: String,
    /// The declared effect: decides what a crash means.
    pub effect: Effect,
    /// Where the call belongs, for readers of unsettled records.
    pub trace_id: TraceId,
    /// Where the call belongs, for readers of unsettled records.
    pub session_id: SessionId,
    /// The agent's step.
    pub step: u32,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Claimed {
    /// The record is ours under this epoch; nobody else may send.
    Fresh {
        /// To be shown at every further transition.
        epoch: u64,
    },
    /// It was done before: the stored envelope, as JSON text.
    Done {
        /// The envelope as it was answered the first time.
        envelope: String,
    },
    /// Another call holds it.
    InProgress,
    /// The key was used with other arguments.
    Mismatch,
    /// It may have been carried out; the stored `OUTCOME_UNKNOWN` envelope, as JSON text.
    Unknown {
        /// The envelope as it was answered the first time.
        envelope: String,
        /// To be shown when it is settled.
        epoch: u64,
    },
}

/// How a record ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Answered: the envelope is kept and answers the same key from now on.
    Done {
        /// The envelope, as JSON text.
        envelope: String,
    },
    /// Nobody knows.
    Unknown {
        /// The `OUTCOME_UNKNOWN` envelope, as JSON text.
        envelope: String,
    },
    /// Nothing was sent (or the upstream honours the key): the same key with the same arguments may try again.
    Released,
}

/// One record whose outcome is unknown, for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsettled {
    /// Who asked.
    pub caller: CallerId,
    /// The tool.
    pub tool_id: ToolId,
    /// The key.
    pub request_id: RequestId,
    /// The chain of cause.
    pub trace_id: TraceId,
    /// The conversation.
    pub session_id: SessionId,
    /// When the record was last written, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

/// What a starting process found and settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Writes that may have been carried out: now `unknown`.
    pub unknown: u64,
    /// Claims that had not been sent, and effects that may be repeated: now `released`.
    pub released: u64,
}

/// One line of the list of sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionLine {
    /// The conversation.
    pub session_id: SessionId,
    /// Its first event, in milliseconds since the Unix epoch.
    pub first_ms: u64,
    /// Its last event.
    pub last_ms: u64,
    /// Journal rows it has.
    pub rows: u64,
}

/// Where the breaker of one upstream stood last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerLine {
    /// The upstream.
    pub target: String,
    /// The state it moved to.
    pub state: StateName,
    /// When it moved, in milliseconds since the Unix epoch.
    pub since_ms: u64,
}

/// What [`Ledger::prune`] deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Journal rows.
    pub rows: u64,
    /// Idempotency records.
    pub records: u64,
}

/// The durable store. All methods are safe to call from many tasks; none blocks the runtime. What a
/// method reads includes all that was appended before it was called.
pub trait Ledger: Send + Sync + 'static {
    /// Claims a record, or says who has it. Durable against a crash of the process, not of the machine:
    /// nothing has been sent yet. A future that is dropped before it answers gives its claim back.
    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Claimed, StoreError>>;

    /// `claimed -> in_flight`, with the events so far. Returns when it is on disk (fsync): the send
    /// follows. Fails when owner or epoch no longer match. A second intent of the same claim only adds its
    /// events. A future that is dropped before it answers gives the claim back: nothing was sent.
    fn intend(&self, key: RecordKey, epoch: u64, row: JournalRow) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Ends a record that this process holds (from `claimed` or `in_flight`), or one that is `unknown`
    /// and was verified. Durable (fsync) unless it is released. Done whether or not the future is polled;
    /// the same ending once more is no error. When the disk refuses it, the error comes at once, and the
    /// ending is tried again for as long as the process lives. What the record itself refuses (another
    /// owner, another epoch, no such record) is final and never tried again.
    fn finish(&self, key: RecordKey, epoch: u64, ending: Ending) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Appends to the journal. Never waits: rows are written within a few milliseconds, in order, and
    /// when the disk cannot keep up the newest are dropped and counted by [`Ledger::dropped`].
    fn append(&self, row: JournalRow);

    /// Journal rows dropped since the start.
    fn dropped(&self) -> u64;

    /// Waits until all that was appended before is written.
    fn flush(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Settles the records of owners that are gone: `claimed` is released; `in_flight` becomes `unknown`
    /// for writes and is released for every other effect. Writes a journal row for each
    /// ([`EventKind::Recovered`](reach_core::EventKind)). Run before saying ready; harmless at any time.
    fn recover(&self) -> BoxFuture<'_, Result<Recovered, StoreError>>;

    /// Whether the ledger can be written. One that could a second ago, and has not failed since, is
    /// believed without asking the disk, so that anybody may ask as often as they like.
    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The rows of a trace, oldest first.
    fn trace(&self, trace_id: TraceId) -> BoxFuture<'_, Result<Vec<JournalRow>, StoreError>>;

    /// The rows of a session, oldest first.
    fn session(&self, session_id: SessionId) -> BoxFuture<'_, Result<Vec<JournalRow>, StoreError>>;

    /// The newest sessions, at most `limit`, newest first.
    fn sessions(&self, limit: u32) -> BoxFuture<'_, Result<Vec<SessionLine>, StoreError>>;

    /// The newest sessions that hold rows of one caller, at most `limit`, newest first; only its own rows
    /// are counted, from the moment each began. Looks through the newest ten thousand sessions.
    fn sessions_of(&self, caller: CallerId, limit: u32) -> BoxFuture<'_, Result<Vec<SessionLine>, StoreError>>;

    /// The rows since a moment (milliseconds since the Unix epoch), oldest first. When there are more than
    /// `limit`, the newest are answered.
    fn since(&self, at_ms: u64, limit: u32) -> BoxFuture<'_, Result<Vec<JournalRow>, StoreError>>;

    /// Where each breaker that ever moved stood last, by any process on this ledger, in order of target.
    /// Costs one row each, however long the journal is.
    fn breakers(&self) -> BoxFuture<'_, Result<Vec<BreakerLine>, StoreError>>;

    /// Deletes journal rows and breaker moves from before one moment, and records that ended (`done` or
    /// `released`) before another, both in milliseconds since the Unix epoch; the list of sessions follows.
    /// Open and unknown records stay. Goes in small batches, between which others write; what was deleted
    /// stays deleted when the future is dropped. A key whose record is gone is new again: it may be carried
    /// out once more.
    fn prune(&self, journal_before_ms: u64, records_before_ms: u64) -> BoxFuture<'_, Result<Pruned, StoreError>>;

    /// Records whose outcome is unknown, newest first.
    fn unsettled(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Unsettled>, StoreError>>;

    /// A person says what happened: `done` answers the key with the ok envelope given from now on, else
    /// the record is released. Writes a journal row ([`EventKind::Settled`](reach_core::EventKind)) in the
    /// record's trace and session. False when there is no such unknown record.
    fn settle(&self, key: RecordKey, ending: Ending) -> BoxFuture<'_, Result<bool, StoreError>>;
}
