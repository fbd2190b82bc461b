//! `include:` patterns: `*` within a name, `**` across folders, `?` for one character; all else is literal.

use reach_core::Problem;
use regex::Regex;

/// Patterns of which one has to match; none at all matches everything.
#[derive(Debug, Default)]
pub(super) struct Globs(Vec<Pattern>);

#[derive(Debug)]
struct Pattern {
    regex: Regex,
    /// A pattern without `/` is about the name alone, wherever the file lies.
    by_name: bool,
}

impl Globs {
    /// Compiles the declared patterns; problems carry their place in `include`.
    pub(super) fn parse(patterns: &[String], problems: &mut Vec<Problem>) -> Self {
        let mut globs = Vec::new();
        for (at, pattern) in patterns.iter().enumerate() {
            let pointer = format!("/include/{at}");
            if pattern.trim().is_empty()
                || pattern.starts_with('/')
                || pattern.contains(['[', ']', '{', '}', '!', '\\'])
            {
                problems.push(Problem::new(
                    pointer,
                    format!("`{pattern}` is no pattern of this kind"),
                    "use names, `*`, `**` and `?` below root, such as `*.md` or `guides/**`",
                ));
                continue;
            }
            match Regex::new(&translate(pattern)) {
                Ok(regex) => globs.push(Pattern { regex, by_name: !pattern.contains('/') }),
                Err(error) => problems.push(Problem::new(pointer, error.to_string(), "use a shorter pattern")),
            }
        }
        Self(globs)
    }

    /// Whether a file of this path below the root is included.
    pub(super) fn matches(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.0.is_empty() || self.0.iter().any(|glob| glob.regex.is_match(if glob.by_name { name } else { path }))
    }
}

fn translate(pattern: &str) -> String {
    let mut regex = String::from("^(?s:");
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("**/") {
            regex.push_str("(?:.*/)?");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("**") {
            regex.push_str(".*");
            rest = after;
        } else {
            match c {
                '*' => regex.push_str("[^/]*"),
                '?' => regex.push_str("[^/]"),
                other => regex.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    regex.push_str(")$");
    regex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_people_expect() {
        for (pattern, yes, no) in [
            ("*.md", vec!["a.md", "deep/er/b.md"], vec!["a.mdx", "a.txt", "md"]),
            ("guides/*.md", vec!["guides/a.md"], vec!["guides/x/a.md", "a.md"]),
            ("guides/**", vec!["guides/a", "guides/x/y.txt"], vec!["guide/a"]),
            ("**/faq.md", vec!["faq.md", "a/b/faq.md"], vec!["xfaq.md"]),
            ("a?.t+t", vec!["ab.t+t"], vec!["a.t+t", "ab.ttt"]),
            ("手册*", vec!["手册一.md"], vec!["旧手册"]),
        ] {
            let mut problems = Vec::new();
            let globs = Globs::parse(&[pattern.to_owned()], &mut problems);
            assert!(problems.is_empty(), "{problems:?}");
            for path in yes {
                assert!(globs.matches(path), "{pattern} {path}");
            }
            for path in no {
                assert!(!globs.matches(path), "{pattern} {path}");
            }
        }
    }

    #[test]
    fn patterns_of_another_kind_are_problems_with_their_place() {
        let mut problems = Vec::new();
        Globs::parse(&["*.md".into(), "[ab].md".into(), "/etc/*".into()], &mut problems);
        assert_eq!(problems.iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/include/1", "/include/2"]);
    }
}
