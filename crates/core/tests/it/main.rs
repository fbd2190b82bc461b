//! What the words of Reach promise, seen from outside: one binary, one theme a file.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests may fail a test, and say which rows ran"
)]

mod arguments;
mod closing;
mod corpora;
mod exact;
