//! How a MySQL connection is made and ended.
//!
//! `prefer` is emulated, since the protocol lets a client only ask for TLS or not: the first connection asks
//! for it, and a server that has none is asked again without. A connection that is dropped in the middle of
//! something closes its socket at once, and a second one kills what may still run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Error, Opts, OptsBuilder, SslOpts, Statement};
use reach_core::Failure;
use secrecy::ExposeSecret;

use super::failure::at_login;
use crate::sql::job::Job;
use crate::sql::place::{Encryption, Login, Server};

/// How long killing a query may take; the connection it concerns is closed anyway.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// Makes connections to one server.
#[derive(Clone)]
pub(super) struct Connector(Arc<Settings>);

struct Settings {
    server: Server,
    max_bytes: usize,
    /// Whether the server turned out to have no TLS.
    plain: AtomicBool,
}

impl Connector {
    pub(super) fn new(server: Server, max_bytes: usize) -> Self {
        Self(Arc::new(Settings { server, max_bytes, plain: AtomicBool::new(false) }))
    }

    pub(super) async fn connect(&self, login: &Login) -> Result<Connection, Failure> {
        let options = self.options(login);
        let mut conn = match Conn::new(options.clone()).await {
            Err(Error::Driver(DriverError::NoClientSslFlagFromServer))
                if self.0.server.encryption == Encryption::Prefer && !self.0.plain.swap(true, Ordering::Relaxed) =>
            {
                Conn::new(self.options(login)).await
            }
            made => made,
        }
        .map_err(|error| at_login(&error))?;
        let version: Option<String> = conn.query_first("select version()").await.map_err(|error| at_login(&error))?;
        let mariadb = version.is_some_and(|version| version.to_lowercase().contains("mariadb"));
        Ok(Connection {
            id: conn.id(),
            conn: Some(conn),
            mariadb,
            busy: false,
            connector: self.clone(),
            login: login.clone(),
        })
    }

    fn options(&self, login: &Login) -> Opts {
        let server = &self.0.server;
        let encrypted = match server.encryption {
            Encryption::Disable => false,
            Encryption::Prefer => !self.0.plain.load(Ordering::Relaxed),
            Encryption::Require | Encryption::VerifyFull => true,
        };
        let proven = server.encryption == Encryption::VerifyFull || server.roots.is_some();
        let roots = server.roots.iter().map(|file| file.clone().into()).collect();
        let tls = SslOpts::default()
            .with_root_certs(roots)
            .with_danger_accept_invalid_certs(!proven)
            .with_danger_skip_domain_validation(!proven);
        OptsBuilder::default()
            .ip_or_hostname(server.host.clone())
            .tcp_port(server.port)
            .socket(server.socket.clone())
            // Never move to a socket behind the operator's back: the target would be another than declared.
            .prefer_socket(false)
            .user(login.username.clone())
            .pass(login.password.as_ref().map(|password| password.expose_secret().to_owned()))
            .db_name(server.database.clone())
            .tcp_nodelay(true)
            .ssl_opts((encrypted && server.socket.is_none()).then_some(tls))
            // A row is read as a whole; the driver refuses one that is larger.
            .max_allowed_packet(Some(self.0.max_bytes.saturating_mul(2).clamp(64 * 1024, 1 << 30)))
            // A value that does not fit is an error, never silently cut.
            .init(vec!["set session sql_mode = concat(@@sql_mode, ',STRICT_ALL_TABLES')"])
            .into()
    }

    async fn kill(self, login: Login, id: u32) {
        let kill = async {
            let mut conn = Conn::new(self.options(&login)).await?;
            // The number is the server's own; KILL takes no parameters.
            conn.query_drop(format!("kill query {id}")).await?;
            conn.disconnect().await
        };
        match tokio::time::timeout(KILL_WAIT, kill).await {
            Ok(Ok(())) => {}
            // 1094: it had ended by itself.
            Ok(Err(Error::Server(answer))) if answer.code == 1094 => {}
            Ok(Err(error)) => tracing::warn!(error = %error, "killing a query failed"),
            Err(_) => tracing::warn!("killing a query timed out"),
        }
    }
}

/// One connection.
pub(super) struct Connection {
    conn: Option<Conn>,
    id: u32,
    mariadb: bool,
    busy: bool,
    connector: Connector,
    login: Login,
}

impl Connection {
    /// The connection itself; it is there until the drop.
    #[expect(clippy::expect_used, reason = "only `drop` takes it out")]
    pub(super) fn get(&mut self) -> &mut Conn {
        self.conn.as_mut().expect("a connection has its connection")
    }

    /// From here on something may run: dropping kills it.
    pub(super) fn busy(&mut self) {
        self.busy = true;
    }

    /// Nothing runs, and no transaction is open.
    pub(super) fn rest(&mut self) {
        self.busy = false;
    }

    /// Prepares, or finds what was prepared on this connection earlier.
    pub(super) async fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        self.get().prep(sql).await
    }

    /// What opens the transaction of an attempt, in one round trip. The numbers are ours.
    pub(super) fn opening(&self, job: &Job<'_>) -> String {
        let limit = job.timeout_ms();
        let deadline = if self.mariadb {
            format!("max_statement_time = {}.{:03}", limit / 1000, limit % 1000)
        } else {
            format!("max_execution_time = {limit}")
        };
        let lock_wait = (limit / 1000).max(1);
        let (rows, mode) =
            if job.reads { ((job.caps.rows + 1).to_string(), "read only") } else { ("default".into(), "read write") };
        format!(
            "set session {deadline}, innodb_lock_wait_timeout = {lock_wait}, sql_select_limit = {rows}; start transaction {mode}"
        )
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(conn) = self.conn.take() else { return };
        if !self.busy {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(self.connector.clone().kill(self.login.clone(), self.id));
        }
        // Dropped on a runtime, the driver would first read the rest of the answer, however long that takes.
        let closing = std::thread::Builder::new().name("reach-close".to_owned()).spawn(move || drop(conn));
        if let Err(error) = closing {
            tracing::warn!(error = %error, "a connection is closed late");
        }
    }
}
