//! The promise of an adapter, as scenarios that every adapter runs: the unhappy half first.
//!
//! An adapter provides a [`Stage`]: for each [`Fault`] a [`Scene`] (an adapter built from a real
//! declaration, in front of a real upstream that misbehaves in that way), or a reason why that fault
//! cannot happen to it. [`run`] holds the assertions; no adapter has its own.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use reach_core::{Adapter, Attempt, BoxFuture, FailureKind, Phase};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing does.
    None,
    /// Nobody listens, or the program does not exist.
    Refused,
    /// The upstream takes the request and never answers.
    Stall,
    /// The upstream breaks the connection after it took the request.
    Reset,
    /// The upstream breaks off in the middle of its answer.
    HalfAnswer,
    /// The answer is larger than the declared cap.
    Oversize,
    /// The answer is whole, and not what was promised.
    Malformed,
    /// The caller goes away while the upstream works.
    Cancelled,
    /// The upstream refuses our credential.
    ExpiredCredential,
}

/// Every fault, in the order in which the suite runs them.
pub const FAULTS: [Fault; 9] = [
    Fault::Refused,
    Fault::Stall,
    Fault::Reset,
    Fault::HalfAnswer,
    Fault::Oversize,
    Fault::Malformed,
    Fault::Cancelled,
    Fault::ExpiredCredential,
    Fault::None,
];

/// One adapter in front of one upstream.
pub struct Scene {
    /// Built from a declaration, as a user would.
    pub adapter: Arc<dyn Adapter>,
    /// The call to make.
    pub attempt: Attempt,
    /// For [`Fault::Stall`] and [`Fault::Cancelled`]: resolves once nothing of the attempt is left
    /// (connection closed, process gone, query cancelled at the server).
    pub gone: BoxFuture<'static, ()>,
    /// Whatever has to live as long as the scene.
    pub keep: Box<dyn Any + Send>,
}

/// What an adapter shows the suite.
pub trait Stage {
    /// Sets a scene, or says why this fault cannot happen to this adapter.
    fn scene(&self, fault: Fault) -> BoxFuture<'_, Result<Scene, &'static str>>;
}

/// Runs every scenario; panics name the fault.
pub async fn run(stage: &dyn Stage) {
    for fault in FAULTS {
        match stage.scene(fault).await {
            Ok(scene) => check(fault, scene).await,
            Err(reason) => {
                assert!(fault != Fault::None, "the good case applies to every adapter");
                eprintln!("{fault:?} does not apply: {reason}");
            }
        }
    }
}

async fn check(fault: Fault, scene: Scene) {
    let Scene { adapter, attempt, gone, keep } = scene;
    let timeout = match fault {
        Fault::Stall | Fault::Cancelled => Duration::from_millis(400),
        _ => attempt.timeout,
    };
    let outcome = tokio::time::timeout(timeout, adapter.call(&attempt)).await;
    let expect = |kinds: &[FailureKind], phase: Phase| {
        let failure = outcome.as_ref().expect("answers before the deadline").as_ref().expect_err("fails");
        assert!(kinds.contains(&failure.kind), "{fault:?}: {failure:?}");
        assert_eq!(failure.phase, phase, "{fault:?}: {failure:?}");
        assert!(!failure.message.trim().is_empty(), "{fault:?}: a failure says what happened");
    };
    match fault {
        Fault::None => {
            outcome.expect("answers before the deadline").expect("the good case works");
        }
        Fault::Refused => expect(&[FailureKind::Unreachable], Phase::NotSent),
        Fault::Stall | Fault::Cancelled => {
            // Either the executor's deadline dropped the attempt, or the adapter's own, a moment before.
            match outcome {
                Err(_) => assert_eq!(attempt.sent.phase(), Phase::MaybeSent, "{fault:?}"),
                Ok(answer) => {
                    let failure = answer.expect_err("a stalled upstream has no answer");
                    assert_eq!(failure.kind, FailureKind::Timeout, "{fault:?}: {failure:?}");
                    assert_eq!(failure.phase, Phase::MaybeSent, "{fault:?}: {failure:?}");
                }
            }
            tokio::time::timeout(Duration::from_secs(10), gone).await.expect("nothing is left running");
        }
        Fault::Reset => expect(&[FailureKind::Interrupted], Phase::MaybeSent),
        Fault::HalfAnswer => expect(&[FailureKind::Interrupted, FailureKind::Malformed], Phase::MaybeSent),
        Fault::Oversize => expect(&[FailureKind::Oversize], Phase::Answered),
        Fault::Malformed => expect(&[FailureKind::Malformed], Phase::Answered),
        Fault::ExpiredCredential => expect(&[FailureKind::Unauthorised], Phase::Answered),
    }
    drop(keep);
}
