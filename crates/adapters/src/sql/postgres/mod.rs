//! PostgreSQL: every value goes as text and is typed by the server, every result comes in binary form and
//! is decoded without loss.
//!
//! An attempt is one transaction. The server gets the deadline as `statement_timeout`; when the caller goes
//! away a cancel request follows the statement, and the connection is not used again. Read `connect` for
//! how a connection is made, `values` for the types.

mod connect;
mod failure;
mod parameters;
mod values;

use reach_core::{Answer, Failure, Problem};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use self::connect::{Connection, Connector};
use self::failure::{Trouble, fold};
use self::parameters::Bound;
use super::failure::Stage;
use super::job::Job;
use super::place::{Login, Server};
use super::pool::Pool;
use super::rows::Rows;

/// A PostgreSQL database.
pub(super) struct Database {
    connector: Connector,
    pool: Pool<Connection>,
}

impl Database {
    pub(super) fn new(server: Server, pool_size: usize, max_bytes: usize) -> Result<Self, Problem> {
        Ok(Self { connector: Connector::new(server, max_bytes)?, pool: Pool::new(pool_size) })
    }

    /// Makes one attempt.
    pub(super) async fn run(&self, job: &Job<'_>) -> Result<Answer, Failure> {
        let turn = self.pool.turn().await;
        loop {
            let (mut connection, fresh) = match turn.take(&job.login) {
                Some(idle) if idle.is_closed() => continue,
                Some(idle) => (idle, false),
                None => (self.connector.connect(&job.login).await?, true),
            };
            match attempt(&mut connection, job).await {
                Ok(answer) => {
                    turn.put_back(&job.login, connection);
                    return Ok(answer);
                }
                // The server closed it while it was idle; nothing has been asked of it yet.
                Err(trouble) if !fresh && trouble.is_stale() => {}
                Err(trouble) => {
                    let failure = fold(&trouble, job, connection.overflowed());
                    if trouble.at_rest && !connection.is_closed() {
                        turn.put_back(&job.login, connection);
                    }
                    return Err(failure);
                }
            }
        }
    }

    /// Connects and prepares, and executes nothing.
    pub(super) async fn check(&self, sql: &str, login: &Login) -> Result<String, Failure> {
        let connection = self.connector.connect(login).await?;
        let statement = connection.client.prepare(sql).await.map_err(|error| failure::before_execution(&error, &[]))?;
        values::check_columns(statement.columns())?;
        let version = connection.client.query_one("select current_setting('server_version')", &[]).await;
        let version =
            version.and_then(|row| row.try_get::<_, String>(0)).unwrap_or_else(|_| "of unknown version".into());
        Ok(format!("PostgreSQL {version}, statement prepared"))
    }
}

async fn attempt(connection: &mut Connection, job: &Job<'_>) -> Result<Answer, Trouble> {
    let statement = connection.prepare(&job.sql).await.map_err(Trouble::preparing)?;
    values::check_columns(statement.columns()).map_err(Trouble::refused)?;
    let bound = parameters::bind(job, statement.params()).map_err(Trouble::refused)?;
    let bound: Vec<&(dyn ToSql + Sync)> = bound.iter().map(|value: &Bound| value as _).collect();

    connection.allow_bytes();
    let cancel = connection.cancel_on_drop();
    let forget = connection.forgetter();
    let transaction =
        connection.client.build_transaction().read_only(job.reads).start().await.map_err(Trouble::preparing)?;
    // The number is ours; nothing of a caller is in this text. The second limit frees the locks of a
    // transaction whose client has vanished from the network.
    let limit = job.timeout_ms();
    let limits = format!(
        "set local statement_timeout = {limit}; set local idle_in_transaction_session_timeout = {}",
        limit + 5_000
    );
    transaction.batch_execute(&limits).await.map_err(Trouble::preparing)?;

    job.sent.set();
    let executed = execute(&transaction, &statement, &bound, job).await;
    let (rows, affected) = match executed {
        Ok(done) => done,
        Err(mut trouble) => {
            if trouble.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED)
                || trouble.code() == Some(&SqlState::INVALID_SQL_STATEMENT_NAME)
            {
                // The table has changed under a statement prepared earlier.
                forget.set();
            }
            if trouble.is_answer() {
                trouble.at_rest = transaction.rollback().await.is_ok();
                cancel.disarm();
            }
            return Err(trouble);
        }
    };
    transaction.commit().await.map_err(|error| Trouble::server(error, Stage::Committing))?;
    cancel.disarm();
    let payload = if job.reads { rows.into_read() } else { rows.into_write(affected) };
    Ok(payload.into())
}

/// Executes the statement and takes its rows. A reading tool asks for no more rows than are shown and one;
/// a writing one runs to its end whatever is shown.
async fn execute(
    transaction: &tokio_postgres::Transaction<'_>,
    statement: &tokio_postgres::Statement,
    bound: &[&(dyn ToSql + Sync)],
    job: &Job<'_>,
) -> Result<(Rows, u64), Trouble> {
    use futures_util::TryStreamExt as _;

    let failed = |error| Trouble::server(error, Stage::Executing);
    let mut rows = Rows::new(job.caps);
    rows.columns(statement.columns().iter().map(tokio_postgres::Column::name));
    let stream = if job.reads {
        let portal = transaction.bind(statement, bound).await.map_err(failed)?;
        let wanted = i32::try_from(job.caps.rows + 1).unwrap_or(i32::MAX);
        transaction.query_portal_raw(&portal, wanted).await.map_err(failed)?
    } else {
        transaction.query_raw(statement, bound.iter().copied()).await.map_err(failed)?
    };
    let mut stream = std::pin::pin!(stream);
    while let Some(row) = stream.try_next().await.map_err(failed)? {
        if rows.has_room() {
            let values = values::row(&row).map_err(|column| Trouble::malformed(&column))?;
            rows.push(values.into_iter()).map_err(|_| Trouble::too_large())?;
        } else {
            rows.and_more();
        }
    }
    Ok((rows, stream.rows_affected().unwrap_or(0)))
}
