//! Other people's rows, run as they are. They lie beside the project, not in it; without them the tests
//! say so and pass.

use std::path::{Path, PathBuf};

use reach_core::arguments::{ArgumentCheck, Schema};
use serde_json::Value;

/// The rows of a corpus, or null with a line that says it is absent.
fn rows(name: &str) -> Option<Vec<Value>> {
    let found: Option<PathBuf> = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("shared/corpora").join(name))
        .find(|path| path.is_file());
    let Some(path) = found else {
        println!("corpus {name} is absent: its rows were not run");
        return None;
    };
    let text = std::fs::read_to_string(path).expect("a corpus is readable");
    // Rows may hold U+2028: only a line feed ends one.
    Some(
        text.split('\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_str(line).expect("a row is JSON"))
            .collect(),
    )
}

fn id(row: &Value) -> &str {
    row["id"].as_str().unwrap_or("?")
}

#[test]
fn every_verdict_of_the_json_schema_suite_is_ours() {
    let Some(rows) = rows("json_schema_draft2020-12.jsonl") else { return };
    let mut wrong = Vec::new();
    let mut run = 0;
    for row in rows.iter().filter(|row| row["remote"] != true) {
        run += 1;
        match Schema::compile(&row["schema"]) {
            Ok(schema) => {
                let verdict = schema.is_valid(&row["input"]);
                assert_eq!(verdict, schema.problems(&row["input"]).is_empty(), "{}", id(row));
                if verdict != row["expected"] {
                    wrong.push(format!("{} {}", id(row), row["source"]));
                }
            }
            Err(problems) => wrong.push(format!("{} {} {problems:?}", id(row), row["source"])),
        }
    }
    println!("{} of {run} verdicts", run - wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_argument_row_gets_its_verdict_its_place_and_its_value() {
    let Some(rows) = rows("bfcl_argcheck_dev.jsonl") else { return };
    let mut wrong = Vec::new();
    for row in &rows {
        let problem = argument_row(row);
        wrong.extend(problem.map(|problem| format!("{}: {problem} {row}", id(row))));
    }
    println!("{} of {} rows", rows.len() - wrong.len(), rows.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn argument_row(row: &Value) -> Option<String> {
    let arguments = row["input"].as_object().expect("arguments are an object").clone();
    let check = match ArgumentCheck::compile(&row["schema"], false) {
        Ok(check) => check,
        Err(problems) => return Some(format!("does not compile: {problems:?}")),
    };
    let refusal = match (check.check(arguments.clone()), &row["expected"]) {
        (Ok(checked), Value::Bool(true)) => {
            return (checked.arguments != arguments).then(|| "altered".to_owned());
        }
        (Err(refusal), Value::Bool(false)) => refusal,
        (result, expected) => return Some(format!("wanted {expected}, got {result:?}")),
    };
    // The rows leave nested objects open; we close them, and say so of the fields that are not described.
    let is_ours = |problem: &Value| {
        problem["problem"] == "unknown"
            && problem["pointer"].as_str().is_some_and(|place| place.matches('/').count() > 1)
    };
    let problems = refusal.problems.as_array()?.iter().filter(|problem| !is_ours(problem));
    let places: Vec<&Value> = problems.map(|problem| &problem["pointer"]).collect();
    if places != [&row["path"]] {
        return Some(format!("at {places:?}: {}", refusal.message));
    }
    let wanted = row.get("coerced")?;
    if row["class"] == "trailing_space" {
        // Text is never trimmed for the model; the refusal holds the value to send instead.
        let problem = &refusal.problems[0];
        let mut mended = row["input"].clone();
        *mended.pointer_mut(row["path"].as_str()?)? = problem["send"].clone();
        return (mended != *wanted || problem["problem"] != "white_space").then(|| refusal.message.clone());
    }
    let coercing = ArgumentCheck::compile(&row["schema"], true).expect("compiled before");
    match coercing.check(arguments) {
        Ok(checked)
            if Value::Object(checked.arguments.clone()) == *wanted && checked.coerced == [row["path"].as_str()?] =>
        {
            None
        }
        other => Some(format!("coerced to {other:?}")),
    }
}
