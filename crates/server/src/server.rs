//! The listener: binds, accepts, and stops without dropping a call.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reach_engine::Engine;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{Callers, ExposureError, Gate, GateError, check_exposure};
use crate::connection::{self, Patience};
use crate::http;
use crate::settings::Settings;

/// A bound listener that does not serve yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    settings: Settings,
    engine: Engine,
    callers: Callers,
    gate: Gate,
}

/// Why a listener cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// It would be open to everybody.
    #[error(transparent)]
    Exposed(#[from] ExposureError),
    /// A rule of the gate cannot be read.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The address cannot be had.
    #[error("cannot listen on {address}; is another gateway running there?")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// How stopping went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Calls still running when patience ended.
    pub calls_left: usize,
    /// Connections cut when patience ended.
    pub connections_cut: usize,
}

impl Server {
    /// Binds the address. Refuses a public one while `callers` is empty.
    pub async fn bind(settings: Settings, engine: Engine, callers: Callers) -> Result<Self, BindError> {
        check_exposure(settings.listen.ip(), &callers)?;
        let listen = |source| BindError::Listen { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let gate = Gate::new(&settings, address)?;
        Ok(Self { listener, address, settings, engine, callers, gate })
    }

    /// The address it is bound to, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` completes, then takes no new connection, tells the engine to take no new
    /// call, and waits for what is under way, at most the drain patience.
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send) -> Drained {
        let Self { listener, address, settings, engine, callers, gate } = self;
        let stop = CancellationToken::new();
        // Streams that never end by themselves (MCP subscriptions) end when this one does.
        let router = http::router(engine.clone(), callers, gate, &settings, address, stop.child_token());
        let patience =
            Patience { first: settings.header_timeout, idle: settings.idle_timeout, write: settings.write_timeout };
        let connections = TaskTracker::new();
        let cut = CancellationToken::new();
        let places = Arc::new(Semaphore::new(settings.max_connections.max(1)));
        let accepting = async {
            loop {
                // A place is taken before the connection is: what exceeds the cap waits in the kernel's
                // queue, costs us nothing, and is served as soon as a connection ends.
                let Ok(place) = places.clone().acquire_owned().await else { return };
                let stream = accept(&listener).await;
                let serving = connection::serve(stream, router.clone(), patience, stop.clone());
                let cut = cut.clone();
                connections.spawn(async move {
                    tokio::select! {
                        () = serving => {}
                        () = cut.cancelled() => {}
                    }
                    drop(place);
                });
            }
        };
        tokio::select! {
            () = accepting => {}
            () = shutdown => {}
        }
        drop(listener);
        let deadline = Instant::now() + settings.drain_patience;
        stop.cancel();
        connections.close();
        let (calls_left, waited) =
            tokio::join!(engine.drain(settings.drain_patience), timeout_at(deadline, connections.wait()));
        let connections_cut = if waited.is_err() { connections.len() } else { 0 };
        cut.cancel();
        connections.wait().await;
        Drained { calls_left, connections_cut }
    }
}

/// The next connection. Running out of file handles is not the end: it is waited out.
async fn accept(listener: &TcpListener) -> tokio::net::TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_of_the_connection(&error) => {}
            Err(error) => {
                tracing::warn!(error = %error, "cannot accept connections; trying again");
                sleep(Duration::from_millis(500)).await;
            }
        }
    }
}

fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}
