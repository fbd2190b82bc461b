//! The demo: the shop, a gateway in front of it, and a story told by real calls.
//!
//! Nothing in it is staged: the shop's systems speak their protocols on loopback, the gateway is assembled
//! as `reach serve` assembles it, the calls go over its HTTP API, and what is printed is what came back.

mod folder;
mod gateway;
mod story;

pub use folder::{Folder, FolderError};
pub use gateway::Gateway;
pub use story::tell;
