//! The health ledger, computed from journal rows.
