//! The ledger on SQLite: placeholder while its room is furnished.

/// The ledger in one SQLite file.
pub struct SqliteLedger {}
