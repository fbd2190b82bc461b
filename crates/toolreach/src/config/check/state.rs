//! Where state is kept: one URL each, of the kinds that this version has.

use std::path::{Path, PathBuf};

use super::Draft;
use crate::config::checked::{BlobsUrl, BoardUrl, LedgerUrl, StateUrls};
use crate::config::sections;

/// Kinds of the whole design that this version does not have yet.
const LATER: [&str; 6] = ["postgres", "postgresql", "redis", "rediss", "valkey", "s3"];

/// The three URLs, if they are sound. Relative paths start at the folder of the file.
pub(super) fn check(draft: &mut Draft<'_>) -> Option<StateUrls> {
    let part = match draft.root.entry("state") {
        Some(_) => draft.part::<sections::State>("/state")?,
        None => sections::State::default(),
    };
    let ledger = path(draft, "/state/ledger", &part.ledger, "sqlite", "sqlite://.reach/ledger.db").map(LedgerUrl::Sqlite);
    let board = (part.board == "memory:" || part.board == "memory://").then_some(BoardUrl::Memory);
    if board.is_none() {
        refuse(draft, "/state/board", &part.board, "memory:");
    }
    let blobs = path(draft, "/state/blobs", &part.blobs, "file", "file:.reach/blobs").map(BlobsUrl::Directory);
    Some(StateUrls { ledger: ledger?, board: board?, blobs: blobs? })
}

/// The path of `scheme:PATH` or `scheme://PATH`.
fn path(draft: &mut Draft<'_>, pointer: &str, url: &str, scheme: &str, example: &str) -> Option<PathBuf> {
    let path = url
        .strip_prefix(scheme)
        .and_then(|rest| rest.strip_prefix(':'))
        .map(|rest| rest.strip_prefix("//").unwrap_or(rest))
        .filter(|path| !path.is_empty() && !path.contains(['?', '#', '\0']));
    match path {
        Some(path) => Some(resolve(draft.base, path)),
        None => {
            refuse(draft, pointer, url, example);
            None
        }
    }
}

fn resolve(base: &Path, path: &str) -> PathBuf {
    base.join(path)
}

fn refuse(draft: &mut Draft<'_>, pointer: &str, url: &str, example: &str) {
    let scheme = url.split(':').next().unwrap_or_default();
    let message = match LATER.iter().find(|later| **later == scheme) {
        Some(later) => format!("a store at `{later}:` is not supported yet in this version"),
        None => "this is no URL of such a store".to_owned(),
    };
    draft.add(pointer, message, format!("write `{example}`"));
}
