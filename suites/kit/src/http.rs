//! An HTTP server that misbehaves on purpose, on a raw socket, and remembers every byte it was sent.
//!
//! It speaks just enough HTTP/1.1 to read a request; what it answers is a [`Behaviour`], chosen per
//! request by a queue, else by a closure, else by the default of [`Server::always`]. It sends what it is
//! told to and never helps: no header is added, no length is corrected.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

/// What the server does with one request, once it has read it whole.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// A whole answer with its `content-length`.
    Answer(Reply),
    /// These bytes and then the end of the connection: garbage, half a body, a broken chunk.
    Raw(Vec<u8>),
    /// These bytes, then nothing more, with the connection left open.
    RawThenStall(Vec<u8>),
    /// The status line and headers, then the body in pieces with a pause before each.
    Slow {
        /// What to send.
        reply: Reply,
        /// How many bytes of the body at a time.
        piece: usize,
        /// The wait before each piece.
        pause: Duration,
    },
    /// Nothing at all: the request is read, and the connection stays open until the client goes.
    Stall,
    /// The connection is reset (RST) without an answer.
    Reset,
    /// The connection is closed in good order without an answer.
    Close,
    /// A body without end, in chunks, until the client goes.
    Flood,
}

/// An answer, byte by byte as it will be sent.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status code; the reason phrase is always `Told`.
    pub status: u16,
    /// Headers in order; `content-length` is added by [`Behaviour::Answer`] and [`Behaviour::Slow`].
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// An answer without headers of its own.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    /// An answer of type `application/json`.
    pub fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, body).header("content-type", "application/json")
    }

    /// The same with one more header.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Status line, headers and the empty line.
    fn head(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Told\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        // A 204 or 304 has no body and must not announce one.
        if !matches!(self.status, 204 | 304) {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

impl From<Reply> for Behaviour {
    fn from(reply: Reply) -> Self {
        Behaviour::Answer(reply)
    }
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// `GET`, `POST`, ...
    pub method: String,
    /// The request target exactly as sent: path and query.
    pub target: String,
    /// Header names (lower case) and values, in the order sent.
    pub headers: Vec<(String, String)>,
    /// Everything before the body, byte by byte.
    pub head: Vec<u8>,
    /// The body, without its chunked encoding.
    pub body: Vec<u8>,
}

impl Recorded {
    /// The value of a header; the first if there are several.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Head and body as text, to look for what must not be there.
    pub fn everything(&self) -> String {
        format!("{}{}", String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&self.body))
    }
}

type Chooser = Box<dyn Fn(&Recorded) -> Behaviour + Send + Sync>;

struct State {
    queue: Mutex<VecDeque<Behaviour>>,
    otherwise: Mutex<Chooser>,
    requests: Mutex<Vec<Recorded>>,
    /// Connections accepted so far, and open now.
    accepted: watch::Sender<usize>,
    open: watch::Sender<usize>,
    received: watch::Sender<usize>,
}

/// A listening server; dropping it stops it and closes its connections.
pub struct Server {
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
    stop: DropGuard,
}

impl Server {
    /// Listens on a free port of 127.0.0.1 and answers everything with `200 {}`.
    pub async fn start() -> io::Result<Self> {
        Self::start_on(IpAddr::V4(Ipv4Addr::LOCALHOST), 0).await
    }

    /// The same on an address and port of your choice.
    pub async fn start_on(ip: IpAddr, port: u16) -> io::Result<Self> {
        Self::serve(TcpListener::bind((ip, port)).await?)
    }

    /// The same on a listener that was bound before. Needs a runtime.
    pub fn serve(listener: TcpListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            queue: Mutex::default(),
            otherwise: Mutex::new(Box::new(|_| Reply::json(200, "{}").into())),
            requests: Mutex::default(),
            accepted: watch::Sender::new(0),
            open: watch::Sender::new(0),
            received: watch::Sender::new(0),
        });
        let stop = CancellationToken::new();
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state), stop.clone()));
        Ok(Self { address, state, accepting, stop: stop.drop_guard() })
    }

    /// Stops; once this returns, nobody listens at the address and no connection is open.
    pub async fn stop(self) -> SocketAddr {
        drop(self.stop);
        let _ = self.accepting.await;
        self.address
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT` followed by `path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Every request from now on is answered this way, unless the queue says otherwise.
    pub fn always(&self, behaviour: impl Into<Behaviour>) {
        let behaviour = behaviour.into();
        self.choose(move |_| behaviour.clone());
    }

    /// Every request from now on is answered as the closure says, unless the queue says otherwise.
    pub fn choose(&self, chooser: impl Fn(&Recorded) -> Behaviour + Send + Sync + 'static) {
        *self.state.otherwise.lock() = Box::new(chooser);
    }

    /// The next request without an entry in the queue is answered this way.
    pub fn next(&self, behaviour: impl Into<Behaviour>) {
        self.state.queue.lock().push_back(behaviour.into());
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Recorded> {
        self.state.requests.lock().clone()
    }

    /// The last request, if there was one.
    pub fn last(&self) -> Option<Recorded> {
        self.state.requests.lock().last().cloned()
    }

    /// How many connections were ever accepted.
    pub fn accepted(&self) -> usize {
        *self.state.accepted.borrow()
    }

    /// Waits until `count` connections have been accepted. Never ends if they do not come.
    pub async fn connected(&self, count: usize) {
        let _ = self.state.accepted.subscribe().wait_for(|accepted| *accepted >= count).await;
    }

    /// Waits until `count` requests have been read whole. Never ends if they do not come.
    pub async fn received(&self, count: usize) {
        let _ = self.state.received.subscribe().wait_for(|received| *received >= count).await;
    }

    /// Resolves when at least one request was read whole and no connection is open any more.
    pub fn gone(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut received = self.state.received.subscribe();
        let mut open = self.state.open.subscribe();
        async move {
            let _ = received.wait_for(|count| *count > 0).await;
            let _ = open.wait_for(|count| *count == 0).await;
        }
    }
}

async fn accept(listener: TcpListener, state: Arc<State>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { return };
                state.accepted.send_modify(|count| *count += 1);
                state.open.send_modify(|count| *count += 1);
                let state = Arc::clone(&state);
                connections.spawn(async move {
                    // A client that breaks off is what most tests are about: not an error here.
                    let _ = serve(stream, &state).await;
                    state.open.send_modify(|count| *count -= 1);
                });
            }
        }
    }
}

