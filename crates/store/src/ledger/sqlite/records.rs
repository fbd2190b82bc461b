//! The transitions of an idempotency record, each one function over an open transaction.
//!
//! `claimed -> in_flight -> done | unknown`, or back to `released`. A function either returns what became
//! of the wish, or refuses it in words; both leave the wishes beside it in the same batch untouched.
//! Nothing here waits, commits or knows of threads.

use reach_core::{
    CallerId, Effect, Envelope, ErrorBody, ErrorCode, Event, EventKind, JournalRow, Meta, Phase, RequestId, SessionId,
    ToolId, TraceId,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::errors::{from_sqlite, ledger_error, will_never_fit};
use super::journal::{self, EncodedRow, millis, now_ms, unsigned};
use crate::StoreError;
use crate::ledger::{Claim, Claimed, Ending, RecordKey, Recovered, Unsettled};

/// Why one wish was not granted.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The record says no.
    Rule(StoreError),
    /// SQLite does.
    Sqlite(rusqlite::Error),
}

impl Refusal {
    /// Whether it would be refused again however often it is tried.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Refusal::Rule(_) => true,
            Refusal::Sqlite(error) => will_never_fit(error),
        }
    }
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Refusal> for StoreError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Rule(error) => error,
            Refusal::Sqlite(error) => from_sqlite(&error),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Claimed,
    InFlight,
    Done,
    Unknown,
    Released,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            State::Claimed => "claimed",
            State::InFlight => "in_flight",
            State::Done => "done",
            State::Unknown => "unknown",
            State::Released => "released",
        }
    }

    fn parse(text: &str) -> Result<Self, Refusal> {
        [State::Claimed, State::InFlight, State::Done, State::Unknown, State::Released]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| {
                Refusal::Rule(ledger_error(format!("a record has the state {text:?}, which reach never writes")))
            })
    }
}

struct Stored {
    fingerprint: String,
    state: State,
    owner: String,
    epoch: u64,
    envelope: Option<String>,
    place: Place,
    at_ms: u64,
}

impl Stored {
    /// Whether the record has exactly this ending.
    fn is(&self, ending: &Ending) -> bool {
        match ending {
            Ending::Done { envelope } => self.state == State::Done && self.envelope.as_ref() == Some(envelope),
            Ending::Unknown { envelope } => self.state == State::Unknown && self.envelope.as_ref() == Some(envelope),
            Ending::Released => self.state == State::Released,
        }
    }
}

/// Where a record's call belongs.
struct Place {
    trace_id: TraceId,
    session_id: SessionId,
    step: u32,
}

fn find(connection: &Connection, key: &RecordKey) -> Result<Option<Stored>, Refusal> {
    let found = connection
        .prepare_cached(
            "select fingerprint, state, owner, epoch, envelope, trace_id, session_id, step, at_ms from record
             where caller = ?1 and tool_id = ?2 and request_id = ?3",
        )?
        .query_row(params![key.caller.as_str(), key.tool_id.as_str(), key.request_id.as_str()], |row| {
            Ok((
                row.get::<_, String>(1)?,
                Stored {
                    fingerprint: row.get(0)?,
                    state: State::Released,
                    owner: row.get(2)?,
                    epoch: unsigned(row.get(3)?),
                    envelope: row.get(4)?,
                    place: place(row, 5)?,
                    at_ms: unsigned(row.get(8)?),
                },
            ))
        })
        .optional()?;
    found.map(|(state, stored)| Ok(Stored { state: State::parse(&state)?, ..stored })).transpose()
}

fn place(row: &Row<'_>, at: usize) -> rusqlite::Result<Place> {
    Ok(Place {
        trace_id: TraceId::new(row.get_ref(at)?.as_str()?),
        session_id: SessionId::new(row.get_ref(at + 1)?.as_str()?),
        step: row.get(at + 2)?,
    })
}

/// Claims a record for `owner`.
pub(super) fn claim(connection: &Connection, owner: &str, claim: &Claim) -> Result<Claimed, Refusal> {
    let Some(stored) = find(connection, &claim.key)? else {
        write_claim(connection, owner, claim, 1)?;
        return Ok(Claimed::Fresh { epoch: 1 });
    };
    if stored.fingerprint != claim.fingerprint {
        return Ok(Claimed::Mismatch);
    }
    let kept =
        || stored.envelope.clone().ok_or_else(|| Refusal::Rule(ledger_error("a settled record lost its envelope")));
    Ok(match stored.state {
        State::Claimed | State::InFlight => Claimed::InProgress,
        State::Done => Claimed::Done { envelope: kept()? },
        State::Unknown => Claimed::Unknown { envelope: kept()?, epoch: stored.epoch },
        State::Released => {
            let epoch = stored.epoch + 1;
            write_claim(connection, owner, claim, epoch)?;
            Claimed::Fresh { epoch }
        }
    })
}

