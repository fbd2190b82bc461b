//! Steps 7 to 11, for a tool and its stand-ins: reachable, credential, intent, attempts, shape.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reach_core::breaker::{Permit, Signal, StateName, Transition};
use reach_core::{
    Answer, Attempt, Effect, ErrorBody, ErrorCode, EventKind, Failure, FailureKind, Object, Phase, SentMark, canonical,
};
use reach_store::{Board, StoreError};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::steps::{needs_intent, wait_for};
use super::{Failed, Served, Walk};
use crate::call::{self, Next, Outcome, Record, Repeat, Verdict};
use crate::gate::{Held, Place, unreachable};
use crate::registry::Tool;
use crate::shape;

/// What a call that could not wait any longer is told.
const OVERLOADED_WAIT: Duration = Duration::from_secs(1);

impl Walk<'_> {
    /// Serves from the tool, or from the first stand-in that can.
    pub(super) async fn serve(&mut self, head: &Arc<Tool>, arguments: Object, held: &mut Option<Held>) -> Served {
        let mut first_failure: Option<Failed> = None;
        let (mut tool, mut arguments) = (Arc::clone(head), arguments);
        loop {
            let failed = match self.serve_from(&tool, &arguments, held).await {
                Ok(data) => {
                    self.meta.served_by = Some(tool.spec.tool_id.clone());
                    return Ok(data);
                }
                Err(failed) => failed,
            };
            // A keyed request that was tried before may have reached its own upstream then.
            let resumed = head.spec.effect == Effect::Keyed && held.as_ref().is_some_and(Held::is_resumed);
            if !failed.fall_back || resumed {
                // A final word of this tool; if it stands in for another, say who said it.
                self.meta.served_by = (failed.phase == Phase::Answered).then(|| tool.spec.tool_id.clone());
                let stands_in = !Arc::ptr_eq(&tool, head);
                return Err(if failed.pinned && stands_in { lost_track(&tool, failed) } else { failed });
            }
            match self.stand_in(&tool, &failed, &arguments) {
                Some((next, mapped)) => {
                    first_failure.get_or_insert(failed);
                    (tool, arguments) = (next, mapped);
                }
                None => return Err(all_failed(first_failure, failed)),
            }
        }
    }

    /// Serves from one tool, with as many attempts as the table and its deadline allow.
    async fn serve_from(&mut self, tool: &Arc<Tool>, arguments: &Object, held: &mut Option<Held>) -> Served {
        let started = Instant::now();
        let deadline = self.deadline.min(started + tool.spec.timeout);
        tool.upstream.budget.pay_in();
        let mut made = 0;
        let mut last: Option<Failed> = None;
        let served = loop {
            let ready = self.make_ready(tool, held, deadline).await; //                   7-9
            let Ready { place, permit } = match ready {
                Ok(ready) => ready,
                // A breaker that opened under our own attempts: what they found is the better answer.
                Err(refused) => break Err(last.unwrap_or(refused)),
            };
            made += 1;
            let (answer, verdict) = self.attempt(tool, arguments, deadline, permit).await; // 10, 11
            drop(place);
            let (failure, verdict) = match (answer, verdict) {
                (Ok(data), _) => break Ok(data),
                (Err(failure), verdict) => (failure, verdict),
            };
            let asked_for = failure.retry_after;
            let failed = self.failed(tool, failure, &verdict);
            last = Some(match &last {
                Some(earlier) => failed.after(earlier),
                None => failed,
            });
            let remaining = deadline.saturating_duration_since(Instant::now());
            let budget = || tool.upstream.budget.spend();
            match call::next(verdict.repeat, made, asked_for, remaining, rand::random(), budget) {
                Next::After(pause) => {
                    self.journal.add(EventKind::Retrying { delay_ms: pause.as_millis() as u64 });
                    tokio::time::sleep(pause).await;
                }
                Next::Forbidden => break Err(last.unwrap_or_else(defect)),
                withheld => {
                    let reason = match withheld {
                        Next::NoAttempts => "attempts",
                        Next::NoTime => "deadline",
                        Next::NoBudget | Next::After(_) | Next::Forbidden => "budget",
                    };
                    self.journal.add(EventKind::RetryWithheld { reason: reason.to_owned() });
                    break Err(last.unwrap_or_else(defect));
                }
            }
        };
        if made > 0 {
            self.count(tool, &served, started.elapsed()).await;
        }
        served
    }

    /// Steps 7, 8 and 9: a place in the line, the breaker's permit, a credential, a durable intent.
    async fn make_ready(
        &mut self,
        tool: &Arc<Tool>,
        held: &mut Option<Held>,
        deadline: Instant,
    ) -> Result<Ready, Failed> {
        let place = self.wait_in_line(tool, deadline).await?;
        let permit = self.permit(tool).await?;
        // Step 8: a static credential is always valid here; refreshing ones will be asked at this place.
        in_time(tool, deadline)?;
        self.intend(tool, held, deadline).await?;
        in_time(tool, deadline)?;
        Ok(Ready { place, permit })
    }

    async fn wait_in_line(&mut self, tool: &Tool, deadline: Instant) -> Result<Place, Failed> {
        let arrived = Instant::now();
        let entered = tokio::time::timeout_at(deadline, tool.upstream.line.enter(self.plan.priority)).await;
        let waited = arrived.elapsed();
        self.upstream_time += waited;
        if waited >= Duration::from_millis(1) {
            let target = tool.upstream.target.clone();
            self.journal.add(EventKind::Waited { target, duration_ms: waited.as_millis() as u64 });
        }
        match entered {
            Ok(Some(place)) => Ok(place),
            Ok(None) | Err(_) => {
                let message = format!("too many calls wait for the system behind `{}`", tool.spec.tool_id);
                Err(not_sent(wait_for(ErrorCode::Overloaded, message, OVERLOADED_WAIT), false))
            }
        }
    }

    /// Step 7.
    async fn permit(&mut self, tool: &Arc<Tool>) -> Result<Reporting, Failed> {
        let key = tool.breaker_key();
        let board = Arc::clone(&self.road.stores.board);
        let (permit, moved) = match board.permit(&key).await {
            Ok(answer) => answer,
            Err(error) => {
                self.degraded("board", &format!("{error}; the breaker was not asked"));
                (Permit::Allowed { probe: false }, None)
            }
        };
        self.moved(&key, moved);
        match permit {
            Permit::Allowed { probe } => Ok(Reporting { board, key, probe, settings: tool.breaker(), told: false }),
            Permit::Refused { since_ms, retry_after_ms, reason } => {
                let alternatives = self.alternatives(tool);
                let names: Vec<&str> = alternatives.iter().map(String::as_str).collect();
                let error = unreachable(&tool.spec.tool_id, &reason, since_ms, retry_after_ms, &names);
                Err(not_sent(error, true))
            }
        }
    }

    /// Tools that a caller could use instead by its own choice: readers of the same kind of thing, whose
    /// upstream is another one.
    fn alternatives(&self, tool: &Tool) -> Vec<String> {
        let kind =
            |scope: &Option<String>| scope.as_deref().and_then(|scope| scope.split(':').next().map(str::to_owned));
        let wanted = kind(&tool.spec.scope);
        self.road
            .registry
            .available(&self.plan.caller)
            .filter(|other| other.upstream.target != tool.upstream.target && other.spec.effect == Effect::Read)
            .filter(|other| wanted.is_some() && kind(&other.spec.scope) == wanted)
            .take(3)
            .map(|other| other.spec.tool_id.to_string())
            .collect()
    }

    /// Step 9. From here on a caller that leaves no longer stops the call.
    async fn intend(&mut self, tool: &Tool, held: &mut Option<Held>, deadline: Instant) -> Result<(), Failed> {
        let Some(held) = held.as_mut().filter(|held| !held.is_in_flight()) else { return Ok(()) };
        if !needs_intent(tool.spec.effect) {
            return Ok(());
        }
        self.committed.store(true, Ordering::SeqCst);
        self.journal.add(EventKind::Intended);
        let row = self.journal.take_row();
        let written = match tokio::time::timeout_at(deadline, held.intend(row.clone())).await {
            Ok(written) => written,
            Err(_) => Err(StoreError { store: "ledger", message: "no answer in time".to_owned() }),
        };
        if let Err(error) = written {
            self.journal.put_back(row);
            let stop = self.no_ledger(&error);
            return Err(self.refused(stop));
        }
        Ok(())
    }

    /// Steps 10 and 11: one attempt, its answer decoded and checked, the breaker told.
    async fn attempt(
        &mut self,
        tool: &Arc<Tool>,
        arguments: &Object,
        deadline: Instant,
        permit: Reporting,
    ) -> (Result<Object, Failure>, Verdict) {
        self.meta.attempts += 1;
        let number = self.meta.attempts;
        self.journal.add(EventKind::AttemptStarted {
            attempt: number,
            tool_id: tool.spec.tool_id.clone(),
            target: tool.upstream.target.clone(),
        });
        let remaining = deadline.saturating_duration_since(Instant::now());
        let timeout = tool.spec.attempt_timeout.map_or(remaining, |own| own.min(remaining));
        let attempt = self.attempt_of(tool, arguments, timeout);
        let Outcome { result, duration } = call::attempt(tool.adapter.as_ref(), &attempt, timeout).await;
        self.upstream_time += duration;
        let (result, notes) = match result {
            Ok(Answer { payload, notes }) => (self.decode(tool, payload).await, notes),
            Err(failure) => (Err(failure), Vec::new()),
        };
        let result = result.map_err(|mut failure| {
            failure.message = self.scrubber.text(&failure.message);
            failure
        });
        let verdict = match &result {
            Ok(_) => success(),
            Err(failure) => self.verdict(tool, failure, timeout),
        };
        let detail = result.as_ref().err().and_then(|failure| failure.detail.clone());
        self.journal.add(EventKind::AttemptEnded {
            attempt: number,
            code: result.is_err().then_some(verdict.code),
            phase: result.as_ref().map_or_else(|failure| failure.phase, |_| Phase::Answered),
            duration_ms: duration.as_millis() as u64,
            detail: notes.into_iter().chain(detail).collect(),
        });
        let reason = result.as_ref().err().map_or("", |failure| failure.message.as_str());
        let key = permit.key.clone();
        match permit.tell(verdict.signal, reason).await {
            Ok(moved) => self.moved(&key, moved),
            Err(error) => self.degraded("board", &format!("{error}; the breaker was not told")),
        }
        (result, verdict)
    }

    fn attempt_of(&self, tool: &Tool, arguments: &Object, timeout: Duration) -> Attempt {
        Attempt {
            tool_id: tool.spec.tool_id.clone(),
            arguments: arguments.clone(),
            effect: tool.spec.effect,
            timeout: call::told(timeout),
            credential: tool.credential.clone(),
            upstream_key: (tool.spec.effect == Effect::Keyed).then(|| self.upstream_key()),
            caller: self.plan.caller.id.clone(),
            trace_id: self.plan.trace_id.clone(),
            request_id: self.plan.request_id.clone(),
            sent: SentMark::default(),
        }
    }

    /// The key for an upstream that honours one: it names caller, tool and request as the record does, so that
    /// what are two requests here are two requests there.
    fn upstream_key(&self) -> String {
        let parts = [self.plan.caller.id.as_str(), self.plan.tool_id.as_str(), self.plan.request_id.as_str()];
        let mut hash = Sha256::new();
        for part in parts {
            // With its length, so that no two triples have one text.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        format!("reach-{}", &canonical::hex(&hash.finalize())[..40])
    }

    /// The table, with one exception: a deadline that the caller set below the tool's own says nothing
    /// about the upstream.
    fn verdict(&self, tool: &Tool, failure: &Failure, given: Duration) -> Verdict {
        let promised = tool.spec.server_error_means_not_done;
        let verdict = call::verdict(tool.spec.effect, failure.kind, failure.phase, promised);
        let declared = tool.spec.attempt_timeout.unwrap_or(tool.spec.timeout);
        // Half of the declared time is a fair trial, however it came to be cut short.
        if failure.kind == FailureKind::Timeout && given < declared / 2 {
            return Verdict { signal: Signal::Nothing, ..verdict };
        }
        verdict
    }

    /// Step 11, first half: the answer as data, against the tool's own promise.
    async fn decode(&mut self, tool: &Tool, payload: reach_core::Payload) -> Result<Object, Failure> {
        let mut data = match shape::data_of(payload) {
            shape::DataOrBinary::Data(data) => data,
            shape::DataOrBinary::Binary { media_type, bytes } => return Ok(self.store_binary(media_type, bytes).await),
        };
        if let Some(output) = &tool.output {
            let problems = output.problems(&serde_json::Value::Object(data.clone()));
            if let Some(first) = problems.first() {
                let message = format!(
                    "the answer does not match the tool's output_schema at `{}`: {}",
                    first.pointer, first.message
                );
                return Err(Failure::new(FailureKind::Malformed, Phase::Answered, message));
            }
        }
        self.road.registry.scrubber.object(&mut data);
        Ok(data)
    }

    fn failed(&self, tool: &Tool, failure: Failure, verdict: &Verdict) -> Failed {
        let message = match verdict.code {
            ErrorCode::OutcomeUnknown => format!(
                "`{}` was sent and may have taken effect, but there is no valid answer: {}",
                tool.spec.tool_id, failure.message
            ),
            _ => failure.message,
        };
        let mut error = ErrorBody::new(verdict.code, message);
        error.retryable = verdict.retryable;
        error.retry_after_ms = failure.retry_after.map(|wait| wait.as_millis() as u64);
        let verify = tool.spec.verify.as_ref().filter(|verify| self.shown_to_caller(&verify.tool_id).is_some());
        if let (ErrorCode::OutcomeUnknown, Some(verify)) = (verdict.code, verify) {
            error.hint = Some(format!(
                "Do not send it under a new key. Check with `{}`, or send the same request with the same key: it checks first.",
                verify.tool_id
            ));
        }
        Failed {
            error: Box::new(error),
            record: verdict.record,
            fall_back: verdict.fall_back,
            phase: failure.phase,
            pinned: tool.spec.effect == Effect::Keyed && verdict.repeat == Repeat::Soon && !verdict.fall_back,
        }
    }

    async fn count(&mut self, tool: &Tool, served: &Served, latency: Duration) {
        let code = served.as_ref().err().map(|failed| failed.error.code);
        if code == Some(ErrorCode::InvalidArguments) {
            return;
        }
        let counted = self.road.stores.board.count(tool.spec.tool_id.as_str(), code, latency.as_millis() as u64).await;
        if let Err(error) = counted {
            self.degraded("board", &format!("{error}; the call was not counted"));
        }
    }

    fn moved(&mut self, target: &str, moved: Option<Transition>) {
        if let Some(Transition { from, to }) = moved {
            let (from_name, to_name) = (from.as_str(), to.as_str());
            if to == StateName::Open {
                tracing::warn!(target: "reach::breaker", upstream = target, from = from_name, to = to_name, "breaker opened");
            } else {
                tracing::info!(target: "reach::breaker", upstream = target, from = from_name, to = to_name, "breaker moved");
            }
            self.journal.add(EventKind::Breaker { target: target.to_owned(), from, to });
        }
    }
}

