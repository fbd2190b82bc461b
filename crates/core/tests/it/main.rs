//! What the words of Reach promise, seen from outside: one binary, one theme a file.

mod arguments;
mod closing;
mod corpora;
mod exact;
