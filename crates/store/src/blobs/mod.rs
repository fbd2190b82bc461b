//! Blobs: whole results that are too large to show, under the name of their content.

mod directory;

pub use directory::DirectoryBlobs;

use reach_core::BoxFuture;

use crate::StoreError;

/// A place for bytes. The id is `b_` and the first 40 hexadecimal digits of the SHA-256 of owner and
/// content, so that storing twice stores once and nobody can guess another caller's.
pub trait Blobs: Send + Sync + 'static {
    /// Stores bytes for one owner (a caller's id), and returns their id.
    fn put<'a>(
        &'a self,
        owner: &'a str,
        media_type: &'a str,
        bytes: Vec<u8>,
    ) -> BoxFuture<'a, Result<String, StoreError>>;

    /// The bytes and their media type; `None` when there is no such blob of this owner.
    fn get<'a>(&'a self, owner: &'a str, id: &'a str) -> BoxFuture<'a, Result<Option<Blob>, StoreError>>;
}

/// A stored blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// What kind of bytes.
    pub media_type: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}
