//! `reach demo` as a process: its story, the folder it writes to, and what a person tries while it is up.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Running, eventually, reach, run};

#[tokio::test]
async fn the_demo_tells_its_whole_story_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let shop = folder.path().join("shop");
    let ran = run(folder.path(), &["demo", "--once", "--folder", shop.to_str().unwrap()]).await.exits(0);
    for words in [
        "INVALID_ARGUMENTS",
        "UPSTREAM_UNAVAILABLE",
        "UNREACHABLE",
        "IDEMPOTENCY_MISMATCH",
        "OUTCOME_UNKNOWN",
        "ok  order_status_query",
        "replayed",
        "served by order_status_query_v2",
        "Refunds the shop made: 1",
        "Mails the server has: 1",
    ] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    assert!(ran.err.is_empty(), "{}", ran.err);
    // What it left behind can be read by every other command.
    let ran = run(&shop, &["sessions", "show", "demo"]).await.exits(0);
    assert!(ran.out.contains("refund_create"), "{ran:?}");
}

#[tokio::test]
async fn the_demo_writes_into_no_folder_that_holds_anything() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("reach.yaml");
    std::fs::write(&mine, "mine").unwrap();
    let ran = run(folder.path(), &["demo", "--once", "--folder", "."]).await.exits(2);
    assert!(ran.err.contains("not an empty folder") && ran.out.is_empty(), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// The folders that demos made among these temporary ones.
fn left(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// A demo that has told its story and stays up.
async fn staying_up(temporary: &Path, arguments: &[&str]) -> Running {
    let mut command = reach(temporary);
    command.arg("demo").args(arguments).env("TMPDIR", temporary);
    let demo = Running::start(&mut command);
    eventually("the end of the story", || async { demo.out().contains("Ctrl-C stops everything").then_some(()) }).await;
    demo
}

#[tokio::test]
async fn a_temporary_folder_is_gone_after_the_demo_however_it_ends() {
    let temporary = tempfile::tempdir().unwrap();
    let mut command = reach(temporary.path());
    let ran = crate::support::finish(command.args(["demo", "--once"]).env("TMPDIR", temporary.path())).await.exits(0);
    assert_eq!((left(temporary.path()), ran.err.as_str()), (vec![], ""));
    let mut demo = staying_up(temporary.path(), &[]).await;
    assert_eq!(left(temporary.path()).len(), 1);
    demo.signal(Signal::TERM);
    assert_eq!(demo.end().await, 0, "{}", demo.err());
    assert_eq!(left(temporary.path()), Vec::<PathBuf>::new());

    // In the middle of the story, too.
    let mut command = reach(temporary.path());
    let mut demo = Running::start(command.arg("demo").env("TMPDIR", temporary.path()));
    eventually("the beginning", || async { demo.out().contains("A good call").then_some(()) }).await;
    demo.signal(Signal::INT);
    assert_eq!(demo.end().await, 0, "{}", demo.err());
    assert_eq!(left(temporary.path()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn what_the_demo_proposes_works_as_it_is_printed() {
    let temporary = tempfile::tempdir().unwrap();
    let mut demo = staying_up(temporary.path(), &["--folder", "a shop"]).await;
    let out = demo.out();
    let program = env!("CARGO_BIN_EXE_reach");
    let commands: Vec<&str> = out.lines().map(str::trim).filter(|line| line.starts_with(program)).collect();
    assert_eq!(commands.len(), 3, "{out}");
    for command in commands {
        let mut shell = tokio::process::Command::new("sh");
        let ran = crate::support::finish(shell.args(["-c", command]).current_dir("/")).await.exits(0);
        assert!(!ran.out.is_empty(), "{command}: {ran:?}");
    }

    // "Change reach.yaml and watch the tools follow."
    let address = out.split("stays up on ").nth(1).unwrap().split_whitespace().next().unwrap().trim_end_matches('.');
    let config = temporary.path().join("a shop/reach.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("tool_id: inventory_query", "tool_id: stock_query")).unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    eventually("the renamed tool", || async {
        let listed: Value = http.get(format!("{address}/v1/tools")).send().await.unwrap().json().await.unwrap();
        let mut tools = listed["tools"].as_array().unwrap().iter();
        tools.any(|tool| tool["tool_id"] == "stock_query").then_some(())
    })
    .await;
    demo.says("the new configuration is in use").await;
    demo.signal(Signal::TERM);
    assert_eq!(demo.end().await, 0);
    assert!(config.exists(), "a folder that was named is kept");
}
