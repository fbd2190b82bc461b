//! The three stores, each switched by one URL (DESIGN section 6).
//!
//! - [`ledger`]: durable. Idempotency records and the journal. SQLite.
//! - [`board`]: fast, may be lost. Breakers, health, rates. Memory.
//! - [`blobs`]: whole results too large to show. A directory.
//!
//! [`open`] makes all three from their URLs ([`StateUrls`]).
//!
//! Each is a small trait with one body here; the suite of scenarios beside each trait is the promise
//! that every further body has to keep. Nothing here decides what a failure means: that is the engine's.

pub mod blobs;
pub mod board;
pub mod ledger;
mod urls;

pub use blobs::Blobs;
pub use board::Board;
pub use ledger::Ledger;
pub use urls::{BLOBS_MAX_BYTES, Opened, StateUrls, check, open};

/// Why a store could not do its part. The message names the store and holds no secret.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{store} unavailable: {message}")]
pub struct StoreError {
    /// `ledger`, `board` or `blobs`.
    pub store: &'static str,
    /// What the store said, for operators.
    pub message: String,
}
