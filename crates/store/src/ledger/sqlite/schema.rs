//! The file: how it is opened, who may read it, which version of the tables it holds.
//!
//! `PRAGMA user_version` is the version of the tables. A newer one is refused, because an older program
//! could break what it does not understand; a file with somebody else's tables is refused, too.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::errors::{at_opening, from_sqlite, ledger_error};
use crate::StoreError;

/// The version of the tables below.
///
/// 1: the first. 2: where breakers stand; indexes for forgetting what is old.
pub(super) const SCHEMA_VERSION: i64 = 2;

/// How long one statement waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// `journal` has no foreign keys and few indexes: it is written ten thousand times for each time that it
/// is read. `session` spares the list of sessions a walk over the whole journal.
const TABLES: &str = "
create table record (
    caller text not null,
    tool_id text not null,
    request_id text not null,
    fingerprint text not null,
    effect text not null,
    state text not null check (state in ('claimed', 'in_flight', 'done', 'unknown', 'released')),
    owner text not null,
    epoch integer not null,
    trace_id text not null,
    session_id text not null,
    step integer not null,
    envelope text,
    at_ms integer not null,
    primary key (caller, tool_id, request_id)
) strict;
create index record_open on record (owner) where state in ('claimed', 'in_flight');
create index record_unknown on record (at_ms) where state = 'unknown';

create table journal (
    seq integer primary key,
    at_ms integer not null,
    trace_id text not null,
    session_id text not null,
    request_id text not null,
    tool_id text not null,
    caller text not null,
    step integer not null,
    version integer not null,
    events text not null
) strict;
create index journal_trace on journal (trace_id);
create index journal_at on journal (at_ms);

create table session (
    session_id text primary key,
    first_ms integer not null,
    last_ms integer not null,
    row_count integer not null
) strict, without rowid;
create index session_last on session (last_ms);

create table heartbeat (id integer primary key check (id = 1), at_ms integer not null) strict;
";

/// What version 2 adds. The index by session holds the time, so that the first row of a session is found
/// without reading the others.
const SINCE_2: &str = "
create index record_ended on record (at_ms) where state in ('done', 'released');
create index journal_session on journal (session_id, at_ms);

create table breaker (
    target text primary key,
    state text not null,
    since_ms integer not null
) strict, without rowid;
";

/// From version 1 to 2.
const FROM_1_TO_2: &str = "drop index journal_session;";

/// Opens the one connection that writes, and makes the file and its folder where they do not exist:
/// readable for nobody but the user that runs reach.
pub(super) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    prepare_file(path).map_err(|error| ledger_error(format!("cannot create {}: {error}", path.display())))?;
    open_and_prepare(path).map_err(|error| at_opening(path, &error))
}

fn open_and_prepare(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(|error| from_sqlite(&error))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(|error| from_sqlite(&error))?;
    connection.set_prepared_statement_cache_capacity(32);
    turn_wal_on(&connection)?;
    connection
        .execute_batch("pragma synchronous = normal; pragma temp_store = memory; pragma journal_size_limit = 67108864;")
        .map_err(|error| from_sqlite(&error))?;
    create_tables(&mut connection)?;
    Ok(connection)
}

/// Opens a connection that can only read.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.execute_batch("pragma query_only = on; pragma temp_store = memory;")?;
    Ok(connection)
}

fn prepare_file(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // SQLite gives its -wal and -shm files the mode of the database. A file that exists is not opened
    // here: closing it again would take away the locks of whoever else in this process has it open.
    match OpenOptions::new().create_new(true).write(true).mode(0o600).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Several processes may open a new file at once; SQLite does not wait for a change of the journal mode
/// in every case, so we do.
fn turn_wal_on(connection: &Connection) -> Result<(), StoreError> {
    let mut tries = 0;
    loop {
        let answer = connection.query_row("pragma journal_mode = wal", [], |row| row.get::<_, String>(0));
        match answer {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(ledger_error(format!(
                    "SQLite's write-ahead log does not work there (journal mode stays {mode}); \
                     put the ledger on a local disk"
                )));
            }
            Err(error) if is_busy(&error) && tries < 100 => {
                tries += 1;
                std::thread::park_timeout(Duration::from_millis(20));
            }
            Err(error) => return Err(from_sqlite(&error)),
        }
    }
}

fn create_tables(connection: &mut Connection) -> Result<(), StoreError> {
    let version = |connection: &Connection| {
        connection.query_row("pragma user_version", [], |row| row.get::<_, i64>(0)).map_err(|error| from_sqlite(&error))
    };
    if version(connection)? == SCHEMA_VERSION {
        return Ok(());
    }
    // Looked at again under the lock: another process may have been faster.
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(|error| from_sqlite(&error))?;
    let write = |tables: &[&str]| {
        tables
            .iter()
            .try_for_each(|tables| transaction.execute_batch(tables))
            .and_then(|()| transaction.pragma_update(None, "user_version", SCHEMA_VERSION))
            .map_err(|error| from_sqlite(&error))
    };
    match version(&transaction)? {
        SCHEMA_VERSION => {}
        0 => {
            let foreign: i64 = transaction
                .query_row("select count(*) from sqlite_schema", [], |row| row.get(0))
                .map_err(|error| from_sqlite(&error))?;
            if foreign > 0 {
                return Err(ledger_error("it is the database of another program; name another file for the ledger"));
            }
            write(&[TABLES, SINCE_2])?;
        }
        1 => write(&[FROM_1_TO_2, SINCE_2])?,
        newer => {
            return Err(ledger_error(format!(
                "it was written by a newer reach (tables of version {newer}, this program knows up to \
                 {SCHEMA_VERSION}); run that reach, or name another file for the ledger"
            )));
        }
    }
    transaction.commit().map_err(|error| from_sqlite(&error))
}

/// Whether another connection was in the way.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}
