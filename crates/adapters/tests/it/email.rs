//! The `email` adapter in the shared suite, and what is its own: what each word of the server means, what
//! a mail looks like when it arrives, and the ways to a protected connection.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "everything here is a test or serves one; what fails here is a finding"
)]

mod attack;
mod declaration;
mod other_side;
mod tls;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mailparse::{MailHeaderMap, ParsedMail, parse_mail};
use reach_adapters::email::{self, Config};
use reach_adapters::shared::Declared;
use reach_core::{
    Adapter, Answer, Attempt, BoxFuture, Credential, Effect, Failure, FailureKind, Payload, Phase, Problem, ToolId,
};
use reach_shop::smtp::{MailSink, Mode};
use serde_json::{Value, json};

use crate::suite::{self, Fault, Scene, Stage};
use other_side::scripted;

fn try_build(config: Value, base: &Path) -> Result<Arc<dyn Adapter>, Vec<Problem>> {
    let config: Config = serde_json::from_value(config).unwrap();
    let tool_id = ToolId::parse("notify").unwrap();
    let names = ["to", "cc", "bcc", "reply_to", "name", "user", "subject", "body"];
    let properties: Value = names.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    email::build(
        config,
        &Declared {
            tool_id: &tool_id,
            input_schema: &json!({"type": "object", "properties": properties}),
            effect: Effect::Write,
            timeout: Duration::from_secs(10),
            base,
        },
    )
}

/// A mail through this server whose parts are the arguments of the same names.
fn declared(smtp: &str) -> Value {
    json!({
        "smtp": smtp, "from": "Shop <bot@shop.example>", "to": "{to}", "subject": "{subject}", "body": "{body}",
    })
}

fn with(mut config: Value, more: Value) -> Value {
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

fn adapter(config: Value) -> Arc<dyn Adapter> {
    try_build(config, Path::new("/nowhere")).unwrap()
}

fn attempt(arguments: Value) -> Attempt {
    Attempt::new(ToolId::parse("notify").unwrap(), arguments.as_object().unwrap().clone(), Effect::Write)
}

fn hello() -> Value {
    json!({"to": "ann@shop.example", "subject": "Hello", "body": "Hi"})
}

fn to_sink(sink: &MailSink) -> String {
    format!("smtp://127.0.0.1:{}", sink.port())
}

async fn send(config: Value, arguments: Value) -> Result<Answer, Failure> {
    adapter(config).call(&attempt(arguments)).await
}

fn data(answer: Result<Answer, Failure>) -> Value {
    match answer.unwrap().payload {
        Payload::Json(data) => data,
        other => panic!("not JSON: {other:?}"),
    }
}

fn header(mail: &ParsedMail<'_>, name: &str) -> String {
    mail.headers.get_first_value(name).unwrap_or_else(|| panic!("no header {name}"))
}

async fn until(mut look: impl FnMut() -> bool) {
    let look = async {
        while !look() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), look).await.expect("happens within ten seconds");
}

struct Mailboxes;

impl Stage for Mailboxes {
    fn scene(&self, fault: Fault) -> BoxFuture<'_, Result<Scene, &'static str>> {
        Box::pin(async move {
            let sink = Arc::new(MailSink::start(0).await.unwrap());
            let after_content =
                |reply: &str| ["220 hi", "250 hi", "250 ok", "250 ok", "354 go", reply].map(str::to_owned);
            let mut smtp = to_sink(&sink);
            match fault {
                Fault::None => {}
                Fault::Stall | Fault::Cancelled => sink.set_mode(Mode::Stall),
                Fault::Reset => sink.set_mode(Mode::VanishAfterData),
                Fault::Refused => smtp = "smtp://127.0.0.1:1".to_owned(),
                Fault::HalfAnswer => smtp = scripted(after_content("25")).await.url(),
                Fault::Oversize => smtp = scripted(after_content(&"250-more\r\n".repeat(10_000))).await.url(),
                Fault::Malformed => smtp = scripted(after_content("thanks, got it\r\n")).await.url(),
                Fault::ExpiredCredential => {
                    let replies = ["220 hi", "250-hi\r\n250 AUTH PLAIN", "535 5.7.8 expired"].map(str::to_owned);
                    smtp = scripted(replies).await.url().replace("smtp://", "smtp://bot:old@");
                }
            }
            let seen = sink.clone();
            Ok(Scene {
                adapter: adapter(declared(&smtp)),
                attempt: attempt(hello()),
                gone: Box::pin(async move { until(|| seen.connections() == 0).await }),
                keep: Box::new(sink),
            })
        })
    }
}

#[tokio::test]
async fn the_email_adapter_keeps_the_promise_of_every_adapter() {
    suite::run(&Mailboxes).await;
}

