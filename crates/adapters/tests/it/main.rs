//! Integration tests of the adapters, one binary: the shared suite and each adapter's own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    unreachable_pub,
    reason = "everything here is a test or serves one; what fails here is a finding"
)]

mod email;
mod file;
mod http;
mod http_address;
mod http_answer;
mod http_request;
mod script;
mod sql;
mod suite;
