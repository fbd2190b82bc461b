//! Reach as a library, and everything of the binary `reach` but its `main`.
//!
//! - [`config`]: from the text of `reach.yaml` to checked values, all problems at once.
//! - [`assemble`]: the only place that puts the parts together; the end-to-end tests use it, too.
//! - [`reload`]: watches the file; [`adopt`]: swaps the tools and callers without dropping a call.
//! - [`cli`]: the commands.

pub mod adopt;
pub mod assemble;
pub mod cli;
pub mod config;
pub mod demo;
pub mod reload;
