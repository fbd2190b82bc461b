//! Integration tests of the adapters, one binary: the shared suite and each adapter's own.

mod email;
mod file;
mod http;
mod script;
mod sql;
mod suite;
