//! A fuzzer for whatever parses, on the stable toolchain: seeds, mutates, and looks for panics, hangs and
//! broken promises. `cargo run -p reach-fuzz -- --seconds 20` runs every target for its share of the time.
//!
//! It is guided by a dictionary and the seeds, not by coverage; what it finds is written to
//! `fuzz/findings/` and replayed first from then on.

mod mutate;
mod targets;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use mutate::Mutator;
use targets::{TARGETS, Target};

/// Fuzzes every parser for a while.
#[derive(Debug, Parser)]
struct Arguments {
    /// Seconds in all, shared between the targets.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Only these targets.
    targets: Vec<String>,
    /// The start of the random numbers; the same seed makes the same inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// An input that takes longer than this is a finding: every parser here promises linear time.
const SLOW: Duration = Duration::from_secs(2);

/// The longest input made, in bytes.
const LONGEST: usize = 64 * 1024;

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let chosen: Vec<&Target> = TARGETS
        .iter()
        .filter(|target| arguments.targets.is_empty() || arguments.targets.iter().any(|name| name == target.name))
        .collect();
    anyhow::ensure!(!chosen.is_empty(), "no such target");
    let share = Duration::from_secs(arguments.seconds) / chosen.len() as u32;
    let mut findings = 0;
    let mut inputs = 0;
    for target in &chosen {
        let report = fuzz(target, share, arguments.seed)?;
        inputs += report.inputs;
        findings += report.findings;
        say(&format!("{:<22} {:>9} inputs  {} findings", target.name, report.inputs, report.findings));
    }
    say(&format!("{inputs} inputs in {} targets, {findings} findings", chosen.len()));
    Ok(if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Report {
    inputs: u64,
    findings: u64,
}

fn fuzz(target: &Target, share: Duration, seed: u64) -> anyhow::Result<Report> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("findings").join(target.name);
    let mut seeds: Vec<Vec<u8>> = target.seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    if let Ok(known) = std::fs::read_dir(&folder) {
        for entry in known {
            seeds.push(std::fs::read(entry?.path())?);
        }
    }
    let mut report = Report { inputs: 0, findings: 0 };
    let mut mutator = Mutator::new(seed, target.dictionary);
    let began = clock();
    let mut next_seed = 0;
    // A panic is a finding, not an end: its words go to the findings, not to the terminal.
    std::panic::set_hook(Box::new(|_| {}));
    while began.elapsed() < share {
        let input = match seeds.get(next_seed) {
            Some(seed) => seed.clone(),
            None => mutator.mutate(&seeds, LONGEST),
        };
        next_seed += 1;
        let started = clock();
        let outcome = std::panic::catch_unwind(|| (target.run)(&input));
        report.inputs += 1;
        let problem = match outcome {
            Ok(Ok(())) if started.elapsed() > SLOW => "slow".to_owned(),
            Ok(Ok(())) => continue,
            Ok(Err(broken)) => broken,
            Err(_) => "panic".to_owned(),
        };
        report.findings += 1;
        std::fs::create_dir_all(&folder)?;
        let file = folder.join(format!("{seed}-{}", report.inputs));
        std::fs::write(&file, &input)?;
        say(&format!("{}: {problem}: {}", target.name, file.display()));
        if report.findings >= 5 {
            break;
        }
    }
    drop(std::panic::take_hook());
    Ok(report)
}

#[expect(clippy::disallowed_methods, reason = "a fuzzer measures real time; there is no clock to pause")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

#[expect(clippy::print_stdout, reason = "the report is what this program is for")]
fn say(text: &str) {
    println!("{text}");
}
