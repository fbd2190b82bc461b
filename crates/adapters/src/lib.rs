//! The bodies behind declared tools: one folder per adapter, one promise for all of them.
//!
//! Each adapter has a `Config` (what its key in `reach.yaml` may hold), a `build` that reports every
//! problem of a declaration at once, and a private error type folded into `reach_core::Failure` in one
//! place. The promise is the suite in `tests/it/suite.rs`: an adapter exists when it passes.
//!
//! Nothing here retries, checks scopes, or knows the engine.

pub mod email;
pub mod file;
pub mod http;
pub mod script;
pub mod shared;
pub mod sql;
