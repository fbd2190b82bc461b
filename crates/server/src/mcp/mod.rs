//! The tools as an MCP server: streamable HTTP under `/mcp`, and standard input and output.
//!
//! Both protocol eras are spoken: the `initialize` handshake of the revisions up to 2025-11-25, and the
//! per-request metadata of 2026-07-28. A call walks the same road as everywhere else. `rmcp` stays inside
//! this module; nothing of it is in a public signature.
//!
//! Read next: [`handler`] (what is answered), [`convert`] (in which shape), [`names`], then the transports.

mod convert;
mod exactness;
mod handler;
mod names;
mod over_http;
mod over_stdio;

pub(crate) use convert::listing;
pub(crate) use over_http::mount;
pub use over_stdio::{StdioError, stdio, stream};
