//! HTTP faults: a raw server that says, breaks and holds back whatever it is told to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reach_kit::http::{Behaviour, Reply, Server};
use serde_json::json;

use super::bench::{Bench, For, Reserved, State};

/// Longer than this and an answer is too large.
const CAP: usize = 4_096;

pub(super) async fn bench(fault: &str) -> Bench {
    let part = |url: String| ("http", json!({"method": "POST", "url": url, "max_response_bytes": CAP}));
    if fault == "refuse" {
        let reserved = Reserved::new();
        let part = part(format!("http://127.0.0.1:{}/", reserved.port()));
        return refusing(part, reserved);
    }
    let server = Arc::new(Server::start().await.unwrap());
    well(&server);
    let behaviour = behaviour(fault);
    let turn = {
        let server = Arc::clone(&server);
        move |state| {
            match state {
                State::Broken(For::Ever) => server.always(behaviour.clone()),
                State::Broken(For::OneRequest) => {
                    well(&server);
                    server.next(behaviour.clone());
                }
                State::Tripped => server.always(Reply::json(500, "{}")),
                State::Well => well(&server),
            }
            std::future::ready(())
        }
    };
    let seen = Arc::clone(&server);
    let traces = move || std::future::ready(keys(&seen));
    let mut bench = Bench::new(part(server.url("/")), turn, traces);
    (bench.can_do_once, bench.can_trip) = (true, true);
    bench
}

fn well(server: &Server) {
    server.always(Reply::json(200, r#"{"done": true}"#));
}

fn keys(server: &Server) -> Vec<Option<String>> {
    server.requests().iter().map(|request| request.header("idempotency-key").map(str::to_owned)).collect()
}

/// Nobody listens, until all is well for once.
fn refusing(part: (&'static str, serde_json::Value), reserved: Reserved) -> Bench {
    let server = Arc::<Mutex<Option<Server>>>::default();
    let mut reserved = Some(reserved);
    let turn = {
        let server = Arc::clone(&server);
        move |state| {
            let (server, reserved) = (Arc::clone(&server), reserved.take_if(|_| state == State::Well));
            async move {
                let running = server.lock().unwrap().take();
                if let Some(running) = running {
                    running.stop().await;
                }
                if let Some(reserved) = reserved {
                    let started = Server::serve(reserved.listen()).unwrap();
                    well(&started);
                    *server.lock().unwrap() = Some(started);
                }
            }
        }
    };
    let traces = move || std::future::ready(server.lock().unwrap().as_ref().map(keys).unwrap_or_default());
    Bench::new(part, turn, traces)
}

fn behaviour(fault: &str) -> Behaviour {
    let half = b"HTTP/1.1 200 Told\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"done\":";
    let long = format!(r#"{{"done": "{}"}}"#, "x".repeat(CAP));
    match fault {
        "reset" => Behaviour::Reset,
        "close" => Behaviour::Close,
        "half_an_answer" => Behaviour::Raw(half.to_vec()),
        "half_then_stall" => Behaviour::RawThenStall(half.to_vec()),
        "stall" => Behaviour::Stall,
        "slow_body" => Behaviour::Slow {
            reply: Reply::json(200, r#"{"done": "in a very long time, one letter after another"}"#),
            piece: 1,
            pause: Duration::from_millis(100),
        },
        "garbage" => Behaviour::Raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec()),
        "html" => Reply::new(200, "<html><title>Sign in</title></html>").header("content-type", "text/html").into(),
        "contract" => Reply::json(200, r#"{"wrong": 1}"#).into(),
        "oversize" => Reply::json(200, long).into(),
        "flood" => Behaviour::Flood,
        status => {
            let (status, wait) = match status.split_once(" wait ") {
                Some((status, wait)) => (status, Some(wait)),
                None => (status, None),
            };
            let reply = Reply::json(status.parse().unwrap(), r#"{"error": "as told"}"#);
            match wait {
                Some(wait) => reply.header("retry-after", wait),
                None => reply,
            }
            .into()
        }
    }
}
