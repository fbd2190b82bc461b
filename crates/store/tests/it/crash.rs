//! Crashes with real processes: the test starts itself again, kills that, and looks at what is left.
//!
//! The child is the same test in the same binary, told apart by an environment variable. It speaks
//! through a pipe, so that the parent knows which answers had been given before the kill.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use reach_core::{Effect, EventKind, TraceId};
use reach_store::Ledger;
use reach_store::ledger::{Claimed, Ending, Recovered, SqliteLedger};

use crate::ledger::{SqliteStage, claim, claim_of, intent, key};

const LEDGER: &str = "REACH_STORE_TEST_LEDGER";

/// The ledger to work on, in the child.
fn told_ledger() -> Option<SqliteLedger> {
    std::env::var_os(LEDGER).map(|path| SqliteLedger::open(Path::new(&path)).unwrap())
}

/// Tells the parent.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "child: {line}").unwrap();
    out.flush().unwrap();
}

/// Stays until killed.
fn stay() -> ! {
    loop {
        std::thread::park();
    }
}

struct Process {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Process {
    #[expect(clippy::disallowed_methods, reason = "a crash needs a process to crash; it is this test itself")]
    fn start(test: &str, ledger: &Path) -> Self {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(LEDGER, ledger)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next thing the child says; `None` when it is gone.
    fn hear(&mut self) -> Option<String> {
        loop {
            let line = self.lines.next()?.ok()?;
            // The test harness may have written the test's name on the same line.
            if let Some((_, said)) = line.split_once("child: ") {
                return Some(said.to_owned());
            }
        }
    }

    fn hear_until(&mut self, wanted: &str) -> Vec<String> {
        let mut heard = Vec::new();
        loop {
            let said = self.hear().expect("the child ended too early");
            if said == wanted {
                return heard;
            }
            heard.push(said);
        }
    }

    /// SIGKILL, and everything it had said by then.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        let mut heard = Vec::new();
        while let Some(said) = self.hear() {
            heard.push(said);
        }
        self.child.wait().unwrap();
        heard
    }
}

#[tokio::test]
async fn records_of_a_killed_process_are_settled_by_the_next_start() {
    if let Some(ledger) = told_ledger() {
        ledger.claim(claim("claimed")).await.unwrap();
        for (name, effect) in [("write", Effect::Write), ("keyed", Effect::Keyed)] {
            ledger.claim(claim_of(name, "f", effect)).await.unwrap();
            ledger.intend(key(name), 1, intent(name)).await.unwrap();
        }
        say("in flight");
        stay();
    }
    let stage = SqliteStage::new();
    let mut process = Process::start("crash::records_of_a_killed_process_are_settled_by_the_next_start", &stage.path());
    process.hear_until("in flight");

    let early = stage.open_here();
    assert_eq!(early.recover().await.unwrap(), Recovered::default(), "it still lives");
    assert_eq!(early.claim(claim("write")).await.unwrap(), Claimed::InProgress);
    process.kill();

    let ledger = stage.open_here();
    assert_eq!(ledger.recover().await.unwrap(), Recovered { unknown: 1, released: 2 });
    assert!(matches!(ledger.claim(claim("write")).await.unwrap(), Claimed::Unknown { epoch: 1, .. }));
    assert_eq!(ledger.claim(claim_of("keyed", "f", Effect::Keyed)).await.unwrap(), Claimed::Fresh { epoch: 2 });
    let steps: Vec<_> = ledger.trace(TraceId::new("tr_write")).await.unwrap();
    assert_eq!(steps[0].events[0].kind, EventKind::Intended, "its steps survived, too");
    assert_eq!(steps[1].events[0].kind, EventKind::Recovered { outcome: "unknown".into() });

    drop((early, ledger));
    let left: Vec<_> = std::fs::read_dir(stage.0.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["ledger.db"], "the lock file of the dead is gone, too");
}

#[tokio::test]
async fn every_intent_that_returned_survives_a_kill_at_any_moment() {
    if let Some(ledger) = told_ledger() {
        let (ledger, process) = (std::sync::Arc::new(ledger), std::process::id());
        let mut clients = tokio::task::JoinSet::new();
        for client in 0..8 {
            let ledger = std::sync::Arc::clone(&ledger);
            clients.spawn(async move {
                for number in 0u64.. {
                    let name = format!("{process}-{client}-{number}");
                    ledger.claim(claim(&name)).await.unwrap();
                    ledger.intend(key(&name), 1, intent(&name)).await.unwrap();
                    say(&format!("intended {name}"));
                    if number.is_multiple_of(2) {
                        ledger.finish(key(&name), 1, Ending::Done { envelope: "ok".into() }).await.unwrap();
                        say(&format!("done {name}"));
                    }
                }
            });
        }
        clients.join_all().await;
    }
    let stage = SqliteStage::new();
    let mut told = 0;
    for round in 0..6 {
        let mut process =
            Process::start("crash::every_intent_that_returned_survives_a_kill_at_any_moment", &stage.path());
        let mut heard: Vec<String> = (0..20 + round * 37).map(|_| process.hear().expect("it works")).collect();
        heard.extend(process.kill());

        let ledger = stage.open_here();
        ledger.recover().await.unwrap();
        for said in &heard {
            let (what, name) = said.split_once(' ').unwrap();
            match (what, ledger.claim(claim(name)).await.unwrap()) {
                ("intended", Claimed::Unknown { .. } | Claimed::Done { .. }) | ("done", Claimed::Done { .. }) => {}
                (_, found) => panic!("{said}, and then {found:?}"),
            }
        }
        told += heard.len();
    }
    assert!(told > 500, "{told}");
}

#[tokio::test]
async fn a_killed_recovery_is_finished_by_the_next() {
    const RECORDS: u64 = 200;
    if let Some(ledger) = told_ledger() {
        if ledger.sessions(1).await.unwrap().is_empty() {
            for index in 0..RECORDS {
                let name = format!("r{index}");
                ledger.claim(claim(&name)).await.unwrap();
                let intended = ledger.intend(key(&name), 1, intent(&name));
                intended.await.unwrap();
            }
            say("in flight");
            stay();
        }
        say("recovering");
        ledger.recover().await.unwrap();
        stay();
    }
    let test = "crash::a_killed_recovery_is_finished_by_the_next";
    let stage = SqliteStage::new();
    let mut process = Process::start(test, &stage.path());
    process.hear_until("in flight");
    process.kill();
    for _ in 0..3 {
        let mut process = Process::start(test, &stage.path());
        process.hear_until("recovering");
        process.kill();
    }
    let ledger = stage.open_here();
    ledger.recover().await.unwrap();
    assert_eq!(ledger.unsettled(1_000).await.unwrap().len() as u64, RECORDS);
    for index in 0..RECORDS {
        let rows = ledger.trace(TraceId::new(format!("tr_r{index}"))).await.unwrap();
        assert_eq!(rows.len(), 2, "recovered exactly once");
    }
}
