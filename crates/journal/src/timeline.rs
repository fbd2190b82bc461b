//! A session or trace, call by call.
