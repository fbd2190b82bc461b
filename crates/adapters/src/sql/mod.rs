//! The `sql` adapter: one declared statement on SQLite, PostgreSQL, MySQL or MariaDB.
//!
//! Values travel as bound parameters of a prepared statement and in no other way; an identifier is chosen
//! from the operator's list. A reading tool runs where the database itself forbids changes (a read-only
//! transaction, a read-only file with an authoriser); a writing one in a single transaction, and what
//! happened when it breaks is told by how far it had got. The server is told the deadline, and is asked to
//! stop when the caller goes away.
//!
//! Read [`config`] first, then `statement` (how `:name` is found) and the three databases.

mod classify;
mod config;
mod failure;
mod job;
mod mysql;
mod place;
mod pool;
mod postgres;
mod rows;
mod scan;
mod sqlite;
mod statement;
mod tls;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reach_core::{
    Adapter, Answer, Attempt, BoxFuture, Credential, Effect, Failure, FailureKind, Phase, Problem, nearest,
};
use serde_json::Value;

use classify::Access;
pub use config::{Choices, Config, DatabaseUrl};
use job::Job;
use place::{Login, Place};
use rows::Caps;
use statement::Statement;

use crate::shared::Declared;

/// Builds the adapter of one declared tool, or says everything that is wrong with the declaration.
pub fn build(config: Config, declared: &Declared<'_>) -> Result<Arc<dyn Adapter>, Vec<Problem>> {
    let mut problems = limits(&config);
    let place = match Place::parse(config.database.expose(), declared.base) {
        Ok(place) => place,
        Err(more) => {
            problems.extend(more);
            return Err(problems);
        }
    };
    let dialect = place.dialect();
    let scanned = Statement::parse(&config.statement, dialect, &config.identifiers);
    let readable = scanned.problems.is_empty();
    problems.extend(scanned.problems);
    problems.extend(names(&scanned.statement, &config.identifiers, declared));
    if readable {
        match classify::classify(&scanned.statement.render_first(&config.identifiers), dialect) {
            Err(problem) => problems.push(problem),
            Ok(Access::Writes) if declared.effect == Effect::Read => problems.push(Problem::new(
                "/statement",
                "this tool is declared to read, and its statement writes, locks or calls a function that does",
                "declare `effect: write`, or let the statement only read",
            )),
            Ok(_) => {}
        }
    }
    if config.credential.is_some() && matches!(place, Place::Sqlite { .. }) {
        problems.push(Problem::new("/credential", "SQLite knows no login", "remove `credential`"));
    }
    let target = place.target();
    let reads = declared.effect == Effect::Read;
    let (login, engine) = match place {
        Place::Sqlite { file, .. } => (Login::default(), Engine::Sqlite(sqlite::Database::new(file, config.pool_size))),
        Place::Postgres(server) => {
            let login = server.login.clone();
            match postgres::Database::new(server, config.pool_size, config.max_bytes) {
                Ok(database) => (login, Engine::Postgres(Box::new(database))),
                Err(problem) => {
                    problems.push(problem);
                    return Err(problems);
                }
            }
        }
        Place::MySql(server) => {
            let login = server.login.clone();
            (login, Engine::MySql(Box::new(mysql::Database::new(server, config.pool_size, config.max_bytes))))
        }
    };
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Arc::new(Sql {
        target,
        statement: scanned.statement,
        identifiers: config.identifiers,
        reads,
        caps: Caps { rows: config.max_rows, bytes: config.max_bytes },
        login,
        logs_in_later: config.credential.is_some(),
        engine,
    }))
}

/// Numbers that could not work.
fn limits(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut within = |field: &str, value: usize, least: usize, most: usize| {
        if !(least..=most).contains(&value) {
            problems.push(Problem::new(
                format!("/{field}"),
                format!("{field} is {value}"),
                format!("use a number from {least} to {most}"),
            ));
        }
    };
    within("max_rows", config.max_rows, 1, 100_000);
    within("max_bytes", config.max_bytes, 1024, 1 << 30);
    within("pool_size", config.pool_size, 1, 1000);
    problems
}

