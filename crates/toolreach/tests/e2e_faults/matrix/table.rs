//! `suites/faults/table.json`: the table of the design as data, and what a cell of it demands.

use std::collections::BTreeMap;
use std::time::Duration;

use reach_core::{Effect, ErrorCode, Phase};
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) rows: BTreeMap<String, Row>,
    pub(super) faults: Vec<Fault>,
}

/// One row, in the words of the design.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    read: Words,
    idempotent: Words,
    keyed: Words,
    write: Words,
    health: Health,
    phase: Phase,
    again: Again,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Words {
    #[serde(rename = "return")]
    Return,
    #[serde(rename = "retry, fallback")]
    RetryAndFallBack,
    #[serde(rename = "retry same key, same upstream")]
    RetryThere,
    #[serde(rename = "retry after the delay")]
    RetryAfterTheDelay,
    #[serde(rename = "OUTCOME_UNKNOWN")]
    Unknown,
}

/// What the breaker is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Health {
    #[serde(rename = "failure")]
    Failure,
    #[serde(rename = "soft failure")]
    Soft,
    #[serde(rename = "success")]
    Success,
    #[serde(rename = "not counted")]
    NotCounted,
}

/// What the same key meets later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Again {
    Sent,
    Replayed,
}

/// One fault that can be made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    pub(super) adapter: String,
    pub(super) fault: String,
    pub(super) row: String,
    code: ErrorCode,
    #[serde(default = "yes")]
    arrives: bool,
    #[serde(default = "all_effects")]
    pub(super) effects: Vec<Effect>,
    patience_ms: Option<u64>,
    delay_ms: Option<u64>,
    attempts: Option<u32>,
    #[serde(default)]
    pub(super) tool: Map<String, Value>,
}

fn yes() -> bool {
    true
}

fn all_effects() -> Vec<Effect> {
    vec![Effect::Read, Effect::Idempotent, Effect::Keyed, Effect::Write]
}

impl Fault {
    /// Milliseconds of one attempt.
    pub(super) fn patience_ms(&self) -> u64 {
        self.patience_ms.unwrap_or(10_000)
    }
}

/// What one cell demands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) code: ErrorCode,
    pub(super) retryable: bool,
    /// While the fault lasts.
    pub(super) attempts: u32,
    /// Traces that these attempts leave upstream.
    pub(super) traces: u32,
    /// Whether a fault that goes away is got over within the call.
    pub(super) recovers: bool,
    pub(super) falls_back: bool,
    pub(super) phase: Phase,
    pub(super) health: Health,
    pub(super) again: Again,
    /// What the upstream asks to wait.
    pub(super) delay: Option<Duration>,
}

impl Table {
    pub(super) fn read() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../suites/faults/table.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(super) fn wanted(&self, fault: &Fault, effect: Effect) -> Wanted {
        let row = &self.rows[&fault.row];
        let words = match effect {
            Effect::Read => row.read,
            Effect::Idempotent => row.idempotent,
            Effect::Keyed => row.keyed,
            Effect::Write => row.write,
        };
        let retries = matches!(words, Words::RetryAndFallBack | Words::RetryThere | Words::RetryAfterTheDelay);
        let unknown = words == Words::Unknown;
        // "At most 3 attempts in all."
        let attempts = fault.attempts.unwrap_or(if retries { 3 } else { 1 });
        Wanted {
            code: if unknown { ErrorCode::OutcomeUnknown } else { fault.code },
            retryable: retries,
            attempts,
            traces: if fault.arrives { attempts } else { 0 },
            recovers: retries && attempts > 1,
            falls_back: words == Words::RetryAndFallBack,
            phase: row.phase,
            health: row.health,
            again: if unknown { Again::Replayed } else { row.again },
            delay: fault.delay_ms.map(Duration::from_millis),
        }
    }
}
