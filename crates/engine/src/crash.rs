//! Named points of the road at which a test can end the process, as a power cut would.
//!
//! A crash test arms one point before the first call; the call that passes it takes the whole process
//! down, without destructors and without a last word. None of this is in a release build: there
//! [`point`] is empty and nothing can be armed. The road itself never looks at these points.

/// Every point, in the order in which a call that works passes them.
pub const POINTS: &[&str] = &[
    "after_claim",
    "before_intent",
    "after_intent",
    "before_send",
    "after_answer",
    "before_finish",
    "after_finish",
    "before_reply",
];

#[cfg(debug_assertions)]
static ARMED: std::sync::OnceLock<&'static str> = std::sync::OnceLock::new();

/// Arms a point for the life of the process; false when there is no such point or one is armed already.
#[cfg(debug_assertions)]
pub fn arm(name: &str) -> bool {
    let known = POINTS.iter().find(|point| **point == name);
    known.is_some_and(|point| ARMED.set(point).is_ok())
}

/// Ends the process here if this point is armed.
#[cfg(debug_assertions)]
pub(crate) fn point(name: &'static str) {
    if ARMED.get() == Some(&name) {
        std::process::abort();
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn point(_name: &'static str) {}
