//! Integration tests of the facade, one binary.

mod config;
