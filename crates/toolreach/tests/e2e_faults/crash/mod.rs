//! Crashes: the real binary, a ledger upstream in a process of its own, and SIGKILL.
//!
//! Nothing is asked of a process that died. What counts is on disk: the upstream's file of effects and
//! the gateway's ledger, opened read-only.

mod books;
mod draining;
mod points;
mod process;
mod random;
mod upstream;
