//! The clients that requests go through, shared between tools, and what they never do by themselves.
//!
//! A client never retries, never follows a redirect, never reads a proxy from the environment and never
//! unpacks an answer. Every name it connects to is resolved here, under the address rules of its trust;
//! literal addresses are judged by [`permitted`] before a request is handed over, because no resolver
//! sees them.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use reach_core::{Failure, FailureKind, Phase};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tower::{Layer, Service};
use url::{Host, Url};

use crate::shared::address::{self, Refused, Trust};

/// The clients of one connect timeout, made when they are first used: reading the system's certificates
/// takes longer than everything else a tool needs to start. There is one for hosts of declarations and
/// one for hosts found elsewhere, so that a connection made under one trust is never taken from the pool
/// under the other.
#[derive(Debug)]
pub(crate) struct Clients {
    declared: Made,
    found: Made,
    probe: Made,
    connect_timeout: Duration,
}

type Made = OnceLock<Result<reqwest::Client, String>>;

/// An idle connection is dropped after this time: below the five seconds after which common servers
/// close theirs, so that a write is not sent into a connection that is just being closed.
const IDLE: Duration = Duration::from_secs(4);

/// Idle connections kept per host.
const IDLE_PER_HOST: usize = 64;

static SHARED: LazyLock<Mutex<HashMap<Duration, Weak<Clients>>>> = LazyLock::new(Mutex::default);

impl Clients {
    /// The clients for this connect timeout: those of another tool where it has the same.
    pub(crate) fn shared(connect_timeout: Duration) -> Arc<Self> {
        let mut shared = SHARED.lock();
        shared.retain(|_, clients| clients.strong_count() > 0);
        if let Some(clients) = shared.get(&connect_timeout).and_then(Weak::upgrade) {
            return clients;
        }
        let clients = Arc::new(Self { declared: Made::new(), found: Made::new(), probe: Made::new(), connect_timeout });
        shared.insert(connect_timeout, Arc::downgrade(&clients));
        clients
    }

    /// The client for hosts of this trust.
    pub(crate) fn of(&self, trust: Trust) -> Result<&reqwest::Client, Failure> {
        let made = match trust {
            Trust::Declared => &self.declared,
            Trust::Found => &self.found,
        };
        make(made, || builder(trust).connect_timeout(self.connect_timeout))
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Resolves, connects and shakes hands exactly as a request would, and sends nothing. Has no
    /// deadline of its own.
    pub(crate) async fn probe(&self, origin: &Url) -> Result<Option<reqwest::Error>, Failure> {
        let client = make(&self.probe, || builder(Trust::Declared).connector_layer(EndOnConnect))?;
        // The connector never hands out a connection, so that there is never an answer.
        Ok(client.head(origin.clone()).send().await.err().filter(|error| find::<Connected>(error).is_none()))
    }
}

/// The client, made now if this is the first use of it.
fn make(made: &Made, builder: impl Fn() -> reqwest::ClientBuilder) -> Result<&reqwest::Client, Failure> {
    made.get_or_init(|| builder().build().map_err(|error| format!("{error:?}"))).as_ref().map_err(|detail| {
        let message = "no HTTP client can be made on this machine; an operator has to look at its certificates";
        Failure::new(FailureKind::Internal, Phase::Rejected, message).with_detail(detail.clone())
    })
}

fn builder(trust: Trust) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("reach/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .referer(false)
        .tcp_nodelay(true)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .dns_resolver(Arc::new(Guarded(trust)))
}

/// Whether a request to this URL may be made at all: its literal address or its name.
pub(crate) fn permitted(url: &Url, trust: Trust) -> Result<(), Refused> {
    match url.host() {
        Some(Host::Ipv4(address)) => trust.allows(address.into()),
        Some(Host::Ipv6(address)) => trust.allows(address.into()),
        Some(Host::Domain(name)) => trust.allows_name(name),
        None => Ok(()),
    }
}

/// The first error of this type in the chain; also inside an `io::Error`, which hides what it carries
/// from `source`.
pub(crate) fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        next = match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// Resolves names under the address rules.
struct Guarded(Trust);

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let trust = self.0;
        Box::pin(async move {
            let addresses = address::resolve(name.as_str(), 0, trust).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// Ends a request at the moment its connection stands, before anything of it was sent.
#[derive(Clone, Copy, Debug)]
struct EndOnConnect;

/// The connection stands.
#[derive(Debug, thiserror::Error)]
#[error("connected")]
struct Connected;

#[derive(Clone, Debug)]
struct Ending<S>(S);

impl<S> Layer<S> for EndOnConnect {
    type Service = Ending<S>;

    fn layer(&self, inner: S) -> Ending<S> {
        Ending(inner)
    }
}

type BoxError = Box<dyn StdError + Send + Sync>;

impl<S, R> Service<R> for Ending<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let connecting = self.0.call(request);
        Box::pin(async move {
            connecting.await?;
            Err(Connected.into())
        })
    }
}
