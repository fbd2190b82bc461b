//! Everything that is wrong with a file, for people and for programs.
//!
//! A report is sorted by place, shows the line in question with a caret under it, and says how to mend it.
//! The lines it shows are masked when the report is made (see [`super::secrets`]): a report holds no secret,
//! so it may be logged, pasted and sent.

use std::fmt::Write as _;
use std::ops::Range;

use serde::Serialize;

use super::secrets::{self, HIDDEN};
use super::tree::Place;

/// Characters of a line that are shown at most.
const SHOWN: usize = 160;

/// Why a configuration was not taken: all its problems, never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The file, as it was named to us.
    pub file: String,
    /// The problems, sorted by place.
    pub problems: Vec<Located>,
}

/// One problem and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Located {
    /// Line, from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// Column, from 1, in characters; 0 when the file as a whole is meant.
    pub column: usize,
    /// JSON pointer of the value that is meant.
    pub pointer: String,
    /// What is wrong, without a full stop.
    pub message: String,
    /// What to write instead; may be empty.
    pub fix: String,
    /// The line, secrets masked; null when it may not be shown.
    pub source: Option<SourceLine>,
}

/// A line of the file as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceLine {
    /// The text of the line.
    pub text: String,
    /// Cells of a terminal before the caret.
    pub caret: usize,
    /// Cells the caret underlines; at least 1.
    pub width: usize,
}

impl Report {
    /// A report of a single problem with the file as a whole: it cannot be read, for example.
    pub(crate) fn of_file(file: String, message: impl Into<String>, fix: impl Into<String>) -> Self {
        let problem = Located {
            line: 0,
            column: 0,
            pointer: String::new(),
            message: message.into(),
            fix: fix.into(),
            source: None,
        };
        Self { file, problems: vec![problem] }
    }

    /// Puts the problems in the order of the file.
    pub(crate) fn sorted(file: String, mut problems: Vec<Located>) -> Self {
        problems.sort_by(|a, b| (a.line, a.column, &a.message).cmp(&(b.line, b.column, &b.message)));
        // What stands behind an anchor is told once, however many aliases lead to it.
        problems.dedup_by(|b, a| (a.line, a.column, &a.message) == (b.line, b.column, &b.message));
        Self { file, problems }
    }

    /// For a terminal: each problem with its line, a caret and a fix, then the count.
    pub fn render(&self, colour: bool) -> String {
        let paint =
            |code: &str, text: &str| if colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() };
        let mut out = String::new();
        for problem in &self.problems {
            let place = match problem.line {
                0 => self.file.clone(),
                line => format!("{}:{line}:{}", self.file, problem.column),
            };
            let _ = writeln!(out, "{}: {}", paint("1", &place), problem.message);
            if let Some(source) = &problem.source {
                let number = problem.line.to_string();
                let margin = " ".repeat(number.len());
                let caret = paint("1;31", &"^".repeat(source.width));
                let _ = writeln!(out, "  {} {}", paint("34", &format!("{number} |")), source.text);
                let _ = writeln!(out, "  {} {}{caret}", paint("34", &format!("{margin} |")), " ".repeat(source.caret));
            }
            if !problem.fix.is_empty() {
                let _ = writeln!(out, "  {} {}", paint("32", "fix:"), problem.fix);
            }
            out.push('\n');
        }
        let count = self.problems.len();
        let _ = writeln!(out, "{}: {count} problem{}", self.file, if count == 1 { "" } else { "s" });
        out
    }

    /// For a program: `{"file", "problems": [{"line", "column", "pointer", "message", "fix", "source"}]}`.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "file": self.file, "problems": self.problems })
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Report {}

/// The lines of a file, ready to be shown with what is hidden masked.
pub(crate) struct Source<'a> {
    lines: Vec<Line<'a>>,
    hidden: Vec<Range<usize>>,
    has_tree: bool,
}

struct Line<'a> {
    text: &'a str,
    /// Characters before this line.
    offset: usize,
}

impl<'a> Source<'a> {
    /// `hidden`: stretches to mask, in characters; `None` when the file could not be read as a tree, and
    /// each line has to be judged by its text.
    pub(crate) fn new(text: &'a str, hidden: Option<Vec<Range<usize>>>) -> Self {
        let mut offset = 0;
        let lines = text
            .split('\n')
            .map(|line| {
                let this = Line { text: line.trim_end_matches('\r'), offset };
                offset += line.chars().count() + 1;
                this
            })
            .collect();
        Self { lines, has_tree: hidden.is_some(), hidden: hidden.unwrap_or_default() }
    }

