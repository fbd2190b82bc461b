//! How a PostgreSQL connection is made, counted and ended.
//!
//! The bytes that one attempt may receive are counted on the wire: the driver reads a row as a whole, and a
//! row can be a gigabyte. A connection that is dropped closes its socket at once; a statement that may
//! still run on it is cancelled by a second connection.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use reach_core::{Failure, Problem};
use secrecy::ExposeSecret;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{CancelToken, Client, Error, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::at_login;
use crate::sql::failure::{self as words, chain};
use crate::sql::place::{Encryption, Login, Server};
use crate::sql::tls;

/// How long a cancel request may take; the connection it concerns is closed anyway.
const CANCEL_WAIT: Duration = Duration::from_secs(5);

/// Prepared statements kept per connection; a tool has one for each combination of its identifiers.
const PREPARED: usize = 64;

/// Makes connections to one server.
#[derive(Clone)]
pub(super) struct Connector(Arc<Settings>);

struct Settings {
    server: Server,
    tls: MakeRustlsConnect,
    max_bytes: usize,
}

impl Connector {
    pub(super) fn new(server: Server, max_bytes: usize) -> Result<Self, Problem> {
        let tls = MakeRustlsConnect::new(tls::client(&server)?);
        Ok(Self(Arc::new(Settings { server, tls, max_bytes })))
    }

    pub(super) async fn connect(&self, login: &Login) -> Result<Connection, Failure> {
        let server = &self.0.server;
        let mut config = tokio_postgres::Config::new();
        config.application_name("reach").ssl_mode(match server.encryption {
            Encryption::Disable => SslMode::Disable,
            Encryption::Prefer => SslMode::Prefer,
            Encryption::Require | Encryption::VerifyFull => SslMode::Require,
        });
        if server.socket.is_some() {
            config.ssl_mode(SslMode::Disable);
        }
        config.user(login.username.as_deref().unwrap_or("postgres"));
        if let Some(password) = &login.password {
            config.password(password.expose_secret());
        }
        if let Some(database) = &server.database {
            config.dbname(database);
        }
        let meter = Arc::new(Meter::default());
        meter.left.store(self.0.max_bytes.max(64 * 1024), Ordering::Relaxed);
        let wire = self.wire(Arc::clone(&meter)).await.map_err(|error| {
            words::unreachable("the database cannot be reached: no connection to its address", chain(&error))
        })?;
        let tls =
            self.tls().map_err(|error| words::unreachable("the database cannot be reached over TLS", chain(&error)))?;
        let (client, connection) = config.connect_raw(wire, tls).await.map_err(|error| at_login(&error))?;
        // It ends with an error when the connection breaks; whoever waits for an answer is told by the client.
        let task = tokio::spawn(async move { connection.await.unwrap_or_default() });
        Ok(Connection {
            client,
            prepared: HashMap::new(),
            forget: Forget::default(),
            meter,
            connector: self.clone(),
            task,
        })
    }

    async fn wire(&self, meter: Arc<Meter>) -> io::Result<Wire> {
        let server = &self.0.server;
        let inner: Box<dyn Socket> = match &server.socket {
            Some(folder) => Box::new(UnixStream::connect(format!("{folder}/.s.PGSQL.{}", server.port)).await?),
            None => {
                let stream = TcpStream::connect((server.host.as_str(), server.port)).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        Ok(Wire { inner, meter })
    }

    fn tls(&self) -> io::Result<<MakeRustlsConnect as MakeTlsConnect<Wire>>::TlsConnect> {
        let mut make = self.0.tls.clone();
        let made = MakeTlsConnect::<Wire>::make_tls_connect(&mut make, &self.0.server.host);
        made.map_err(|error| io::Error::other(error.to_string()))
    }

    async fn cancel(self, token: CancelToken) {
        let cancel = async {
            let wire = self.wire(Arc::new(Meter { left: AtomicUsize::new(64 * 1024), ..Meter::default() })).await?;
            token.cancel_query_raw(wire, self.tls()?).await.map_err(io::Error::other)
        };
        match tokio::time::timeout(CANCEL_WAIT, cancel).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(error = %error, "cancel request failed"),
            Err(_) => tracing::warn!("cancel request timed out"),
        }
    }
}

/// One connection.
pub(super) struct Connection {
    pub(super) client: Client,
    prepared: HashMap<String, Statement>,
    forget: Forget,
    meter: Arc<Meter>,
    connector: Connector,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A connection at rest could say goodbye; one that stalls would never get to.
        self.task.abort();
    }
}

impl Connection {
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Prepares, or finds what was prepared on this connection earlier.
    pub(super) async fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        if self.forget.0.swap(false, Ordering::Relaxed) || self.prepared.len() >= PREPARED {
            self.prepared.clear();
        }
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        self.allow_bytes();
        let statement = self.client.prepare(sql).await?;
        self.prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Lets the next attempt receive its share. The binary form of a row is seldom larger than its JSON; four
    /// times the cap leaves room for the protocol and is still a bound.
    pub(super) fn allow_bytes(&self) {
        let share = self.connector.0.max_bytes.saturating_mul(4).saturating_add(64 * 1024);
        self.meter.left.store(share, Ordering::Relaxed);
    }

    /// Whether the attempt received more than its share.
    pub(super) fn overflowed(&self) -> bool {
        self.meter.overflowed.load(Ordering::Relaxed)
    }

    /// A mark that makes the next [`Connection::prepare`] start anew.
    pub(super) fn forgetter(&self) -> Forget {
        self.forget.clone()
    }

    /// Cancels whatever runs on this connection, unless disarmed before it is dropped.
    pub(super) fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(Some((self.connector.clone(), self.client.cancel_token())))
    }
}

/// See [`Connection::forgetter`].
#[derive(Clone, Default)]
pub(super) struct Forget(Arc<AtomicBool>);

impl Forget {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// See [`Connection::cancel_on_drop`].
pub(super) struct CancelOnDrop(Option<(Connector, CancelToken)>);

impl CancelOnDrop {
    pub(super) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let (Some((connector, token)), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(connector.cancel(token));
        }
    }
}

/// A socket, whatever its family.
trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Socket for S {}

/// A socket that counts what it receives.
pub(super) struct Wire {
    inner: Box<dyn Socket>,
    meter: Arc<Meter>,
}

#[derive(Debug, Default)]
struct Meter {
    left: AtomicUsize,
    overflowed: AtomicBool,
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let received = buffer.filled().len() - before;
        let left = self.meter.left.load(Ordering::Relaxed);
        self.meter.left.store(left.saturating_sub(received), Ordering::Relaxed);
        if received > left {
            self.meter.overflowed.store(true, Ordering::Relaxed);
            return Poll::Ready(Err(io::Error::other("more bytes than the cap")));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
