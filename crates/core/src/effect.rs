//! What a call may do to the world, and how far one attempt got.
//!
//! Together they decide what may be repeated (DESIGN section 5). The operator declares the effect; the
//! adapter reports the phase and errs towards [`Phase::MaybeSent`].

use serde::{Deserialize, Serialize};

/// What a tool does to the system behind it. Ordered from weakest to strongest: a fallback may never
/// have a stronger effect than the tool it stands in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Changes something, and doing it twice is the same as doing it once.
    Idempotent,
    /// Changes something; the upstream honours our key, so that the same key is done once.
    Keyed,
    /// Changes something each time it is sent. The default for whatever does not say otherwise.
    Write,
}

impl Effect {
    /// Whether the idempotency ledger guards every call of this effect, key given or not.
    pub fn always_recorded(self) -> bool {
        matches!(self, Effect::Keyed | Effect::Write)
    }

    /// Whether a repeated send can do no harm by itself.
    pub fn is_repeatable(self) -> bool {
        matches!(self, Effect::Read | Effect::Idempotent)
    }

    /// The word used in config, wire and journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::Read => "read",
            Effect::Idempotent => "idempotent",
            Effect::Keyed => "keyed",
            Effect::Write => "write",
        }
    }
}

/// How far an attempt, and in the end a call, got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Refused before anything was claimed: nothing happened.
    Rejected,
    /// Tried, and certainly no byte of the request reached the upstream.
    NotSent,
    /// Some of the request may have reached the upstream, and no whole answer came back.
    MaybeSent,
    /// The upstream answered.
    Answered,
}

impl Phase {
    /// The word used in wire and journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Rejected => "rejected",
            Phase::NotSent => "not_sent",
            Phase::MaybeSent => "maybe_sent",
            Phase::Answered => "answered",
        }
    }
}
