//! Making the call: one attempt, what its failure means, and whether another follows.

mod attempt;
mod retry;
mod verdict;

pub(crate) use attempt::{Outcome, attempt, told};
pub(crate) use retry::{Budget, Next, WORTH_TRYING, next};
pub(crate) use verdict::{Record, Repeat, Verdict, verdict};
