//! The folder of the demo: one that nobody else has anything in.
//!
//! A folder that was named has to be empty, and stays. One of our own is private to this user, has a name that
//! nobody can guess or have taken before, and is removed at the end.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// A folder to write into. Dropping it removes it, if it is one of our own.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    ours: bool,
}

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// There is something in it, or it is a file.
    #[error("{0} is there already and is not an empty folder; nothing in it was touched")]
    Taken(PathBuf),
    /// The system does not let us.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Folder {
    /// A folder that was named: made if need be, and kept at the end.
    ///
    /// # Errors
    /// When it holds anything, is no folder, or cannot be made.
    pub fn named(path: &Path) -> Result<Self, FolderError> {
        match std::fs::read_dir(path) {
            Ok(mut entries) => {
                if entries.next().transpose()?.is_some() {
                    return Err(FolderError::Taken(path.to_owned()));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::create_dir_all(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(FolderError::Taken(path.to_owned()));
            }
            Err(error) => return Err(error.into()),
        }
        // Commands that are printed have to work from any other folder.
        Ok(Self { path: std::path::absolute(path)?, ours: false })
    }

    /// A new private folder among the temporary ones.
    ///
    /// # Errors
    /// When it cannot be made, be it that something of its name is there.
    pub fn temporary() -> Result<Self, FolderError> {
        let path = std::env::temp_dir().join(format!("reach-demo-{}", uuid::Uuid::now_v7().simple()));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path: std::path::absolute(path)?, ours: true })
    }

    /// Where it is, from the root.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::error!(%error, folder = %self.path.display(), "the demo's folder could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_temporary_folder_is_new_and_private_and_goes_with_its_owner() {
        let (one, two) = (Folder::temporary().unwrap(), Folder::temporary().unwrap());
        assert_ne!(one.path(), two.path());
        assert_eq!(std::fs::metadata(one.path()).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(one.path().join("x"), "x").unwrap();
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && two.path().exists());
    }

    #[test]
    fn a_named_folder_has_to_be_empty_and_is_kept() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("a/b");
        for _ in 0..2 {
            drop(Folder::named(&path).unwrap());
            assert!(path.is_dir());
        }
        std::fs::write(path.join(".hidden"), "x").unwrap();
        for taken in [path.clone(), path.join(".hidden")] {
            assert!(matches!(Folder::named(&taken), Err(FolderError::Taken(_))), "{taken:?}");
        }
        assert_eq!(std::fs::read_to_string(path.join(".hidden")).unwrap(), "x");
    }
}
