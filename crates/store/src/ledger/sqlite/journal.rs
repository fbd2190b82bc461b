//! Journal rows on their way into the file and out of it.
//!
//! A row is encoded by whoever appends it, so that the one writer only binds and steps. The list of
//! sessions is kept beside the journal, in the same transaction, once per session and batch.

use std::collections::HashMap;

use reach_core::breaker::StateName;
use reach_core::event::FORMAT_VERSION;
use reach_core::{CallerId, EventKind, JournalRow, RequestId, SessionId, ToolId, TraceId};
use rusqlite::{Connection, Row, params};

use super::errors::{from_sqlite, ledger_error};
use crate::StoreError;
use crate::ledger::{BreakerLine, SessionLine};

/// A row ready to be bound.
#[derive(Debug)]
pub(super) struct EncodedRow {
    at_ms: i64,
    last_ms: i64,
    trace_id: TraceId,
    session_id: SessionId,
    request_id: RequestId,
    tool_id: ToolId,
    caller: CallerId,
    step: u32,
    events: String,
    /// Where it moved breakers to: kept beside the journal, too.
    moves: Vec<BreakerLine>,
}

impl EncodedRow {
    /// Turns the events into JSON text.
    pub(super) fn encode(row: JournalRow) -> Result<Self, StoreError> {
        let events = serde_json::to_string(&row.events)
            .map_err(|error| ledger_error(format!("an event cannot be written as JSON: {error}")))?;
        let last_ms = row.events.iter().map(|event| event.at_ms).fold(row.at_ms, u64::max);
        let moves = row.events.iter().filter_map(|event| match &event.kind {
            EventKind::Breaker { target, to, .. } => {
                Some(BreakerLine { target: target.clone(), state: *to, since_ms: event.at_ms })
            }
            _ => None,
        });
        Ok(Self {
            moves: moves.collect(),
            at_ms: millis(row.at_ms),
            last_ms: millis(last_ms),
            trace_id: row.trace_id,
            session_id: row.session_id,
            request_id: row.request_id,
            tool_id: row.tool_id,
            caller: row.caller,
            step: row.step,
            events,
        })
    }

    /// About how much memory it holds while it waits.
    pub(super) fn weight(&self) -> usize {
        self.events.len() + 256
    }
}

/// Writes one row.
pub(super) fn insert(connection: &Connection, row: &EncodedRow) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "insert into journal (at_ms, trace_id, session_id, request_id, tool_id, caller, step, version, events)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            row.at_ms,
            row.trace_id.as_str(),
            row.session_id.as_str(),
            row.request_id.as_str(),
            row.tool_id.as_str(),
            row.caller.as_str(),
            row.step,
            FORMAT_VERSION,
            row.events,
        ])?;
    for BreakerLine { target, state, since_ms } in &row.moves {
        // Rows of several calls may come in another order than their events happened.
        connection
            .prepare_cached(
                "insert into breaker (target, state, since_ms) values (?1, ?2, ?3)
                 on conflict (target) do update set state = excluded.state, since_ms = excluded.since_ms
                 where excluded.since_ms >= since_ms",
            )?
            .execute(params![target, state.as_str(), millis(*since_ms)])?;
    }
    Ok(())
}

/// What one batch adds to the list of sessions.
#[derive(Debug, Default)]
pub(super) struct SessionTally(HashMap<SessionId, (i64, i64, i64)>);

impl SessionTally {
    /// Counts one written row.
    pub(super) fn add(&mut self, row: &EncodedRow) {
        match self.0.get_mut(&row.session_id) {
            Some((first, last, rows)) => {
                *first = row.at_ms.min(*first);
                *last = row.last_ms.max(*last);
                *rows += 1;
            }
            None => {
                self.0.insert(row.session_id.clone(), (row.at_ms, row.last_ms, 1));
            }
        }
    }

    /// Writes the sums.
    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        for (session_id, (first_ms, last_ms, rows)) in &self.0 {
            connection
                .prepare_cached(
                    "insert into session (session_id, first_ms, last_ms, row_count) values (?1, ?2, ?3, ?4)
                     on conflict (session_id) do update set first_ms = min(first_ms, excluded.first_ms),
                     last_ms = max(last_ms, excluded.last_ms), row_count = row_count + excluded.row_count",
                )?
                .execute(params![session_id.as_str(), first_ms, last_ms, rows])?;
        }
        Ok(())
    }
}

/// The rows of one trace, oldest first.
pub(super) fn of_trace(connection: &Connection, trace_id: &TraceId) -> Result<Vec<JournalRow>, StoreError> {
    rows(connection, "where trace_id = ?1 order by at_ms, seq", params![trace_id.as_str()])
}

/// The rows of one session, oldest first.
pub(super) fn of_session(connection: &Connection, session_id: &SessionId) -> Result<Vec<JournalRow>, StoreError> {
    rows(connection, "where session_id = ?1 order by at_ms, seq", params![session_id.as_str()])
}

