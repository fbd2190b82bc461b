//! What the argument check costs, against the validator alone and against parsing the same text.
//!
//! Single thread, no I/O. All are timed in turns, in batches whose inputs are made beforehand and whose
//! results are dropped afterwards.

use std::hint::black_box;

use anyhow::{Context, anyhow};
use reach_core::Object;
use reach_core::arguments::ArgumentCheck;
use serde_json::Value;
use tokio::time::Instant;

use crate::Effort;
use crate::figure::{Figure, Report, progress, ratios};

const INPUT_SCHEMA: &str = include_str!("../cases/input_schema.json");
const VALID: &str = include_str!("../cases/valid.json");
const INVALID: &str = include_str!("../cases/invalid.json");

/// Calls timed at once.
const BATCH: usize = 2_000;
/// Batches of each kind in a round, to be shared with `--rounds`.
const TURNS: usize = 20;

pub(crate) fn measure(effort: Effort) -> anyhow::Result<Report> {
    let schema: Value = serde_json::from_str(INPUT_SCHEMA)?;
    let check = ArgumentCheck::compile(&schema, false).map_err(|problems| anyhow!("{problems:?}"))?;
    // The very schema that the check enforces, with its options: what is compared is what is around it.
    let alone = jsonschema::options()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .should_validate_formats(true)
        .build(check.enforced())
        .map_err(|error| anyhow!("{error}"))?;
    let mut figures = Vec::new();
    for (name, text) in [("valid", VALID), ("invalid", INVALID)] {
        progress(&format!("arguments: {name}"));
        let compact = serde_json::to_string(&serde_json::from_str::<Value>(text)?)?;
        let value: Value = serde_json::from_str(&compact)?;
        let arguments: Object = value.as_object().context("the case is no object")?.clone();
        anyhow::ensure!(check.check(arguments.clone()).is_ok() == (name == "valid"), "the case is not {name}");

        let (mut checking, mut validating, mut parsing, mut reading) = (vec![], vec![], vec![], vec![]);
        for _ in 0..effort.rounds * TURNS {
            let copies = vec![arguments.clone(); BATCH];
            checking.push(timed(copies, |arguments| check.check(arguments)));
            validating.push(timed(vec![&value; BATCH], |value| alone.is_valid(value)));
            parsing.push(timed(vec![&compact; BATCH], |text| serde_json::from_str::<Value>(text)));
            reading.push(timed(vec![&compact; BATCH], |text| reach_core::exact::parse_arguments(text)));
        }
        let label = |what: &str| format!("{name}, {} bytes: {what}", compact.len());
        figures.push(Figure::new(label("check / is_valid"), "", ratios(&checking, &validating)));
        figures.push(Figure::new(label("check / serde_json parse"), "", ratios(&checking, &parsing)));
        figures.push(Figure::new(label("exact parse / serde_json parse"), "", ratios(&reading, &parsing)));
        for (what, samples) in
            [("check", checking), ("is_valid", validating), ("serde_json parse", parsing), ("exact parse", reading)]
        {
            figures.push(Figure::new(label(what), "ns", samples));
        }
    }
    Ok(Report { title: "arguments", figures })
}

/// Nanoseconds a call. What the calls return is kept until the clock has stopped.
fn timed<I, R>(inputs: Vec<I>, mut call: impl FnMut(I) -> R) -> f64 {
    let mut results = Vec::with_capacity(inputs.len());
    let calls = inputs.len() as f64;
    let began = Instant::now();
    for input in inputs {
        results.push(black_box(call(black_box(input))));
    }
    let elapsed = began.elapsed();
    drop(results);
    elapsed.as_secs_f64() * 1e9 / calls
}
