//! The steps of one call as they happen, and where they go: the ledger and the log.
//!
//! A write flushes what it has before it is sent; everything else goes out once, at the end. A journal
//! that is dropped before its end (the caller went away) writes what it has, so that no call is silent.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use reach_core::redact::Scrubber;
use reach_core::{Envelope, ErrorCode, Event, EventKind, JournalRow, Phase, Plan};
use reach_store::Ledger;
use tokio::time::Instant;

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64)
}

/// The steps of one call.
pub(crate) struct Journal {
    ledger: Arc<dyn Ledger>,
    scrubber: Scrubber,
    row: JournalRow,
    // The scrubbed input as text; made only where a log line will show it.
    input: String,
    touches: Vec<Touch>,
    started: Instant,
    // What the last step would have said, for a journal that is dropped before its end.
    committed: bool,
    sent: bool,
    finished: bool,
}

/// One attempt, for the log line.
struct Touch {
    attempt: u32,
    tool: String,
    code: Option<ErrorCode>,
    duration_ms: u64,
}

impl Journal {
    pub(crate) fn of(plan: &Plan, ledger: Arc<dyn Ledger>, scrubber: Scrubber) -> Self {
        let row = JournalRow {
            at_ms: now_ms(),
            trace_id: plan.trace_id.clone(),
            session_id: plan.session_id.clone(),
            request_id: plan.request_id.clone(),
            step: plan.step,
            tool_id: plan.tool_id.clone(),
            caller: plan.caller.id.clone(),
            events: Vec::with_capacity(6),
        };
        Self {
            ledger,
            scrubber,
            row,
            input: String::new(),
            touches: Vec::new(),
            started: Instant::now(),
            committed: false,
            sent: false,
            finished: false,
        }
    }

    /// Adds a step. Words that came from outside are scrubbed of our secrets.
    pub(crate) fn add(&mut self, mut kind: EventKind) {
        match &mut kind {
            EventKind::Intended => self.committed = true,
            EventKind::AttemptStarted { .. } => self.sent = true,
            EventKind::Received { input, .. } => {
                self.scrubber.value(input);
                if is_logged() {
                    self.input = input.to_string();
                }
            }
            EventKind::AttemptEnded { attempt, code, duration_ms, detail, .. } => {
                detail.iter_mut().for_each(|line| *line = self.scrubber.text(line));
                let tool = match self.row.events.last().map(|event| &event.kind) {
                    Some(EventKind::AttemptStarted { tool_id, .. }) => tool_id.to_string(),
                    _ => self.row.tool_id.to_string(),
                };
                self.touches.push(Touch { attempt: *attempt, tool, code: *code, duration_ms: *duration_ms });
            }
            EventKind::Refused { detail, .. } | EventKind::Degraded { detail, .. } => {
                *detail = self.scrubber.text(detail);
            }
            EventKind::Finished { message: Some(message), .. } => *message = self.scrubber.text(message),
            _ => {}
        }
        self.row.events.push(Event { at_ms: now_ms(), kind });
    }

    /// Takes the steps so far as a row of their own, to be made durable before a send.
    pub(crate) fn take_row(&mut self) -> JournalRow {
        let events = std::mem::take(&mut self.row.events);
        JournalRow { events, ..self.row.clone() }
    }

    /// Puts back what [`Journal::take_row`] took when it could not be written.
    pub(crate) fn put_back(&mut self, row: JournalRow) {
        self.row.events.splice(0..0, row.events);
    }

    /// Time since the plan arrived.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// The envelope goes out: the last step, the row, the log lines.
    pub(crate) fn finish(&mut self, envelope: &Envelope, upstream_ms: u64, result_size: u64) {
        let meta = &envelope.meta;
        self.add(EventKind::Finished {
            code: envelope.code(),
            attempts: meta.attempts,
            duration_ms: meta.duration_ms,
            upstream_ms,
            served_by: meta.served_by.clone(),
            phase: meta.phase,
            replayed: meta.replayed,
            result_size,
            tokens: meta.tokens,
            message: envelope.error.as_ref().map(|error| error.message.clone()),
        });
        self.log(envelope, result_size);
        self.write();
    }

    fn write(&mut self) {
        self.finished = true;
        let row = self.take_row();
        if !row.events.is_empty() {
            self.ledger.append(row);
        }
    }

    /// One structured line per touch of an outside system, or one for a call that touched none.
    fn log(&self, envelope: &Envelope, result_size: u64) {
        if !is_logged() {
            return;
        }
        let last = self.touches.len().saturating_sub(1);
        let status = |code: Option<ErrorCode>| code.map_or("ok", ErrorCode::as_str);
        let line = |touch: &Touch, ends_the_call: bool| {
            let tokens = envelope.meta.tokens;
            tracing::info!(
                target: "reach::touch",
                trace_id = %self.row.trace_id,
                session_id = %self.row.session_id,
                request_id = %self.row.request_id,
                step = self.row.step,
                tool_id = %touch.tool,
                caller = %self.row.caller,
                attempt = touch.attempt,
                input = %self.input,
                status = status(touch.code),
                duration_ms = touch.duration_ms,
                result_size = if ends_the_call { result_size } else { 0 },
                tokens.input = if ends_the_call { tokens.input } else { 0 },
                tokens.output = if ends_the_call { tokens.output } else { 0 },
                tokens.tool_result = if ends_the_call { tokens.tool_result } else { 0 },
                tokens.counted = tokens.counted.as_str(),
                "call"
            );
        };
        if self.touches.is_empty() {
            let whole = Touch {
                attempt: 0,
                tool: self.row.tool_id.to_string(),
                code: envelope.code(),
                duration_ms: envelope.meta.duration_ms,
            };
            line(&whole, true);
        }
        for (index, touch) in self.touches.iter().enumerate() {
            line(touch, index == last);
        }
    }
}

/// Whether anybody reads the lines of [`Journal::log`].
fn is_logged() -> bool {
    tracing::enabled!(target: "reach::touch", tracing::Level::INFO)
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let code = match (std::thread::panicking(), self.committed) {
            (false, _) => {
                self.add(EventKind::CallerLeft);
                ErrorCode::Cancelled
            }
            (true, false) => ErrorCode::Internal,
            (true, true) => ErrorCode::OutcomeUnknown,
        };
        let phase = if self.sent { Phase::MaybeSent } else { Phase::Rejected };
        self.add(EventKind::Finished {
            code: Some(code),
            attempts: self.touches.len() as u32,
            duration_ms: self.elapsed_ms(),
            upstream_ms: 0,
            served_by: None,
            phase,
            replayed: false,
            result_size: 0,
            tokens: reach_core::tokens::Tokens::default(),
            message: None,
        });
        self.write();
    }
}
