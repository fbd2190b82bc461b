//! House rules that run as ordinary tests (`cargo nextest run -p xtask`): which crate may import which,
//! that every module opens with a paragraph, that every crate inherits the lints, and that generated
//! files are what they would be if they were generated now.
//!
//! A rule lives here when no compiler can see it.

use std::path::PathBuf;

/// The root of the workspace.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).unwrap_or_default()
}

/// Compares a checked-in file with what it should be; rewrites it instead when `REACH_BLESS` is set.
/// `Err` names the file and the command that mends it.
pub fn compare(path: &std::path::Path, wanted: &str) -> Result<(), String> {
    if std::env::var_os("REACH_BLESS").is_some() {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        return std::fs::write(path, wanted).map_err(|error| error.to_string());
    }
    match std::fs::read_to_string(path) {
        Ok(found) if found == wanted => Ok(()),
        _ => Err(format!("{} is out of date; run the tests once with REACH_BLESS=1", path.display())),
    }
}