fn write_claim(connection: &Connection, owner: &str, claim: &Claim, epoch: u64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "insert or replace into record (caller, tool_id, request_id, fingerprint, effect, state, owner, epoch,
             trace_id, session_id, step, envelope, at_ms)
             values (?1, ?2, ?3, ?4, ?5, 'claimed', ?6, ?7, ?8, ?9, ?10, null, ?11)",
        )?
        .execute(params![
            claim.key.caller.as_str(),
            claim.key.tool_id.as_str(),
            claim.key.request_id.as_str(),
            claim.fingerprint,
            claim.effect.as_str(),
            owner,
            millis(epoch),
            claim.trace_id.as_str(),
            claim.session_id.as_str(),
            claim.step,
            millis(now_ms()),
        ])?;
    Ok(())
}

/// `claimed -> in_flight`, with its events. A second intent of the same claim only adds its events.
pub(super) fn intend(
    connection: &Connection,
    owner: &str,
    key: &RecordKey,
    epoch: u64,
    row: &EncodedRow,
) -> Result<(), Refusal> {
    let stored = find(connection, key)?.ok_or_else(no_record)?;
    match stored.state {
        State::Claimed | State::InFlight if stored.owner == owner && stored.epoch == epoch => {
            journal::insert(connection, row)?;
            write_state(connection, key, State::InFlight, owner, None)
        }
        State::Claimed | State::InFlight | State::Done | State::Unknown | State::Released => {
            Err(too_late(&stored, epoch, "intend"))
        }
    }
}

/// Ends a record that `owner` holds under `epoch`, or one that is unknown under `epoch`.
pub(super) fn finish(
    connection: &Connection,
    owner: &str,
    key: &RecordKey,
    epoch: u64,
    ending: &Ending,
) -> Result<(), Refusal> {
    let stored = find(connection, key)?.ok_or_else(no_record)?;
    let same_epoch = stored.epoch == epoch;
    match stored.state {
        State::Claimed | State::InFlight if same_epoch && stored.owner == owner => {
            write_ending(connection, key, owner, ending)
        }
        State::Unknown if same_epoch => write_ending(connection, key, owner, ending),
        // The same ending once more: its answer was lost on the way, or it was tried again meanwhile.
        State::Done | State::Unknown | State::Released if same_epoch && stored.owner == owner && stored.is(ending) => {
            Ok(())
        }
        State::Claimed | State::InFlight | State::Done | State::Unknown | State::Released => {
            Err(too_late(&stored, epoch, "finish"))
        }
    }
}

/// A person's word on an unknown record, with the journal row that tells of it. `None`: no such record.
pub(super) fn settle(
    connection: &Connection,
    owner: &str,
    key: &RecordKey,
    ending: &Ending,
) -> Result<Option<EncodedRow>, Refusal> {
    let Some(stored) = find(connection, key)?.filter(|stored| stored.state == State::Unknown) else {
        return Ok(None);
    };
    let done = matches!(ending, Ending::Done { .. });
    let row = told(key, &stored.place, EventKind::Settled { done })?;
    journal::insert(connection, &row)?;
    write_ending(connection, key, owner, ending)?;
    Ok(Some(row))
}

/// Settles what owners that are gone have left open.
pub(super) fn recover(
    connection: &Connection,
    owner: &str,
    gone: &[String],
) -> Result<(Recovered, Vec<EncodedRow>), Refusal> {
    let (mut recovered, mut rows) = (Recovered::default(), Vec::new());
    for dead in gone.iter().filter(|dead| *dead != owner) {
        for (key, effect) in left_by(connection, dead)? {
            let Some(stored) = find(connection, &key)? else { continue };
            // An effect that this program does not know is treated like the strongest one it does.
            let may_repeat =
                [Effect::Read, Effect::Idempotent, Effect::Keyed].iter().any(|known| known.as_str() == effect);
            let outcome = if stored.state == State::InFlight && !may_repeat {
                let ending = Ending::Unknown { envelope: unknown_envelope(&key, &stored)? };
                write_ending(connection, &key, owner, &ending)?;
                recovered.unknown += 1;
                State::Unknown
            } else {
                write_ending(connection, &key, owner, &Ending::Released)?;
                recovered.released += 1;
                State::Released
            };
            let row = told(&key, &stored.place, EventKind::Recovered { outcome: outcome.as_str().to_owned() })?;
            journal::insert(connection, &row)?;
            rows.push(row);
        }
    }
    Ok((recovered, rows))
}

