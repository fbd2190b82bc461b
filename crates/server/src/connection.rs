//! One connection, from accept to close.
//!
//! A client may be slow, silent or gone; none of them may hold a place for ever. Before its first request
//! and between requests a connection has a deadline; while a request is served it has none of its own (the
//! call's deadline bounds it), but the answer has to be taken within the write timeout. When the client
//! goes away, the service future is dropped with the connection: that is the written choice for
//! disconnects, and the engine decides what dropping a call means.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Bytes of the header of a request at most, in either protocol.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// The deadlines of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) first: Duration,
    pub(crate) idle: Duration,
    pub(crate) write: Duration,
}

/// What goes on on this connection.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Requests that ever began.
    begun: u64,
    /// Requests whose answer has not been sent to its end.
    under_way: u64,
    /// Answers of which the client could take the next piece and has not.
    waiting_for_client: u64,
}

/// Why a connection is ended from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// No request for too long.
    Idle,
    /// Nothing of any answer taken for too long.
    Stalled,
}

/// Serves one connection until it ends, goes silent for too long, or `stop` is given and its last
/// request is answered.
pub(crate) async fn serve(stream: TcpStream, router: Router, patience: Patience, stop: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let (load, mut loads) = watch::channel(Load::default());
    let load = Arc::new(load);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let under_way = UnderWay::begin(load.clone());
        let router = router.clone();
        async move {
            let answer: Result<Response<Body>, Infallible> = router.oneshot(request.map(Body::new)).await;
            answer.map(|response| response.map(|body| Guarded::new(body, under_way)))
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // The silence of a client is measured here for both protocols alike, not by one of them.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEADER_BYTES_MAX);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(128).max_header_list_size(HEADER_BYTES_MAX as u32);
    let io = TokioIo::new(Stalling::new(stream, patience.write));
    let mut connection = pin!(builder.serve_connection(io, service));
    let ended = {
        let silence = pin!(silence(&mut loads, patience));
        tokio::select! {
            result = connection.as_mut() => Ended::Itself(result),
            silence = silence => Ended::Silent(silence),
            () = stop.cancelled() => Ended::Stopped,
        }
    };
    let result = match ended {
        Ended::Itself(result) => result,
        Ended::Silent(Silence::Stalled) => return,
        Ended::Silent(Silence::Idle) | Ended::Stopped => {
            connection.as_mut().graceful_shutdown();
            let closing = async {
                // Requests under way end by their own deadlines; after that there is only a client that does
                // not close.
                while loads.borrow_and_update().under_way > 0 {
                    if stalled(&mut loads, patience).await {
                        return;
                    }
                }
                sleep(Duration::from_secs(1)).await;
            };
            tokio::select! {
                result = connection => result,
                () = closing => Ok(()),
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(error = %error, "a connection broke");
    }
}

/// How serving came to its end.
enum Ended<R> {
    Itself(R),
    Silent(Silence),
    Stopped,
}

/// Returns once the client has been silent for longer than it may.
async fn silence(loads: &mut watch::Receiver<Load>, patience: Patience) -> Silence {
    loop {
        let load = *loads.borrow_and_update();
        if load.under_way > 0 {
            if stalled(loads, patience).await {
                return Silence::Stalled;
            }
            continue;
        }
        let wait = if load.begun == 0 { patience.first } else { patience.idle };
        if timeout(wait, changed(loads)).await.is_err() {
            return Silence::Idle;
        }
    }
}

/// Waits for the next change while requests are under way; true when none came although the client had
/// something to take. While everybody waits for us, there is no deadline here: the call's own holds.
async fn stalled(loads: &mut watch::Receiver<Load>, patience: Patience) -> bool {
    if loads.borrow().waiting_for_client == 0 {
        changed(loads).await;
        return false;
    }
    timeout(patience.write, changed(loads)).await.is_err()
}

/// The next change; never, once nobody can make one.
async fn changed(loads: &mut watch::Receiver<Load>) {
    if loads.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Counts a request as under way until its answer has been sent or given up.
struct UnderWay {
    load: Arc<watch::Sender<Load>>,
    waiting_for_client: bool,
}

impl UnderWay {
    fn begin(load: Arc<watch::Sender<Load>>) -> Self {
        load.send_modify(|load| {
            load.begun += 1;
            load.under_way += 1;
        });
        Self { load, waiting_for_client: false }
    }

    /// Whose turn it is. Said again, it still counts as a sign of life.
    fn turn(&mut self, of_client: bool) {
        let before = std::mem::replace(&mut self.waiting_for_client, of_client);
        self.load.send_modify(|load| {
            load.waiting_for_client = load.waiting_for_client + u64::from(of_client) - u64::from(before);
        });
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.turn(false);
        self.load.send_modify(|load| load.under_way -= 1);
    }
}

/// A body that keeps its request counted until it has been sent.
struct Guarded {
    body: Body,
    under_way: UnderWay,
}

impl Guarded {
    fn new(body: Body, mut under_way: UnderWay) -> Self {
        under_way.turn(true);
        Self { body, under_way }
    }
}

impl HttpBody for Guarded {
    type Data = bytes::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        // Being asked for more and having nothing makes it our turn; a piece handed over makes it the client's.
        self.under_way.turn(frame.is_ready());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream whose writes fail once the other side has taken nothing for too long.
struct Stalling {
    stream: TcpStream,
    patience: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Stalling {
    fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { stream, patience, deadline: None }
    }

    fn bounded<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.deadline = None;
            return poll;
        }
        let until = Instant::now() + self.patience;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Stalling {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stalling {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.bounded(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.bounded(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
