//! Readers of events. No I/O: rows in, values out.
//!
//! - [`timeline`]: what happened in a session or trace, call by call, with the times to draw bars from.
//! - [`health`]: the health ledger computed from the journal, for when no gateway is running.
//!
//! Start with [`timeline::Timeline::of`]. Every reader matches every event kind, so that a new kind finds
//! each place that has to think about it.

pub mod health;
pub mod timeline;
