//! The gates of the road: each may say no, and then not a byte has left.

mod line;
mod once;
mod refusal;

pub(crate) use line::{Line, Place};
pub(crate) use once::{Entry, Held, replay};
pub(crate) use refusal::{forbidden, invalid_arguments, not_found, unreachable};
