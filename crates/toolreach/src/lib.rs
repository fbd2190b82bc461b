//! Placeholder.
pub mod config;
pub mod reload;
