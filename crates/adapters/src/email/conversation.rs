//! The order of things: connect, greeting, TLS, login, envelope, content, and the server's word.
//!
//! Up to the content a broken connection means that nothing happened. The content is the point of no
//! return: `attempt.sent` is set right before its first byte, and only the reply after it tells whether the
//! server took the mail. A reply of the server is its own decision and final at every point.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use lettre::transport::smtp::commands::{Ehlo, Mail as MailFrom, Rcpt};
use lettre::transport::smtp::extension::{ClientId, MailBodyParameter, MailParameter};
use reach_core::{Attempt, Credential, Failure, FailureKind, Phase};
use secrecy::ExposeSecret;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::compose::Mail;
use super::server::{Server, Tls, Trust};
use super::wire::{Broken, Reply, Stream, Wire, stuffed};

/// How long one address of the server may take to accept a connection, when it has several.
const CONNECT: Duration = Duration::from_secs(5);

/// How far the conversation has come: what a failure means depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeting,
    Login,
    Envelope,
    Content,
}

/// Hands one mail over. The reply is the server's last word.
pub(super) async fn send(server: &Server, mail: &Mail, attempt: &Attempt) -> Result<Reply, Failure> {
    let (mut wire, ehlo) = open(server).await?;
    if let Some(proof) = Proof::of(server, attempt)? {
        login(&mut wire, &ehlo, &proof).await?;
    }
    envelope(&mut wire, &ehlo, mail).await?;
    if !wire.is_quiet() {
        return Err(broken_at(Stage::Envelope, Broken::Garbage("a reply to nothing".to_owned())));
    }
    attempt.sent.set();
    let content = stuffed(&mail.content);
    let handed_over = async {
        let written = wire.write(&content).await;
        // A server that refuses in the middle says why before it hangs up.
        match wire.reply().await {
            Err(broken) => Err(written.err().unwrap_or(broken)),
            reply => reply,
        }
    };
    let reply = handed_over.await.map_err(|broken| broken_at(Stage::Content, broken))?;
    if !reply.is_done() {
        return Err(refused_at(Stage::Content, &reply));
    }
    goodbye(&mut wire).await;
    Ok(reply)
}

/// Connects, reads the greeting, starts TLS where declared, and leaves: no login, no mail.
pub(super) async fn greet(server: &Server, timeout: Duration) -> Result<String, Failure> {
    let visit = async {
        let (mut wire, ehlo) = open(server).await?;
        goodbye(&mut wire).await;
        let protection = match server.tls {
            Tls::Plain => "without TLS on this machine",
            Tls::Implicit(_) => "over TLS",
            Tls::Upgrade(_) => "over TLS after STARTTLS",
        };
        let name = ehlo.lines.first().and_then(|line| line.split(' ').next()).unwrap_or_default();
        Ok(format!("{} greets as {name:?} {protection}", server.target()))
    };
    tokio::time::timeout(timeout, visit).await.unwrap_or_else(|_| {
        Err(Failure::new(FailureKind::Timeout, Phase::NotSent, "the mail server did not greet in time"))
    })
}

/// A polite end. The mail is decided already, so nobody waits for the answer and nobody minds a failure.
async fn goodbye(wire: &mut Wire) {
    if let Err(error) = wire.write(b"QUIT\r\n").await {
        tracing::debug!(%error, "the mail server left first");
    }
}

/// A connection ready for login or envelope, with what the server offers on it.
async fn open(server: &Server) -> Result<(Wire, Reply), Failure> {
    let tcp = connect(server).await?;
    let us = match tcp.local_addr().map(|address| address.ip().to_canonical()) {
        Ok(std::net::IpAddr::V6(address)) => ClientId::Ipv6(address),
        Ok(std::net::IpAddr::V4(address)) => ClientId::Ipv4(address),
        Err(error) => return Err(broken_at(Stage::Greeting, error.into())),
    };
    let stream: Box<dyn Stream> = match &server.tls {
        Tls::Implicit(trust) => protect(Box::new(tcp), trust).await?,
        Tls::Plain | Tls::Upgrade(_) => Box::new(tcp),
    };
    let mut wire = Wire::new(stream);
    let greeting = wire.reply().await.map_err(|broken| broken_at(Stage::Greeting, broken))?;
    expect_done(Stage::Greeting, &greeting)?;
    let mut ehlo = hello(&mut wire, &us).await?;
    if let Tls::Upgrade(trust) = &server.tls {
        if ehlo.offers("STARTTLS").is_none() {
            return Err(unreachable("the mail server does not offer STARTTLS, and nothing is sent in the clear", None));
        }
        let go = wire.command("STARTTLS").await.map_err(|broken| broken_at(Stage::Greeting, broken))?;
        expect_done(Stage::Greeting, &go)?;
        let stream = wire.into_stream().ok_or_else(|| {
            unreachable("the mail server sent text between STARTTLS and the encryption, as an intruder would", None)
        })?;
        wire = Wire::new(protect(stream, trust).await?);
        // What was offered in the clear does not count any more.
        ehlo = hello(&mut wire, &us).await?;
    }
    Ok((wire, ehlo))
}

