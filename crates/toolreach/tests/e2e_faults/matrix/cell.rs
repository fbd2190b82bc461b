//! One cell: a gateway whose tools all reach one broken upstream, asked in every way the table speaks of.

use std::collections::BTreeMap;
use std::time::Duration;

use reach_core::breaker::StateName;
use reach_core::{Caller, Effect, Envelope, ErrorCode, EventKind, Phase, Plan};
use reach_engine::Engine;
use reach_kit::http::{Reply, Server};
use serde_json::{Value, json};
use tokio::time::Instant;
use toolreach::{assemble, config};

use super::bench::{Bench, For, State};
use super::table::{Again, Fault, Health, Wanted};

/// A gateway in this process, from the text of a configuration.
struct Stage {
    engine: Engine,
    bench: Bench,
    stand_in: Server,
    wrong: Vec<String>,
    name: String,
}

/// Walks one cell; what is not as wanted comes back in words.
pub(super) async fn walk(fault: &Fault, effect: Effect, wanted: &Wanted) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::of(fault, effect, folder.path()).await;
    let stand_in = Server::start().await.unwrap();
    stand_in.always(Reply::json(200, r#"{"done": true}"#));
    let text = configuration(fault, effect, &bench, &stand_in.url("/")).to_string();
    let config = config::parse("reach.yaml", &text, folder.path(), &BTreeMap::<String, String>::new())
        .unwrap_or_else(|report| panic!("{report}"));
    let engine = assemble::assemble(&config).await.unwrap().engine;
    let name = format!("{} {:?} for {}", fault.adapter, fault.fault, effect.as_str());
    let mut stage = Stage { engine, bench, stand_in, wrong: Vec::new(), name };
    stage.lasting(effect, wanted).await;
    stage.passing(wanted).await;
    stage.with_stand_in(wanted).await;
    stage.health(wanted.health).await;
    stage.wrong
}

/// The same tool several times, each with a breaker that shows something else, and a stand-in.
fn configuration(fault: &Fault, effect: Effect, bench: &Bench, stand_in: &str) -> Value {
    let schema = json!({"type": "object", "properties": bench.properties, "required": ["id"]});
    let patience = fault.patience_ms();
    let tool = |tool_id: &str, breaker: Value, more: Value| {
        let mut tool = json!({
            "tool_id": tool_id,
            "description": "A tool of the matrix.",
            "effect": effect.as_str(),
            "input_schema": schema,
            "timeout_ms": patience * 3 + 5_000,
            "attempt_timeout_ms": patience,
            "breaker": breaker,
        });
        let tool_keys = tool.as_object_mut().unwrap();
        tool_keys.insert(bench.adapter.0.to_owned(), bench.adapter.1.clone());
        if matches!(bench.adapter.0, "http" | "script") {
            let promise = json!({"type": "object", "required": ["done"]});
            tool_keys.insert("output_schema".to_owned(), promise);
        }
        tool_keys.extend(fault.tool.clone());
        tool_keys.extend(more.as_object().unwrap().clone());
        tool
    };
    let patient = json!({"failures": 1_000, "window_calls": 100_000});
    let in_a_row = json!({"failures": 1, "window_calls": 100_000});
    let in_a_window = json!({"failures": 1_000, "window_calls": 1, "window_percent": 100});
    let probing = json!({"failures": 1, "window_calls": 100_000, "open_ms": 100, "successes": 1});
    json!({
        "version": 1,
        "tools": [
            tool("plain", patient.clone(), json!({})),
            tool("with_stand_in", patient, json!({"fallback": "stand_in"})),
            tool("in_a_row", in_a_row, json!({})),
            tool("in_a_window", in_a_window, json!({})),
            tool("probing", probing, json!({})),
            {
                "tool_id": "stand_in", "description": "Stands in.", "effect": "read", "input_schema": schema,
                "http": {"method": "POST", "url": stand_in},
            },
        ],
    })
}

impl Stage {
    async fn call(&self, tool: &str, key: &str) -> Envelope {
        let arguments = json!({"id": self.bench.id}).as_object().unwrap().clone();
        self.engine.call(Plan::new(tool, arguments, Caller::local()).with_key(key)).await
    }

    fn expect<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: T, wanted: T) {
        if found != wanted {
            self.wrong.push(format!("{}: {what}: {found:?}, not {wanted:?}", self.name));
        }
    }

    /// The fault lasts: code, attempts, traces upstream, and what the same key meets once it is over.
    async fn lasting(&mut self, effect: Effect, wanted: &Wanted) {
        self.bench.turn(State::Broken(For::Ever)).await;
        let started = Instant::now();
        let envelope = self.call("plain", "lasting").await;
        let elapsed = started.elapsed();
        let error = envelope.error.clone();
        let found = error.as_ref().map(|error| (error.code, error.retryable));
        self.expect("code and retryable", found, Some((wanted.code, wanted.retryable)));
        self.expect("attempts", envelope.meta.attempts, wanted.attempts);
        self.expect("phase", envelope.meta.phase, wanted.phase);
        let begun = self.attempts_in_the_journal(&envelope).await;
        self.expect("attempts in the journal", begun, wanted.attempts);
        let traces = self.bench.traces().await;
        self.expect("traces upstream", traces.len() as u32, wanted.traces);
        if effect == Effect::Keyed {
            let same = traces.iter().all(|key| key.is_some() && *key == traces[0]);
            self.expect("one key for all attempts", same, true);
        }
        if let Some(delay) = wanted.delay {
            let told = error.and_then(|error| error.retry_after_ms);
            self.expect("retry_after_ms", told, Some(delay.as_millis() as u64));
            self.expect("the delay is kept", elapsed >= delay * (wanted.attempts - 1), true);
        }

        self.bench.turn(State::Well).await;
        let before = self.bench.traces().await.len();
        let again = self.call("plain", "lasting").await;
        let more = self.bench.traces().await.len() - before;
        match wanted.again {
            Again::Sent if wanted.phase == Phase::Rejected => {
                self.expect("the same key is looked at again", again.meta.replayed, false);
            }
            Again::Sent => {
                self.expect("the same key is sent again", (again.code(), again.meta.replayed), (None, false));
            }
            Again::Replayed => {
                let found = (again.code(), again.meta.replayed, again.meta.attempts, more);
                self.expect("the same key is replayed", found, (Some(wanted.code), true, 0, 0));
            }
        }
    }

    async fn attempts_in_the_journal(&self, envelope: &Envelope) -> u32 {
        let ledger = self.engine.ledger();
        ledger.flush().await.unwrap();
        let rows = ledger.trace(envelope.meta.trace_id.clone()).await.unwrap();
        let events = rows.iter().flat_map(|row| &row.events);
        events.filter(|event| matches!(event.kind, EventKind::AttemptStarted { .. })).count() as u32
    }

    /// The fault is gone after one request: whoever may try again gets the result.
    async fn passing(&mut self, wanted: &Wanted) {
        if !self.bench.can_do_once {
            return;
        }
        self.bench.turn(State::Broken(For::OneRequest)).await;
        let started = Instant::now();
        let envelope = self.call("plain", "passing").await;
        let found = (envelope.code(), envelope.meta.attempts);
        if wanted.recovers {
            self.expect("a fault that passes", found, (None, 2));
            let kept = wanted.delay.is_none_or(|delay| started.elapsed() >= delay);
            self.expect("the delay before the second attempt", kept, true);
        } else {
            self.expect("a fault that passes", found, (Some(wanted.code), 1));
        }
        self.bench.turn(State::Well).await;
    }

    /// A stand-in serves where the table allows it, and is not asked anywhere else.
    async fn with_stand_in(&mut self, wanted: &Wanted) {
        self.bench.turn(State::Broken(For::Ever)).await;
        let envelope = self.call("with_stand_in", "stand-in").await;
        let asked = self.stand_in.requests().len();
        let served_by = envelope.meta.served_by.as_ref().map(|tool| tool.as_str().to_owned());
        if wanted.falls_back {
            let found = (envelope.code(), served_by.as_deref(), asked);
            self.expect("with a stand-in", found, (None, Some("stand_in"), 1));
        } else {
            self.expect("with a stand-in", (envelope.code(), asked), (Some(wanted.code), 0));
        }
    }

    /// What the breaker is told, seen from breakers of different settings.
    async fn health(&mut self, wanted: Health) {
        self.bench.turn(State::Broken(For::Ever)).await;
        self.call("in_a_row", "row").await;
        // A write that arrived is in the way of the next.
        self.bench.turn(State::Broken(For::Ever)).await;
        self.call("in_a_window", "window").await;
        let seen = (self.breaker("in_a_row").await, self.breaker("in_a_window").await);
        let (row, window) = match wanted {
            Health::Failure => (StateName::Open, StateName::Open),
            Health::Soft => (StateName::Closed, StateName::Open),
            Health::Success | Health::NotCounted => (StateName::Closed, StateName::Closed),
        };
        self.expect("breakers for a row of failures and for their rate", seen, (row, window));
        if !self.bench.can_trip || matches!(wanted, Health::Failure) {
            return;
        }

        // Half-open, a breaker shows what else it is told: a success closes it, the others leave it.
        self.bench.turn(State::Tripped).await;
        self.call("probing", "trip").await;
        let tripped = self.breaker("probing").await;
        self.expect("a breaker that was tripped", tripped, StateName::Open);
        self.bench.turn(State::Broken(For::Ever)).await;
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let envelope = self.call("probing", "probe").await;
            if envelope.code() != Some(ErrorCode::Unreachable) || Instant::now() > deadline {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let after = self.breaker("probing").await;
        let closed = if wanted == Health::Success { StateName::Closed } else { StateName::HalfOpen };
        self.expect("a half-open breaker", after, closed);
    }

    async fn breaker(&self, tool: &str) -> StateName {
        let breakers = self.engine.health().await.breakers;
        let own = breakers.iter().find(|breaker| breaker.target == format!("tool:{tool}"));
        own.map_or(StateName::Closed, |breaker| breaker.state)
    }
}
