//! MCP over a stream of lines: standard input and output, or any other pair.
//!
//! Whoever starts the process is its caller. One connection is one conversation: its calls share a
//! session unless they name another. Nothing but messages may be written to the output.

use reach_core::{Caller, SessionId};
use reach_engine::Engine;
use rmcp::ServiceExt;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream};
use tokio_util::sync::CancellationToken;

use super::exactness;
use super::handler::Handler;
use crate::road::Road;

/// The longest message taken, in bytes.
const LINE_MAX: usize = 4 * 1024 * 1024;

/// Why serving a stream ended other than by its end.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The other side did not begin with a message of the protocol.
    #[error("the MCP handshake failed: {0}")]
    Handshake(String),
    /// The task that served it broke down.
    #[error("the MCP server broke down: {0}")]
    Broken(String),
}

/// Serves standard input and output until the input ends or `stop` is given. Where they are no pipes, a
/// pending read of standard input cannot be given up: end the process without waiting for it.
pub async fn stdio(engine: Engine, caller: Caller, stop: CancellationToken) -> Result<(), StdioError> {
    let (input, output) = rmcp::transport::io::stdio_pipes();
    stream(engine, caller, input, output, stop).await
}

/// The same over any pair of streams. Calls under way when the input ends are cancelled.
pub async fn stream(
    engine: Engine,
    caller: Caller,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), StdioError> {
    let stop = stop.child_token();
    let _ended = stop.clone().drop_guard();
    let (lines, exact) = tokio::io::duplex(64 * 1024);
    let pump = tokio::spawn(pump(BufReader::new(input), lines));
    let handler = Handler { road: Road::new(engine), caller, session: Some(SessionId::fresh()), stop: stop.clone() };
    let served = async {
        let service = handler.serve_with_ct((exact, output), stop.clone()).await;
        let service = match service {
            Ok(service) => service,
            // A client that leaves before it has said anything has not done anything wrong.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            // Nor is it a failure to be told to stop before a client came.
            Err(rmcp::service::ServerInitializeError::Cancelled) => return Ok(()),
            Err(error) => return Err(StdioError::Handshake(error.to_string())),
        };
        service.waiting().await.map(drop).map_err(|error| StdioError::Broken(error.to_string()))
    };
    let result = served.await;
    pump.abort();
    result
}

/// Hands line after line on, with calls marked whose numbers cannot be held. Ends with either side.
async fn pump(mut input: impl AsyncBufRead + Unpin, mut lines: DuplexStream) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match next(&mut input, &mut line).await {
            Ok(true) => {}
            Ok(false) | Err(_) => return,
        }
        let message = exactness::marked(&line);
        let message = message.as_deref().unwrap_or(&line).trim_ascii_end();
        if lines.write_all(message).await.is_err() || lines.write_all(b"\n").await.is_err() {
            return;
        }
    }
}

/// The next line that is not too long; false at the end.
async fn next(input: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut too_long = false;
    loop {
        let available = input.fill_buf().await?;
        if available.is_empty() {
            return Ok(!line.is_empty() && !too_long);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(available.len(), |end| end + 1);
        too_long |= line.len() + taken > LINE_MAX;
        if too_long {
            line.clear();
        } else {
            line.extend_from_slice(&available[..taken]);
        }
        input.consume(taken);
        if end.is_some() {
            if !too_long {
                return Ok(true);
            }
            tracing::warn!(limit = LINE_MAX, "a message over standard input is too long and was dropped");
            too_long = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_that_is_too_long_is_dropped_and_the_next_one_is_read() {
        let mut text = vec![b'x'; LINE_MAX + 10];
        text.extend_from_slice(b"\nshort\nlast");
        let mut input = BufReader::new(text.as_slice());
        let mut line = Vec::new();
        assert!(next(&mut input, &mut line).await.unwrap());
        assert_eq!(line, b"short\n");
        line.clear();
        assert!(next(&mut input, &mut line).await.unwrap());
        assert_eq!(line, b"last");
        line.clear();
        assert!(!next(&mut input, &mut line).await.unwrap());
    }
}
