//! Which spellings of a path are taken, and how arguments become one.
//!
//! This is courtesy and a first line, not the wall: the wall is the kernel's, in `root`. Spellings that can
//! only be a mistake or an attack (`..`, absolute, another system's, control characters) get a refusal
//! that says what to write instead.

use reach_core::{Object, Problem};

use super::config::Action;
use super::failure::Error;
use crate::shared::template::{Part, Template, plain};

/// Temporary files of an unfinished write begin with this; such names are never taken or shown.
pub(super) const TEMPORARY: &str = ".reach-tmp-";

/// The longest path, in bytes, and the longest name in it: the kernel's own limits.
const LONGEST_PATH: usize = 4_000;
const LONGEST_NAME: usize = 255;

/// A path below the root: names joined by single slashes, empty for the root itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RelativePath(String);

impl RelativePath {
    pub(super) fn root() -> Self {
        Self(String::new())
    }

    /// Checks a spelling. `.` and doubled slashes are taken out; whatever else is odd is refused.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let refused = |why: &str| Err(Error::Refused(format!("the path {why}")));
        if text.starts_with('/') {
            return refused("is absolute; write it relative to the folder of this tool, without a leading `/`");
        }
        if text.contains('\\') {
            return refused("holds a `\\`; write `/` between folders");
        }
        if text.chars().any(|c| c.is_control()) {
            return refused("holds a control character");
        }
        if text.len() > LONGEST_PATH {
            return refused("is too long");
        }
        let mut names = Vec::new();
        for name in text.split('/').filter(|name| !matches!(*name, "" | ".")) {
            if name == ".." {
                return refused("holds `..`; name the file from the folder of this tool downwards");
            }
            if name.len() > LONGEST_NAME {
                return refused("holds too long a name");
            }
            if name.starts_with(TEMPORARY) {
                return refused("names a temporary file of an unfinished write");
            }
            names.push(name);
        }
        Ok(Self(names.join("/")))
    }

    /// A path that nobody checked, to try the wall behind the check.
    #[cfg(test)]
    pub(super) fn unchecked(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The path of `name` in this folder.
    pub(super) fn join(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}/{name}", self.0)) }
    }

    /// The folder and the last name; `None` for the root.
    pub(super) fn split(&self) -> Option<(RelativePath, &str)> {
        match self.0.rsplit_once('/') {
            Some((folder, name)) => Some((Self(folder.to_owned()), name)),
            None if self.0.is_empty() => None,
            None => Some((Self::root(), &self.0)),
        }
    }

    /// As the kernel takes it.
    pub(super) fn for_system(&self) -> &str {
        if self.0.is_empty() { "." } else { &self.0 }
    }

    /// As callers are shown it: empty for the root.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The declared `path:`, or that there is none (a list or search of the whole root).
#[derive(Debug)]
pub(super) struct PathTemplate(pub(super) Option<Template>);

impl PathTemplate {
    /// Whether a value here may hold `/`: only where it is the last part and begins a name, as in
    /// `{path}` and `docs/{path}`. Anywhere else a value is (part of) one name.
    fn may_span(parts: &[Part], at: usize) -> bool {
        let begins = match at.checked_sub(1).and_then(|before| parts.get(before)) {
            None => true,
            Some(Part::Literal(text)) => text.ends_with('/'),
            Some(Part::Argument(_)) => false,
        };
        begins && at + 1 == parts.len()
    }

    /// The path of one call.
    pub(super) fn resolve(&self, arguments: &Object, action: &Action) -> Result<RelativePath, Error> {
        let in_folder = matches!(action, Action::List(_) | Action::Search(_));
        let Some(template) = &self.0 else { return Ok(RelativePath::root()) };
        let mut text = String::new();
        for (at, part) in template.parts().iter().enumerate() {
            let name = match part {
                Part::Literal(literal) => {
                    text.push_str(literal);
                    continue;
                }
                Part::Argument(name) => name,
            };
            let spans = Self::may_span(template.parts(), at);
            match arguments.get(name).and_then(plain) {
                // A list or search without a path is one of the folder that the operator wrote.
                None if in_folder && spans => {}
                None => return Err(Error::Refused(format!("`{name}` is missing"))),
                Some(value) if !spans && (value.contains('/') || matches!(value.as_str(), "" | "." | "..")) => {
                    return Err(Error::Refused(format!("`{name}` is a single name here, without `/`")));
                }
                Some(value) if spans && value.starts_with('/') => {
                    return Err(Error::Refused(format!("`{name}` is absolute; write it without a leading `/`")));
                }
                Some(value) => text.push_str(&value),
            }
        }
        let path = RelativePath::parse(&text)?;
        if !in_folder && path.0.is_empty() {
            return Err(Error::Refused("the path is empty; name a file".to_owned()));
        }
        if !in_folder && (text.ends_with('/') || text.ends_with("/.")) {
            return Err(Error::Refused("the path ends like a folder; name a file".to_owned()));
        }
        Ok(path)
    }
}

/// Checks the declared `path:` beyond its placeholders: what the operator wrote must be a taken spelling.
pub(super) fn check(template: &Template) -> Option<Problem> {
    let literal: String = template
        .parts()
        .iter()
        .map(|part| match part {
            Part::Literal(text) => text.as_str(),
            Part::Argument(_) => "x",
        })
        .collect();
    match RelativePath::parse(&literal) {
        Err(Error::Refused(why)) => {
            Some(Problem::new("/path", why, "write a path below root, such as `notes/{name}.md`"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_spellings_become_one() {
        for text in ["a/b.md", "./a/b.md", "a//b.md", "a/./b.md"] {
            assert_eq!(RelativePath::parse(text).unwrap().as_str(), "a/b.md", "{text}");
        }
        assert_eq!(RelativePath::parse("").unwrap().for_system(), ".");
        assert_eq!(RelativePath::parse("笔记/今天.md").unwrap().as_str(), "笔记/今天.md");
        assert_eq!(RelativePath::parse("..a/...").unwrap().as_str(), "..a/...");
    }

    #[test]
    fn a_path_splits_into_folder_and_name() {
        let path = RelativePath::parse("a/b/c").unwrap();
        let (folder, name) = path.split().unwrap();
        assert_eq!((folder.as_str(), name), ("a/b", "c"));
        assert!(RelativePath::root().split().is_none());
        assert_eq!(RelativePath::root().join("x").join("y").as_str(), "x/y");
    }
}
