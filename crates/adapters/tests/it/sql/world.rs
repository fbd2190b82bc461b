//! A fresh database of each kind, the operator's side of it, and tools declared on it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use reach_adapters::shared::Declared;
use reach_adapters::sql::{self, Config};
use reach_core::{Adapter, Answer, Attempt, Effect, Failure, Payload, Problem, ToolId};
use reach_kit::databases::{self, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sqlite,
    Postgres,
    MariaDb,
}

pub(super) const KINDS: [Kind; 3] = [Kind::Sqlite, Kind::Postgres, Kind::MariaDb];
pub(super) const SERVERS: [Kind; 2] = [Kind::Postgres, Kind::MariaDb];

/// A database that nobody else uses.
pub(super) struct World {
    pub(super) kind: Kind,
    pub(super) folder: TempDir,
    pub(super) name: String,
    server: Option<Server>,
}

impl World {
    pub(super) async fn new(kind: Kind) -> Self {
        let name = databases::fresh_name();
        let server = match kind {
            Kind::Sqlite => None,
            Kind::Postgres => Some(databases::postgres()),
            Kind::MariaDb => Some(databases::mariadb()),
        };
        let world = Self { kind, folder: folder(), name, server };
        match kind {
            Kind::Sqlite => drop(rusqlite::Connection::open(world.file()).unwrap()),
            Kind::Postgres => world.sql_on("postgres", &format!("create database {}", world.name)).await,
            Kind::MariaDb => world.sql_on("mysql", &format!("create database {}", world.name)).await,
        }
        world
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join("stock.db")
    }

    pub(super) fn server(&self) -> &Server {
        self.server.as_ref().expect("a database on a server")
    }

    pub(super) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.server().port).into()
    }

    pub(super) fn url(&self) -> String {
        match self.kind {
            Kind::Sqlite => "sqlite://stock.db".to_owned(),
            Kind::Postgres | Kind::MariaDb => self.server().url(&self.name),
        }
    }

    pub(super) fn url_through(&self, port: u16) -> String {
        self.server().url_through(port, &self.name)
    }

    /// Runs statements as the operator would in a shell.
    pub(super) async fn sql(&self, statements: &str) {
        self.sql_on(&self.name, statements).await;
    }

    async fn sql_on(&self, database: &str, statements: &str) {
        match self.kind {
            Kind::Sqlite => rusqlite::Connection::open(self.file()).unwrap().execute_batch(statements).unwrap(),
            Kind::Postgres => postgres(&self.server().url(database)).await.batch_execute(statements).await.unwrap(),
            Kind::MariaDb => {
                let mut conn = mysql_async::Conn::from_url(mysql_url(&self.server().url(database))).await.unwrap();
                conn.query_drop(statements).await.unwrap();
                conn.disconnect().await.unwrap();
            }
        }
    }

    /// The first value of a query, as text.
    pub(super) async fn text(&self, query: &str) -> Option<String> {
        match self.kind {
            Kind::Sqlite => {
                let connection = rusqlite::Connection::open(self.file()).unwrap();
                let found = connection.query_row(query, [], |row| row.get::<_, rusqlite::types::Value>(0));
                match found.unwrap() {
                    rusqlite::types::Value::Null => None,
                    rusqlite::types::Value::Integer(integer) => Some(integer.to_string()),
                    rusqlite::types::Value::Text(text) => Some(text),
                    other => panic!("{other:?}"),
                }
            }
            Kind::Postgres => {
                let found = postgres(&self.url()).await.simple_query(query).await.unwrap();
                found.iter().find_map(|message| match message {
                    tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                    _ => None,
                })
            }
            Kind::MariaDb => {
                let mut conn = mysql_async::Conn::from_url(mysql_url(&self.url())).await.unwrap();
                let found: Option<Option<String>> = conn.query_first(query).await.unwrap();
                conn.disconnect().await.unwrap();
                found.flatten()
            }
        }
    }

    /// Waits until a query answers this, for ten seconds at most.
    pub(super) async fn becomes(&self, query: &str, wanted: &str) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        loop {
            let found = self.text(query).await;
            if found.as_deref() == Some(wanted) {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "{query}: {found:?}, not {wanted}");
            tokio::task::yield_now().await;
        }
    }

    /// How many statements with this word run in this database.
    pub(super) fn running(&self, word: &str) -> String {
        match self.kind {
            Kind::Postgres => format!(
                "select count(*) from pg_stat_activity where datname = '{}' and state = 'active' \
                 and query like '%{word}%' and pid <> pg_backend_pid()",
                self.name
            ),
            Kind::MariaDb => format!(
                "select count(*) from information_schema.processlist where db = '{}' and info like '%{word}%' \
                 and id <> connection_id()",
                self.name
            ),
            Kind::Sqlite => unreachable!("SQLite has no server to ask"),
        }
    }

    /// Declares a tool here; `arguments` are the properties of its schema.
    pub(super) fn tool(&self, effect: Effect, statement: &str, arguments: &[&str]) -> Arc<dyn Adapter> {
        self.declare(effect, json!({"database": self.url(), "statement": statement}), arguments).unwrap()
    }

    /// The same with every key of the declaration written out.
    pub(super) fn declare(
        &self,
        effect: Effect,
        config: Value,
        arguments: &[&str],
    ) -> Result<Arc<dyn Adapter>, Vec<Problem>> {
        let config: Config = serde_json::from_value(config).expect("a configuration");
        let properties: BTreeMap<&str, Value> = arguments.iter().map(|name| (*name, json!({}))).collect();
        let schema = json!({"type": "object", "properties": properties});
        let declared = Declared {
            tool_id: &ToolId::parse("tool").unwrap(),
            input_schema: &schema,
            effect,
            timeout: Duration::from_secs(10),
            base: self.folder.path(),
        };
        sql::build(config, &declared)
    }
}

/// The driver for the operator's side knows the scheme only as `mysql`.
fn mysql_url(url: &str) -> String {
    format!("{url}?prefer_socket=false")
}

/// In memory where there is such a place: SQLite waits for the disk at every commit.
fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

pub(super) async fn postgres(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(super) fn attempt(arguments: Value) -> Attempt {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    Attempt::new(ToolId::parse("tool").unwrap(), arguments, Effect::Write)
}

/// Calls, and checks what holds for every failure: words for the reader, and no password in any of them.
pub(super) async fn call(adapter: &Arc<dyn Adapter>, arguments: Value) -> Result<Value, Failure> {
    call_attempt(adapter, &attempt(arguments)).await
}

pub(super) async fn call_attempt(adapter: &Arc<dyn Adapter>, attempt: &Attempt) -> Result<Value, Failure> {
    let answer = tokio::time::timeout(Duration::from_secs(30), adapter.call(attempt)).await;
    match answer.expect("answers within thirty seconds") {
        Ok(Answer { payload: Payload::Json(value), .. }) => Ok(value),
        Ok(other) => panic!("{other:?}"),
        Err(failure) => {
            assert!(!failure.message.is_empty());
            assert!(!format!("{failure:?}").contains("hush-"), "a password in {failure:?}");
            let path = failure.message.contains("stock.db") || failure.message.contains("/dev/shm");
            assert!(!path, "a path in {failure:?}");
            Err(failure)
        }
    }
}
