//! The list of field cases: `suites/cases/index.jsonl` says of each where it is held or why it cannot be yet,
//! `docs/cases.md` is generated from it, and where the shared collection is present no case of it is missing.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::support::root;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: String,
    /// What is wrong in the case, in a few words.
    about: String,
    /// `file#text`: a file of this repository and a text in it that names the test.
    #[serde(default)]
    held_by: Vec<String>,
    /// Why it is not held yet; of a case that is held, what of it is not.
    note: Option<String>,
}

fn index() -> Vec<Line> {
    let text = std::fs::read_to_string(root().join("suites/cases/index.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn every_case_is_held_by_tests_that_exist_or_says_why_not() {
    let lines = index();
    let mut files = BTreeMap::<String, String>::new();
    for line in &lines {
        assert!(!line.held_by.is_empty() || line.note.is_some(), "{}: neither a test nor a reason", line.id);
        for place in &line.held_by {
            let (file, text) = place.split_once('#').expect("file#text");
            let content = files.entry(file.to_owned()).or_insert_with(|| {
                std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{place}: {error}"))
            });
            assert!(content.contains(text), "{}: {place} is not there", line.id);
        }
    }
    let ids: Vec<&str> = lines.iter().map(|line| line.id.as_str()).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(ids, sorted, "each once, in order");
}

/// The areas of the collection that concern the road of a call.
const AREAS: [&str; 5] = ["executor", "http", "schema", "auth", "context"];

#[test]
fn no_case_of_the_shared_collection_is_missing() {
    // The collection lies beside the repository where there is one; the tests do not depend on it.
    let Ok(text) = std::fs::read_to_string(root().join("../shared/cases/field-cases.jsonl")) else { return };
    let lines = index();
    let missing: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|case| AREAS.contains(&case["area"].as_str().unwrap()))
        .map(|case| case["id"].as_str().unwrap().to_owned())
        .filter(|id| !lines.iter().any(|line| line.id == *id))
        .collect();
    assert!(missing.is_empty(), "not in suites/cases/index.jsonl: {missing:?}");
}

#[test]
fn the_page_of_cases_is_up_to_date() {
    let path = root().join("docs/cases.md");
    let wanted = page(&index());
    if std::env::var_os("REACH_BLESS").is_some() {
        std::fs::write(&path, wanted).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "docs/cases.md is out of date; run the tests once with REACH_BLESS=1");
}

fn page(lines: &[Line]) -> String {
    let mut page = String::from(
        "# Field cases\n\nFailures that people reported in public about agents using tools, and where each is held. Generated from\n\
         `suites/cases/index.jsonl`; a test checks that every place named here exists. Inputs and expectations are in\n\
         `suites/cases/road.jsonl` (walked by `crates/toolreach/tests/e2e/field.rs`) or in the test itself.\n\n## Held\n\n\
         | case | what goes wrong | held by | note |\n| --- | --- | --- | --- |\n",
    );
    let (held, open): (Vec<_>, Vec<_>) = lines.iter().partition(|line| !line.held_by.is_empty());
    for line in &held {
        let places: Vec<String> =
            line.held_by.iter().map(|place| format!("`{}`", place.replace('#', "` · `"))).collect();
        let note = line.note.as_deref().unwrap_or("");
        page.push_str(&format!("| {} | {} | {} | {note} |\n", line.id, line.about, places.join("<br>")));
    }
    page.push_str("\n## Not applicable yet\n\n| case | what goes wrong | why |\n| --- | --- | --- |\n");
    for line in &open {
        page.push_str(&format!("| {} | {} | {} |\n", line.id, line.about, line.note.as_deref().unwrap_or("")));
    }
    page
}
