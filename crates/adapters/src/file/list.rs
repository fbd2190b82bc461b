//! `list`: what lies in a folder. Also the walk that `search` uses.

use chrono::{DateTime, SecondsFormat, Utc};
use reach_core::Answer;
use serde_json::{Value, json};

use super::failure::Error;
use super::glob::Globs;
use super::path::{RelativePath, TEMPORARY};
use super::root::{Root, kind};
use super::work::Leave;

/// Entries looked at before a walk gives up counting.
const MOST_VISITED: usize = 50_000;

/// The settings of a `list`.
#[derive(Debug)]
pub(super) struct List {
    pub(super) max_entries: usize,
    pub(super) recursive: bool,
    pub(super) include: Globs,
}

/// One thing found: its path below the root and its type.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    pub(super) path: RelativePath,
    pub(super) kind: &'static str,
}

/// Everything found, sorted by path, and whether that is all there is.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) found: Vec<Found>,
    pub(super) is_whole: bool,
}

/// Walks a folder. Links are found and never followed; folders that cannot be opened on the way are
/// passed over; names that are no text are shown as well as they can be.
pub(super) fn walk(
    root: &Root,
    start: &RelativePath,
    recursive: bool,
    hidden: bool,
    leave: &Leave,
) -> Result<Walk, Error> {
    let mut found = Vec::new();
    let mut folders = vec![start.clone()];
    while let Some(folder) = folders.pop() {
        leave.check()?;
        let entries = match root.entries(&folder) {
            Ok(entries) => entries,
            Err(error) if &folder == start => return Err(error),
            Err(_) => continue,
        };
        for entry in entries {
            if found.len() >= MOST_VISITED {
                found.sort();
                return Ok(Walk { found, is_whole: false });
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(TEMPORARY) || (!hidden && name.starts_with('.')) {
                continue;
            }
            let Ok(file_type) = entry.file_type() else { continue };
            let path = folder.join(&name);
            if recursive && file_type.is_dir() {
                folders.push(path.clone());
            }
            found.push(Found { path, kind: kind(file_type) });
        }
    }
    found.sort();
    Ok(Walk { found, is_whole: true })
}

impl List {
    pub(super) fn run(&self, root: &Root, folder: &RelativePath, leave: &Leave) -> Result<Answer, Error> {
        let Walk { mut found, is_whole } = walk(root, folder, self.recursive, true, leave)?;
        // Patterns are about files; folders are shown so that a reader can go on.
        found.retain(|found| found.kind == "folder" || self.include.matches(found.path.as_str()));
        let total = found.len();
        let below = if folder.as_str().is_empty() { 0 } else { folder.as_str().len() + 1 };
        let entries: Vec<Value> = found
            .iter()
            .take(self.max_entries)
            .map(|found| {
                let metadata = root.look(&found.path).ok();
                let modified = metadata
                    .as_ref()
                    .and_then(|metadata| metadata.modified().ok())
                    .map(|time| DateTime::<Utc>::from(time.into_std()).to_rfc3339_opts(SecondsFormat::Secs, true));
                let bytes = metadata.filter(|_| found.kind == "file").map(|metadata| metadata.len());
                let name = found.path.as_str().get(below..).unwrap_or_default();
                json!({"name": name, "type": found.kind, "bytes": bytes, "modified": modified})
            })
            .collect();
        let capped = if !is_whole {
            Some(format!(
                "the folder holds more than {MOST_VISITED} entries; {} of those seen are shown",
                entries.len()
            ))
        } else if total > entries.len() {
            Some(format!("the first {} of {total} entries are shown", entries.len()))
        } else {
            None
        };
        Ok(super::answer(json!({"path": folder.as_str(), "entries": entries, "total": total, "capped": capped})))
    }
}
