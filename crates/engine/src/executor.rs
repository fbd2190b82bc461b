//! The road of a call, as a table of contents: the twelve steps of DESIGN section 2 in order.
//!
//! Each step is a door to its room: `gate/` says no before a byte leaves, `call/` makes attempts and
//! reads the table of failures, `shape/` turns answers into data, `journal.rs` writes down what happened.
//! [`Walk::walk`] is the order; nothing here knows what kind of system answers.

mod chain;
mod conclude;
mod serve;
mod steps;
mod verify;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reach_core::redact::{self, Scrubber};
use reach_core::{Envelope, ErrorBody, ErrorCode, Meta, Object, Phase, Plan};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::call::Record;
use crate::engine::Stores;
use crate::gate::Held;
use crate::journal::Journal;
use crate::registry::{Registry, Tool};

/// What a call walks on: one snapshot of the tools, and the stores.
pub(crate) struct Road {
    pub(crate) registry: Arc<Registry>,
    pub(crate) stores: Stores,
}

/// One call on its way.
pub(crate) struct Walk<'r> {
    road: &'r Road,
    plan: &'r Plan,
    journal: Journal,
    // Knows our secrets and those that the caller sent as arguments: words about a failure may quote either.
    scrubber: Scrubber,
    meta: Meta,
    deadline: Instant,
    upstream_time: Duration,
    // Nobody reads the result but us: it is not shortened.
    whole: bool,
    // Set when the intent is about to be written: from there on the call ends without its caller, too.
    committed: Arc<AtomicBool>,
}

/// A gate's no: what the caller reads, and what the journal keeps.
struct Stop {
    error: Box<ErrorBody>,
    reason: ErrorCode,
    detail: String,
}

impl Stop {
    /// A refusal that the caller reads as it is.
    fn plain(error: ErrorBody) -> Self {
        Self { reason: error.code, detail: error.message.clone(), error: Box::new(error) }
    }
}

/// A result that was served, or the failure that ended the serving.
type Served = Result<Object, Failed>;

/// Why a tool did not serve.
struct Failed {
    error: Box<ErrorBody>,
    record: Record,
    fall_back: bool,
    phase: Phase,
    // A keyed upstream may have acted: only the same key at the same upstream is safe now.
    pinned: bool,
}

impl Failed {
    /// The last of several attempts at one tool: what an earlier one may have done stays done.
    fn after(self, earlier: &Self) -> Self {
        Self {
            fall_back: self.fall_back && earlier.fall_back,
            phase: self.phase.max(earlier.phase),
            pinned: self.pinned || earlier.pinned,
            ..self
        }
    }
}

/// What step 6 says.
enum Once {
    /// Send it; the record, if there is one, is ours.
    Go(Option<Held>),
    /// This is the answer.
    Answer(Box<Envelope>),
}

impl<'r> Walk<'r> {
    pub(crate) fn of(road: &'r Road, plan: &'r Plan) -> Self {
        let ledger = Arc::clone(&road.stores.ledger);
        let schema = road.registry.find(&plan.tool_id).map_or(&serde_json::Value::Null, |tool| &tool.spec.input_schema);
        let scrubber = road.registry.scrubber.with(redact::secrets_of(&plan.arguments, schema));
        Self {
            road,
            plan,
            journal: Journal::of(plan, ledger, scrubber.clone()),
            scrubber,
            meta: Meta::of(plan),
            deadline: Instant::now(),
            upstream_time: Duration::ZERO,
            whole: false,
            committed: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Turns true when the call may have effects that outlive it.
    pub(crate) fn committed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.committed)
    }

    /// Walks to the end, or until the caller has left and nothing was sent yet.
    pub(crate) async fn run(self, caller_left: &CancellationToken) -> Envelope {
        let (plan, committed) = (self.plan, Arc::clone(&self.committed));
        let walk = Box::pin(self.walk());
        tokio::select! {
            biased;
            envelope = walk => envelope,
            () = left_before_commitment(caller_left, &committed) => {
                // The walk is dropped here: its record releases itself, its journal says that the caller left.
                Envelope::error(plan.tool_id.clone(), ErrorBody::new(ErrorCode::Cancelled, ""), Meta::of(plan))
            }
        }
    }

    async fn walk(mut self) -> Envelope {
        let (head, served, held) = match self.enter().await {
            Ok(Entered::Serve { tool, arguments, mut held }) => {
                let served = self.serve(&tool, arguments, &mut held).await; //          7-11
                (Some(tool), served, held)
            }
            Ok(Entered::Answer(envelope)) => return self.answer(*envelope),
            Err(stop) => (None, Err(self.refused(stop)), None),
        };
        self.conclude(head.as_deref(), served, held).await //                            12
    }

    /// Steps 1 to 6: everything that is checked before anything is sent.
    async fn enter(&mut self) -> Result<Entered, Stop> {
        let tool = self.find()?; //                                                       1
        self.authorise(&tool)?; //                                                        2
        let arguments = self.check(&tool)?; //                                            3
        // Step 4, approval, has its place here.
        self.rate(&tool).await?; //                                                       5
        self.deadline = self.deadline_of(&tool);
        Ok(match self.once(&tool, &arguments).await? {
            //                                                                            6
            Once::Go(held) => Entered::Serve { tool, arguments, held },
            Once::Answer(envelope) => Entered::Answer(envelope),
        })
    }

    /// The caller's deadline, or the time that the tool and its stand-ins may take together.
    fn deadline_of(&self, tool: &Tool) -> Instant {
        let declared = self.chain_of(tool).map(|tool| tool.spec.timeout).sum::<Duration>();
        Instant::now() + self.plan.timeout.map_or(declared, |own| own.min(declared))
    }

    fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// Where the first six steps lead.
enum Entered {
    Serve { tool: Arc<Tool>, arguments: Object, held: Option<Held> },
    Answer(Box<Envelope>),
}

/// Resolves when the caller has left while the call can still be dropped without a trace upstream.
async fn left_before_commitment(caller_left: &CancellationToken, committed: &AtomicBool) {
    caller_left.cancelled().await;
    if committed.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
}
