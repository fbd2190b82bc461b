//! A mail server that says exactly what a test tells it to, and remembers what it heard.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A server for one connection.
pub(super) struct Scripted {
    port: u16,
    heard: JoinHandle<Vec<String>>,
}

impl Scripted {
    pub(super) fn url(&self) -> String {
        format!("smtp://127.0.0.1:{}", self.port)
    }

    /// Every line it was sent, once the connection is over; the content of a mail as one.
    pub(super) async fn seen(self) -> Vec<String> {
        self.heard.await.unwrap()
    }
}

/// Says the first reply at once and each further one after a command; after a 354, after the content. Hangs
/// up when there are no more replies, or at an empty one.
pub(super) async fn scripted(replies: impl IntoIterator<Item = String>) -> Scripted {
    let replies: Vec<String> = replies.into_iter().collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let mut heard = Vec::new();
        let mut content_follows = false;
        for (at, reply) in replies.iter().enumerate() {
            if at > 0 {
                let mut text = String::new();
                loop {
                    let before = text.len();
                    if stream.read_line(&mut text).await.unwrap_or(0) == 0 {
                        return heard;
                    }
                    if !content_follows || &text[before..] == ".\r\n" {
                        break;
                    }
                }
                heard.push(text.trim_end().to_owned());
            }
            if reply.is_empty() {
                break;
            }
            content_follows = reply.starts_with("354") && at + 2 == replies.len();
            // Half a reply, and a reply with its own line ends, go out as they are.
            let end = if reply == "25" || reply.ends_with('\n') { "" } else { "\r\n" };
            if stream.write_all(format!("{reply}{end}").as_bytes()).await.is_err() {
                break;
            }
        }
        heard
    });
    Scripted { port, heard }
}
