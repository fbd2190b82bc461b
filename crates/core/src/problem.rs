//! Something wrong in a declaration, as its reader needs it: where, what, and how to mend it.
//!
//! Whoever checks a part of the configuration returns *all* its problems, each with a JSON pointer
//! relative to that part; the configuration room turns pointers into file, line and column.

/// One problem of one declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// JSON pointer into the part that was checked, such as `/url` or `/properties/id/pattern`; empty for
    /// the part as a whole.
    pub pointer: String,
    /// What is wrong, as a sentence without a full stop. Never a value that may be secret.
    pub message: String,
    /// What to write instead.
    pub fix: String,
}

impl Problem {
    /// A problem at `pointer`.
    pub fn new(pointer: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into(), fix: fix.into() }
    }

    /// The same problem seen from one level up: `prefix` is put before the pointer.
    pub fn under(mut self, prefix: &str) -> Self {
        self.pointer.insert_str(0, prefix);
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.pointer.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.pointer, self.message)
        }
    }
}
