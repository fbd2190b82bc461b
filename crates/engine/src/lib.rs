//! The road of a call (DESIGN section 2).
//!
//! [`Engine`] is the door: it holds the current [`registry::Registry`] and the three stores, and walks
//! each [`reach_core::Plan`] down the twelve steps in `executor.rs`. It knows no adapter by name, reads
//! no file, and speaks no HTTP.
//!
//! Read `executor.rs` first, then `gate/` (what says no), `call/` (attempts and the table of failures),
//! [`shape`] (from answers to data), `journal.rs` (what is written down).

pub mod builtin;
mod call;
#[doc(hidden)]
pub mod crash;
mod engine;
mod executor;
mod gate;
mod journal;
pub mod registry;
pub mod shape;

pub use reach_store as store;

pub use engine::{Engine, HealthReport, Stores};
pub use registry::{Declared, Registry, UpstreamSettings};
