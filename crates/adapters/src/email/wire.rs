//! Commands out, replies in, one at a time.
//!
//! A reply is read with a cap on its size and taken for what it is: the same code on every line, or garbage.
//! What a code means at which point of the conversation is not known here.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

/// The longest line and the longest reply we read, in bytes. RFC 5321 allows 512 a line.
const LINE_MAX: usize = 4 * 1024;
const REPLY_MAX: usize = 64 * 1024;

/// A connection, protected or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection that speaks in lines.
pub(super) struct Wire {
    stream: BufReader<Box<dyn Stream>>,
}

/// One reply of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) code: u16,
    pub(super) lines: Vec<String>,
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The connection failed.
    #[error("the connection broke: {0}")]
    Connection(#[from] io::Error),
    /// It was closed before a whole reply had come.
    #[error("the mail server closed the connection without a whole answer")]
    Closed,
    /// That is no reply.
    #[error("the mail server answered with something that is not SMTP: {0:?}")]
    Garbage(String),
    /// There is no end to it.
    #[error("the mail server answered with more than {REPLY_MAX} bytes")]
    Flood,
}

impl Wire {
    pub(super) fn new(stream: Box<dyn Stream>) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    /// The stream itself, for TLS to begin on it. `None` when the server has already sent more than its
    /// reply: text from before the encryption must not be read as if it came from behind it.
    pub(super) fn into_stream(self) -> Option<Box<dyn Stream>> {
        self.is_quiet().then(|| self.stream.into_inner())
    }

    /// Whether every reply that has arrived was asked for.
    pub(super) fn is_quiet(&self) -> bool {
        self.stream.buffer().is_empty()
    }

    /// Sends one line and reads the reply. The line holds no line break.
    pub(super) async fn command(&mut self, line: &str) -> Result<Reply, Broken> {
        self.write(format!("{line}\r\n").as_bytes()).await?;
        self.reply().await
    }

    /// Writes bytes as they are.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.stream.write_all(bytes).await?;
        Ok(self.stream.flush().await?)
    }

    /// Reads one reply, all its lines.
    pub(super) async fn reply(&mut self) -> Result<Reply, Broken> {
        read_reply(&mut self.stream).await
    }
}

