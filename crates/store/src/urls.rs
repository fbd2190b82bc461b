//! From three URLs to three stores: the one place that knows which kinds of store there are.
//!
//! All URLs are checked before anything is opened or created, and every problem is reported at once.
//! A URL may hold a password, so no message repeats more of it than its scheme.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reach_core::Problem;
use serde::{Deserialize, Serialize};

use crate::blobs::DirectoryBlobs;
use crate::board::MemoryBoard;
use crate::ledger::SqliteLedger;
use crate::{Blobs, Board, Ledger};

/// The `state` section of a declaration: where each store is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StateUrls {
    /// Idempotency records and the journal: `sqlite://PATH`.
    pub ledger: String,
    /// Breakers, health and rates: `memory:`.
    pub board: String,
    /// Whole results too large to show: `file:PATH`.
    pub blobs: String,
}

impl Default for StateUrls {
    fn default() -> Self {
        Self {
            ledger: "sqlite://.reach/ledger.db".to_owned(),
            board: "memory:".to_owned(),
            blobs: "file:.reach/blobs".to_owned(),
        }
    }
}

/// How many bytes of blobs are kept.
pub const BLOBS_MAX_BYTES: u64 = 1 << 30;

/// The three stores, opened.
pub type Opened = (Arc<dyn Ledger>, Arc<dyn Board>, Arc<dyn Blobs>);

/// Checks the URLs without opening anything. Pointers are `/ledger`, `/board` and `/blobs`.
pub fn check(state: &StateUrls) -> Vec<Problem> {
    match Places::of(state, Path::new("")) {
        Ok(_) => Vec::new(),
        Err(problems) => problems,
    }
}

/// Opens the three stores; relative paths start at `base`. Blocks for some milliseconds. Reports every
/// problem, and creates nothing while a URL is wrong. Pointers are `/ledger`, `/board` and `/blobs`.
pub fn open(state: &StateUrls, base: &Path) -> Result<Opened, Vec<Problem>> {
    let places = Places::of(state, base)?;
    let ledger = SqliteLedger::open(&places.ledger).map_err(|error| cannot_open("/ledger", &error.message));
    let blobs =
        DirectoryBlobs::open(&places.blobs, BLOBS_MAX_BYTES).map_err(|error| cannot_open("/blobs", &error.message));
    match (ledger, blobs) {
        (Ok(ledger), Ok(blobs)) => Ok((Arc::new(ledger), Arc::new(MemoryBoard::new()), Arc::new(blobs))),
        (ledger, blobs) => Err(ledger.err().into_iter().chain(blobs.err()).collect()),
    }
}

struct Places {
    ledger: PathBuf,
    blobs: PathBuf,
}

impl Places {
    fn of(state: &StateUrls, base: &Path) -> Result<Self, Vec<Problem>> {
        let ledger = path_in(&state.ledger, "sqlite", "/ledger", "sqlite://.reach/ledger.db");
        let blobs = path_in(&state.blobs, "file", "/blobs", "file:.reach/blobs");
        let board = (state.board != "memory:").then(|| other_scheme("/board", &state.board, "memory:"));
        match (ledger, blobs, board) {
            (Ok(ledger), Ok(blobs), None) => Ok(Self { ledger: base.join(ledger), blobs: base.join(blobs) }),
            (ledger, blobs, board) => Err(ledger.err().into_iter().chain(board).chain(blobs.err()).collect()),
        }
    }
}

fn path_in<'a>(url: &'a str, scheme: &str, pointer: &str, example: &str) -> Result<&'a str, Problem> {
    let rest = url.strip_prefix(scheme).and_then(|rest| rest.strip_prefix(':'));
    let path = rest.ok_or_else(|| other_scheme(pointer, url, example))?;
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() || path.ends_with('/') && scheme == "sqlite" {
        return Err(Problem::new(pointer, "the URL names no file", format!("write a path, such as {example}")));
    }
    if path.contains(['?', '#', '\0']) || path == ":memory:" {
        return Err(Problem::new(
            pointer,
            "the URL has more than a path, and no options are known",
            format!("write only a path, such as {example}"),
        ));
    }
    Ok(path)
}

fn other_scheme(pointer: &str, url: &str, example: &str) -> Problem {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    let message = match scheme {
        Some(scheme)
            if scheme.len() <= 16 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+') =>
        {
            format!("there is no store of the kind `{scheme}:` here")
        }
        _ => "this is not the URL of a store".to_owned(),
    };
    Problem::new(pointer, message, format!("write {example}: it is the only kind supported now"))
}

fn cannot_open(pointer: &str, message: &str) -> Problem {
    Problem::new(pointer, message, "name a place that reach may write, or mend what the message says")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(ledger: &str, board: &str, blobs: &str) -> StateUrls {
        StateUrls { ledger: ledger.into(), board: board.into(), blobs: blobs.into() }
    }

    #[test]
    fn paths_are_taken_from_both_spellings_and_start_at_the_base() {
        let base = Path::new("/srv/app");
        let cases = [
            ("sqlite://.reach/l.db", "/srv/app/.reach/l.db"),
            ("sqlite:.reach/l.db", "/srv/app/.reach/l.db"),
            ("sqlite:///var/l.db", "/var/l.db"),
        ];
        for (url, wanted) in cases {
            let places = Places::of(&urls(url, "memory:", "file:b"), base).unwrap();
            assert_eq!(places.ledger, Path::new(wanted), "{url}");
            assert_eq!(places.blobs, Path::new("/srv/app/b"));
        }
    }

    #[test]
    fn every_unsupported_url_is_named_at_once_with_what_is_supported_and_no_secret() {
        let state = urls("postgres://reach:s3cret@db/reach", "redis://:s3cret@cache", "s3://s3cret/bucket");
        let problems = check(&state);
        assert_eq!(
            problems.iter().map(|problem| &*problem.pointer).collect::<Vec<_>>(),
            ["/ledger", "/board", "/blobs"]
        );
        assert!(problems[0].message.contains("`postgres:`") && problems[0].fix.contains("sqlite://"));
        assert!(problems[1].message.contains("`redis:`") && problems[1].fix.contains("memory:"));
        assert!(problems[2].message.contains("`s3:`") && problems[2].fix.contains("file:"));
        assert!(!format!("{problems:?}").contains("s3cret"));
    }

    #[test]
    fn urls_without_a_path_or_with_options_are_refused() {
        for ledger in
            ["", "sqlite:", "sqlite://", "sqlite://x/", "sqlite::memory:", "sqlite://l.db?mode=ro", "l.db", "p w:x"]
        {
            assert_eq!(check(&urls(ledger, "memory:", "file:b")).len(), 1, "{ledger}");
        }
        assert!(check(&StateUrls::default()).is_empty());
    }

    #[test]
    fn a_wrong_url_creates_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let opened = open(&urls("sqlite://l.db", "redis:", "file:b"), folder.path());
        assert!(opened.is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn both_stores_that_cannot_be_opened_are_problems_with_pointers() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "not a folder").unwrap();
        let problems = open(&urls("sqlite://file/l.db", "memory:", "file:file/b"), folder.path()).err().unwrap();
        assert_eq!(problems.iter().map(|problem| &*problem.pointer).collect::<Vec<_>>(), ["/ledger", "/blobs"]);
    }

    #[test]
    fn the_defaults_open_under_the_base() {
        let folder = tempfile::tempdir().unwrap();
        assert!(open(&StateUrls::default(), folder.path()).is_ok());
        assert!(folder.path().join(".reach/ledger.db").exists());
        assert!(folder.path().join(".reach/blobs").is_dir());
    }
}
