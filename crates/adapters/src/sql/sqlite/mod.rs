//! SQLite: a file, opened on a thread that may block.
//!
//! A reading tool opens the file read-only, under an authoriser that lets a statement select and nothing
//! else; a writing one may change rows, never the schema, and runs in one immediate transaction. The
//! deadline and a caller that goes away are seen by a progress handler while a statement runs, and between
//! two tries for a locked database. The file is never created: a tool without its database is unreachable.

mod guard;
mod values;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reach_core::{Answer, Failure, FailureKind, Phase};
use rusqlite::ffi::ErrorCode;
use rusqlite::{Connection, Error};
use tokio::time::Instant;

use self::values::Bound;
use super::failure as words;
use super::job::Job;
use super::place::Login;
use super::pool::Pool;
use super::rows::{Caps, Rows};

/// How long SQLite waits for a lock by itself, before we look whether anybody still waits for us.
const LOCK_WAIT: Duration = Duration::from_millis(50);

/// Steps of SQLite's machine between two looks at the clock: well under a millisecond.
const STEPS: i32 = 2_000;

/// A SQLite database.
pub(super) struct Database {
    file: Arc<PathBuf>,
    pool: Pool<Connection>,
}

/// What a blocking thread needs of a job.
struct Work {
    sql: String,
    bound: Vec<Bound>,
    reads: bool,
    caps: Caps,
    sent: reach_core::SentMark,
    until: Until,
}

/// When to stop.
#[derive(Clone)]
struct Until {
    deadline: Instant,
    timeout: Duration,
    abandoned: Arc<AtomicBool>,
}

impl Until {
    fn passed(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }
}

/// Tells the blocking thread that nobody waits any more.
struct AbandonOnDrop(Arc<AtomicBool>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Database {
    pub(super) fn new(file: PathBuf, pool_size: usize) -> Self {
        Self { file: Arc::new(file), pool: Pool::new(pool_size) }
    }

    /// Makes one attempt.
    pub(super) async fn run(&self, job: &Job<'_>) -> Result<Answer, Failure> {
        let abandoned = Arc::new(AtomicBool::new(false));
        let work = Work {
            sql: job.sql.clone().into_owned(),
            bound: values::bind(job)?,
            reads: job.reads,
            caps: job.caps,
            sent: job.sent.clone(),
            until: Until {
                deadline: Instant::now() + job.timeout,
                timeout: job.timeout,
                abandoned: Arc::clone(&abandoned),
            },
        };
        let turn = self.pool.turn().await;
        let file = Arc::clone(&self.file);
        let abandon = AbandonOnDrop(abandoned);
        // The turn goes along: a thread that is abandoned still occupies it until it has stopped.
        let outcome = tokio::task::spawn_blocking(move || {
            let login = Login::default();
            let mut connection = match turn.take(&login) {
                Some(connection) => connection,
                None => guard::open(&file, work.reads)?,
            };
            let outcome = until_unlocked(&mut connection, &work);
            if connection.is_autocommit() {
                turn.put_back(&login, connection);
            }
            outcome
        })
        .await;
        drop(abandon);
        outcome.unwrap_or_else(|error| {
            Err(Failure::new(FailureKind::Internal, Phase::MaybeSent, "the database thread broke off")
                .with_detail(error.to_string()))
        })
    }

    /// Opens and prepares, and executes nothing.
    pub(super) async fn check(&self, sql: String, reads: bool) -> Result<String, Failure> {
        let file = Arc::clone(&self.file);
        let checked = tokio::task::spawn_blocking(move || {
            let connection = guard::open(&file, reads)?;
            connection.prepare(&sql).map_err(|error| fold(&error, reads, Duration::ZERO))?;
            Ok(format!("SQLite {}, statement prepared", rusqlite::version()))
        });
        checked
            .await
            .unwrap_or_else(|error| Err(words::unreachable("the database could not be opened", error.to_string())))
    }
}

/// Tries again while another connection holds the lock: nothing was done then.
fn until_unlocked(connection: &mut Connection, work: &Work) -> Result<Answer, Failure> {
    let until = work.until.clone();
    let watch = until.clone();
    // It says whether to stop.
    let _ = connection.progress_handler(STEPS, Some(move || watch.passed()));
    loop {
        match attempt(connection, work) {
            Err(Broken::Database(error)) if is_locked(&error) => {
                undo(connection);
                if until.passed() {
                    return Err(words::not_now("another connection holds the database locked", words::chain(&error)));
                }
            }
            Err(broken) => {
                undo(connection);
                return Err(match broken {
                    Broken::Database(error) => fold(&error, work.reads, until.timeout),
                    Broken::TooLarge => Rows::too_large(work.caps, !work.reads),
                });
            }
            Ok(answer) => return Ok(answer),
        }
    }
}

/// Why an attempt ended without an answer. Whatever it was, the transaction was not committed.
enum Broken {
    Database(Error),
    TooLarge,
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Broken::Database(error)
    }
}

