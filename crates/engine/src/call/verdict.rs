//! The table of DESIGN section 5 as one function over values: what a failed attempt means.
//!
//! Nothing else in the engine decides whether something may be repeated, replaced or recorded as
//! unknown, and this function decides nothing else.

use reach_core::breaker::Signal;
use reach_core::{Effect, ErrorCode, FailureKind, Phase};

/// Whether the same upstream may be asked again for this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// No.
    Never,
    /// Yes, after a short pause.
    Soon,
    /// Yes, after the pause the upstream asked for.
    AfterDelay,
}

/// What becomes of the idempotency record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The envelope answers the same key from now on.
    Done,
    /// The same key may be sent again.
    Released,
    /// Nobody knows; nothing repeats it.
    Unknown,
}

/// What one failed attempt means for the call, the caller, the record and the upstream's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What the caller reads.
    pub(crate) code: ErrorCode,
    /// Whether to try the same upstream again.
    pub(crate) repeat: Repeat,
    /// Whether a fallback may stand in.
    pub(crate) fall_back: bool,
    /// What the breaker is told.
    pub(crate) signal: Signal,
    /// Whether the caller may send the same request with the same key again.
    pub(crate) retryable: bool,
    /// What the record becomes.
    pub(crate) record: Record,
}

/// Reads the table. `server_error_means_not_done` is the tool's own promise about 5xx.
pub(crate) fn verdict(effect: Effect, kind: FailureKind, phase: Phase, server_error_means_not_done: bool) -> Verdict {
    use FailureKind as Kind;
    match kind {
        Kind::Refused => final_answer(ErrorCode::InvalidArguments, Signal::Nothing, Record::Released),
        Kind::Unreachable => nothing_sent(ErrorCode::UpstreamUnavailable),
        Kind::Timeout => broken_off(effect, phase, ErrorCode::Timeout),
        Kind::Interrupted => broken_off(effect, phase, ErrorCode::UpstreamUnavailable),
        Kind::Throttled => later(ErrorCode::RateLimited),
        Kind::Unavailable => later(ErrorCode::UpstreamUnavailable),
        Kind::ServerError if server_error_means_not_done => nothing_sent(ErrorCode::UpstreamError),
        Kind::ServerError => uncertain(effect, ErrorCode::UpstreamError),
        Kind::Malformed | Kind::Oversize => uncertain(effect, ErrorCode::ResultInvalid),
        Kind::Rejected => final_answer(ErrorCode::UpstreamRejected, Signal::Success, Record::Done),
        Kind::NotFound => final_answer(ErrorCode::NotFound, Signal::Success, Record::Done),
        // The credential's fault, not the tool's: once it is mended, the same key may be sent.
        Kind::Unauthorised => final_answer(ErrorCode::AuthFailed, Signal::Nothing, Record::Released),
        Kind::Internal => match (effect, phase) {
            (Effect::Write | Effect::Keyed, Phase::MaybeSent | Phase::Answered) => {
                Verdict { signal: Signal::Nothing, ..unknown() }
            }
            _ => final_answer(ErrorCode::Internal, Signal::Nothing, Record::Released),
        },
    }
}

/// A timeout or a broken connection: what it means depends on whether anything left.
fn broken_off(effect: Effect, phase: Phase, code: ErrorCode) -> Verdict {
    match phase {
        Phase::Rejected | Phase::NotSent => nothing_sent(code),
        Phase::MaybeSent | Phase::Answered => uncertain(effect, code),
    }
}

/// Certainly nothing happened: anybody may try again, anywhere.
fn nothing_sent(code: ErrorCode) -> Verdict {
    Verdict {
        code,
        repeat: Repeat::Soon,
        fall_back: true,
        signal: Signal::Failure,
        retryable: true,
        record: Record::Released,
    }
}

/// Something may have happened: what that means is the effect's question.
fn uncertain(effect: Effect, code: ErrorCode) -> Verdict {
    match effect {
        Effect::Read | Effect::Idempotent => nothing_sent(code),
        // The upstream honours the key; another upstream would not know it.
        Effect::Keyed => Verdict { fall_back: false, ..nothing_sent(code) },
        Effect::Write => unknown(),
    }
}

fn unknown() -> Verdict {
    Verdict {
        code: ErrorCode::OutcomeUnknown,
        repeat: Repeat::Never,
        fall_back: false,
        signal: Signal::Failure,
        retryable: false,
        record: Record::Unknown,
    }
}

/// The upstream did nothing and asked for time.
fn later(code: ErrorCode) -> Verdict {
    Verdict {
        code,
        repeat: Repeat::AfterDelay,
        fall_back: false,
        signal: Signal::Soft,
        retryable: true,
        record: Record::Released,
    }
}

