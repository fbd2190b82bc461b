//! The configuration as its writer meets it: the cases of `suites/config`, each a file with what is to be
//! said about it.
//!
//! A case ends with a comment block: `# env NAME=value` sets a variable, `# absent TEXT` is text that no
//! report of it may hold, and after `# expect` each line is `line:column message | fix`, where `…` stands
//! for any text. No line after `# expect`: the file is right. `REACH_BLESS=1` writes the block anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toolreach::config::{self, Config, Report};

fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suites/config")
}

/// One case: its text, its environment, what no report may hold, and what is to be said.
struct Case {
    text: String,
    environment: BTreeMap<String, String>,
    absent: Vec<String>,
    expected: Vec<String>,
}

impl Case {
    fn read(text: String) -> Self {
        let (mut environment, mut absent, mut expected) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut in_block = false;
        for line in text.lines() {
            if let Some(pair) = line.strip_prefix("# env ") {
                let (name, value) = pair.split_once('=').expect("NAME=value");
                environment.insert(name.to_owned(), value.to_owned());
            } else if let Some(secret) = line.strip_prefix("# absent ") {
                absent.push(secret.to_owned());
            } else if line == "# expect" {
                in_block = true;
            } else if in_block {
                expected.push(line.trim_start_matches("# ").to_owned());
            }
        }
        Self { text, environment, absent, expected }
    }

    fn load(&self) -> Result<Config, Report> {
        config::parse("reach.yaml", &self.text, &suite(), &self.environment)
    }
}

fn said(report: &Report) -> Vec<String> {
    let problems = report.problems.iter();
    problems.map(|at| format!("{}:{} {} | {}", at.line, at.column, at.message, at.fix)).collect()
}

/// `…` in `expected` stands for any text.
fn agrees(expected: &str, said: &str) -> bool {
    let mut rest = said;
    let parts: Vec<&str> = expected.split('…').collect();
    for (index, part) in parts.iter().enumerate() {
        let Some(at) = rest.find(part) else { return false };
        if index == 0 && at != 0 {
            return false;
        }
        rest = &rest[at + part.len()..];
    }
    parts.len() > 1 && expected.ends_with('…') || rest.is_empty()
}

#[test]
fn every_case_of_the_suite_is_told_at_its_place_with_its_fix() {
    let mut failures = Vec::new();
    let mut count = 0;
    let mut paths: Vec<PathBuf> = fs::read_dir(suite()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    for path in paths {
        count += 1;
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let case = Case::read(fs::read_to_string(&path).unwrap());
        let report = case.load().err();
        let said = report.as_ref().map(said).unwrap_or_default();
        let same = said.len() == case.expected.len()
            && case.expected.iter().zip(&said).all(|(expected, said)| agrees(expected, said));
        if !same && std::env::var_os("REACH_BLESS").is_some() {
            let head = case.text.split("# expect\n").next().unwrap();
            let tail: String = said.iter().map(|line| format!("# {line}\n")).collect();
            fs::write(&path, format!("{head}# expect\n{tail}")).unwrap();
        } else if !same {
            failures.push(format!("{name}:\n  expected {:#?}\n  said {said:#?}", case.expected));
        }
        if let Some(report) = report {
            for shown in
                [report.render(false), report.render(true), report.to_json().to_string(), format!("{report:?}")]
            {
                for absent in &case.absent {
                    if shown.contains(absent) {
                        failures.push(format!("{name}: the report holds {absent:?}:\n{shown}"));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} cases differ\n{}", failures.len(), failures.join("\n"));
    assert!(count >= 40, "the suite was found: {count} cases");
}
