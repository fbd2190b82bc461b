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
