//! A TCP proxy that misbehaves at an exact moment: in front of any upstream, between real bytes.
//!
//! A [`Rule`] says when (a connection opened, bytes that the client sends, bytes from the server) and what
//! (delay, stall, reset, close, truncate, flood). Triggers look at the bytes themselves, so that a fault
//! comes at the same place in every run: after `COMMIT`, or when a marked value goes by. Everything else
//! passes unchanged.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// When a fault begins, on each connection anew.
#[derive(Clone, Debug)]
pub enum When {
    /// As soon as a client connects.
    Connected,
    /// When the client sends these bytes, in any case of letters. They are passed on first.
    Sent(Vec<u8>),
    /// The same, but the bytes (and what came with them) do not reach the server.
    BeforeSent(Vec<u8>),
}

/// What goes wrong from then on.
#[derive(Clone, Debug)]
pub enum What {
    /// Whatever passes waits this long first.
    Delay(Duration),
    /// Nothing passes any more, in either direction; the connection stays open.
    Stall,
    /// The client's connection is reset (RST), the server's closed.
    Reset,
    /// The client's connection is closed in good order, the server's too.
    Close,
    /// So many bytes of the server's answer pass, then the client's connection is closed.
    Truncate(usize),
    /// The client receives these bytes for ever instead of an answer.
    Flood(Vec<u8>),
}

/// One fault.
#[derive(Clone, Debug)]
pub struct Rule {
    /// When it begins.
    pub when: When,
    /// What happens.
    pub what: What,
}

/// A running proxy; it ends, with all its connections, when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    rule: Mutex<Option<Rule>>,
    fired: AtomicUsize,
    opened: AtomicUsize,
    open: watch::Sender<usize>,
}

impl Proxy {
    /// A proxy on a free port of loopback that passes everything on to `upstream`.
    pub async fn start(upstream: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            upstream,
            rule: Mutex::new(None),
            fired: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            open: watch::Sender::new(0),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { port, shared, task })
    }

    /// The port to connect to instead of the upstream's.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on, bytes that pass are looked at under this rule; `None` lets everything pass.
    pub fn set(&self, rule: Option<Rule>) {
        *self.shared.rule.lock() = rule;
    }

    /// How often a rule has fired.
    pub fn fired(&self) -> usize {
        self.shared.fired.load(Ordering::SeqCst)
    }

    /// Connections that clients have opened so far.
    pub fn opened(&self) -> usize {
        self.shared.opened.load(Ordering::SeqCst)
    }

    /// Resolves once no client's connection is open any more.
    pub fn idle(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut open = self.shared.open.subscribe();
        async move {
            // The sender lives as long as any connection; when it is gone, so are they.
            let _ = open.wait_for(|count| *count == 0).await;
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropping the set with this task ends every connection.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { return };
                shared.opened.fetch_add(1, Ordering::SeqCst);
                shared.open.send_modify(|count| *count += 1);
                let counted = Open(Arc::clone(&shared));
                connections.spawn(async move { serve(client, &counted.0).await; drop(counted); });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Counts a connection as open while it lives.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.send_modify(|count| *count -= 1);
    }
}

/// What has begun on one connection.
type Fault = Arc<Mutex<Option<What>>>;

async fn serve(client: TcpStream, shared: &Shared) {
    let fault: Fault = Arc::default();
    let (changed, _) = watch::channel(false);
    if let Some(Rule { when: When::Connected, what }) = shared.rule.lock().clone() {
        shared.fired.fetch_add(1, Ordering::SeqCst);
        *fault.lock() = Some(what);
    }
    let Ok(server) = TcpStream::connect(shared.upstream).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let reset = Arc::new(AtomicBool::new(false));
    let (client_in, client_out) = client.into_split();
    let (server_in, server_out) = server.into_split();
    {
        let up = upwards(client_in, server_out, shared, &fault, &changed);
        let down = downwards(server_in, client_out, &fault, changed.subscribe(), &reset);
        let (mut up, mut down) = (std::pin::pin!(up), std::pin::pin!(down));
        // Either side's end is the connection's end, but for what the other still has to deliver.
        tokio::select! {
            () = &mut up => {}
            half = &mut down => {
                if reset.load(Ordering::SeqCst) {
                    // With nothing lingering and no goodbye first, closing sends RST.
                    let _ = half.as_ref().set_zero_linger();
                    half.forget();
                }
            }
        }
    }
}