#[tokio::test]
async fn a_mail_arrives_with_every_part_as_it_was_given() {
    let sink = MailSink::start(0).await.unwrap();
    let config = with(
        declared(&to_sink(&sink)),
        json!({
            "from": "\"店铺, Bot\" <bot@shop.example>", "to": ["{to}", "{name} <{user}@shop.example>"], "cc": ["{cc}"],
            "bcc": ["audit@shop.example", "{bcc}"], "reply_to": "{reply_to}",
            "html": "<p title=\"{subject}\">{body}</p>", "max_recipients": 6,
        }),
    );
    let body = "您好，\n.\n..订单 OD1 已发货 <b>&\n\nFrom here on\r\rthe end";
    let attempt = attempt(json!({
        "to": ["ann@shop.example", "李, \"Bob\" <bob@shop.example>"], "name": "Lee, \"Eve\" <x>", "user": "eve.lee",
        "cc": "cy@shop.example", "bcc": "dan@shop.example", "reply_to": "Help <help@shop.example>",
        "subject": "订单 OD1: 已发货 ✓", "body": body,
    }));
    // An unquoted comma would be two addresses: refused, and the model is told.
    let refused = adapter(config.clone()).call(&attempt).await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Refused);
    let mut attempt = attempt;
    attempt.arguments["to"][1] = json!("\"李, \\\"Bob\\\"\" <bob@shop.example>");
    let data = data(adapter(config).call(&attempt).await);

    let mails = sink.mails();
    let [mail] = mails.as_slice() else { panic!("one mail, not {}", mails.len()) };
    assert_eq!(mail.from, "bot@shop.example");
    let everybody = ["ann", "bob", "eve.lee", "cy", "audit", "dan"].map(|name| format!("{name}@shop.example"));
    assert_eq!(mail.recipients, everybody);
    assert!(mail.content.is_ascii() && mail.content.lines().all(|line| line.len() <= 998));
    let parsed = parse_mail(mail.content.as_bytes()).unwrap();
    assert_eq!(header(&parsed, "Subject"), "订单 OD1: 已发货 ✓");
    let people = |name: &str| -> Vec<(Option<String>, String)> {
        let header = parsed.headers.get_first_header(name).unwrap();
        let list = mailparse::addrparse_header(header).unwrap();
        list.iter()
            .map(|one| match one {
                mailparse::MailAddr::Single(one) => (one.display_name.clone(), one.addr.clone()),
                mailparse::MailAddr::Group(_) => panic!("no group was asked for"),
            })
            .collect()
    };
    let one = |name: &str, address: &str| (Some(name.to_owned()), address.to_owned());
    assert_eq!(people("From"), [one("店铺, Bot", "bot@shop.example")]);
    assert_eq!(
        people("To"),
        [
            (None, "ann@shop.example".to_owned()),
            one("李, \"Bob\"", "bob@shop.example"),
            one("Lee, \"Eve\" <x>", "eve.lee@shop.example"),
        ]
    );
    assert_eq!(people("Reply-To"), [one("Help", "help@shop.example")]);
    assert!(parsed.headers.get_first_value("Bcc").is_none());
    assert_eq!(header(&parsed, "Auto-Submitted"), "auto-generated");
    let lines = "您好，\r\n.\r\n..订单 OD1 已发货 <b>&\r\n\r\nFrom here on\r\n\r\nthe end";
    assert_eq!(parsed.subparts[0].get_body().unwrap().trim_end(), lines);
    let html = parsed.subparts[1].get_body().unwrap();
    assert!(html.contains("<p title=\"订单 OD1: 已发货 ✓\">您好，"), "{html}");
    assert!(html.contains("已发货 &lt;b&gt;&amp;\r\n"), "{html}");

    let message_id = header(&parsed, "Message-ID");
    assert_eq!(message_id, format!("<{}.{}@shop.example>", attempt.request_id, attempt.trace_id));
    let shown: Vec<&String> = everybody.iter().filter(|address| !address.starts_with("audit")).collect();
    assert_eq!(data, json!({"accepted": shown, "message_id": message_id, "reply": "250 2.0.0 kept as mail 1"}));
}

#[tokio::test]
async fn any_text_arrives_as_the_same_text() {
    let sink = MailSink::start(0).await.unwrap();
    let adapter = adapter(declared(&to_sink(&sink)));
    let long = format!("{} {}", "a".repeat(3000), "好".repeat(3000));
    let bodies = [
        "plain",
        ".",
        ".\r\n.",
        "a\r\n.\r\nQUIT\r\n",
        "\0\u{1}\u{7f}",
        "=3D =20",
        "--\r\nboundary",
        "",
        " lead\r\n trail ",
        &long,
    ];
    for (at, body) in bodies.into_iter().enumerate() {
        adapter.call(&attempt(json!({"to": "a@shop.example", "subject": "s", "body": body}))).await.unwrap();
        let mails = sink.mails();
        assert_eq!(mails.len(), at + 1, "one mail for {body:?}");
        let got = parse_mail(mails[at].content.as_bytes()).unwrap().get_body().unwrap();
        // SMTP ends every line, the last one too.
        assert!(got == body || got == format!("{body}\r\n"), "{got:?} is not {body:?}");
    }
}

