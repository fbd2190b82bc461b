//! What goes wrong outside, and what becomes of it: every fault against the table, and crashes with real
//! processes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod crash;
mod matrix;
