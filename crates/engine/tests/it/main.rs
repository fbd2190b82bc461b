//! The road, walked in front of a scripted upstream and over the real embedded stores.
//!
//! The upstream of these tests is an adapter that does what its script says, so that the road's own
//! rules are seen without a network. Tests pause the clock only where no ledger is asked: its answers come
//! from a thread of its own, and a paused clock would run past them. The adapters in front of real systems are tested in `toolreach`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod cancel;
mod fallback;
mod fixture;
mod many_tools;
mod once;
mod reachable;
mod refused;
mod results;