fn final_answer(code: ErrorCode, signal: Signal, record: Record) -> Verdict {
    Verdict { code, repeat: Repeat::Never, fall_back: false, signal, retryable: false, record }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EFFECTS: [Effect; 4] = [Effect::Read, Effect::Idempotent, Effect::Keyed, Effect::Write];

    fn of(effect: Effect, kind: FailureKind, phase: Phase) -> Verdict {
        verdict(effect, kind, phase, false)
    }

    #[test]
    fn what_was_not_sent_is_repeated_and_replaced_for_every_effect() {
        for effect in EFFECTS {
            for kind in [FailureKind::Unreachable, FailureKind::Timeout, FailureKind::Interrupted] {
                let verdict = of(effect, kind, Phase::NotSent);
                assert_eq!(verdict.repeat, Repeat::Soon, "{effect:?} {kind:?}");
                assert!(verdict.fall_back && verdict.retryable, "{effect:?} {kind:?}");
                assert_eq!((verdict.signal, verdict.record), (Signal::Failure, Record::Released));
            }
        }
    }

    #[test]
    fn what_may_have_been_sent_is_repeated_for_reads_with_the_key_for_keyed_and_never_for_writes() {
        let kinds = [
            FailureKind::Timeout,
            FailureKind::Interrupted,
            FailureKind::ServerError,
            FailureKind::Malformed,
            FailureKind::Oversize,
        ];
        for kind in kinds {
            for effect in [Effect::Read, Effect::Idempotent] {
                let verdict = of(effect, kind, Phase::MaybeSent);
                assert!(verdict.repeat == Repeat::Soon && verdict.fall_back && verdict.retryable);
            }
            let keyed = of(Effect::Keyed, kind, Phase::MaybeSent);
            assert!(keyed.repeat == Repeat::Soon && !keyed.fall_back && keyed.retryable);
            let write = of(Effect::Write, kind, Phase::MaybeSent);
            assert_eq!(write.code, ErrorCode::OutcomeUnknown);
            assert_eq!((write.repeat, write.record), (Repeat::Never, Record::Unknown));
            assert!(!write.fall_back && !write.retryable);
        }
    }

    #[test]
    fn an_upstream_that_asks_for_time_is_a_soft_failure_and_did_nothing() {
        for effect in EFFECTS {
            for kind in [FailureKind::Throttled, FailureKind::Unavailable] {
                let verdict = of(effect, kind, Phase::Answered);
                assert_eq!(verdict.repeat, Repeat::AfterDelay);
                assert_eq!((verdict.signal, verdict.record), (Signal::Soft, Record::Released));
                assert!(verdict.retryable && !verdict.fall_back);
            }
        }
    }

    #[test]
    fn a_business_refusal_is_final_and_proves_the_upstream_alive() {
        for effect in EFFECTS {
            for (kind, code) in
                [(FailureKind::Rejected, ErrorCode::UpstreamRejected), (FailureKind::NotFound, ErrorCode::NotFound)]
            {
                let verdict = of(effect, kind, Phase::Answered);
                assert_eq!((verdict.code, verdict.repeat), (code, Repeat::Never));
                assert_eq!((verdict.signal, verdict.record), (Signal::Success, Record::Done));
                assert!(!verdict.fall_back && !verdict.retryable);
            }
        }
    }

    #[test]
    fn a_refused_credential_says_nothing_about_the_tool() {
        let verdict = of(Effect::Read, FailureKind::Unauthorised, Phase::Answered);
        assert_eq!((verdict.code, verdict.signal), (ErrorCode::AuthFailed, Signal::Nothing));
    }

    #[test]
    fn a_write_whose_tool_promises_that_5xx_did_nothing_is_repeated_on_5xx_only() {
        let promised = |kind| verdict(Effect::Write, kind, Phase::Answered, true);
        assert_eq!(promised(FailureKind::ServerError).repeat, Repeat::Soon);
        assert_eq!(promised(FailureKind::Malformed).code, ErrorCode::OutcomeUnknown);
    }

    #[test]
    fn a_defect_of_ours_after_a_write_was_sent_is_unknown_and_before_it_is_internal() {
        assert_eq!(of(Effect::Write, FailureKind::Internal, Phase::MaybeSent).code, ErrorCode::OutcomeUnknown);
        assert_eq!(of(Effect::Write, FailureKind::Internal, Phase::NotSent).code, ErrorCode::Internal);
        assert_eq!(of(Effect::Read, FailureKind::Internal, Phase::MaybeSent).code, ErrorCode::Internal);
    }
}
