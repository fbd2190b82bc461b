//! The whole road, end to end: configuration text, the composition root or the real binary, real sockets,
//! real files. Low-level rules are held by the crates' own tests; what is here proves the wiring, the
//! cases that people reported in public, and that no secret gets anywhere.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod cases;
mod cli;
mod demo;
mod docs;
mod field;
mod listing;
mod secrets;
mod serve;
mod signals;
mod support;
