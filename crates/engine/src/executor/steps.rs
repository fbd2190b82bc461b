//! Steps 1 to 6: find, authorise, check, rate, once. Each refuses before a single byte leaves.

use std::sync::Arc;
use std::time::Duration;

use reach_core::plan::Rate;
use reach_core::{Effect, Envelope, ErrorBody, ErrorCode, EventKind, Object, Phase, redact};
use reach_store::StoreError;

use super::verify::Verified;
use super::{Failed, Once, Stop, Walk};
use crate::call::Record;
use crate::crash;
use crate::gate::{Entry, Held, forbidden, invalid_arguments, not_found};
use crate::registry::Tool;

/// How long an answer waits for its record to be on disk when its deadline has passed.
const FINISH_PATIENCE: Duration = Duration::from_secs(1);

/// What a caller is told to wait while the same request is running.
const IN_PROGRESS_WAIT_MS: u64 = 1_000;

impl Walk<'_> {
    /// Step 1.
    pub(super) fn find(&mut self) -> Result<Arc<Tool>, Stop> {
        let plan = self.plan;
        let found = self.road.registry.find(&plan.tool_id).cloned();
        let schema = found.as_ref().map_or(&serde_json::Value::Null, |tool| &tool.spec.input_schema);
        let input = redact::arguments(&plan.arguments, schema);
        self.journal.add(EventKind::Received { input, effect: found.as_ref().map(|tool| tool.spec.effect) });
        found.ok_or_else(|| Stop::plain(not_found(&self.road.registry, &plan.tool_id, &plan.caller)))
    }

    /// Step 2.
    pub(super) fn authorise(&self, tool: &Tool) -> Result<(), Stop> {
        let plan = self.plan;
        if plan.caller.scopes.allow(tool.spec.scope.as_deref()) {
            return Ok(());
        }
        Err(Stop {
            error: Box::new(forbidden(&self.road.registry, &plan.tool_id, &plan.caller)),
            reason: ErrorCode::Forbidden,
            detail: format!("caller lacks the scope `{}`", tool.spec.scope.as_deref().unwrap_or_default()),
        })
    }

    /// Step 3.
    pub(super) fn check(&mut self, tool: &Tool) -> Result<Object, Stop> {
        match tool.check.check(self.plan.arguments.clone()) {
            Ok(checked) => {
                if !checked.coerced.is_empty() {
                    self.journal.add(EventKind::Coerced { fields: checked.coerced });
                }
                Ok(checked.arguments)
            }
            Err(refusal) => Err(Stop::plain(invalid_arguments(refusal))),
        }
    }

    /// Step 5.
    pub(super) async fn rate(&mut self, tool: &Tool) -> Result<(), Stop> {
        if let Some(rate) = self.plan.caller.rate {
            self.take(format!("caller:{}", self.plan.caller.id), rate, "this caller").await?;
        }
        if let Some(rate) = tool.spec.rate {
            self.take(format!("tool:{}", tool.spec.tool_id), rate, "this tool").await?;
        }
        Ok(())
    }

    async fn take(&mut self, key: String, rate: Rate, whose: &str) -> Result<(), Stop> {
        match self.road.stores.board.take(&key, rate).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(wait)) => {
                let message = format!("{whose} may make {} calls a minute, {} at once", rate.per_minute, rate.burst);
                Err(Stop::plain(wait_for(ErrorCode::RateLimited, message, wait)))
            }
            Err(error) => {
                self.degraded("board", &format!("{error}; the rate was not counted"));
                Ok(())
            }
        }
    }

    /// Step 6. Ends within the deadline, whatever the ledger does.
    pub(super) async fn once(&mut self, tool: &Tool, arguments: &Object) -> Result<Once, Stop> {
        let effect = tool.spec.effect;
        if !effect.always_recorded() && !self.plan.keyed_by_caller {
            return Ok(Once::Go(None));
        }
        // A second round is for a record that was unknown and has just been verified as not done.
        for _ in 0..2 {
            let effect_after_a_crash = self.effect_after_a_crash(tool);
            let claim = Entry::claim(&self.road.stores.ledger, self.plan, effect_after_a_crash);
            let claimed = match tokio::time::timeout(self.remaining() / 2, claim).await {
                Ok(claimed) => claimed,
                // The ledger takes back a claim that nobody waits for.
                Err(_) => Err(StoreError { store: "ledger", message: "no answer in time".to_owned() }),
            };
            match claimed {
                Ok(Entry::Ours(held)) => {
                    crash::point("after_claim");
                    return Ok(Once::Go(Some(held)));
                }
                Ok(Entry::Replay(envelope)) => return Ok(Once::Answer(Box::new(envelope))),
                Ok(Entry::Unknown(envelope, held)) => match self.verify(tool, arguments, held).await {
                    Verified::Done(envelope) => return Ok(Once::Answer(envelope)),
                    Verified::NotDone => {}
                    Verified::CannotTell => return Ok(Once::Answer(Box::new(envelope))),
                },
                Ok(Entry::Busy) => break,
                Ok(Entry::Mismatch) => return Err(Stop::plain(mismatch())),
                Err(error) if effect.is_repeatable() => {
                    self.degraded("ledger", &format!("{error}; the call is not recorded"));
                    return Ok(Once::Go(None));
                }
                Err(error) => return Err(self.no_ledger(&error)),
            }
        }
        let wait = Duration::from_millis(IN_PROGRESS_WAIT_MS);
        Err(Stop::plain(wait_for(ErrorCode::InProgress, "the same request is still running".to_owned(), wait)))
    }

    /// What a crash in flight means. The upstream of a keyed tool sorts out a second send; once another
    /// upstream may stand in for it, that is no longer certain, and the record is settled like a write's.
    fn effect_after_a_crash(&self, tool: &Tool) -> Effect {
        let effect = tool.spec.effect;
        let elsewhere = || self.chain_of(tool).skip(1).any(|stand_in| stand_in.spec.effect != Effect::Read);
        if effect == Effect::Keyed && elsewhere() { Effect::Write } else { effect }
    }

    pub(super) async fn settle(&mut self, held: Held, record: Record, envelope: &Envelope) {
        crash::point("before_finish");
        // The ledger finishes on its own what is not waited for; a caller is not kept for a slow disk.
        match tokio::time::timeout(self.remaining().max(FINISH_PATIENCE), held.finish(record, envelope)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.degraded("ledger", &format!("{error}; the outcome could not be written yet")),
            Err(_) => self.degraded("ledger", "no answer in time; the outcome will be written later"),
        }
        crash::point("after_finish");
    }

    /// A gate said no: the journal keeps the reason, the caller reads the error.
    pub(super) fn refused(&mut self, stop: Stop) -> Failed {
        self.journal.add(EventKind::Refused { code: stop.error.code, reason: stop.reason, detail: stop.detail });
        Failed { error: stop.error, record: Record::Released, fall_back: false, phase: Phase::Rejected, pinned: false }
    }

    pub(super) fn no_ledger(&mut self, error: &StoreError) -> Stop {
        let mut body = ErrorBody::new(ErrorCode::StoreUnavailable, "");
        body.retryable = true;
        Stop { error: Box::new(body), reason: ErrorCode::StoreUnavailable, detail: error.to_string() }
    }

    pub(super) fn degraded(&mut self, store: &str, detail: &str) {
        tracing::warn!(store, detail, trace_id = %self.plan.trace_id, "degraded");
        self.journal.add(EventKind::Degraded { store: store.to_owned(), detail: detail.to_owned() });
    }
}

/// An error that passes with time.
pub(super) fn wait_for(code: ErrorCode, message: String, wait: Duration) -> ErrorBody {
    let mut error = ErrorBody::new(code, message);
    error.retryable = true;
    error.retry_after_ms = Some((wait.as_millis() as u64).max(1));
    error
}

fn mismatch() -> ErrorBody {
    ErrorBody::new(ErrorCode::IdempotencyMismatch, "this key was used before with other arguments")
}

/// Whether an effect needs a durable intent before it is sent.
pub(super) fn needs_intent(effect: Effect) -> bool {
    effect.always_recorded()
}
