//! What a declaration may say, and how it is told what is wrong with it.

use std::path::Path;

use reach_adapters::email::Config;
use reach_core::FailureKind;
use reach_shop::smtp::MailSink;
use serde_json::{Value, json};

use super::{adapter, attempt, declared, hello, send, to_sink, try_build, with};

fn problems(config: Value) -> Vec<(String, String)> {
    match try_build(config, Path::new("/nowhere")) {
        Ok(_) => Vec::new(),
        Err(found) => found.into_iter().map(|problem| (problem.pointer, problem.message)).collect(),
    }
}

#[test]
fn a_url_that_would_send_in_the_clear_or_means_nothing_is_a_problem_that_shows_no_password() {
    for url in [
        "smtp://bot:canary-7@mail.example?tls=none",
        "smtp://bot:canary-7@10.0.0.1?tls=none",
        "smtps://bot:canary-7@mail.example?tls=none",
        "smtps://bot:canary-7@mail.example?tls=starttls",
        "smtp://bot:canary-7@mail.example?tls=maybe",
        "smtp://bot:canary-7@mail.example?tsl=none",
        "smtp://bot:canary-7@mail.example/inbox",
        "smtp://bot:canary-7@mail.example?ca=missing.pem",
        "smtp://bot:canary-7@mail.example:99999",
        "http://bot:canary-7@mail.example",
        "smtp://:canary-7@mail.example",
        "smtp://bot:canary-7%00@mail.example",
        "smtp://bot:canary-7%ff@mail.example",
        "smtp://",
        "bot:canary-7@mail.example",
    ] {
        let found = problems(declared(url));
        assert_eq!(found.len(), 1, "{url}: {found:?}");
        assert_eq!(found[0].0, "/smtp");
        assert!(!format!("{found:?}").contains("canary-7"), "{found:?}");
    }
    for url in
        ["smtp://mail.example", "smtps://u:p@mail.example:1465", "smtp://localhost:25?tls=none", "smtp://[::1]:25"]
    {
        assert_eq!(problems(declared(url)), [], "{url}");
    }
    let config: Config = serde_json::from_value(declared("smtp://u:canary-7@mail.example")).unwrap();
    assert!(!format!("{config:?}{}", serde_json::to_string(&config).unwrap()).contains("canary-7"));
}

#[test]
fn the_target_has_the_port_of_the_scheme_and_no_login() {
    for (url, target) in [
        ("smtp://u:p@mail.example", "smtp://mail.example:587"),
        ("smtps://u:p@mail.example", "smtp://mail.example:465"),
        ("smtp://[::1]:25", "smtp://[::1]:25"),
    ] {
        assert_eq!((adapter(declared(url)).kind(), adapter(declared(url)).target()), ("email", target));
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let found = problems(json!({
        "smtp": "smtp://mail.example?tls=none", "from": "Shop bot@shop.example", "to": ["a@x.org, b@x.org", "{two}"],
        "cc": "a@b\r\n@c", "reply_to": ["ok@x.org", "<>"], "subject": "one\ntwo", "body": "{bdy}", "html": "}",
        "allowed_recipients": ["*"], "max_recipients": 0
    }));
    let pointers: Vec<&str> = found.iter().map(|(pointer, _)| pointer.as_str()).collect();
    assert_eq!(
        pointers,
        [
            "/smtp",
            "/from",
            "/to/0",
            "/to/1",
            "/cc",
            "/reply_to/1",
            "/body",
            "/html",
            "/subject",
            "/max_recipients",
            "/allowed_recipients/0"
        ]
    );
    let found = problems(with(
        declared("smtp://mail.example"),
        json!({"bcc": ["audit@else.example"], "allowed_recipients": ["*@shop.example"]}),
    ));
    assert_eq!(found, [("/bcc".to_owned(), "audit@else.example is not covered by allowed_recipients".to_owned())]);
    assert!(serde_json::from_value::<Config>(with(declared("smtp://x"), json!({"attachments": []}))).is_err());
}

#[tokio::test]
async fn who_may_be_written_to_and_how_many_is_the_operators_word() {
    let sink = MailSink::start(0).await.unwrap();
    let config = with(
        declared(&to_sink(&sink)),
        json!({"allowed_recipients": ["*@shop.example", "ann@else.example"], "max_recipients": 3}),
    );
    for (to, allowed) in [
        (json!("x@SHOP.example"), true),
        (json!("ann@else.example"), true),
        (json!("bob@else.example"), false),
        (json!(["x@shop.example", "bob@else.example"]), false),
        (json!("x@shop.example.else.example"), false),
        (json!(["a@shop.example", "b@shop.example", "c@shop.example", "a@shop.example"]), true),
        (json!(["a@shop.example", "b@shop.example", "c@shop.example", "d@shop.example"]), false),
        (json!([]), false),
        (json!(null), false),
        (json!(7), false),
        (json!({"address": "a@shop.example"}), false),
        (json!([["a@shop.example"]]), false),
    ] {
        let before = sink.mails().len();
        let outcome = send(config.clone(), with(hello(), json!({"to": to}))).await;
        match (&outcome, allowed) {
            (Ok(_), true) => assert_eq!(sink.mails().len(), before + 1),
            (Err(failure), false) => {
                assert_eq!(failure.kind, FailureKind::Refused, "{to}");
                assert_eq!(sink.mails().len(), before, "{to}");
            }
            _ => panic!("{to}: {outcome:?}"),
        }
    }
    let recipients = &sink.mails()[2].recipients;
    assert_eq!(*recipients, ["a@shop.example", "b@shop.example", "c@shop.example"], "each once");
}

#[tokio::test]
async fn a_part_that_needs_a_value_says_so_and_an_optional_address_is_left_out() {
    let sink = MailSink::start(0).await.unwrap();
    let config = with(declared(&to_sink(&sink)), json!({"cc": ["{cc}"], "reply_to": "{name} <{reply_to}>"}));
    send(config.clone(), hello()).await.unwrap();
    let content = &sink.mails()[0].content;
    assert!(!content.contains("Cc:") && !content.contains("Reply-To:"), "{content}");
    for part in ["subject", "body"] {
        let mut attempt = attempt(hello());
        attempt.arguments.remove(part);
        let failure = adapter(config.clone()).call(&attempt).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused);
        assert_eq!(failure.message, format!("`{part}` was not given, and the {part} needs it"));
    }
}
