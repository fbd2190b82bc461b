//! The surfaces of a gateway: an HTTP API, and an MCP server over HTTP and over standard input and output.
//!
//! Every surface does the same three things: find out who is calling ([`auth`]), turn what came over the
//! wire into a [`reach_core::Plan`], and turn the [`reach_core::Envelope`] back. Nothing here decides
//! whether a call may be made or repeated: that is the engine's, so that all surfaces answer alike. Wire
//! types live in this crate only; no other crate speaks HTTP or MCP to callers.
//!
//! Read in this order: [`Settings`], [`Server`], [`auth`], then `http/` and [`mcp`].

pub mod auth;
mod connection;
mod http;
pub mod mcp;
mod metrics;
pub mod openapi;
mod road;
mod server;
mod settings;

pub use auth::{Callers, ExposureError, check_exposure};
pub use server::{BindError, Drained, Server};
pub use settings::Settings;

/// The scope that may see every caller's traces and sessions, move breakers and settle unknown outcomes.
pub const OPERATE: &str = "reach:operate";
