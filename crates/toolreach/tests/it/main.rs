//! Integration tests of the facade, one binary.

mod config;
mod config_schema;
mod config_values;
mod reload;
