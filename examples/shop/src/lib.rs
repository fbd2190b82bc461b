//! A small shop to try Reach on: real protocols on loopback, nothing to install, and each part can be
//! told to fail.

pub mod orders;