    /// The line at a place, with a caret under what is meant.
    pub(crate) fn line(&self, place: Place) -> Option<SourceLine> {
        let index = place.line.checked_sub(1)?;
        let line = self.lines.get(index)?;
        if !self.has_tree {
            let texts: Vec<&str> = self.lines.iter().map(|line| line.text).collect();
            if !secrets::line_may_be_shown(&texts, index) {
                return None;
            }
        }
        let characters: Vec<char> = line.text.chars().collect();
        let caret_start = (place.column - 1).min(characters.len());
        let caret_end = (caret_start + place.length.max(1)).min(characters.len());
        let mut masks: Vec<Range<usize>> = self
            .hidden
            .iter()
            .map(|range| range.start.saturating_sub(line.offset)..range.end.saturating_sub(line.offset))
            .filter(|range| range.start < range.end && range.start < characters.len())
            .chain(secrets::url_secrets(&characters))
            .collect();
        // Beside a secret, a comment may hold the one before.
        let commented = characters.windows(2).position(|pair| pair[0].is_whitespace() && pair[1] == '#');
        if let (Some(comment), false) = (commented, masks.is_empty()) {
            masks.push(comment + 2..characters.len());
        }
        masks.sort_by_key(|range| range.start);
        Some(masked(&characters, &masks, caret_start..caret_end))
    }
}

/// Writes out a line with its masks, following where the caret goes.
fn masked(characters: &[char], masks: &[Range<usize>], caret: Range<usize>) -> SourceLine {
    let mut text = String::new();
    let (mut cells, mut caret_start, mut caret_end) = (0, None, None);
    let mut index = 0;
    while index < characters.len() && index < SHOWN {
        if index >= caret.start && caret_start.is_none() {
            caret_start = Some(cells);
        }
        if index >= caret.end && caret_end.is_none() {
            caret_end = Some(cells);
        }
        if let Some(mask) = masks.iter().find(|mask| mask.contains(&index)) {
            text.push_str(HIDDEN);
            cells += HIDDEN.len();
            index = mask.end;
            continue;
        }
        // A tab or a control character would move the caret.
        let character = if characters[index].is_control() { ' ' } else { characters[index] };
        text.push(character);
        cells += unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
        index += 1;
    }
    if index < characters.len() {
        text.push('…');
    }
    let caret_start = caret_start.unwrap_or(cells);
    SourceLine { text, caret: caret_start, width: caret_end.unwrap_or(cells).saturating_sub(caret_start).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_wide_characters_and_behind_masks() {
        let text = "名: {k: secret, x: 值}\n";
        let source = Source::new(text, Some(std::iter::once(7..13).collect()));
        let place = Place { line: 1, column: 19, offset: 18, length: 1 };
        let line = source.line(place).unwrap();
        assert_eq!(line.text, "名: {k: ***, x: 值}");
        assert_eq!((line.caret, line.width), (16, 2));
    }

    #[test]
    fn a_comment_beside_a_secret_is_masked_too() {
        let source = Source::new("  token: 5 # was canary\n", Some(std::iter::once(9..10).collect()));
        let line = source.line(Place { line: 1, column: 10, offset: 9, length: 1 }).unwrap();
        assert_eq!(line.text, "  token: *** #***");
    }

    #[test]
    fn the_password_of_a_url_is_masked_in_every_line_shown() {
        let source = Source::new("  database: postgres://bot:hunter2@db/stock\n", Some(Vec::new()));
        let line = source.line(Place { line: 1, column: 3, offset: 2, length: 8 }).unwrap();
        assert_eq!(line.text, "  database: postgres://bot:***@db/stock");
    }

    #[test]
    fn a_report_reads_place_line_caret_fix_and_count() {
        let source = Source::new("tools:\n- coerce: yes\n", Some(Vec::new()));
        let place = Place { line: 2, column: 11, offset: 17, length: 3 };
        let problem = Located {
            line: 2,
            column: 11,
            pointer: "/tools/0/coerce".to_owned(),
            message: "`coerce` is text (`yes`); wanted true or false".to_owned(),
            fix: "write `true`, without quotes".to_owned(),
            source: source.line(place),
        };
        let report = Report::sorted("reach.yaml".to_owned(), vec![problem]);
        assert_eq!(
            report.render(false),
            "reach.yaml:2:11: `coerce` is text (`yes`); wanted true or false\n  2 | - coerce: yes\n    |           ^^^\n  \
             fix: write `true`, without quotes\n\nreach.yaml: 1 problem\n"
        );
        assert!(report.render(true).contains("\u{1b}[1;31m^^^\u{1b}[0m"));
    }
}