/// Names that lead nowhere: parameters and identifiers without an argument, choices that are none.
fn names(statement: &Statement, identifiers: &BTreeMap<String, Choices>, declared: &Declared<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut unknown: Vec<&str> = Vec::new();
    for name in statement.parameters.iter().map(String::as_str) {
        if declared.arguments().any(|known| known == name) || unknown.contains(&name) {
            continue;
        }
        unknown.push(name);
        let fix = match nearest::nearest(name, declared.arguments(), 1).first() {
            Some(near) => format!("did you mean `:{near}`?"),
            None => format!("add `{name}` to the properties of input_schema"),
        };
        problems.push(Problem::new("/statement", format!("`:{name}` names no argument of this tool"), fix));
    }
    for (name, choices) in identifiers {
        let pointer = format!("/identifiers/{}", name.replace('~', "~0").replace('/', "~1"));
        if !statement.identifiers().any(|used| used == name) {
            let fix = format!("write `{{{name}}}` where it belongs in the statement, or remove it");
            problems.push(Problem::new(pointer.clone(), "the statement does not use this identifier", fix));
        }
        if !declared.arguments().any(|known| known == name) {
            let fix = format!("add `{name}` to the properties of input_schema");
            problems.push(Problem::new(pointer.clone(), "this identifier has no argument that chooses it", fix));
        }
        if choices.pairs().next().is_none() {
            problems.push(Problem::new(pointer.clone(), "there is nothing to choose from", "list at least one name"));
        }
        for (value, identifier) in choices.pairs() {
            if identifier.split('.').any(str::is_empty) || identifier.contains('\0') {
                problems.push(Problem::new(
                    pointer.clone(),
                    format!("what `{value}` stands for is no identifier"),
                    "write a column, or table.column",
                ));
            }
        }
    }
    problems
}

/// One declared statement.
struct Sql {
    target: String,
    statement: Statement,
    identifiers: BTreeMap<String, Choices>,
    reads: bool,
    caps: Caps,
    login: Login,
    /// The login comes with each attempt.
    logs_in_later: bool,
    engine: Engine,
}

/// The database behind it.
enum Engine {
    Sqlite(sqlite::Database),
    Postgres(Box<postgres::Database>),
    MySql(Box<mysql::Database>),
}

impl Sql {
    fn job<'a>(&'a self, attempt: &'a Attempt) -> Result<Job<'a>, Failure> {
        let login = match (attempt.credential.as_deref(), &self.engine) {
            (None, _) => self.login.clone(),
            (Some(Credential::Basic { username, password }), Engine::Postgres(_) | Engine::MySql(_)) => {
                Login { username: Some(username.clone()), password: Some(password.clone()) }
            }
            (Some(_), _) => {
                let message = "a database takes a credential of kind `basic`, and SQLite takes none";
                return Err(Failure::new(FailureKind::Unauthorised, Phase::NotSent, message));
            }
        };
        let sql = self.statement.render(|name| self.identifier(name, attempt.arguments.get(name)))?;
        Ok(Job {
            sql,
            parameters: &self.statement.parameters,
            arguments: &attempt.arguments,
            reads: self.reads,
            begun: tokio::time::Instant::now(),
            timeout: attempt.timeout,
            login,
            caps: self.caps,
            sent: attempt.sent.clone(),
        })
    }

    /// The identifier that the value of an argument stands for.
    fn identifier(&self, name: &str, value: Option<&Value>) -> Result<&str, Failure> {
        let pairs = || self.identifiers.get(name).into_iter().flat_map(Choices::pairs);
        let wanted = value.and_then(Value::as_str);
        pairs().find(|(known, _)| Some(*known) == wanted).map(|(_, identifier)| identifier).ok_or_else(|| {
            let known: Vec<&str> = pairs().map(|(known, _)| known).collect();
            Failure::refused(format!("`{name}` has to be one of: {}", known.join(", ")))
        })
    }
}

impl Adapter for Sql {
    fn kind(&self) -> &'static str {
        "sql"
    }

    fn target(&self) -> &str {
        &self.target
    }

    fn call<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let job = self.job(attempt)?;
            match &self.engine {
                Engine::Sqlite(database) => database.run(&job).await,
                Engine::Postgres(database) => database.run(&job).await,
                Engine::MySql(database) => database.run(&job).await,
            }
        })
    }

    fn check<'a>(&'a self, timeout: Duration) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(async move {
            let sql = self.statement.render_first(&self.identifiers);
            let check = async {
                match &self.engine {
                    Engine::Sqlite(database) => database.check(sql, self.reads).await,
                    Engine::Postgres(database) => database.check(&sql, &self.login).await,
                    Engine::MySql(database) => database.check(&sql, &self.login).await,
                }
            };
            match tokio::time::timeout(timeout, check).await {
                // A check has no credential: being asked for one is as far as it can come.
                Ok(Err(failure)) if self.logs_in_later && failure.kind == FailureKind::Unauthorised => {
                    Ok("the database answers, and asks for the credential of this tool".to_owned())
                }
                Ok(found) => found,
                Err(_) => {
                    let message = format!("the database did not answer within {} ms", timeout.as_millis());
                    Err(failure::unreachable(&message, "check timed out"))
                }
            }
        })
    }
}
