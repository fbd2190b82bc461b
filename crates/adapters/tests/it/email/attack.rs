//! Attacks on headers and envelopes: a value stays inside the place it was given, or the call is refused.

use std::path::Path;

use mailparse::{MailHeaderMap, parse_mail};
use reach_core::{FailureKind, Phase};
use reach_shop::smtp::{Mail, MailSink};
use serde_json::{Value, json};

use super::{adapter, attempt, to_sink};

/// One family of payloads.
fn payloads(family: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suites/email/header-payloads.json");
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    all[family].as_array().unwrap().iter().map(|payload| payload.as_str().unwrap().to_owned()).collect()
}

/// A mail with a placeholder in every place a header can have one.
fn config(sink: &MailSink) -> Value {
    json!({
        "smtp": to_sink(sink), "from": "Shop {name} <bot@shop.example>", "to": ["{to}", "{name} <{user}@shop.example>"],
        "cc": "{cc}", "bcc": ["{bcc}"], "reply_to": ["{reply_to}"], "subject": "[shop] {subject}", "body": "{body}",
    })
}

fn arguments() -> Value {
    json!({
        "to": "to@shop.example", "cc": "cc@shop.example", "bcc": "bcc@shop.example", "reply_to": "reply@shop.example",
        "name": "Ann", "user": "user", "subject": "s", "body": "b",
    })
}

const ADDRESSES: [&str; 4] = ["to", "cc", "bcc", "reply_to"];

/// What arrived for one payload in one place: nothing if it was refused. Anything between is a breach.
async fn arrived(sink: &MailSink, place: &str, value: Value) -> Option<Mail> {
    let before = sink.mails();
    let mut arguments = arguments();
    arguments[place] = value.clone();
    let outcome = adapter(config(sink)).call(&attempt(arguments)).await;
    let mut mails = sink.mails();
    match outcome {
        Ok(_) => {
            assert_eq!(mails.len(), before.len() + 1, "{place} {value}: one call, one mail");
            mails.pop()
        }
        Err(failure) => {
            assert_eq!((failure.kind, failure.phase), (FailureKind::Refused, Phase::Rejected), "{place} {value}");
            assert!(failure.message.contains(&format!("`{place}`")), "{place} {value}: {}", failure.message);
            assert_eq!(mails, before, "{place} {value}: refused, and yet something arrived");
            None
        }
    }
}

/// The mail has the headers and recipients of the declaration, and no others.
fn is_intact(mail: &Mail, what: &str) {
    let parsed = parse_mail(mail.content.as_bytes()).unwrap();
    let mut names: Vec<String> = parsed.headers.iter().map(|header| header.get_key()).collect();
    names.sort_unstable();
    let wanted = [
        "Auto-Submitted",
        "Cc",
        "Content-Transfer-Encoding",
        "Content-Type",
        "Date",
        "From",
        "MIME-Version",
        "Message-ID",
        "Reply-To",
        "Subject",
        "To",
    ];
    assert_eq!(names, wanted, "{what}");
    assert_eq!(mail.recipients.len(), 4, "{what}: {:?}", mail.recipients);
    assert_eq!(parsed.get_body().unwrap().trim_end(), "b", "{what}");
    for name in ["From", "To", "Cc", "Reply-To"] {
        let header = parsed.headers.get_first_header(name).unwrap();
        let count = mailparse::addrparse_header(header).unwrap().len();
        assert_eq!(count, if name == "To" { 2 } else { 1 }, "{what}: {name} {:?}", header.get_value());
    }
}

#[tokio::test]
async fn a_control_character_is_refused_in_every_place_of_a_header() {
    let sink = MailSink::start(0).await.unwrap();
    for payload in payloads("control") {
        let has_control = payload.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'));
        for place in ADDRESSES.iter().chain(&["name", "user", "subject"]) {
            for value in [payload.clone(), format!("ann@shop.example{payload}"), format!("{payload}ann@shop.example")] {
                match arrived(&sink, place, json!(value)).await {
                    // The payloads without a control character are spellings that only a careless decoder obeys.
                    Some(mail) => {
                        assert!(!has_control, "{place} {value:?} was let through");
                        is_intact(&mail, &format!("{place} {value:?}"));
                    }
                    None => assert!(has_control || *place != "subject", "{place} {value:?} was refused"),
                }
            }
            if has_control && ADDRESSES.contains(place) {
                assert!(arrived(&sink, place, json!([format!("A{payload} <ann@shop.example>")])).await.is_none());
            }
        }
    }
}

#[tokio::test]
async fn one_value_in_an_address_is_never_two_addresses_or_another_one() {
    let sink = MailSink::start(0).await.unwrap();
    let mut taken = Vec::new();
    for payload in payloads("smuggling") {
        for place in ADDRESSES {
            for value in [json!(payload), json!([payload])] {
                if let Some(mail) = arrived(&sink, place, value).await {
                    is_intact(&mail, &format!("{place} {payload:?}"));
                    assert!(!mail.recipients.iter().any(|to| to.contains("evil")), "{place} {payload:?}");
                    taken.push(payload.clone());
                }
            }
        }
        if let Some(mail) = arrived(&sink, "user", json!(payload)).await {
            is_intact(&mail, &format!("user {payload:?}"));
            assert!(mail.recipients[1].ends_with("@shop.example"), "{payload:?}: {:?}", mail.recipients);
        }
    }
    taken.dedup();
    // One address each, whatever they look like.
    assert!(taken.iter().all(|payload| payload == "-oQ/tmp/x@shop.example"), "{taken:?}");
}

#[tokio::test]
async fn a_harmless_text_arrives_unchanged_in_subject_and_name() {
    let sink = MailSink::start(0).await.unwrap();
    for payload in payloads("harmless") {
        let mail = arrived(&sink, "subject", json!(payload)).await.expect("a subject may be any line");
        is_intact(&mail, &format!("subject {payload:?}"));
        let parsed = parse_mail(mail.content.as_bytes()).unwrap();
        assert_eq!(parsed.headers.get_first_value("Subject").unwrap(), format!("[shop] {payload}"));
        assert!(mail.content.lines().all(|line| line.len() <= 998), "{payload:?}: a line is too long");

        let Some(mail) = arrived(&sink, "name", json!(payload)).await else {
            let long = payload.len() > 90;
            assert!(long || payload.contains("=?"), "{payload:?}: a name may be any short line that needs no decoding");
            continue;
        };
        assert!(!payload.contains("=?"), "{payload:?}: a reader would decode it");
        is_intact(&mail, &format!("name {payload:?}"));
        let parsed = parse_mail(mail.content.as_bytes()).unwrap();
        let from = mailparse::addrparse_header(parsed.headers.get_first_header("From").unwrap()).unwrap();
        let from = from.extract_single_info().unwrap();
        assert_eq!(from.addr, "bot@shop.example", "{payload:?}");
        assert_eq!(from.display_name.unwrap().trim_end(), format!("Shop {payload}").trim_end());
    }
}
