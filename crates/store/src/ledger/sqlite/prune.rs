//! Forgetting what is old, one small batch at a time.
//!
//! Each batch is one wish among others in one transaction, so that nobody waits long behind it. The list of
//! sessions follows in the same transaction. Open and unknown records are never touched: somebody will still
//! ask how they ended.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::journal::{SessionTally, millis};
use super::records::Refusal;
use crate::ledger::Pruned;

/// Journal rows, and records, that one batch deletes at most.
pub(super) const BATCH: u32 = 256;

/// What is old: milliseconds since the Unix epoch, not included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Horizon {
    pub(super) journal_ms: u64,
    pub(super) records_ms: u64,
}

/// Deletes one batch. `tally`, what the transaction has yet to add to the list of sessions, is written first,
/// because the rows it counts may be among those deleted.
pub(super) fn prune(connection: &Connection, tally: &SessionTally, before: Horizon) -> Result<Pruned, Refusal> {
    tally.write(connection)?;
    let rows = rows(connection, millis(before.journal_ms))?;
    connection.prepare_cached("delete from breaker where since_ms < ?1")?.execute([millis(before.journal_ms)])?;
    let records = connection
        .prepare_cached(
            "delete from record where rowid in (select rowid from record
             where state in ('done', 'released') and at_ms < ?1 order by at_ms limit ?2)",
        )?
        .execute(params![millis(before.records_ms), BATCH])?;
    Ok(Pruned { rows, records: records as u64 })
}

fn rows(connection: &Connection, before_ms: i64) -> rusqlite::Result<u64> {
    let old: Vec<(i64, String)> = connection
        .prepare_cached("select seq, session_id from journal where at_ms < ?1 order by at_ms limit ?2")?
        .query_map(params![before_ms, BATCH], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut sessions: BTreeMap<&str, i64> = BTreeMap::new();
    for (seq, session_id) in &old {
        connection.prepare_cached("delete from journal where seq = ?1")?.execute([seq])?;
        *sessions.entry(session_id).or_default() += 1;
    }
    for (session_id, deleted) in sessions {
        let first_ms: Option<i64> = connection
            .prepare_cached("select min(at_ms) from journal where session_id = ?1")?
            .query_row([session_id], |row| row.get(0))?;
        match first_ms {
            Some(first_ms) => connection
                .prepare_cached("update session set first_ms = ?2, row_count = row_count - ?3 where session_id = ?1")?
                .execute(params![session_id, first_ms, deleted])?,
            None => connection.prepare_cached("delete from session where session_id = ?1")?.execute([session_id])?,
        };
    }
    Ok(old.len() as u64)
}