/// Ready to send.
struct Ready {
    place: Place,
    permit: Reporting,
}

/// A permit that has to be answered for. Dropped without a word (the caller left), it tells the breaker
/// that nothing was learnt, so that a probe's place becomes free.
struct Reporting {
    board: Arc<dyn Board>,
    key: String,
    probe: bool,
    settings: reach_core::breaker::Settings,
    told: bool,
}

impl Reporting {
    async fn tell(mut self, signal: Signal, reason: &str) -> Result<Option<Transition>, StoreError> {
        self.told = true;
        self.board.report(&self.key, signal, self.probe, reason, &self.settings).await
    }
}

impl Drop for Reporting {
    fn drop(&mut self) {
        if self.told || !self.probe {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (board, key, settings) = (Arc::clone(&self.board), self.key.clone(), self.settings);
        runtime.spawn(async move {
            // A board that is gone has no probe to free.
            drop(board.report(&key, Signal::Nothing, true, "", &settings).await);
        });
    }
}

/// Nothing is sent that could not be answered any more.
fn in_time(tool: &Tool, deadline: Instant) -> Result<(), Failed> {
    if deadline.saturating_duration_since(Instant::now()) >= call::WORTH_TRYING {
        return Ok(());
    }
    let mut error =
        ErrorBody::new(ErrorCode::Timeout, format!("the time for `{}` was over before it was sent", tool.spec.tool_id));
    error.retryable = true;
    Err(not_sent(error, true))
}

/// Nothing was sent: the record may be claimed again.
fn not_sent(error: ErrorBody, fall_back: bool) -> Failed {
    Failed { error: Box::new(error), record: Record::Released, fall_back, phase: Phase::NotSent, pinned: false }
}

/// A stand-in may have acted on our key. The same key would be sent to the head of the chain again, which
/// does not know it: nobody may repeat this.
fn lost_track(tool: &Tool, failed: Failed) -> Failed {
    let message = format!(
        "`{}` stood in and may have taken effect, but there is no valid answer: {}",
        tool.spec.tool_id, failed.error.message
    );
    Failed { error: Box::new(ErrorBody::new(ErrorCode::OutcomeUnknown, message)), record: Record::Unknown, ..failed }
}

/// The whole chain failed: the first tool's failure is the answer, the last one's words are added.
fn all_failed(first: Option<Failed>, last: Failed) -> Failed {
    match first {
        None => last,
        Some(mut first) => {
            first.error.message = format!("{}; its stand-in failed too: {}", first.error.message, last.error.message);
            first
        }
    }
}

fn success() -> Verdict {
    Verdict {
        code: ErrorCode::Internal,
        repeat: Repeat::Never,
        fall_back: false,
        signal: Signal::Success,
        retryable: false,
        record: Record::Done,
    }
}

fn defect() -> Failed {
    not_sent(ErrorBody::new(ErrorCode::Internal, ""), false)
}
