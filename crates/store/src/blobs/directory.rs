//! Blobs in a directory: `ab/cdef…`, one file each, written beside and renamed into place.
//!
//! A file is one line of JSON (the media type) and then the bytes. The id is the hash of owner and
//! content, so that reading recomputes it: a wrong owner, a flipped bit and half a file are all "no such
//! blob". So nothing is synced: a power cut may cost a result, and never shows a wrong one. The total
//! size is capped; the oldest go first. Other processes may use the same directory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use reach_core::BoxFuture;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Blob, Blobs};
use crate::StoreError;

/// The longest header line that is read; a media type is rarely longer than a hundred bytes.
const HEADER_MAX: usize = 4_096;

/// A file that was written beside and never renamed is removed after this.
const ABANDONED_AFTER: Duration = Duration::from_secs(3_600);

/// Blobs in one directory.
#[derive(Debug, Clone)]
pub struct DirectoryBlobs {
    inside: Arc<Inside>,
}

#[derive(Debug)]
struct Inside {
    root: PathBuf,
    max_total_bytes: u64,
    /// What the directory holds, as far as this process knows; looked up anew before anything is evicted.
    total_bytes: Mutex<u64>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    media_type: String,
}

impl DirectoryBlobs {
    /// Opens a directory, and makes it where it does not exist, readable for nobody but the user that
    /// runs reach. Holds at most `max_total_bytes`, headers included. Blocks while it looks at every file.
    pub fn open(path: &Path, max_total_bytes: u64) -> Result<Self, StoreError> {
        let cannot = |error: &io::Error| unavailable(format!("cannot open {}: {error}", path.display()));
        make_folder(path).map_err(|error| cannot(&error))?;
        remove_abandoned(path).map_err(|error| cannot(&error))?;
        let total = list(path).map_err(|error| cannot(&error))?.iter().map(|file| file.bytes).sum();
        let inside = Inside { root: path.to_owned(), max_total_bytes, total_bytes: Mutex::new(total) };
        Ok(Self { inside: Arc::new(inside) })
    }
}

impl Blobs for DirectoryBlobs {
    fn put<'a>(
        &'a self,
        owner: &'a str,
        media_type: &'a str,
        bytes: Vec<u8>,
    ) -> BoxFuture<'a, Result<String, StoreError>> {
        let (inside, owner, media_type) = (Arc::clone(&self.inside), owner.to_owned(), media_type.to_owned());
        Box::pin(off_the_runtime(move || inside.put(&owner, media_type, &bytes)))
    }

    fn get<'a>(&'a self, owner: &'a str, id: &'a str) -> BoxFuture<'a, Result<Option<Blob>, StoreError>> {
        let (inside, owner, id) = (Arc::clone(&self.inside), owner.to_owned(), id.to_owned());
        Box::pin(off_the_runtime(move || inside.get(&owner, &id)))
    }
}

impl Inside {
    fn put(&self, owner: &str, media_type: String, bytes: &[u8]) -> Result<String, StoreError> {
        let id = id_of(owner, bytes);
        let path = self.path_of(&id).ok_or_else(|| unavailable("an id came out wrong"))?;
        let header = serde_json::to_string(&Header { media_type })
            .map_err(|error| unavailable(format!("the media type cannot be written: {error}")))?;
        let size = (header.len() + 1 + bytes.len()) as u64;
        if header.len() >= HEADER_MAX {
            return Err(unavailable("the media type is longer than any real one"));
        }
        if size > self.max_total_bytes {
            return Err(unavailable(format!(
                "a result of {size} bytes is larger than all that may be kept ({} bytes)",
                self.max_total_bytes
            )));
        }
        // The length tells a whole file from one that a power cut left short.
        if fs::metadata(&path).is_ok_and(|found| found.len() == size) {
            // Stored again is as good as new; without the date it merely goes earlier.
            let _ = File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
            return Ok(id);
        }
        self.write(&path, &header, bytes).map_err(|error| said(&error))?;
        self.grow(size, &path).map_err(|error| said(&error))?;
        Ok(id)
    }

