//! The last passes: sections to typed values, and what no schema can say.
//!
//! Each part is checked as far as it is sound by itself: a tool with an unknown key does not keep the
//! reader from learning that another tool's fallback runs in a circle. One file per part; each returns what
//! it could build and leaves its problems in the [`Draft`].

mod callers;
mod credentials;
mod fallback;
mod server;
mod state;
mod tools;
mod upstreams;
mod verify;

use std::path::Path;

use reach_core::Problem;
use secrecy::SecretString;
use serde::de::DeserializeOwned;

use super::checked::{Config, Digest};
use super::tree::{Node, Place};
use super::{secrets, tree};

/// One problem, and its place where the pointer does not tell it.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) problem: Problem,
    pub(crate) place: Option<Place>,
}

/// The file while it is being checked.
pub(crate) struct Draft<'a> {
    /// The tree, expanded.
    pub(crate) root: &'a Node,
    /// The folder that relative paths start from.
    pub(crate) base: &'a Path,
    /// What was found so far; pointers are absolute.
    pub(crate) findings: Vec<Finding>,
    /// Secrets of the file.
    pub(crate) secrets: Vec<SecretString>,
}

impl Draft<'_> {
    /// Adds a problem. Its pointer is absolute.
    fn add(&mut self, pointer: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) {
        self.findings.push(Finding { problem: Problem::new(pointer, message, fix), place: None });
    }

    /// Adds the problems of a part, whose pointers are relative to it.
    fn add_under(&mut self, prefix: &str, problems: Vec<Problem>) {
        let under = problems.into_iter().map(|problem| Finding { problem: problem.under(prefix), place: None });
        self.findings.extend(under);
    }

    /// Whether nothing is known to be wrong at or below a pointer.
    fn is_sound(&self, pointer: &str) -> bool {
        !self.findings.iter().any(|finding| secrets::is_below(&finding.problem.pointer, pointer))
    }

    /// Reads a part into its type. `None` where it is absent, or already known to be wrong.
    fn part<T: DeserializeOwned>(&mut self, pointer: &str) -> Option<T> {
        let node = self.root.at(pointer)?;
        if !self.is_sound(pointer) {
            return None;
        }
        match serde_json::from_value(node.to_value()) {
            Ok(part) => Some(part),
            Err(error) => {
                // The schema promises that this does not happen; a type that reads less than its schema
                // says is still no reason to stop. The library's words may quote a value.
                let words = error.to_string();
                let quiet = secrets::is_hidden(pointer, Some(node)) || words.contains('"');
                let message =
                    if quiet { "this cannot be read".to_owned() } else { format!("this cannot be read: {words}") };
                self.add(pointer, message, "compare it with `reach schema config`");
                None
            }
        }
    }

    /// The keys of a mapping, in order; none if it is absent.
    fn keys(&self, pointer: &str) -> Vec<String> {
        match self.root.at(pointer).map(|node| &node.data) {
            Some(tree::Data::Map(entries)) => {
                let mut keys: Vec<String> = Vec::new();
                for entry in entries {
                    if !keys.contains(&entry.key) {
                        keys.push(entry.key.clone());
                    }
                }
                keys
            }
            _ => Vec::new(),
        }
    }

    /// `line 12`: for messages that name a second place.
    fn line(&self, pointer: &str) -> String {
        format!("line {}", self.root.locate(pointer).line)
    }
}

/// Checks everything that is sound enough to be checked, and builds what can be built. `None` when anything
/// at all is wrong; the draft then holds every problem.
pub(crate) fn check(draft: &mut Draft<'_>, digest: Digest) -> Option<Config> {
    let credentials = credentials::check(draft);
    let callers = callers::check(draft);
    let server = server::check(draft);
    let state = state::check(draft);
    let ids = tools::ids(draft);
    let mut tools = tools::check(draft, &ids, &credentials);
    fallback::check(draft, &ids, &mut tools);
    verify::check(draft, &ids, &mut tools);
    let upstreams = upstreams::check(draft, &tools);
    if !draft.findings.is_empty() {
        return None;
    }
    let (state, keep) = state?;
    Some(Config {
        digest,
        server: server?,
        tools: tools.into_iter().map(|tool| tool.declared).collect::<Option<_>>()?,
        callers,
        upstreams,
        state,
        keep,
        base: draft.base.to_owned(),
        secrets: std::mem::take(&mut draft.secrets),
    })
}

/// ``did you mean `x`?``, or the names there are.
fn nearest_or_all<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>, nothing: &str) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match reach_core::nearest::nearest(wanted, known.iter().copied(), 1).first() {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => nothing.to_owned(),
        None if known.len() > 12 => format!("{} of them are declared; `reach tools` lists them", known.len()),
        None => {
            format!("declared here: {}", known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A name as it may stand in a message: short, on one line.
fn quoted(name: &str) -> String {
    let clean: String = name.chars().take(60).map(|c| if c.is_control() || c == '`' { ' ' } else { c }).collect();
    format!("`{clean}`")
}