/// Client to server. Ends when the client has closed.
async fn upwards(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    shared: &Shared,
    fault: &Fault,
    changed: &watch::Sender<bool>,
) {
    let mut buffer = vec![0; 64 * 1024];
    let mut seen: Vec<u8> = Vec::new();
    loop {
        let Ok(length) = client.read(&mut buffer).await else { return };
        if length == 0 {
            return;
        }
        let bytes = &buffer[..length];
        let begun = fault.lock().clone();
        if let Some(What::Stall) = begun {
            continue;
        }
        if let Some(What::Delay(wait)) = begun {
            tokio::time::sleep(wait).await;
        }
        let rule = shared.rule.lock().clone();
        let matched = match rule {
            Some(Rule { when: When::Sent(wanted), what }) => Some((wanted, what, true)),
            Some(Rule { when: When::BeforeSent(wanted), what }) => Some((wanted, what, false)),
            Some(Rule { when: When::Connected, .. }) | None => None,
        };
        if let (Some((wanted, what, pass_first)), None) = (matched, begun) {
            // The end of the last piece is kept: the bytes may come in two.
            let kept = seen.len().saturating_sub(wanted.len());
            seen.drain(..kept);
            seen.extend_from_slice(bytes);
            if seen.windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(&wanted)) {
                shared.fired.fetch_add(1, Ordering::SeqCst);
                // The fault is set before the bytes are passed on, so that no answer can slip through.
                *fault.lock() = Some(what);
                changed.send_replace(true);
                if pass_first {
                    let _ = server.write_all(bytes).await;
                }
                continue;
            }
        }
        if server.write_all(bytes).await.is_err() {
            // The server is gone; what it said last is still on its way down.
            std::future::pending::<()>().await;
        }
    }
}

/// Server to client. Ends when the connection has to end; gives the half back so that it can be reset.
async fn downwards(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    fault: &Fault,
    mut changed: watch::Receiver<bool>,
    reset: &AtomicBool,
) -> OwnedWriteHalf {
    let mut buffer = vec![0; 64 * 1024];
    let mut passed = 0;
    loop {
        let begun = fault.lock().clone();
        match begun {
            Some(What::Stall) => std::future::pending::<()>().await,
            Some(What::Reset) => {
                reset.store(true, Ordering::SeqCst);
                return client;
            }
            Some(What::Close) => return client,
            Some(What::Flood(bytes)) => loop {
                if client.write_all(&bytes).await.is_err() {
                    return client;
                }
            },
            Some(What::Delay(_) | What::Truncate(_)) | None => {}
        }
        let length = tokio::select! {
            read = server.read(&mut buffer) => match read {
                Ok(length) if length > 0 => length,
                _ => return client,
            },
            _ = changed.changed() => continue,
        };
        let mut bytes = &buffer[..length];
        let begun = fault.lock().clone();
        match begun {
            Some(What::Delay(wait)) => tokio::time::sleep(wait).await,
            Some(What::Truncate(most)) => {
                bytes = &bytes[..length.min(most.saturating_sub(passed))];
                passed += bytes.len();
            }
            // It has begun while these bytes were read: the top of the loop deals with it.
            Some(What::Stall | What::Reset | What::Close | What::Flood(_)) => continue,
            None => {}
        }
        if client.write_all(bytes).await.is_err() {
            return client;
        }
        if let Some(What::Truncate(most)) = begun
            && passed >= most
        {
            return client;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An upstream that answers every read with `answer:` and the same bytes.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut buffer = [0; 1024];
                    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                        let answer = [b"answer:", &buffer[..length]].concat();
                        if stream.write_all(&answer).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    async fn ask(proxy: &Proxy, words: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).await?;
        stream.write_all(words).await?;
        let mut buffer = vec![0; 1024];
        let length = stream.read(&mut buffer).await?;
        buffer.truncate(length);
        Ok(buffer)
    }

    #[tokio::test]
    async fn without_a_rule_everything_passes() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        assert_eq!(ask(&proxy, b"hello").await.unwrap(), b"answer:hello");
        proxy.idle().await;
        assert_eq!((proxy.opened(), proxy.fired()), (1, 0));
    }

    #[tokio::test]
    async fn each_fault_shows_on_the_clients_side() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let rule = |what| Some(Rule { when: When::Sent(b"MARK".to_vec()), what });
        proxy.set(rule(What::Reset));
        assert_eq!(ask(&proxy, b"a mark").await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        proxy.set(rule(What::Close));
        assert_eq!(ask(&proxy, b"a mark").await.unwrap(), b"");
        proxy.set(rule(What::Truncate(3)));
        assert_eq!(ask(&proxy, b"a mark").await.unwrap(), b"ans");
        proxy.set(rule(What::Flood(b"noise".to_vec())));
        assert!(ask(&proxy, b"a mark").await.unwrap().starts_with(b"noise"));
        assert_eq!(ask(&proxy, b"nothing").await.unwrap(), b"answer:nothing");
        assert_eq!(proxy.fired(), 4);
    }

    #[tokio::test]
    async fn a_stalled_connection_answers_nothing_and_ends_with_its_client() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        proxy.set(Some(Rule { when: When::Connected, what: What::Stall }));
        assert!(tokio::time::timeout(Duration::from_millis(50), ask(&proxy, b"hello")).await.is_err());
        tokio::time::timeout(Duration::from_secs(5), proxy.idle()).await.unwrap();
    }
}