fn attempt(connection: &Connection, work: &Work) -> Result<Answer, Broken> {
    if !work.reads {
        connection.execute_batch("begin immediate")?;
    }
    let mut statement = connection.prepare_cached(&work.sql)?;
    for (index, value) in work.bound.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, value)?;
    }
    work.sent.set();
    let mut rows = Rows::new(work.caps);
    let kinds: Vec<Option<String>> = {
        let columns: Vec<_> = statement.columns().collect();
        rows.columns(columns.iter().map(|column| column.name()));
        columns.iter().map(|column| column.decl_type().map(str::to_uppercase)).collect()
    };
    let mut found = statement.raw_query();
    while let Some(row) = found.next()? {
        if rows.has_room() {
            let values = values::row(row, &kinds, work.caps.bytes)?.ok_or(Broken::TooLarge)?;
            rows.push(values.into_iter()).map_err(|_| Broken::TooLarge)?;
        } else {
            rows.and_more();
            if work.reads {
                break;
            }
        }
    }
    drop(found);
    drop(statement);
    if work.reads {
        return Ok(rows.into_read().into());
    }
    let affected = connection.changes();
    if work.until.passed() {
        return Err(Broken::Database(Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT),
            None,
        )));
    }
    connection.execute_batch("commit")?;
    Ok(rows.into_write(affected).into())
}

fn undo(connection: &Connection) {
    if !connection.is_autocommit() && connection.execute_batch("rollback").is_err() {
        tracing::warn!("a rollback failed; its connection is closed");
    }
}

fn is_locked(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// What SQLite's errors mean. Whatever happened, the transaction is undone.
fn fold(error: &Error, reads: bool, timeout: Duration) -> Failure {
    let detail = words::chain(error);
    let said = match error {
        Error::SqliteFailure(_, Some(said)) => said.clone(),
        Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => words::timed_out(reads, timeout, detail),
        Some(ErrorCode::CannotOpen | ErrorCode::NotADatabase) => {
            words::unreachable("the file of this tool cannot be opened as a SQLite database", detail)
        }
        Some(ErrorCode::AuthorizationForStatementDenied) => {
            let may = if reads { "only read" } else { "only read and change rows" };
            words::rejected(&format!("this tool may {may} ({said})"), detail)
        }
        Some(ErrorCode::ReadOnly) if reads => {
            words::rejected("this tool may only read, and its statement tried to write", detail)
        }
        Some(ErrorCode::TooBig) => {
            Failure::new(FailureKind::Oversize, Phase::Answered, "a value is larger than SQLite can hold")
                .with_detail(detail)
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            words::not_now("another connection holds the database locked", detail)
        }
        Some(
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::OutOfMemory
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::InternalMalfunction,
        ) => words::server_error(reads, &said, detail),
        _ => words::rejected(&said, detail),
    }
}