    fn get(&self, owner: &str, id: &str) -> Result<Option<Blob>, StoreError> {
        let Some(path) = self.path_of(id) else { return Ok(None) };
        let mut content = Vec::new();
        match File::open(path).and_then(|mut file| file.read_to_end(&mut content)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(said(&error)),
        }
        let header_end = content.iter().take(HEADER_MAX).position(|byte| *byte == b'\n');
        let Some(header_end) = header_end else { return Ok(None) };
        let bytes = content.split_off(header_end + 1);
        if id_of(owner, &bytes) != id {
            return Ok(None);
        }
        let header = serde_json::from_slice::<Header>(&content).ok();
        Ok(header.map(|header| Blob { media_type: header.media_type, bytes }))
    }

    fn write(&self, path: &Path, header: &str, bytes: &[u8]) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            make_folder(folder)?;
        }
        let beside = self.root.join(format!("{BESIDE}{}", uuid::Uuid::now_v7().simple()));
        let write = || {
            let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&beside)?;
            file.write_all(header.as_bytes())?;
            file.write_all(b"\n")?;
            file.write_all(bytes)?;
            fs::rename(&beside, path)
        };
        write().inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })
    }

    /// Counts what was written, and makes room when it is too much: down to nine tenths, so that not
    /// every further blob has to.
    fn grow(&self, by: u64, just_written: &Path) -> io::Result<()> {
        let mut total = self.total_bytes.lock();
        *total += by;
        if *total <= self.max_total_bytes {
            return Ok(());
        }
        let mut files = list(&self.root)?;
        files.sort_by_key(|file| file.modified);
        *total = files.iter().map(|file| file.bytes).sum();
        let wanted = self.max_total_bytes - self.max_total_bytes / 10;
        for file in files.iter().filter(|file| file.path != just_written) {
            if *total <= wanted {
                break;
            }
            match fs::remove_file(&file.path) {
                Ok(()) => *total -= file.bytes,
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => *total -= file.bytes,
                Err(error) => tracing::warn!(%error, "an old blob cannot be removed"),
            }
        }
        Ok(())
    }

    /// Where an id is kept; `None` for text that we never gave out, whatever it tries to be.
    fn path_of(&self, id: &str) -> Option<PathBuf> {
        let hex = id.strip_prefix("b_")?;
        let ours = hex.len() == 40 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        ours.then(|| self.root.join(&hex[..2]).join(&hex[2..]))
    }
}

/// The start of the name of a file that is being written.
const BESIDE: &str = ".beside-";

struct Stored {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
}

/// Every blob of the directory, and nothing else that may lie there.
fn list(root: &Path) -> io::Result<Vec<Stored>> {
    let mut found = Vec::new();
    for folder in fs::read_dir(root)? {
        let folder = folder?;
        if folder.file_name().len() != 2 || !folder.file_type()?.is_dir() {
            continue;
        }
        for file in fs::read_dir(folder.path())? {
            let file = file?;
            // Another process may remove it while we look.
            if let Ok(metadata) = file.metadata()
                && metadata.is_file()
                && file.file_name().len() == 38
            {
                let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                found.push(Stored { path: file.path(), bytes: metadata.len(), modified });
            }
        }
    }
    Ok(found)
}

fn remove_abandoned(root: &Path) -> io::Result<()> {
    for file in fs::read_dir(root)? {
        let file = file?;
        let abandoned = || {
            let age = file.metadata().ok()?.modified().ok()?.elapsed().ok()?;
            Some(age > ABANDONED_AFTER)
        };
        if file.file_name().to_string_lossy().starts_with(BESIDE) && abandoned() == Some(true) {
            let _ = fs::remove_file(file.path());
        }
    }
    Ok(())
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The owner's length stands first, so that no owner and content can be read as another pair.
fn id_of(owner: &str, bytes: &[u8]) -> String {
    let digest = Sha256::new()
        .chain_update((owner.len() as u64).to_be_bytes())
        .chain_update(owner.as_bytes())
        .chain_update(bytes)
        .finalize();
    let hex: String = digest.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
    format!("b_{hex}")
}

async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| unavailable("the work on a blob broke off"))?
}

fn unavailable(message: impl Into<String>) -> StoreError {
    StoreError { store: "blobs", message: message.into() }
}

fn said(error: &io::Error) -> StoreError {
    unavailable(match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full; free some space".to_owned(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "the directory cannot be written; make it writable for the user that runs reach".to_owned()
        }
        _ => error.to_string(),
    })
}
