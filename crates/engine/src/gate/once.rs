//! Step 6: the same request is carried out at most once.
//!
//! [`Held`] is the claim on one record. It has to be ended by [`Held::finish`]; a claim that is dropped
//! (the caller went away, a panic) ends itself: released when nothing was sent, unknown when something
//! may have been.

use std::sync::Arc;

use reach_core::{Effect, Envelope, ErrorBody, ErrorCode, Meta, Phase, Plan, canonical};
use reach_store::ledger::{Claim, Claimed, Ending, RecordKey};
use reach_store::{Ledger, StoreError};

use crate::call::Record;
use crate::crash;

/// What the ledger said to a plan.
pub(crate) enum Entry {
    /// The record is ours.
    Ours(Held),
    /// Answered before.
    Replay(Envelope),
    /// Nobody knows what became of it; the envelope says so.
    Unknown(Envelope, Held),
    /// Another call holds it.
    Busy,
    /// Other arguments under the same key.
    Mismatch,
}

/// A claim on one record.
pub(crate) struct Held {
    ledger: Arc<dyn Ledger>,
    key: RecordKey,
    epoch: u64,
    unknown: Box<Envelope>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Claimed,
    InFlight,
    AlreadyUnknown,
    Ended,
}

impl Entry {
    /// Asks the ledger for the record of this plan.
    pub(crate) async fn claim(ledger: &Arc<dyn Ledger>, plan: &Plan, effect: Effect) -> Result<Self, StoreError> {
        let key = RecordKey {
            caller: plan.caller.id.clone(),
            tool_id: plan.tool_id.clone(),
            request_id: plan.request_id.clone(),
        };
        let claim = Claim {
            key: key.clone(),
            // Of the arguments as sent, so that a changed declaration does not change it.
            fingerprint: canonical::fingerprint(&plan.arguments),
            effect,
            trace_id: plan.trace_id.clone(),
            session_id: plan.session_id.clone(),
            step: plan.step,
        };
        let held = |epoch, stage| Held {
            ledger: Arc::clone(ledger),
            key: key.clone(),
            epoch,
            unknown: Box::new(unknown_envelope(plan)),
            stage,
        };
        Ok(match ledger.claim(claim).await? {
            Claimed::Fresh { epoch } => Self::Ours(held(epoch, Stage::Claimed)),
            Claimed::Done { envelope } => Self::Replay(stored(&envelope, plan)?),
            Claimed::Unknown { envelope, epoch } => {
                Self::Unknown(stored(&envelope, plan)?, held(epoch, Stage::AlreadyUnknown))
            }
            Claimed::InProgress => Self::Busy,
            Claimed::Mismatch => Self::Mismatch,
        })
    }
}

impl Held {
    /// Step 9: the intent is on disk when this returns.
    pub(crate) async fn intend(&mut self, row: reach_core::JournalRow) -> Result<(), StoreError> {
        crash::point("before_intent");
        self.ledger.intend(self.key.clone(), self.epoch, row).await?;
        crash::point("after_intent");
        self.stage = Stage::InFlight;
        Ok(())
    }

    /// Whether an earlier call with this key ended so that it may be sent again: something of it may have
    /// reached the upstream.
    pub(crate) fn is_resumed(&self) -> bool {
        self.epoch > 1
    }

    /// Whether the intent was written.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.stage == Stage::InFlight
    }

    /// Step 12: the outcome is on disk when this returns `Ok`. When the ledger cannot be written now, it keeps
    /// the outcome and writes it as soon as it can; the caller still gets its answer.
    pub(crate) async fn finish(mut self, record: Record, envelope: &Envelope) -> Result<(), StoreError> {
        let ending = match record {
            Record::Done => Ending::Done { envelope: text(envelope) },
            Record::Unknown => Ending::Unknown { envelope: text(envelope) },
            Record::Released => Ending::Released,
        };
        self.stage = Stage::Ended;
        self.ledger.finish(self.key.clone(), self.epoch, ending).await
    }

    /// Leaves an unknown record as it is.
    pub(crate) fn leave(mut self) {
        self.stage = Stage::Ended;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let ending = match self.stage {
            Stage::Claimed => Ending::Released,
            Stage::InFlight => Ending::Unknown { envelope: text(&self.unknown) },
            Stage::AlreadyUnknown | Stage::Ended => return,
        };
        // The ledger ends a record even if nobody waits for it.
        drop(self.ledger.finish(self.key.clone(), self.epoch, ending));
    }
}

fn text(envelope: &Envelope) -> String {
    serde_json::to_string(envelope).unwrap_or_default()
}

/// A recorded envelope as the answer to this plan: same data, this call's ids, marked as replayed.
fn stored(text: &str, plan: &Plan) -> Result<Envelope, StoreError> {
    let envelope: Envelope = serde_json::from_str(text).map_err(|error| StoreError {
        store: "ledger",
        message: format!("a recorded envelope cannot be read: {error}"),
    })?;
    Ok(replay(envelope, plan))
}

/// The same envelope for another call with the same key.
pub(crate) fn replay(mut envelope: Envelope, plan: &Plan) -> Envelope {
    envelope.meta.replayed = true;
    envelope.meta.attempts = 0;
    envelope.meta.step = plan.step;
    envelope.meta.trace_id = plan.trace_id.clone();
    envelope.meta.session_id = plan.session_id.clone();
    envelope
}

fn unknown_envelope(plan: &Plan) -> Envelope {
    let error = ErrorBody::new(
        ErrorCode::OutcomeUnknown,
        format!("`{}` was interrupted while it was being carried out; it may have taken effect", plan.tool_id),
    );
    Envelope::error(plan.tool_id.clone(), error, Meta { phase: Phase::MaybeSent, attempts: 1, ..Meta::of(plan) })
}
