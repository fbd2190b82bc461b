//! What an operator decides about the listener: where it listens, who may reach it, and how long and how
//! large a request may be. Built by the composition root; nothing here reads a file or the environment.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The settings of one listener. The defaults are safe for a loopback gateway and a sane start for a
/// public one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where to listen. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Names under which the gateway may be addressed, `host` (any port) or `host:port`. A loopback
    /// listener always accepts `localhost`, `127.0.0.1` and `[::1]` with its own port, and nothing else
    /// that is not listed here. A public listener accepts every name while this is empty.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may call, as `scheme://host[:port]`. Every other page is refused; programs that
    /// are no browsers send no Origin and are not concerned.
    pub allowed_origins: Vec<String>,
    /// How long a new connection may take until its first request has arrived with all its headers.
    pub header_timeout: Duration,
    /// How long a connection may stay without a request after its first one.
    pub idle_timeout: Duration,
    /// How long the body of a request may take.
    pub body_timeout: Duration,
    /// How long a client may refuse to read its answer before the connection is cut.
    pub write_timeout: Duration,
    /// The largest body of a request, in bytes.
    pub max_body_bytes: usize,
    /// Connections served at once. Further ones wait in the kernel's queue until one ends.
    pub max_connections: usize,
    /// How long calls under way may take after the order to stop.
    pub drain_patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7878)),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            max_body_bytes: 1024 * 1024,
            max_connections: 512,
            drain_patience: Duration::from_secs(10),
        }
    }
}