/// The owners of open records.
pub(super) fn open_owners(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare_cached("select distinct owner from record where state in ('claimed', 'in_flight')")?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// Records whose outcome is unknown, newest first.
pub(super) fn unsettled(connection: &Connection, limit: u32) -> rusqlite::Result<Vec<Unsettled>> {
    connection
        .prepare_cached(
            "select caller, tool_id, request_id, trace_id, session_id, step, at_ms from record
             where state = 'unknown' order by at_ms desc, rowid desc limit ?1",
        )?
        .query_map(params![limit], |row| {
            let key = key(row)?;
            let place = place(row, 3)?;
            Ok(Unsettled {
                caller: key.caller,
                tool_id: key.tool_id,
                request_id: key.request_id,
                trace_id: place.trace_id,
                session_id: place.session_id,
                at_ms: unsigned(row.get(6)?),
            })
        })?
        .collect()
}

fn left_by(connection: &Connection, owner: &str) -> rusqlite::Result<Vec<(RecordKey, String)>> {
    connection
        .prepare_cached(
            "select caller, tool_id, request_id, effect from record
             where owner = ?1 and state in ('claimed', 'in_flight')",
        )?
        .query_map(params![owner], |row| Ok((key(row)?, row.get(3)?)))?
        .collect()
}

fn key(row: &Row<'_>) -> rusqlite::Result<RecordKey> {
    Ok(RecordKey {
        caller: CallerId::new(row.get_ref(0)?.as_str()?),
        tool_id: ToolId::asked(row.get_ref(1)?.as_str()?),
        request_id: RequestId::new(row.get_ref(2)?.as_str()?),
    })
}

fn write_ending(connection: &Connection, key: &RecordKey, owner: &str, ending: &Ending) -> Result<(), Refusal> {
    match ending {
        Ending::Done { envelope } => write_state(connection, key, State::Done, owner, Some(envelope)),
        Ending::Unknown { envelope } => write_state(connection, key, State::Unknown, owner, Some(envelope)),
        Ending::Released => write_state(connection, key, State::Released, owner, None),
    }
}

fn write_state(
    connection: &Connection,
    key: &RecordKey,
    state: State,
    owner: &str,
    envelope: Option<&str>,
) -> Result<(), Refusal> {
    connection
        .prepare_cached(
            "update record set state = ?4, owner = ?5, envelope = ?6, at_ms = ?7
             where caller = ?1 and tool_id = ?2 and request_id = ?3",
        )?
        .execute(params![
            key.caller.as_str(),
            key.tool_id.as_str(),
            key.request_id.as_str(),
            state.as_str(),
            owner,
            envelope,
            millis(now_ms()),
        ])?;
    Ok(())
}

/// The answer that a key gets after its process died while the request was under way.
fn unknown_envelope(key: &RecordKey, stored: &Stored) -> Result<String, Refusal> {
    let message = "the gateway stopped while the request was under way; it may have been carried out";
    let meta = Meta {
        step: stored.place.step,
        trace_id: stored.place.trace_id.clone(),
        session_id: stored.place.session_id.clone(),
        request_id: key.request_id.clone(),
        attempts: 1,
        duration_ms: now_ms().saturating_sub(stored.at_ms),
        phase: Phase::MaybeSent,
        served_by: None,
        replayed: false,
        truncated: None,
        tokens: reach_core::tokens::Tokens::default(),
    };
    let envelope = Envelope::error(key.tool_id.clone(), ErrorBody::new(ErrorCode::OutcomeUnknown, message), meta);
    serde_json::to_string(&envelope)
        .map_err(|error| Refusal::Rule(ledger_error(format!("an envelope cannot be written as JSON: {error}"))))
}

/// A journal row of one event that concerns a record rather than a call under way.
fn told(key: &RecordKey, place: &Place, kind: EventKind) -> Result<EncodedRow, Refusal> {
    let at_ms = now_ms();
    EncodedRow::encode(JournalRow {
        at_ms,
        trace_id: place.trace_id.clone(),
        session_id: place.session_id.clone(),
        request_id: key.request_id.clone(),
        step: place.step,
        tool_id: key.tool_id.clone(),
        caller: key.caller.clone(),
        events: vec![Event { at_ms, kind }],
    })
    .map_err(Refusal::Rule)
}

fn no_record() -> Refusal {
    Refusal::Rule(ledger_error("there is no record under this key; it was never claimed"))
}

fn too_late(stored: &Stored, epoch: u64, wish: &str) -> Refusal {
    Refusal::Rule(ledger_error(format!(
        "cannot {wish} epoch {epoch} of this record: it is {} in epoch {}, held by {}",
        stored.state.as_str(),
        stored.epoch,
        stored.owner
    )))
}
