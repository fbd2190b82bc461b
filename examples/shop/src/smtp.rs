//! The shop's mailbox: a small, real SMTP server on loopback that keeps what it is sent.
//!
//! It speaks enough of RFC 5321 for any mail client and can be told to misbehave in the ways that matter
//! to whoever sends: refuse a recipient, be too busy, never answer, or take a mail and hang up without a
//! word, so that nobody can tell whether it was delivered. Nothing is ever sent on.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// How the server treats a mail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Takes and keeps it.
    #[default]
    Accept,
    /// Knows none of its recipients (550).
    Refuse,
    /// Is too busy to take it (451).
    TempFail,
    /// Takes and keeps it, and hangs up without a reply: the sender cannot know.
    VanishAfterData,
    /// Takes it and never answers.
    Stall,
}

/// A mail as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The envelope's sender.
    pub from: String,
    /// The envelope's recipients, blind copies included.
    pub recipients: Vec<String>,
    /// Headers and body as they came, without the dots that SMTP adds.
    pub content: String,
}

/// The server. It stops, and closes every connection, when dropped.
pub struct MailSink {
    port: u16,
    mailbox: Arc<Mailbox>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Mailbox {
    mode: Mutex<Mode>,
    mails: Mutex<Vec<Mail>>,
    connections: AtomicUsize,
}

impl MailSink {
    /// Listens on this port of 127.0.0.1, or on a free one for port 0.
    pub async fn start(port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        let mailbox = Arc::<Mailbox>::default();
        let server = tokio::spawn(serve(listener, mailbox.clone()));
        Ok(Self { port, mailbox, server })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Every mail it took, oldest first.
    pub fn mails(&self) -> Vec<Mail> {
        self.mailbox.mails.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From the next command on, behave like this.
    pub fn set_mode(&self, mode: Mode) {
        *self.mailbox.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// How many clients are connected.
    pub fn connections(&self) -> usize {
        self.mailbox.connections.load(Ordering::SeqCst)
    }
}

impl Drop for MailSink {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, mailbox: Arc<Mailbox>) {
    // The set ends its sessions when the server is dropped.
    let mut sessions = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let mailbox = mailbox.clone();
        sessions.spawn(async move {
            mailbox.connections.fetch_add(1, Ordering::SeqCst);
            if let Err(error) = session(client, &mailbox).await {
                tracing::debug!(%error, "a mail client went away");
            }
            mailbox.connections.fetch_sub(1, Ordering::SeqCst);
        });
        while sessions.try_join_next().is_some() {}
    }
}

/// The longest command line and the largest mail it reads, in bytes.
const LINE_MAX: u64 = 4096;
const MAIL_MAX: usize = 10 * 1024 * 1024;

/// One client, from greeting to goodbye.
async fn session(client: TcpStream, mailbox: &Mailbox) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    let mut from = String::new();
    let mut recipients = Vec::new();
    say(&mut client, "220 shop.example ready").await?;
    loop {
        let mut line = String::new();
        if (&mut client).take(LINE_MAX).read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let mode = *mailbox.mode.lock().unwrap_or_else(PoisonError::into_inner);
        let verb = line.split([' ', ':', '\r', '\n']).next().unwrap_or_default().to_ascii_uppercase();
        match (verb.as_str(), mode) {
            ("EHLO", _) => say(&mut client, "250-shop.example\r\n250-8BITMIME\r\n250 SMTPUTF8").await?,
            ("HELO" | "NOOP", _) => say(&mut client, "250 OK").await?,
            ("MAIL", _) => {
                from = address(&line);
                recipients.clear();
                say(&mut client, "250 OK").await?;
            }
            ("RCPT", Mode::Refuse) => say(&mut client, "550 5.1.1 no such mailbox").await?,
            ("RCPT", Mode::TempFail) => say(&mut client, "451 4.3.0 too busy, try again later").await?,
            ("RCPT", _) => {
                recipients.push(address(&line));
                say(&mut client, "250 OK").await?;
            }
            ("DATA", _) if recipients.is_empty() => say(&mut client, "503 5.5.1 name a recipient first").await?,
            ("DATA", mode) => {
                say(&mut client, "354 end with a dot on a line of its own").await?;
                let content = content(&mut client).await?;
                if mode == Mode::Stall {
                    // Until the client loses patience.
                    client.read_to_end(&mut Vec::new()).await?;
                    return Ok(());
                }
                let mail = Mail { from: from.clone(), recipients: std::mem::take(&mut recipients), content };
                let number = {
                    let mut mails = mailbox.mails.lock().unwrap_or_else(PoisonError::into_inner);
                    mails.push(mail);
                    mails.len()
                };
                if mode == Mode::VanishAfterData {
                    return Ok(());
                }
                say(&mut client, &format!("250 2.0.0 kept as mail {number}")).await?;
            }
            ("RSET", _) => {
                recipients.clear();
                say(&mut client, "250 OK").await?;
            }
            ("QUIT", _) => return say(&mut client, "221 bye").await,
            _ => say(&mut client, "502 5.5.1 not understood").await?,
        }
    }
}

/// Reads up to the lone dot and takes the doubled dots back.
async fn content(client: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut content = Vec::new();
    loop {
        let mut line = Vec::new();
        let read = (&mut *client).take(MAIL_MAX as u64).read_until(b'\n', &mut line).await?;
        if read == 0 || content.len() + read > MAIL_MAX {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line == b".\r\n" {
            return Ok(String::from_utf8_lossy(&content).into_owned());
        }
        content.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
    }
}

/// What stands between `<` and `>` of `MAIL FROM:<bot@example.com>`.
fn address(line: &str) -> String {
    let inside = line.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inside.map_or_else(String::new, |(address, _)| address.to_owned())
}

async fn say(client: &mut BufReader<TcpStream>, reply: &str) -> std::io::Result<()> {
    client.write_all(format!("{reply}\r\n").as_bytes()).await
}
