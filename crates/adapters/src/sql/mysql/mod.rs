//! MySQL and MariaDB: prepared statements only, since a text query may hold several statements.
//!
//! An attempt is one transaction. A reading one is read-only, which stops changes of rows but not of
//! schemas: those are refused when the tool is declared. When the caller goes away a second connection
//! kills the query, and the first is not used again. A table without transactions cannot be rolled back;
//! the server warns of it, and the outcome is then reported as unknown.

mod connect;
mod failure;
mod values;

use mysql_async::prelude::Queryable;
use mysql_async::{Params, Value as Bound};
use reach_core::{Answer, Failure};

use self::connect::{Connection, Connector};
use self::failure::{Trouble, fold};
use super::failure::Stage;
use super::job::Job;
use super::place::{Login, Server};
use super::pool::Pool;
use super::rows::Rows;

/// A MySQL or MariaDB database.
pub(super) struct Database {
    connector: Connector,
    pool: Pool<Connection>,
}

impl Database {
    pub(super) fn new(server: Server, pool_size: usize, max_bytes: usize) -> Self {
        Self { connector: Connector::new(server, max_bytes), pool: Pool::new(pool_size) }
    }

    /// Makes one attempt.
    pub(super) async fn run(&self, job: &Job<'_>) -> Result<Answer, Failure> {
        let bound = values::bind(job)?;
        let turn = self.pool.turn().await;
        loop {
            let (mut connection, fresh) = match turn.take(&job.login) {
                Some(idle) => (idle, false),
                None => (self.connector.connect(&job.login).await?, true),
            };
            match attempt(&mut connection, job, bound.clone()).await {
                Ok(answer) => {
                    connection.rest();
                    turn.put_back(&job.login, connection);
                    return Ok(answer);
                }
                // The server closed it while it was idle; nothing has been asked of it yet.
                Err(trouble) if !fresh && trouble.is_stale() => {}
                Err(trouble) => {
                    let failure = fold(&trouble, job);
                    if trouble.at_rest {
                        connection.rest();
                        turn.put_back(&job.login, connection);
                    }
                    return Err(failure);
                }
            }
        }
    }

    /// Connects and prepares, and executes nothing.
    pub(super) async fn check(&self, sql: &str, login: &Login) -> Result<String, Failure> {
        let mut connection = self.connector.connect(login).await?;
        connection.prepare(sql).await.map_err(|error| failure::before_execution(&error))?;
        let version: Result<Option<String>, _> = connection.get().query_first("select version()").await;
        connection.rest();
        let version = version.ok().flatten().unwrap_or_else(|| "of unknown version".to_owned());
        let name = if version.to_lowercase().contains("mariadb") { "MariaDB" } else { "MySQL" };
        Ok(format!("{name} {version}, statement prepared"))
    }
}

async fn attempt(connection: &mut Connection, job: &Job<'_>, bound: Vec<Bound>) -> Result<Answer, Trouble> {
    connection.busy();
    let statement = connection.prepare(&job.sql).await.map_err(Trouble::preparing)?;
    let opening = connection.opening(job);
    connection.get().query_drop(opening).await.map_err(Trouble::preparing)?;
    job.sent.set();
    let executed = execute(connection, statement, bound, job).await;
    let (rows, affected) = match executed {
        Ok(done) => done,
        Err(mut trouble) => {
            if trouble.is_answer() && connection.get().query_drop("rollback").await.is_ok() {
                trouble.at_rest = true;
                // The server counts what it could not take back.
                trouble.half_done = connection.get().get_warnings() > 0;
            }
            return Err(trouble);
        }
    };
    connection.get().query_drop("commit").await.map_err(|error| Trouble::server(error, Stage::Committing))?;
    let payload = if job.reads { rows.into_read() } else { rows.into_write(affected) };
    Ok(payload.into())
}

/// Executes the statement and takes its rows. A reading tool is bounded by `sql_select_limit`; a writing one
/// runs to its end whatever is shown.
async fn execute(
    connection: &mut Connection,
    statement: mysql_async::Statement,
    bound: Vec<Bound>,
    job: &Job<'_>,
) -> Result<(Rows, u64), Trouble> {
    let failed = |error| Trouble::server(error, Stage::Executing);
    let parameters = if bound.is_empty() { Params::Empty } else { Params::Positional(bound) };
    let mut rows = Rows::new(job.caps);
    let mut result = connection.get().exec_iter(statement, parameters).await.map_err(failed)?;
    let affected = result.affected_rows();
    let described = result.columns();
    let columns = described.as_deref().unwrap_or_default();
    let names: Vec<String> = columns.iter().map(|column| column.name_str().into_owned()).collect();
    rows.columns(names.iter().map(String::as_str));
    if !columns.is_empty() {
        while let Some(row) = result.next().await.map_err(failed)? {
            rows.push(values::row(row, columns).into_iter()).map_err(|_| Trouble::too_large())?;
        }
    }
    // A procedure may answer more than one result: the first is shown, the others are taken off the wire.
    result.drop_result().await.map_err(failed)?;
    // A statement with RETURNING answers rows and no count.
    let affected = if columns.is_empty() { affected } else { rows.seen() };
    Ok((rows, affected))
}