async fn read_reply(stream: &mut (impl AsyncBufRead + Unpin)) -> Result<Reply, Broken> {
    let mut lines = Vec::new();
    let mut code = None;
    let mut total = 0;
    loop {
        let mut line = Vec::new();
        (&mut *stream).take(LINE_MAX as u64).read_until(b'\n', &mut line).await?;
        total += line.len();
        if line.last() != Some(&b'\n') {
            return Err(if line.len() < LINE_MAX { Broken::Closed } else { Broken::Flood });
        }
        if total > REPLY_MAX {
            return Err(Broken::Flood);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches(['\r', '\n']);
        let (found, last, text) = parse_line(line).ok_or_else(|| garbage(line))?;
        if code.is_some_and(|code| code != found) {
            return Err(garbage(line));
        }
        code = Some(found);
        lines.push(text.to_owned());
        if last {
            return Ok(Reply { code: found, lines });
        }
    }
}

fn garbage(line: &str) -> Broken {
    Broken::Garbage(line.chars().take(100).collect())
}

/// `250-SIZE 1000`, `250 OK`, `250`: the code, whether it is the last line, the text.
fn parse_line(line: &str) -> Option<(u16, bool, &str)> {
    let (digits, rest) = line.split_at_checked(3)?;
    let code: u16 = digits.parse().ok().filter(|code| (200..600).contains(code))?;
    match rest.chars().next() {
        None => Some((code, true, "")),
        Some(' ') => Some((code, true, &rest[1..])),
        Some('-') => Some((code, false, &rest[1..])),
        Some(_) => None,
    }
}

impl Reply {
    /// 2xx.
    pub(super) fn is_done(&self) -> bool {
        self.code / 100 == 2
    }

    /// 4xx: not now.
    pub(super) fn is_temporary(&self) -> bool {
        self.code / 100 == 4
    }

    /// Code and text on one line, without control characters, for people and models.
    pub(super) fn line(&self) -> String {
        let text = self.lines.join(" ");
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
        format!("{} {}", self.code, text.trim()).trim_end().to_owned()
    }

    /// Whether a reply to EHLO lists this keyword; the words after it.
    pub(super) fn offers(&self, keyword: &str) -> Option<impl Iterator<Item = &str>> {
        self.lines.iter().skip(1).find_map(|line| {
            // Some old servers write `AUTH=LOGIN`.
            let mut words = line.split([' ', '=']);
            words.next().is_some_and(|first| first.eq_ignore_ascii_case(keyword)).then_some(words)
        })
    }
}

/// Message content as it travels: every line ends in CRLF, a dot at the start of a line is doubled, and a
/// lone dot ends it. No byte of the content can be the end of the content.
pub(super) fn stuffed(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + content.len() / 50 + 5);
    let mut at_start = true;
    let mut bytes = content.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\r' | b'\n' => {
                if byte == b'\r' {
                    bytes.next_if_eq(&b'\n');
                }
                out.extend_from_slice(b"\r\n");
                at_start = true;
            }
            _ => {
                if at_start && byte == b'.' {
                    out.push(b'.');
                }
                out.push(byte);
                at_start = false;
            }
        }
    }
    if !at_start {
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b".\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_content_can_end_itself() {
        for (content, wanted) in [
            ("", ".\r\n"),
            ("a", "a\r\n.\r\n"),
            (".", "..\r\n.\r\n"),
            ("a\r\n.\r\nRCPT", "a\r\n..\r\nRCPT\r\n.\r\n"),
            ("a\n.\nb", "a\r\n..\r\nb\r\n.\r\n"),
            ("a\r.\rb\r", "a\r\n..\r\nb\r\n.\r\n"),
            ("a\n.\r\nb", "a\r\n..\r\nb\r\n.\r\n"),
            ("a\r\r\n\n.b", "a\r\n\r\n\r\n..b\r\n.\r\n"),
            ("a.b", "a.b\r\n.\r\n"),
        ] {
            let out = stuffed(content.as_bytes());
            assert_eq!(String::from_utf8(out).unwrap(), wanted, "{content:?}");
        }
    }

    #[tokio::test]
    async fn a_reply_is_whole_or_an_error_that_says_why() {
        let read = async |mut text: &'static [u8]| read_reply(&mut text).await;
        let reply = read(b"250-mail.example\r\n250-auth plain LOGIN\r\n250 SIZE 10\r\n").await.unwrap();
        assert_eq!(reply.offers("AUTH").unwrap().collect::<Vec<_>>(), ["plain", "LOGIN"]);
        assert!(reply.offers("STARTTLS").is_none());
        assert_eq!(read(b"354\n").await.unwrap(), Reply { code: 354, lines: vec![String::new()] });
        for half in [&b""[..], b"25", b"250-a\r\n", b"250 OK"] {
            assert!(matches!(read(half).await, Err(Broken::Closed)), "{half:?}");
        }
        for garbage in [
            &b"HTTP/1.1 400 Bad\r\n"[..],
            b"250-a\r\n251 b\r\n",
            b"250_a\r\n",
            b"999 a\r\n",
            b"\r\n",
            "2五0 a\r\n".as_bytes(),
        ] {
            assert!(matches!(read(garbage).await, Err(Broken::Garbage(_))), "{garbage:?}");
        }
        let endless: &'static [u8] = b"250-aaaaaaaa\r\n".repeat(6000).leak();
        assert!(matches!(read(endless).await, Err(Broken::Flood)));
        assert!(matches!(read(vec![b'2'; 10_000].leak()).await, Err(Broken::Flood)));
    }
}
