//! Email faults: the shop's mail server in its bad moods.

use std::sync::{Arc, Mutex};

use reach_shop::smtp::{MailSink, Mode};
use serde_json::json;

use super::bench::{Bench, Reserved, State};

pub(super) async fn bench(fault: &str) -> Bench {
    let part = |port: u16| {
        let smtp = format!("smtp://127.0.0.1:{port}");
        (
            "email",
            json!({"smtp": smtp, "from": "bot@shop.example", "to": "ann@shop.example", "subject": "Hello", "body": "{id}"}),
        )
    };
    let mood = match fault {
        "refuse" => return refusing(part),
        "vanish" => Mode::VanishAfterData,
        "stall" => Mode::Stall,
        "busy" => Mode::TempFail,
        "unknown recipient" => Mode::Refuse,
        other => panic!("no such mood: {other}"),
    };
    let sink = Arc::new(MailSink::start(0).await.unwrap());
    let turn = {
        let sink = Arc::clone(&sink);
        move |state| {
            sink.set_mode(match state {
                State::Broken(_) => mood,
                State::Tripped => Mode::VanishAfterData,
                State::Well => Mode::Accept,
            });
            std::future::ready(())
        }
    };
    let port = sink.port();
    let traces = move || std::future::ready(keys(&sink));
    let mut bench = Bench::new(part(port), turn, traces);
    bench.can_trip = true;
    bench
}

/// A mail server is sent no key; the identity of a mail is its Message-ID.
fn keys(sink: &MailSink) -> Vec<Option<String>> {
    let id = |content: &str| content.lines().find_map(|line| line.strip_prefix("Message-ID: ").map(str::to_owned));
    sink.mails().iter().map(|mail| id(&mail.content)).collect()
}

/// Nobody listens, until all is well.
fn refusing(part: impl Fn(u16) -> (&'static str, serde_json::Value)) -> Bench {
    let reserved = Reserved::new();
    let port = reserved.port();
    let sink = Arc::<Mutex<Option<MailSink>>>::default();
    let mut reserved = Some(reserved);
    let turn = {
        let sink = Arc::clone(&sink);
        move |state| {
            let sink = Arc::clone(&sink);
            drop(reserved.take_if(|_| state == State::Well));
            async move {
                let well = state == State::Well;
                let started = if well { Some(MailSink::start(port).await.unwrap()) } else { None };
                *sink.lock().unwrap() = started;
            }
        }
    };
    let traces = move || std::future::ready(sink.lock().unwrap().as_ref().map(keys).unwrap_or_default());
    Bench::new(part(port), turn, traces)
}
