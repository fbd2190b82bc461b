//! The tools, checked and compiled: an immutable snapshot.

/// A snapshot of every declared tool.
#[derive(Default)]
pub struct Registry {}
