//! Blobs in a directory: placeholder while its room is furnished.

/// Blobs in one directory.
#[derive(Debug)]
pub struct DirectoryBlobs {}
