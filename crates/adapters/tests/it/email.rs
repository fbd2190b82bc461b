//! The `email` adapter in the shared suite, and what is its own.