async fn serve(mut stream: TcpStream, state: &State) -> io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer).await? {
        let queued = state.queue.lock().pop_front();
        let behaviour = match queued {
            Some(behaviour) => behaviour,
            None => (state.otherwise.lock())(&request),
        };
        state.requests.lock().push(request);
        state.received.send_modify(|count| *count += 1);
        match behaviour {
            Behaviour::Answer(reply) => {
                let mut bytes = reply.head();
                bytes.extend_from_slice(&reply.body);
                stream.write_all(&bytes).await?;
            }
            Behaviour::Raw(bytes) => {
                stream.write_all(&bytes).await?;
                return stream.shutdown().await;
            }
            Behaviour::RawThenStall(bytes) => {
                stream.write_all(&bytes).await?;
                return until_gone(&mut stream).await;
            }
            Behaviour::Slow { reply, piece, pause } => {
                stream.write_all(&reply.head()).await?;
                for part in reply.body.chunks(piece.max(1)) {
                    tokio::time::sleep(pause).await;
                    stream.write_all(part).await?;
                }
            }
            Behaviour::Stall => return until_gone(&mut stream).await,
            Behaviour::Reset => return stream.set_zero_linger(),
            Behaviour::Close => return stream.shutdown().await,
            Behaviour::Flood => {
                let head = "HTTP/1.1 200 Told\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).await?;
                let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
                loop {
                    stream.write_all(chunk.as_bytes()).await?;
                }
            }
        }
    }
    Ok(())
}

async fn until_gone(stream: &mut TcpStream) -> io::Result<()> {
    let mut sink = [0; 1024];
    while stream.read(&mut sink).await? > 0 {}
    Ok(())
}

/// Reads one request; `None` at the end of the connection. `buffer` keeps what belongs to the next one.
pub(crate) async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Recorded>> {
    let end = loop {
        if let Some(at) = find(buffer, b"\r\n\r\n") {
            break at + 4;
        }
        if !more(stream, buffer).await? {
            return Ok(None);
        }
    };
    let head: Vec<u8> = buffer.drain(..end).collect();
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut lines = text.split("\r\n");
    let mut start = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (start.next().unwrap_or_default(), start.next().unwrap_or_default());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut request = Recorded {
        method: method.to_owned(),
        target: target.to_owned(),
        headers,
        head: head.clone(),
        body: Vec::new(),
    };
    if request.header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        request.body = read_chunks(stream, buffer).await?;
    } else if let Some(length) = request.header("content-length").and_then(|value| value.parse::<usize>().ok()) {
        fill(stream, buffer, length).await?;
        request.body = buffer.drain(..length).collect();
    }
    Ok(Some(request))
}

async fn read_chunks(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = loop {
            if let Some(at) = find(buffer, b"\r\n") {
                break at;
            }
            fill(stream, buffer, buffer.len() + 1).await?;
        };
        let size = String::from_utf8_lossy(&buffer[..line]).into_owned();
        let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
        fill(stream, buffer, line + 2 + size + 2).await?;
        body.extend_from_slice(&buffer[line + 2..line + 2 + size]);
        buffer.drain(..line + 2 + size + 2);
        if size == 0 {
            return Ok(body);
        }
    }
}

async fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>, length: usize) -> io::Result<()> {
    while buffer.len() < length {
        if !more(stream, buffer).await? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = [0; 8192];
    let read = stream.read(&mut piece).await?;
    buffer.extend_from_slice(&piece[..read]);
    Ok(read > 0)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
