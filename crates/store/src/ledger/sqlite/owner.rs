//! Which processes are alive, by the word of the kernel.
//!
//! Each open ledger holds an exclusive lock on a file of its own beside the database. The kernel drops
//! the lock with the process, however that ends, so whoever can take the lock of an owner knows that it
//! is gone. No clock and no process id is ever trusted.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The lock of one owner. Dropping it removes the file and lets go.
#[derive(Debug)]
pub(super) struct OwnerLock {
    path: PathBuf,
    _file: File,
}

/// Whether an owner still runs.
pub(super) enum Liveness {
    /// It holds its lock.
    Alive,
    /// It is gone. The lock, if there was still a file, is ours until its records are settled.
    Gone(Option<OwnerLock>),
}

impl OwnerLock {
    /// Takes a fresh owner id and its lock.
    pub(super) fn take(ledger: &Path) -> io::Result<(String, Self)> {
        // Between creating the file and locking it, a recovering process may take it for a dead owner's
        // and remove it; the inode tells, and the next id is tried.
        for _ in 0..16 {
            let id = uuid::Uuid::now_v7().simple().to_string();
            let path = lock_path(ledger, &id);
            let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path)?;
            if file.try_lock().is_ok() && is_still_at(&file, &path) {
                return Ok((id, Self { path, _file: file }));
            }
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "another process keeps taking the owner locks of this ledger"))
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // Removed while still locked: nobody can mistake the name for another owner's.
        if let Err(error) = std::fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, "an owner's lock file stays behind");
        }
    }
}

/// Whether an owner still runs. An owner without a file is gone.
pub(super) fn liveness(ledger: &Path, id: &str) -> io::Result<Liveness> {
    if !is_owner_id(id) {
        return Ok(Liveness::Gone(None));
    }
    let path = lock_path(ledger, id);
    let file = match OpenOptions::new().write(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Liveness::Gone(None)),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => Ok(Liveness::Gone(Some(OwnerLock { path, _file: file }))),
        Err(std::fs::TryLockError::WouldBlock) => Ok(Liveness::Alive),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

/// The owners that have a lock file, alive or not.
pub(super) fn known(ledger: &Path) -> io::Result<BTreeSet<String>> {
    let (Some(folder), Some(name)) = (ledger.parent(), ledger.file_name().and_then(|name| name.to_str())) else {
        return Ok(BTreeSet::new());
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let prefix = format!("{name}.owner-");
    let mut owners = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        let file_name = entry?.file_name();
        let id = file_name.to_str().and_then(|name| name.strip_prefix(&prefix)?.strip_suffix(".lock"));
        owners.extend(id.filter(|id| is_owner_id(id)).map(str::to_owned));
    }
    Ok(owners)
}

fn lock_path(ledger: &Path, id: &str) -> PathBuf {
    let mut path = ledger.as_os_str().to_owned();
    path.push(format!(".owner-{id}.lock"));
    PathBuf::from(path)
}

/// Owner ids come back from a file that others may write; as part of a path they must be what we made.
fn is_owner_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a path still leads to this open file.
pub(super) fn is_still_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => open.dev() == named.dev() && open.ino() == named.ino(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_means_alive_and_a_dropped_one_gone() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = folder.path().join("ledger.db");
        let (id, lock) = OwnerLock::take(&ledger).unwrap();
        assert!(matches!(liveness(&ledger, &id).unwrap(), Liveness::Alive));
        assert!(known(&ledger).unwrap().contains(&id));
        drop(lock);
        assert!(matches!(liveness(&ledger, &id).unwrap(), Liveness::Gone(None)));
        assert!(known(&ledger).unwrap().is_empty());
    }

    #[test]
    fn a_lock_file_that_nobody_holds_is_taken_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = folder.path().join("ledger.db");
        let id = "0".repeat(32);
        std::fs::write(lock_path(&ledger, &id), "").unwrap();
        let Liveness::Gone(Some(lock)) = liveness(&ledger, &id).unwrap() else { panic!("nobody holds it") };
        assert!(matches!(liveness(&ledger, &id).unwrap(), Liveness::Alive), "ours while we settle");
        drop(lock);
        assert!(known(&ledger).unwrap().is_empty());
    }

    #[test]
    fn an_owner_id_from_a_tampered_file_never_becomes_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = folder.path().join("ledger.db");
        for id in ["", "../../etc/passwd", "x/../../y", &"g".repeat(32)] {
            assert!(matches!(liveness(&ledger, id).unwrap(), Liveness::Gone(None)), "{id:?}");
        }
    }
}
