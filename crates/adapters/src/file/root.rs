//! The folder of a tool, as the kernel guards it.
//!
//! Everything opens through one directory handle with `openat2(RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)`.
//! Files are looked at before they are opened, opened without waiting (`O_NONBLOCK`), and looked at again
//! through the open handle: a pipe, socket or device is never read, not even one put there in between.

use std::io::Read;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry, File, FileType, FileTypeExt, Metadata, OpenOptions, OpenOptionsExt};

use super::failure::{Error, Stage};
use super::path::RelativePath;

/// An open root.
#[derive(Debug)]
pub(super) struct Root {
    dir: Dir,
}

impl Root {
    /// Opens the folder that the operator declared, links and all: it is the operator's word.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        Dir::open_ambient_dir(path, ambient_authority()).map(|dir| Self { dir }).map_err(Error::Root)
    }

    /// A regular file for reading, and what it is now.
    pub(super) fn file(&self, path: &RelativePath) -> Result<(File, Metadata), Error> {
        let failed = |error| Error::system(path.as_str(), "read", Stage::Reading, error);
        regular(path, self.dir.metadata(path.for_system()).map_err(failed)?)?;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = self.dir.open_with(path.for_system(), &options).map_err(failed)?;
        let metadata = regular(path, file.metadata().map_err(failed)?)?;
        Ok((file, metadata))
    }

    /// The bytes of a regular file of at most `cap` bytes.
    pub(super) fn bytes(&self, path: &RelativePath, cap: u64) -> Result<Vec<u8>, Error> {
        let (file, metadata) = self.file(path)?;
        let too_large = |bytes| Error::TooLarge { path: path.as_str().to_owned(), bytes, cap };
        if metadata.len() > cap {
            return Err(too_large(metadata.len()));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
        file.take(cap.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| Error::system(path.as_str(), "read", Stage::Reading, error))?;
        // It may have grown since.
        if bytes.len() as u64 > cap { Err(too_large(bytes.len() as u64)) } else { Ok(bytes) }
    }

    /// A folder below the root.
    pub(super) fn folder(&self, path: &RelativePath, stage: Stage) -> Result<Dir, Error> {
        self.dir.open_dir(path.for_system()).map_err(|error| Error::system(path.as_str(), "opened", stage, error))
    }

    /// Makes one folder whose parent exists.
    pub(super) fn make_folder(&self, path: &RelativePath) -> std::io::Result<()> {
        self.dir.create_dir(path.for_system())
    }

    /// What lies in a folder, in no order. Entries that vanish while they are read are left out.
    pub(super) fn entries(&self, path: &RelativePath) -> Result<impl Iterator<Item = DirEntry> + use<>, Error> {
        let failed = |error| Error::system(path.as_str(), "listed", Stage::Reading, error);
        let entries = self.dir.read_dir(path.for_system()).map_err(failed)?;
        Ok(entries.filter_map(Result::ok))
    }

    /// What lies at a path, without following a link in its last place.
    pub(super) fn look(&self, path: &RelativePath) -> std::io::Result<Metadata> {
        self.dir.symlink_metadata(path.for_system())
    }
}

/// Fails for whatever is no regular file, and says what it is.
pub(super) fn regular(path: &RelativePath, metadata: Metadata) -> Result<Metadata, Error> {
    let path = path.as_str().to_owned();
    match kind(metadata.file_type()) {
        "file" => Ok(metadata),
        "folder" => Err(Error::Folder(path)),
        "link" => Err(Error::NotRegular { path, kind: "a symbolic link, which this tool does not follow" }),
        "pipe" => Err(Error::NotRegular { path, kind: "a pipe" }),
        "socket" => Err(Error::NotRegular { path, kind: "a socket" }),
        _ => Err(Error::NotRegular { path, kind: "a device" }),
    }
}

/// The word callers read for a type.
pub(super) fn kind(file_type: FileType) -> &'static str {
    if file_type.is_file() {
        "file"
    } else if file_type.is_dir() {
        "folder"
    } else if file_type.is_symlink() {
        "link"
    } else if file_type.is_fifo() {
        "pipe"
    } else if file_type.is_socket() {
        "socket"
    } else {
        "device"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The check of spellings is courtesy; here every attack meets the kernel without it.
    #[test]
    fn the_kernel_alone_keeps_every_path_inside() {
        let base = tempfile::tempdir().unwrap();
        let (inner, outer) = (base.path().join("root"), base.path().join("outside"));
        for folder in [inner.join("notes/deep"), outer.join("deep")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        for name in ["canary.txt", "deep/canary.txt"] {
            std::fs::write(outer.join(name), "canary").unwrap();
        }
        for (link, to) in
            [("out", "../outside"), ("chain", "out"), ("notes/up", "../.."), ("to-root", "/"), ("proc", "/proc")]
        {
            std::os::unix::fs::symlink(to, inner.join(link)).unwrap();
        }
        let root = Root::open(&inner).unwrap();
        let attacks: Vec<Value> = serde_json::from_str(include_str!("../../../../suites/path-attacks.json")).unwrap();
        let mut refused = 0;
        for attack in &attacks {
            let text = attack["path"].as_str().unwrap().replace("{OUTSIDE}", outer.to_str().unwrap());
            let path = RelativePath::unchecked(&text.replace("{ROOT}", inner.to_str().unwrap()));
            let read = root.bytes(&path, 1 << 20);
            assert!(!read.as_ref().is_ok_and(|bytes| bytes == b"canary"), "{path:?}");
            refused += usize::from(read.is_err());
            if let Ok(entries) = root.entries(&path) {
                let mut names = entries.map(|entry| entry.file_name());
                assert!(!names.any(|name| name == "canary.txt" || name == "root"), "{path:?}");
            }
            assert!(!root.look(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == 6), "{path:?}");
            if !attack["reads_only"].as_bool().unwrap_or(false) {
                let _ = root.make_folder(&path);
                assert!(!outer.join("new").exists());
            }
        }
        assert_eq!(refused, attacks.len(), "nothing here is a readable file inside");
        let mut names: Vec<_> =
            std::fs::read_dir(base.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["outside", "root"], "no folder was made outside");
    }

    #[test]
    fn a_file_is_read_only_up_to_its_cap() {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("a"), "12345").unwrap();
        let root = Root::open(base.path()).unwrap();
        let path = RelativePath::parse("a").unwrap();
        assert_eq!(root.bytes(&path, 5).unwrap(), b"12345");
        assert!(matches!(root.bytes(&path, 4), Err(Error::TooLarge { bytes: 5, cap: 4, .. })));
    }
}
