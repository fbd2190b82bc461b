//! The `file` adapter in the shared suite, and what is its own.
