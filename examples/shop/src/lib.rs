//! The example shop: real systems on loopback for the demo, the tests and your first try.

pub mod smtp;