async fn connect(server: &Server) -> Result<TcpStream, Failure> {
    let found = tokio::net::lookup_host((server.host.as_str(), server.port)).await;
    let mut addresses: Vec<SocketAddr> = found
        .map_err(|error| unreachable("the name of the mail server cannot be resolved", Some(error.to_string())))?
        .collect();
    if matches!(server.tls, Tls::Plain) {
        // `localhost` is only a name: in the clear, the address has to be this machine's as well.
        addresses.retain(|address| address.ip().is_loopback());
    }
    let mut last = None;
    for address in &addresses {
        last = match tokio::time::timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => {
                // Every write waits for a reply; there is nothing to collect it with.
                if let Err(error) = tcp.set_nodelay(true) {
                    tracing::debug!(%error, "small packets may wait");
                }
                return Ok(tcp);
            }
            Ok(Err(error)) => Some(format!("{address}: {error}")),
            Err(_) => Some(format!("{address}: no answer within {} seconds", CONNECT.as_secs())),
        };
    }
    Err(unreachable("no connection to the mail server", last.or(Some("its name has no usable address".to_owned()))))
}

async fn protect(stream: Box<dyn Stream>, trust: &Trust) -> Result<Box<dyn Stream>, Failure> {
    let connector = TlsConnector::from(trust.config.clone());
    match connector.connect(trust.name.clone(), stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(unreachable(&format!("no TLS with the mail server: {error}"), None)),
    }
}

async fn hello(wire: &mut Wire, us: &ClientId) -> Result<Reply, Failure> {
    let ehlo = Ehlo::new(us.clone()).to_string();
    let reply = wire.command(ehlo.trim_end()).await.map_err(|broken| broken_at(Stage::Greeting, broken))?;
    expect_done(Stage::Greeting, &reply)?;
    Ok(reply)
}

/// What proves to the server who we are.
struct Proof<'a> {
    username: &'a str,
    secret: &'a str,
    /// The secret is an access token.
    token: bool,
}

impl<'a> Proof<'a> {
    /// The resolved credential before the login of the URL; none where neither is declared.
    fn of(server: &'a Server, attempt: &'a Attempt) -> Result<Option<Self>, Failure> {
        let unusable = |message: &str| Failure::new(FailureKind::Unauthorised, Phase::NotSent, message);
        let of_url = server.login.as_ref();
        let proof = match (attempt.credential.as_deref(), of_url) {
            (Some(Credential::Basic { username, password }), _) => {
                Proof { username, secret: password.expose_secret(), token: false }
            }
            (Some(Credential::Bearer(token)), Some(login)) => {
                Proof { username: &login.username, secret: token.expose_secret(), token: true }
            }
            (Some(Credential::Bearer(_)), None) => {
                return Err(unusable("a token cannot log in to a mail server without the user name in the URL"));
            }
            (Some(Credential::ApiKey { .. }), _) => {
                return Err(unusable("an api_key cannot log in to a mail server; use basic or bearer"));
            }
            (None, None) => return Ok(None),
            (None, Some(login)) => match &login.password {
                Some(password) => Proof { username: &login.username, secret: password.expose_secret(), token: false },
                None => return Err(unusable("the URL of the mail server names a user without a password")),
            },
        };
        // A NUL separates the parts of AUTH PLAIN.
        if [proof.username, proof.secret].iter().any(|part| part.contains('\0')) {
            return Err(unusable("a user name or password for a mail server cannot hold a NUL character"));
        }
        Ok(Some(proof))
    }
}

async fn login(wire: &mut Wire, ehlo: &Reply, proof: &Proof<'_>) -> Result<(), Failure> {
    let offered: Vec<String> =
        ehlo.offers("AUTH").into_iter().flatten().map(|mechanism| mechanism.to_ascii_uppercase()).collect();
    let offers = |mechanism: &str| offered.iter().any(|one| one == mechanism);
    let Proof { username, secret, token } = proof;
    // Lines to send one after another, each but the last answered with 334.
    let lines = match token {
        true if offers("XOAUTH2") => {
            vec![format!("AUTH XOAUTH2 {}", BASE64.encode(format!("user={username}\x01auth=Bearer {secret}\x01\x01")))]
        }
        false if offers("PLAIN") => {
            vec![format!("AUTH PLAIN {}", BASE64.encode(format!("\0{username}\0{secret}")))]
        }
        false if offers("LOGIN") => {
            vec!["AUTH LOGIN".to_owned(), BASE64.encode(username), BASE64.encode(secret)]
        }
        _ => {
            let message = "the mail server offers no way to log in that this credential fits";
            return Err(Failure::new(FailureKind::Unauthorised, Phase::Answered, message)
                .with_detail(format!("it offers: {}", offered.join(" "))));
        }
    };
    let last = lines.len() - 1;
    for (at, line) in lines.iter().enumerate() {
        let reply = wire.command(line).await.map_err(|broken| broken_at(Stage::Login, broken))?;
        match reply.code {
            334 if at < last => {}
            200..300 if at == last => {}
            _ => return Err(refused_at(Stage::Login, &reply)),
        }
    }
    Ok(())
}

