//! The board in memory: placeholder while its room is furnished.

/// The board of one process.
#[derive(Debug, Default)]
pub struct MemoryBoard {}
