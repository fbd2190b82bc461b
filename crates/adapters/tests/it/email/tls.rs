//! Protected connections: from the first byte, after STARTTLS, and the ways an intruder would break in.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reach_core::{FailureKind, Phase};
use reach_shop::smtp::MailSink;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::{attempt, declared, hello, try_build};

/// How the front before the sink behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Front {
    /// TLS from the first byte.
    Implicit,
    /// STARTTLS, as it should be.
    Upgrade,
    /// An intruder took STARTTLS out of the offers.
    Stripped,
    /// An intruder put a reply behind the go-ahead, in the clear.
    Injected,
}

/// A TLS front before the sink. Returns its port; its certificate is `name.pem` in `folder`.
async fn front(kind: Front, sink: &MailSink, folder: &Path) -> u16 {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("ca.pem"), made.cert.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let sink = sink.port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            // A client that turns away is what some of the tests are about.
            tokio::spawn(async move { relay(kind, client, &acceptor, sink).await });
        }
    });
    port
}

async fn relay(kind: Front, client: TcpStream, acceptor: &TlsAcceptor, sink: u16) -> std::io::Result<()> {
    let mut sink = BufReader::new(TcpStream::connect(("127.0.0.1", sink)).await?);
    let mut client = BufReader::new(client);
    if kind != Front::Implicit {
        sink.read_line(&mut String::new()).await?;
        client.write_all(b"220 front\r\n").await?;
        client.read_line(&mut String::new()).await?;
        let offers = if kind == Front::Stripped { "250 front\r\n" } else { "250-front\r\n250 STARTTLS\r\n" };
        client.write_all(offers.as_bytes()).await?;
        client.read_line(&mut String::new()).await?;
        let injected = if kind == Front::Injected { "250 yours truly, the intruder\r\n" } else { "" };
        client.write_all(format!("220 go\r\n{injected}").as_bytes()).await?;
    }
    let mut client = acceptor.accept(client.into_inner()).await?;
    tokio::io::copy_bidirectional(&mut client, &mut sink).await?;
    Ok(())
}

#[tokio::test]
async fn a_mail_goes_over_tls_from_the_first_byte_or_after_starttls() {
    let sink = MailSink::start(0).await.unwrap();
    for (kind, scheme, query) in [
        (Front::Implicit, "smtps", "?ca=ca.pem"),
        (Front::Implicit, "smtp", "?ca=ca.pem&tls=implicit"),
        (Front::Upgrade, "smtp", "?tls=starttls&ca=ca.pem"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let port = front(kind, &sink, folder.path()).await;
        let before = sink.mails().len();
        let adapter = try_build(declared(&format!("{scheme}://localhost:{port}{query}")), folder.path()).unwrap();
        assert!(adapter.check(Duration::from_secs(5)).await.unwrap().contains("over TLS"));
        adapter.call(&attempt(hello())).await.unwrap();
        assert_eq!(sink.mails().len(), before + 1);
        assert_eq!(adapter.target(), format!("smtp://localhost:{port}"));
    }
}

#[tokio::test]
async fn whoever_is_not_the_server_gets_nothing() {
    let sink = MailSink::start(0).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (kind, host, query, why) in [
        (Front::Stripped, "localhost", "?tls=starttls&ca=ca.pem", "STARTTLS"),
        (Front::Injected, "localhost", "?tls=starttls&ca=ca.pem", "intruder"),
        (Front::Upgrade, "localhost", "?tls=starttls", "UnknownIssuer"),
        (Front::Implicit, "localhost", "?tls=implicit", "UnknownIssuer"),
        (Front::Implicit, "127.0.0.1", "?tls=implicit&ca=ca.pem", "not valid for name"),
        (Front::Upgrade, "localhost", "?tls=implicit&ca=ca.pem", "TLS"),
    ] {
        let port = front(kind, &sink, folder.path()).await;
        let adapter = try_build(declared(&format!("smtp://{host}:{port}{query}")), folder.path()).unwrap();
        let failure = adapter.call(&attempt(hello())).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (FailureKind::Unreachable, Phase::NotSent), "{failure:?}");
        assert!(failure.message.contains(why), "{why}: {}", failure.message);
    }
    assert_eq!(sink.mails(), []);
}