/// Sender, recipients and the question whether the content may come. All recipients or none.
async fn envelope(wire: &mut Wire, ehlo: &Reply, mail: &Mail) -> Result<(), Failure> {
    let ask = async |wire: &mut Wire, line: String| {
        wire.command(line.trim_end()).await.map_err(|broken| broken_at(Stage::Envelope, broken))
    };
    let foreign = mail.recipients.iter().map(|one| &one.address).chain([&mail.sender]);
    let mut parameters = Vec::new();
    if foreign.into_iter().any(|address| !<_ as AsRef<str>>::as_ref(address).is_ascii()) {
        if ehlo.offers("SMTPUTF8").is_none() {
            let message = "this mail server takes addresses in ASCII only";
            return Err(Failure::new(FailureKind::Rejected, Phase::Answered, message));
        }
        parameters = vec![MailParameter::Body(MailBodyParameter::EightBitMime), MailParameter::SmtpUtfEight];
    }
    let reply = ask(wire, MailFrom::new(Some(mail.sender.clone()), parameters).to_string()).await?;
    expect_done(Stage::Envelope, &reply)?;

    let mut refusals = Vec::new();
    for recipient in &mail.recipients {
        let reply = ask(wire, Rcpt::new(recipient.address.clone(), Vec::new()).to_string()).await?;
        if reply.code == 421 {
            return Err(refused_at(Stage::Envelope, &reply));
        }
        if !reply.is_done() {
            refusals.push((recipient, reply));
        }
    }
    if refusals.is_empty() {
        let reply = ask(wire, "DATA".to_owned()).await?;
        return if reply.code == 354 { Ok(()) } else { Err(refused_at(Stage::Envelope, &reply)) };
    }
    // Withdrawn in so many words: the accepted recipients get nothing either.
    if let Ok(_withdrawn) = wire.command("RSET").await {
        goodbye(wire).await;
    }
    let permanent = refusals.iter().any(|(_, reply)| !reply.is_temporary());
    let kind = if permanent { FailureKind::Rejected } else { FailureKind::Unavailable };
    let reasons: Vec<String> = refusals
        .iter()
        .map(|(recipient, reply)| match recipient.shown {
            true => format!("{} ({})", recipient.address, reply.line()),
            false => "a blind copy of the declaration".to_owned(),
        })
        .collect();
    let message = format!(
        "the mail server refused {} of {} recipients, and nobody was sent anything: {}",
        refusals.len(),
        mail.recipients.len(),
        reasons.join(", ")
    );
    let detail: Vec<String> =
        refusals.iter().map(|(recipient, reply)| format!("{}: {}", recipient.address, reply.line())).collect();
    Err(Failure::new(kind, Phase::Answered, message).with_detail(detail.join("\n")))
}

fn expect_done(stage: Stage, reply: &Reply) -> Result<(), Failure> {
    if reply.is_done() { Ok(()) } else { Err(refused_at(stage, reply)) }
}

fn unreachable(message: &str, detail: Option<String>) -> Failure {
    let failure = Failure::new(FailureKind::Unreachable, Phase::NotSent, message);
    match detail {
        Some(detail) => failure.with_detail(detail),
        None => failure,
    }
}

/// What a reply that is no consent means at this stage.
fn refused_at(stage: Stage, reply: &Reply) -> Failure {
    let said = reply.line();
    if !matches!(reply.code / 100, 4 | 5) {
        return broken_at(stage, Broken::Garbage(said));
    }
    let (kind, phase, message) = match (stage, reply.code) {
        (Stage::Greeting, _) if !reply.is_temporary() => {
            (FailureKind::Unreachable, Phase::NotSent, format!("the mail server does not talk to us: {said}"))
        }
        (_, 400..500) => {
            (FailureKind::Unavailable, Phase::Answered, format!("the mail server asks to come back later: {said}"))
        }
        (Stage::Login, _) | (_, 530 | 535) => {
            (FailureKind::Unauthorised, Phase::Answered, format!("the mail server refused our login: {said}"))
        }
        (_, _) => (FailureKind::Rejected, Phase::Answered, format!("the mail server refused the mail: {said}")),
    };
    Failure::new(kind, phase, message)
}

/// What a connection that gave no reply means at this stage.
fn broken_at(stage: Stage, broken: Broken) -> Failure {
    let detail = format!("at the stage {stage:?}: {broken}");
    if stage != Stage::Content {
        return unreachable("the mail server broke off before the mail was sent", Some(detail));
    }
    let (kind, phase, message) = match broken {
        Broken::Connection(_) | Broken::Closed => (
            FailureKind::Interrupted,
            Phase::MaybeSent,
            "the mail server took the mail and broke off without saying whether it will be delivered",
        ),
        Broken::Garbage(_) => (
            FailureKind::Malformed,
            Phase::Answered,
            "the mail server answered the mail with something that is not SMTP",
        ),
        Broken::Flood => {
            (FailureKind::Oversize, Phase::Answered, "the mail server answered the mail with more than 64 KiB")
        }
    };
    Failure::new(kind, phase, message).with_detail(detail)
}
