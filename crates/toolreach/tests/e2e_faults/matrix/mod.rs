//! Every fault that can be produced for real, for every effect, through the whole road: from the text of a
//! configuration to the envelope, and compared with the table of the design.
//!
//! The table and the list of faults are data (`suites/faults/table.json`); [`bench`] and the files beside it
//! know how each fault is made, [`cell`] walks one cell, and nothing here reads the engine's own table.

mod bench;
mod cell;
mod email;
mod file;
mod http;
mod script;
mod sql;
mod table;

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use table::Table;

/// Cells walked at the same time: their faults mostly wait.
const AT_ONCE: usize = 4;

async fn follows_the_table(adapters: &[&str]) {
    let table = Table::read();
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut cells = JoinSet::new();
    for fault in table.faults.iter().filter(|fault| adapters.contains(&fault.adapter.as_str())) {
        for effect in &fault.effects {
            let (fault, effect, wanted) = (fault.clone(), *effect, table.wanted(fault, *effect));
            let turns = Arc::clone(&turns);
            cells.spawn(async move {
                let _turn = turns.acquire().await;
                cell::walk(&fault, effect, &wanted).await
            });
        }
    }
    let count = cells.len();
    assert!(count > 0, "no fault is listed for {adapters:?}");
    let mut wrong: Vec<String> = cells.join_all().await.into_iter().flatten().collect();
    wrong.sort();
    assert!(wrong.is_empty(), "of {count} cells, these are not as the table says:\n{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_faults_follow_the_table() {
    follows_the_table(&["http"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn script_faults_follow_the_table() {
    follows_the_table(&["script"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn email_and_file_faults_follow_the_table() {
    follows_the_table(&["email", "file"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_faults_follow_the_table() {
    follows_the_table(&["sqlite", "postgres"]).await;
}

#[test]
fn every_fault_is_tried_and_every_row_has_one() {
    let table = Table::read();
    let known = ["http", "script", "email", "file", "sqlite", "postgres"];
    for fault in &table.faults {
        assert!(known.contains(&fault.adapter.as_str()), "nobody tries {fault:?}");
        assert!(table.rows.contains_key(&fault.row), "{fault:?}");
    }
    for row in table.rows.keys() {
        assert!(table.faults.iter().any(|fault| fault.row == *row), "no fault shows the row {row}");
    }
}