#[tokio::test]
async fn each_word_of_the_server_means_what_it_says() {
    use FailureKind::{Interrupted, Malformed, Rejected, Unauthorised, Unavailable, Unreachable};
    use Phase::{Answered, MaybeSent, NotSent};
    let cases: &[(&[&str], FailureKind, Phase)] = &[
        (&["554 no service here"], Unreachable, NotSent),
        (&["421 too many of you"], Unavailable, Answered),
        (&["HTTP/1.1 400 Bad Request"], Unreachable, NotSent),
        (&[""], Unreachable, NotSent),
        (&["220 hi", "502 what"], Unreachable, NotSent),
        (&["220 hi", ""], Unreachable, NotSent),
        (&["220 hi", "250 hi", "451 later"], Unavailable, Answered),
        (&["220 hi", "250 hi", "530 log in first"], Unauthorised, Answered),
        (&["220 hi", "250 hi", "553 bad sender"], Rejected, Answered),
        (&["220 hi", "250 hi", ""], Unreachable, NotSent),
        (&["220 hi", "250 hi", "250 ok", "550 no such user", "250 ok"], Rejected, Answered),
        (&["220 hi", "250 hi", "250 ok", "450 busy", "250 ok"], Unavailable, Answered),
        (&["220 hi", "250 hi", "250 ok", "421 going down"], Unavailable, Answered),
        (&["220 hi", "250 hi", "250 ok", ""], Unreachable, NotSent),
        (&["220 hi", "250 hi", "250 ok", "250 ok", "554 no"], Rejected, Answered),
        (&["220 hi", "250 hi", "250 ok", "250 ok", "250 ok"], Unreachable, NotSent),
        (&["220 hi", "250 hi", "250 ok", "250 ok", ""], Unreachable, NotSent),
        (&["220 hi", "250 hi", "250 ok", "250 ok", "354 go\r\n250 got it already"], Unreachable, NotSent),
        (&["220 hi", "250 hi", "250 ok", "250 ok", "354 go", "552 too large"], Rejected, Answered),
        (&["220 hi", "250 hi", "250 ok", "250 ok", "354 go", "452 disk full"], Unavailable, Answered),
        (&["220 hi", "250 hi", "250 ok", "250 ok", "354 go", "421 bye"], Unavailable, Answered),
        (&["220 hi", "250 hi", "250 ok", "250 ok", "354 go", ""], Interrupted, MaybeSent),
        (&["220 hi", "250 hi", "250 ok", "250 ok", "354 go", "354 go on"], Malformed, Answered),
    ];
    for (replies, kind, phase) in cases {
        let server = scripted(replies.iter().map(|reply| (*reply).to_owned())).await;
        let attempt = attempt(hello());
        let failure = adapter(declared(&server.url())).call(&attempt).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (*kind, *phase), "{replies:?}: {failure:?}");
        let content_left = server.seen().await.iter().any(|line| line.contains("Subject:"));
        assert_eq!(content_left, replies.len() == 6, "{replies:?}");
        assert_eq!(attempt.sent.phase() == MaybeSent, content_left, "sent is marked exactly when content left");
    }
}

#[tokio::test]
async fn one_refused_recipient_means_nobody_is_sent_anything_and_is_named() {
    let replies = ["220 hi", "250 hi", "250 ok", "250 ok", "550 5.1.1 no such user", "250 withdrawn"];
    let server = scripted(replies.map(str::to_owned)).await;
    let arguments = with(hello(), json!({"to": ["ann@shop.example", "bob@shop.example"]}));
    let failure = send(declared(&server.url()), arguments).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Rejected);
    assert_eq!(
        failure.message,
        "the mail server refused 1 of 2 recipients, and nobody was sent anything: bob@shop.example (550 5.1.1 no such user)"
    );
    let seen = server.seen().await;
    assert!(seen.contains(&"RSET".to_owned()) && !seen.contains(&"DATA".to_owned()), "{seen:?}");
}