/// The newest rows since a moment, oldest first.
pub(super) fn since(connection: &Connection, at_ms: u64, limit: u32) -> Result<Vec<JournalRow>, StoreError> {
    let mut newest =
        rows(connection, "where at_ms >= ?1 order by at_ms desc, seq desc limit ?2", params![millis(at_ms), limit])?;
    newest.reverse();
    Ok(newest)
}

/// Where breakers stood last, in order of target.
pub(super) fn breakers(connection: &Connection) -> Result<Vec<BreakerLine>, StoreError> {
    let read = || -> rusqlite::Result<Vec<(String, String, i64)>> {
        connection
            .prepare_cached("select target, state, since_ms from breaker order by target")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect()
    };
    let known = read().map_err(|error| from_sqlite(&error))?;
    known
        .into_iter()
        .map(|(target, state, since_ms)| {
            let state: StateName = serde_json::from_value(serde_json::Value::String(state)).map_err(|error| {
                ledger_error(format!("the breaker of {target} has a state of a newer reach: {error}"))
            })?;
            Ok(BreakerLine { target, state, since_ms: unsigned(since_ms) })
        })
        .collect()
}

/// The newest sessions, newest first.
pub(super) fn sessions(connection: &Connection, limit: u32) -> rusqlite::Result<Vec<SessionLine>> {
    connection
        .prepare_cached(
            "select session_id, first_ms, last_ms, row_count from session order by last_ms desc, session_id desc limit ?1",
        )?
        .query_map(params![limit], session_line)?
        .collect()
}

/// Sessions looked through for those of one caller: the journal has no index by caller, which every write
/// would pay for.
const SESSIONS_WALKED: u32 = 10_000;

/// The newest sessions of one caller, newest first.
pub(super) fn sessions_of(
    connection: &Connection,
    caller: &CallerId,
    limit: u32,
) -> rusqlite::Result<Vec<SessionLine>> {
    connection
        .prepare_cached(
            "select recent.session_id, min(at_ms), max(at_ms) as newest, count(*)
             from (select session_id from session order by last_ms desc, session_id desc limit ?3) as recent
             join journal on journal.session_id = recent.session_id and journal.caller = ?1
             group by recent.session_id order by newest desc, recent.session_id desc limit ?2",
        )?
        .query_map(params![caller.as_str(), limit, SESSIONS_WALKED], session_line)?
        .collect()
}

fn session_line(row: &Row<'_>) -> rusqlite::Result<SessionLine> {
    Ok(SessionLine {
        session_id: SessionId::new(row.get_ref(0)?.as_str()?),
        first_ms: unsigned(row.get(1)?),
        last_ms: unsigned(row.get(2)?),
        rows: unsigned(row.get(3)?),
    })
}

fn rows(
    connection: &Connection,
    condition: &str,
    parameters: impl rusqlite::Params,
) -> Result<Vec<JournalRow>, StoreError> {
    let sql = format!(
        "select seq, at_ms, trace_id, session_id, request_id, tool_id, caller, step, version, events from journal {condition}"
    );
    let read = || -> rusqlite::Result<Vec<Result<JournalRow, StoreError>>> {
        connection.prepare_cached(&sql)?.query_map(parameters, decode)?.collect()
    };
    read().map_err(|error| from_sqlite(&error))?.into_iter().collect()
}

fn decode(row: &Row<'_>) -> rusqlite::Result<Result<JournalRow, StoreError>> {
    let (seq, version) = (row.get::<_, i64>(0)?, row.get::<_, u32>(8)?);
    if version > FORMAT_VERSION {
        return Ok(Err(ledger_error(format!(
            "journal row {seq} was written by a newer reach (events of version {version}, this program reads up to \
             {FORMAT_VERSION}); read it with that reach"
        ))));
    }
    let events = match serde_json::from_str(row.get_ref(9)?.as_str()?) {
        Ok(events) => events,
        Err(error) => return Ok(Err(ledger_error(format!("the events of journal row {seq} cannot be read: {error}")))),
    };
    Ok(Ok(JournalRow {
        at_ms: unsigned(row.get(1)?),
        trace_id: TraceId::new(row.get_ref(2)?.as_str()?),
        session_id: SessionId::new(row.get_ref(3)?.as_str()?),
        request_id: RequestId::new(row.get_ref(4)?.as_str()?),
        tool_id: ToolId::asked(row.get_ref(5)?.as_str()?),
        caller: CallerId::new(row.get_ref(6)?.as_str()?),
        step: row.get(7)?,
        events,
    }))
}

/// SQLite's integers are signed; times beyond its range stay at its end.
pub(super) fn millis(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The other way; a negative number is a tampered one.
pub(super) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Now, in milliseconds since the Unix epoch.
pub(super) fn now_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
