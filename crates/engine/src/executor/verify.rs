//! Settling an unknown outcome without a person: a tool that only reads is asked whether the effect is there.

use std::sync::Arc;

use reach_core::{Caller, Envelope, ErrorBody, ErrorCode, EventKind, Object, Phase, Plan};
use tokio_util::sync::CancellationToken;

use super::Walk;
use crate::call::Record;
use crate::gate::{Held, replay};
use crate::registry::Tool;

/// What became of an unknown record.
pub(super) enum Verified {
    /// The effect is there; the record answers `ok` from now on, and this is its answer.
    Done(Box<Envelope>),
    /// The effect is not there; the record is released.
    NotDone,
    /// Nobody could tell; the record stays as it is.
    CannotTell,
}

impl Walk<'_> {
    /// Asks the declared verifying tool, within what is left of the deadline, and settles the record.
    pub(super) async fn verify(&mut self, tool: &Tool, arguments: &Object, held: Held) -> Verified {
        let (Some(verify), Some(done_when)) = (&tool.spec.verify, &tool.verify) else {
            held.leave();
            return Verified::CannotTell;
        };
        let mut asked = Object::new();
        for (theirs, ours) in &verify.arguments {
            if let Some(value) = arguments.get(ours) {
                asked.insert(theirs.clone(), value.clone());
            }
        }
        // The operator declared this check: whether it can be made does not depend on what the caller may
        // use, and nothing of what it finds but the verdict goes to the caller.
        let mut plan = Plan::new(verify.tool_id.as_str(), asked, Caller { rate: None, ..Caller::local() });
        plan.session_id = self.plan.session_id.clone();
        plan.trace_id = self.plan.trace_id.clone();
        plan.step = self.plan.step;
        plan.timeout = Some(self.remaining());
        let look = Walk { whole: true, ..Walk::of(self.road, &plan) };
        let evidence = Box::pin(look.run(&CancellationToken::new())).await;
        let done = evidence.data.and_then(|data| {
            let found = done_when.search(serde_json::Value::Object(data)).ok()?;
            found.as_boolean()
        });
        self.journal.add(EventKind::Verified { by: verify.tool_id.clone(), done });
        match done {
            Some(true) => {
                let mut data = Object::new();
                let shown = self.shown_to_caller(&verify.tool_id).map(|tool| tool.spec.tool_id.to_string());
                data.insert("verified_by".to_owned(), shown.into());
                let mut meta = self.meta.clone();
                meta.phase = Phase::Answered;
                meta.served_by = Some(tool.spec.tool_id.clone());
                let envelope = Envelope::ok(self.plan.tool_id.clone(), data, meta);
                self.settle(held, Record::Done, &envelope).await;
                Verified::Done(Box::new(replay(envelope, self.plan)))
            }
            Some(false) => {
                let error = ErrorBody::new(ErrorCode::OutcomeUnknown, "");
                let envelope = Envelope::error(self.plan.tool_id.clone(), error, self.meta.clone());
                self.settle(held, Record::Released, &envelope).await;
                Verified::NotDone
            }
            None => {
                held.leave();
                Verified::CannotTell
            }
        }
    }

    /// A tool by its id, if this caller may know of it.
    pub(super) fn shown_to_caller(&self, tool_id: &reach_core::ToolId) -> Option<&Arc<Tool>> {
        let tool = self.road.registry.find(tool_id)?;
        self.plan.caller.scopes.allow(tool.spec.scope.as_deref()).then_some(tool)
    }
}
