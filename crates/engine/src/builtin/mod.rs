//! Tools that Reach brings itself. They walk the same road as declared ones.

pub mod read_result;
