//! The road of a call (DESIGN section 2).
//!
//! [`Engine`] is the door: it holds the current [`registry::Registry`] and the three stores, and walks
//! each [`reach_core::Plan`] down the twelve steps in `executor.rs`. It knows no adapter by name, reads
//! no file, and speaks no HTTP.

pub mod builtin;
mod engine;
pub mod registry;
pub mod shape;

pub use engine::{Engine, HealthReport, Stores};
