//! Integration tests of the facade, one binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod config;
mod config_schema;
mod config_values;
mod reload;
