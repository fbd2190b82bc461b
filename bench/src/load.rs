//! Clients in a closed loop: each keeps one connection and asks again as soon as it is answered.
//!
//! They speak just enough HTTP/1.1 to cost next to nothing beside what they measure, and look at every
//! answer: one that is not the expected one ends the measurement, since a refusal is quick to make.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// What the clients ask for.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    /// Sent as `Authorization: Bearer`.
    pub(crate) key: Option<&'static str>,
    pub(crate) body: String,
    /// Give each request an `Idempotency-Key` of its own.
    pub(crate) keyed: bool,
    /// What is in every good answer.
    pub(crate) expects: &'static str,
}

/// How one round went.
pub(crate) struct Round {
    pub(crate) calls_per_second: f64,
    /// Calls answered in all, those of the warm-up included.
    pub(crate) answered: u64,
    /// Milliseconds, sorted.
    latencies: Vec<f64>,
}

impl Round {
    /// Milliseconds that this share of the calls did not exceed.
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
    }
}

/// What is not counted at the beginning of a round: connections are made, caches filled.
const WARM_UP: Duration = Duration::from_millis(300);

/// Asks with this many clients for this long, after a short warm-up.
pub(crate) async fn round(target: &Target, clients: usize, duration: Duration) -> anyhow::Result<Round> {
    let target = Arc::new(target.clone());
    let from = Instant::now() + WARM_UP;
    let until = from + duration;
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let target = Arc::clone(&target);
        running.spawn(async move {
            let mut client = Client::connect(target.address).await?;
            let (mut latencies, mut answered) = (Vec::new(), 0);
            loop {
                let began = Instant::now();
                if began >= until {
                    return anyhow::Ok((latencies, answered));
                }
                client.ask(&target).await?;
                answered += 1;
                if began >= from {
                    latencies.push(began.elapsed().as_secs_f64() * 1e3);
                }
            }
        });
    }
    let (mut latencies, mut answered) = (Vec::new(), 0);
    while let Some(client) = running.join_next().await {
        let (counted, all) = client??;
        latencies.extend(counted);
        answered += all;
    }
    latencies.sort_by(f64::total_cmp);
    Ok(Round { calls_per_second: latencies.len() as f64 / duration.as_secs_f64(), answered, latencies })
}

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// Names requests: never twice in one process.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.context("failed to connect")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, request: Vec::new(), answer: Vec::with_capacity(4_096) })
    }

    /// Asks and waits for the whole answer.
    pub(crate) async fn ask(&mut self, target: &Target) -> anyhow::Result<()> {
        self.send(target).await?;
        let body = self.receive().await?;
        ensure!(body.contains(target.expects), "an answer is not the expected one: {body}");
        Ok(())
    }

    /// Sends a request and does not wait.
    pub(crate) async fn send(&mut self, target: &Target) -> anyhow::Result<()> {
        use std::io::Write;
        let Target { address, path, body, .. } = target;
        self.request.clear();
        write!(
            self.request,
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            body.len()
        )?;
        if let Some(key) = target.key {
            write!(self.request, "authorization: Bearer {key}\r\n")?;
        }
        if target.keyed {
            write!(self.request, "idempotency-key: bench-{}\r\n", REQUESTS.fetch_add(1, Ordering::Relaxed))?;
        }
        write!(self.request, "\r\n{body}")?;
        self.stream.write_all(&self.request).await.context("the connection broke")
    }

    /// The body of the next answer; any status but 200 is an error.
    pub(crate) async fn receive(&mut self) -> anyhow::Result<&str> {
        self.answer.clear();
        loop {
            if let Some((head, length)) = head(&self.answer)? {
                while self.answer.len() < head + length {
                    self.more().await?;
                }
                let body = self.answer.get(head..head + length).unwrap_or_default();
                return std::str::from_utf8(body).context("an answer is not text");
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> anyhow::Result<()> {
        let read = self.stream.read_buf(&mut self.answer).await.context("the connection broke")?;
        ensure!(read > 0, "the connection was closed in the middle of an answer");
        Ok(())
    }
}

/// Where the head ends and how long the body is, once the head is there.
fn head(bytes: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(bytes.get(..end).unwrap_or_default())?;
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 200") {
        bail!("answered with {status}: {}", String::from_utf8_lossy(bytes));
    }
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .context("an answer does not say how long it is")?;
    Ok(Some((end + 4, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        assert_eq!(head(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n").unwrap(), None);
        assert_eq!(head(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap(), Some((38, 2)));
    }

    #[test]
    fn an_answer_that_is_no_success_ends_the_measurement() {
        assert!(head(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n").is_err());
    }
}
