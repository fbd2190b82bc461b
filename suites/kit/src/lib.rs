//! What the tests of several crates stand on: real databases, and other sides that misbehave on purpose.
//!
//! Nothing here knows a crate of ours, and nothing is part of the product: a server in this kit speaks its
//! protocol over a real socket, so that the same one serves the tests of an adapter, of the executor and of
//! the whole gateway.

pub mod databases;
pub mod http;
pub mod ledger_upstream;
pub mod proxy;