#[tokio::test]
async fn the_sink_refuses_and_is_busy_when_told_to() {
    let sink = MailSink::start(0).await.unwrap();
    for (mode, kind) in [(Mode::Refuse, FailureKind::Rejected), (Mode::TempFail, FailureKind::Unavailable)] {
        sink.set_mode(mode);
        let failure = send(declared(&to_sink(&sink)), hello()).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (kind, Phase::Answered));
    }
    assert_eq!(sink.mails(), []);
    sink.set_mode(Mode::VanishAfterData);
    let failure = send(declared(&to_sink(&sink)), hello()).await.unwrap_err();
    assert_eq!((failure.kind, failure.phase), (FailureKind::Interrupted, Phase::MaybeSent));
    assert_eq!(sink.mails().len(), 1, "it was delivered, and nobody could know");
}

#[tokio::test]
async fn a_login_is_made_with_the_url_or_with_the_credential_that_replaces_it() {
    let basic = Credential::Basic { username: "other".to_owned(), password: "p2".into() };
    let cases: &[(&str, Option<Credential>, &str, &[&str])] = &[
        ("bot%40shop:p%2F1@", None, "PLAIN LOGIN", &["AUTH PLAIN AGJvdEBzaG9wAHAvMQ=="]),
        ("bot:p1@", Some(basic.clone()), "PLAIN", &["AUTH PLAIN AG90aGVyAHAy"]),
        ("", Some(basic), "LOGIN", &["AUTH LOGIN", "b3RoZXI=", "cDI="]),
        (
            "bot@",
            Some(Credential::Bearer("t1".into())),
            "PLAIN XOAUTH2",
            &["AUTH XOAUTH2 dXNlcj1ib3QBYXV0aD1CZWFyZXIgdDEBAQ=="],
        ),
    ];
    for (login, credential, offered, wanted) in cases {
        let mut replies = vec!["220 hi".to_owned(), format!("250-hi\r\n250 AUTH {offered}")];
        replies.extend(vec!["334 more".to_owned(); wanted.len() - 1]);
        replies.extend(["235 welcome", "250 ok", "250 ok", "354 go", "250 taken"].map(str::to_owned));
        let server = scripted(replies).await;
        let url = server.url().replace("smtp://", &format!("smtp://{login}"));
        let mut attempt = attempt(hello());
        attempt.credential = credential.clone().map(Arc::new);
        adapter(declared(&url)).call(&attempt).await.unwrap();
        assert_eq!(server.seen().await[1..=wanted.len()], **wanted);
    }
}

#[tokio::test]
async fn a_login_that_cannot_be_made_is_the_credentials_fault_and_shows_no_secret() {
    let basic = || Credential::Basic { username: "bot".to_owned(), password: "canary-9".into() };
    let cases: [(&str, Option<Credential>); 4] = [
        ("bot@", None),
        ("", Some(Credential::Bearer("canary-9".into()))),
        ("", Some(basic())),
        ("bot:canary-9@", None),
    ];
    for (login, credential) in cases {
        let server = scripted(["220 hi", "250-hi\r\n250 AUTH GSSAPI", ""].map(str::to_owned)).await;
        let url = server.url().replace("smtp://", &format!("smtp://{login}"));
        let mut attempt = attempt(hello());
        attempt.credential = credential.map(Arc::new);
        let adapter = adapter(declared(&url));
        let failure = adapter.call(&attempt).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unauthorised, "{failure:?}");
        assert!(!format!("{failure:?}{}", adapter.target()).contains("canary-9"));
    }
}

#[tokio::test]
async fn an_address_outside_ascii_needs_a_server_that_takes_it() {
    let sink = MailSink::start(0).await.unwrap();
    send(declared(&to_sink(&sink)), with(hello(), json!({"to": "用户@例子.测试"}))).await.unwrap();
    assert_eq!(sink.mails()[0].recipients, ["用户@xn--fsqu00a.xn--0zwm56d"]);
    let server = scripted(["220 hi", "250 hi", ""].map(str::to_owned)).await;
    let failure = send(declared(&server.url()), with(hello(), json!({"to": "用户@shop.example"}))).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Rejected);
    assert!(failure.message.contains("ASCII"), "{}", failure.message);
}

#[tokio::test]
async fn a_check_greets_and_sends_nothing() {
    let sink = MailSink::start(0).await.unwrap();
    let found = adapter(declared(&to_sink(&sink))).check(Duration::from_secs(5)).await.unwrap();
    assert_eq!(
        found,
        format!("smtp://127.0.0.1:{} greets as \"shop.example\" without TLS on this machine", sink.port())
    );
    until(|| sink.connections() == 0).await;
    assert_eq!(sink.mails(), []);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://localhost:{}", silent.local_addr().unwrap().port());
    let failure = adapter(declared(&url)).check(Duration::from_millis(100)).await.unwrap_err();
    assert_eq!((failure.kind, failure.phase), (FailureKind::Timeout, Phase::NotSent));
}
