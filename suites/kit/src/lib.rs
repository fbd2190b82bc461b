//! What the tests of several crates need: real upstreams, real databases, and a network that fails on cue.
//!
//! Nothing here is part of the product.

pub mod databases;
pub mod proxy;
