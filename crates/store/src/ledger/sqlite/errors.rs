//! What SQLite says, in words that an operator can act on.
//!
//! Parameters are bound and never part of a message, so nothing here can hold a secret. The path is
//! named only where a file is opened; later the operator knows which ledger it is.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::StoreError;

/// A failure of the ledger in our own words.
pub(super) fn ledger_error(message: impl Into<String>) -> StoreError {
    StoreError { store: "ledger", message: message.into() }
}

/// A failure that SQLite reported, with what to do about it.
pub(super) fn from_sqlite(error: &rusqlite::Error) -> StoreError {
    ledger_error(match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full; free some space, writing resumes by itself".to_owned(),
        Some(ErrorCode::ReadOnly) => {
            "the file or its folder is read-only; make both writable for the user that runs reach".to_owned()
        }
        Some(ErrorCode::DatabaseCorrupt) => format!("the file is damaged; {MEND}"),
        Some(ErrorCode::NotADatabase) => format!("the file is not an SQLite database; {MEND}"),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process has held the file for too long; see which one has it open".to_owned()
        }
        Some(ErrorCode::CannotOpen) => {
            "the file cannot be opened; check that its folder exists and belongs to the user that runs reach".to_owned()
        }
        _ => error.to_string(),
    })
}

const MEND: &str = "stop reach and copy it with its -wal and -shm files, then restore a backup, \
                    or move all three away to begin an empty ledger (requests done before can then be repeated)";

/// The same failure while opening a file, which is named.
pub(super) fn at_opening(path: &Path, error: &StoreError) -> StoreError {
    ledger_error(format!("cannot open {}: {}", path.display(), error.message))
}

/// What is written itself is the trouble, not the disk: trying again is no use.
pub(super) fn will_never_fit(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::TooBig | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch)
    )
}
