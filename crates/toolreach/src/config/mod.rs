//! The text of `reach.yaml` becomes checked values, here and nowhere else.
//!
//! [`load`] reads in passes: YAML to a tree that knows its places (`tree`), variables expanded
//! (`environment`), the shape against the generated schema (`structure`), and last what no schema can
//! say, with the adapters built (`check`). Every problem of every pass is told in one [`Report`]; below this
//! room, parts receive their own values and look at no file and no environment.
//!
//! Nothing here opens a connection or starts a task: loading is cheap and may be repeated at every change.

mod check;
mod checked;
mod environment;
mod report;
mod schema;
mod secrets;
mod sections;
mod structure;
mod tree;

use std::collections::BTreeSet;
use std::path::Path;

use reach_core::Problem;
use reach_core::redact::Scrubber;
use secrecy::SecretString;

pub use checked::{Config, DeclaredCaller, Digest, Keep};
pub use environment::{Environment, ProcessEnvironment};
pub use report::{Located, Report, SourceLine};
pub use schema::schema;

use check::{Draft, Finding};
use report::Source;
use tree::{Data, Node};

/// Reads and checks a file. Blocks for as long as reading it takes.
///
/// # Errors
/// Everything that is wrong with it, at once; the report holds no secret.
pub fn load(path: &Path, environment: &dyn Environment) -> Result<Config, Report> {
    let name = path.display().to_string();
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|error| {
            let line =
                error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            Report::of_file(name.clone(), format!("line {line} is not UTF-8"), "save the file as UTF-8")
        })?,
        Err(error) => {
            let fix = match error.kind() {
                std::io::ErrorKind::NotFound => "make one with `reach init`, or name another with `--config FILE`",
                std::io::ErrorKind::PermissionDenied => "let the user that runs this program read it",
                _ => "check the path",
            };
            return Err(Report::of_file(name, format!("the file cannot be read: {}", reason(&error)), fix));
        }
    };
    let base = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    parse(&name, &text, base, environment)
}

/// Checks a text, as [`load`] does with that of a file called `name` in the folder `base`.
///
/// # Errors
/// Everything that is wrong with it, at once; the report holds no secret.
pub fn parse(name: &str, text: &str, base: &Path, environment: &dyn Environment) -> Result<Config, Report> {
    // A byte order mark is no part of the text, and of no line that is shown.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut root = match tree::read(text) {
        Ok(Some(root)) => root,
        Ok(None) => return Err(Report::of_file(name.to_owned(), "the file is empty", "make one with `reach init`")),
        Err(malformed) => return Err(malformed_report(name, text, malformed)),
    };
    let mut findings = duplicates(&root);
    findings.extend(tree::lossy_numbers(&root, text).into_iter().map(plain));

    let mut unresolved = Vec::new();
    let from_environment = environment::expand(&mut root, environment, &mut unresolved);
    findings.extend(unresolved.into_iter().map(plain));
    let structure::Found { problems, unknown } = structure::check(&mut root);
    // A variable that is not set was told; that its place then has the wrong type is no news.
    let told: BTreeSet<String> = findings.iter().map(|finding| finding.problem.pointer.clone()).collect();
    findings.extend(problems.into_iter().filter(|problem| !told.contains(&problem.pointer)).map(plain));

    let mut draft = Draft { root: &root, base, findings, secrets: secrets::in_tools(&root) };
    let config = check::check(&mut draft, digest(text.as_bytes()));
    match config {
        Some(config) if draft.findings.is_empty() => Ok(config),
        _ => {
            let mut known = std::mem::take(&mut draft.secrets);
            known.extend(from_environment.into_iter().map(SecretString::from));
            let source = Source::new(text, Some(secrets::hidden_ranges(&root, &unknown)));
            Err(report(name, &root, draft.findings, &unknown, &source, &Scrubber::new(known)))
        }
    }
}

/// The digest by which a change of the file is noticed.
pub(crate) fn digest(content: &[u8]) -> Digest {
    use sha2::Digest as _;
    sha2::Sha256::digest(content).into()
}

fn plain(problem: Problem) -> Finding {
    Finding { problem, place: None }
}

/// Findings with their places and lines, as the report shows them.
fn report(
    name: &str,
    root: &Node,
    findings: Vec<Finding>,
    unknown: &BTreeSet<String>,
    source: &Source<'_>,
    scrubber: &Scrubber,
) -> Report {
    let problems = findings
        .into_iter()
        .map(|Finding { problem, place }| {
            let place = place.unwrap_or_else(|| match unknown.contains(&problem.pointer) {
                true => root.locate_key(&problem.pointer),
                false => root.locate(&problem.pointer),
            });
            Located {
                line: place.line,
                column: place.column,
                message: printable(&scrubber.text(&problem.message)),
                fix: printable(&scrubber.text(&problem.fix)),
                source: source.line(place),
                pointer: secrets::shown_pointer(&problem.pointer),
            }
        })
        .collect();
    Report::sorted(name.to_owned(), problems)
}

/// A name from the file may hold what a terminal obeys.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn malformed_report(name: &str, text: &str, malformed: tree::Malformed) -> Report {
    let source = Source::new(text, None);
    let problem = Located {
        line: malformed.place.line,
        column: malformed.place.column,
        pointer: String::new(),
        source: source.line(malformed.place),
        message: malformed.message,
        fix: malformed.fix,
    };
    Report::sorted(name.to_owned(), vec![problem])
}

/// Keys that stand twice in the same mapping, each told at its later place.
fn duplicates(root: &Node) -> Vec<Finding> {
    let mut findings = Vec::new();
    root.walk(&mut String::new(), &mut |pointer, node| {
        let Data::Map(entries) = &node.data else { return };
        for (index, entry) in entries.iter().enumerate() {
            let Some(first) = entries[..index].iter().find(|earlier| earlier.key == entry.key) else { continue };
            let key = if secrets::key_may_be_shown(pointer, &entry.key) {
                format!("`{}`", entry.key)
            } else {
                "this key".to_owned()
            };
            findings.push(Finding {
                problem: Problem::new(
                    format!("{pointer}/{}", tree::escape(&entry.key)),
                    format!("{key} stands twice in the same mapping, first on line {}", first.key_place.line),
                    "keep one of them",
                ),
                place: Some(entry.key_place),
            });
        }
    });
    findings
}

/// The reason of an I/O error without its number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}
