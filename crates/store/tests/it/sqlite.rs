//! What is SQLite's own: shared commits, the file and its rights, versions, damage.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use reach_core::{Effect, EventKind};
use reach_store::Ledger;
use reach_store::ledger::{Claimed, Ending, Recovered, SqliteLedger};
use rusqlite::Connection;

use crate::ledger::{SqliteStage, claim, claim_of, intent, key, row};

/// Another connection in the middle of a write: whatever is asked meanwhile waits in the line.
fn hold_the_file(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("begin immediate").unwrap();
    connection
}

#[tokio::test]
async fn sixty_four_waiting_intents_share_two_commits_at_most() {
    let stage = SqliteStage::new();
    let ledger = stage.open_here();
    for index in 0..64 {
        assert_eq!(ledger.claim(claim(&format!("r{index}"))).await.unwrap(), Claimed::Fresh { epoch: 1 });
    }
    assert_eq!(ledger.durable_commits(), 0, "claims do not wait for the disk");
    let held = hold_the_file(&stage.path());
    let before = ledger.commits();
    let mut intents = Vec::new();
    for index in 0..64 {
        let name = format!("r{index}");
        intents.push(ledger.intend(key(&name), 1, intent(&name)));
    }
    held.execute_batch("commit").unwrap();
    for intent in intents {
        intent.await.unwrap();
    }
    // The writer may have taken the first ones before the rest came.
    assert!(ledger.durable_commits() <= 2, "{}", ledger.durable_commits());
    assert!(ledger.commits() - before <= 2);
}

#[tokio::test]
async fn only_intents_and_kept_endings_wait_for_the_disk() {
    let ledger = SqliteStage::new().0;
    let ledger = SqliteLedger::open(&ledger.path().join("l.db")).unwrap();
    let mut durable = 0;
    let mut grew = |what: &str, by: u64| {
        assert_eq!(ledger.durable_commits(), durable + by, "{what}");
        durable += by;
    };
    ledger.claim(claim("r1")).await.unwrap();
    ledger.append(row("tr", "s", 1, EventKind::Replayed));
    ledger.flush().await.unwrap();
    ledger.ping().await.unwrap();
    grew("claim, append, ping", 0);
    ledger.intend(key("r1"), 1, intent("r1")).await.unwrap();
    grew("intend", 1);
    ledger.finish(key("r1"), 1, Ending::Released).await.unwrap();
    grew("release", 0);
    ledger.claim(claim("r1")).await.unwrap();
    ledger.finish(key("r1"), 2, Ending::Unknown { envelope: "?".into() }).await.unwrap();
    grew("unknown", 1);
    ledger.finish(key("r1"), 2, Ending::Done { envelope: "!".into() }).await.unwrap();
    grew("done", 1);
}

#[tokio::test]
async fn a_thousand_rows_are_a_handful_of_commits() {
    let stage = SqliteStage::new();
    let ledger = stage.open_here();
    let held = hold_the_file(&stage.path());
    for at_ms in 0..1_000 {
        ledger.append(row("tr", "s", at_ms, EventKind::Replayed));
    }
    held.execute_batch("commit").unwrap();
    ledger.flush().await.unwrap();
    assert!(ledger.commits() <= 3, "{}", ledger.commits());
}

#[tokio::test]
async fn rows_that_the_disk_cannot_keep_up_with_are_dropped_and_counted_and_the_rest_is_written() {
    let stage = SqliteStage::new();
    let ledger = stage.open_here();
    let held = hold_the_file(&stage.path());
    for at_ms in 0..80_000 {
        ledger.append(row("tr", "s", at_ms, EventKind::Replayed));
    }
    let dropped = ledger.dropped();
    assert!((1..80_000 - 65_000).contains(&dropped), "{dropped}");
    held.execute_batch("commit").unwrap();
    ledger.flush().await.unwrap();
    let kept = ledger.since(0, 100_000).await.unwrap();
    assert_eq!(kept.len() as u64, 80_000 - dropped);
    assert_eq!(kept[kept.len() - 1].at_ms, 80_000 - dropped - 1, "the newest are dropped");
}

#[tokio::test]
async fn nobody_but_the_user_can_read_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/.reach/ledger.db");
    let ledger = SqliteLedger::open(&path).unwrap();
    ledger.claim(claim("r1")).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let home = path.parent().unwrap();
    assert_eq!([mode(home), mode(home.parent().unwrap())], [0o700, 0o700]);
    let mut seen = 0;
    for file in std::fs::read_dir(home).unwrap() {
        let file = file.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        seen += 1;
    }
    assert!(seen >= 4, "database, -wal, -shm and the owner's lock");
}

#[tokio::test]
async fn a_closed_ledger_leaves_no_lock_file() {
    let stage = SqliteStage::new();
    drop(stage.open_here());
    let left: Vec<_> = std::fs::read_dir(stage.0.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["ledger.db"]);
}

fn refusal(path: &Path) -> String {
    SqliteLedger::open(path).err().expect("it must not open").to_string()
}

#[test]
fn a_newer_file_is_refused_with_both_versions() {
    let stage = SqliteStage::new();
    drop(stage.open_here());
    Connection::open(stage.path()).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let said = refusal(&stage.path());
    assert!(said.contains("newer reach") && said.contains("99") && said.contains("up to 2"), "{said}");
}

#[tokio::test]
async fn a_file_of_the_first_version_is_brought_up_to_date_with_all_it_holds() {
    let stage = SqliteStage::new();
    let ledger = stage.open_here();
    ledger.append(row("tr", "s", 1, EventKind::Replayed));
    drop(ledger);
    let old = "drop table breaker; drop index record_ended; drop index journal_session;
               create index journal_session on journal (session_id); pragma user_version = 1;";
    Connection::open(stage.path()).unwrap().execute_batch(old).unwrap();
    let ledger = stage.open_here();
    assert_eq!(ledger.session("s".into()).await.unwrap().len(), 1);
    assert!(ledger.breakers().await.unwrap().is_empty());
    assert_eq!(ledger.prune(2, u64::MAX).await.unwrap().rows, 1);
    let shape = |path: &Path| -> Vec<String> {
        let connection = Connection::open(path).unwrap();
        let mut statement = connection.prepare("select name || ': ' || coalesce(sql, '') from sqlite_schema").unwrap();
        let mut shape: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        shape.sort();
        shape
    };
    let new = SqliteStage::new();
    drop(new.open_here());
    assert_eq!(shape(&stage.path()), shape(&new.path()), "as if it had been made today");
}

#[test]
fn the_database_of_another_program_is_refused_and_left_as_it_was() {
    let stage = SqliteStage::new();
    Connection::open(stage.path()).unwrap().execute_batch("create table stock (sku text)").unwrap();
    assert!(refusal(&stage.path()).contains("another program"));
    let tables: i64 = Connection::open(stage.path())
        .unwrap()
        .query_row("select count(*) from sqlite_schema", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 1);
}

#[test]
fn a_file_that_is_no_database_is_refused_with_what_to_do() {
    let stage = SqliteStage::new();
    std::fs::write(stage.path(), "this was never a database, but a letter to somebody".repeat(40)).unwrap();
    let said = refusal(&stage.path());
    assert!(said.contains("not an SQLite database") && said.contains("move all three away"), "{said}");
    assert!(std::fs::read_to_string(stage.path()).unwrap().starts_with("this was"), "nothing was overwritten");
}

#[tokio::test]
async fn damage_found_later_is_an_error_that_says_what_to_do() {
    let stage = SqliteStage::new();
    let ledger = stage.open_here();
    for at_ms in 0..5_000 {
        ledger.append(row("tr", "s", at_ms, EventKind::Replayed));
    }
    ledger.flush().await.unwrap();
    drop(ledger);
    let mut bytes = std::fs::read(stage.path()).unwrap();
    bytes[8_192..].fill(0xa5);
    std::fs::write(stage.path(), bytes).unwrap();
    let ledger = stage.open_here();
    let said = ledger.since(0, 10_000).await.unwrap_err().to_string();
    assert!(said.contains("damaged") && said.contains("restore a backup"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_pings_in_a_second_are_one_write() {
    let stage = SqliteStage::new();
    let ledger = stage.open_here();
    for _ in 0..1_000 {
        ledger.ping().await.unwrap();
    }
    assert_eq!(ledger.commits(), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    ledger.ping().await.unwrap();
    assert_eq!(ledger.commits(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_file_removed_under_a_running_gateway_is_noticed() {
    let stage = SqliteStage::new();
    let ledger = stage.open_here();
    ledger.ping().await.unwrap();
    std::fs::remove_file(stage.path()).unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(ledger.ping().await.unwrap_err().to_string().contains("removed"));
}

#[tokio::test]
async fn owners_opening_a_new_file_at_once_all_get_it() {
    let stage = SqliteStage::new();
    let path = stage.path();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || SqliteLedger::open(&path))
        })
        .collect();
    let ledgers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect();
    let mut fresh = 0;
    for ledger in &ledgers {
        fresh += usize::from(matches!(ledger.claim(claim("r1")).await.unwrap(), Claimed::Fresh { .. }));
    }
    assert_eq!(fresh, 1);
}

#[tokio::test]
async fn an_owner_that_came_by_a_link_is_seen_to_live() {
    let stage = SqliteStage::new();
    let living = stage.open_here();
    living.claim(claim("r1")).await.unwrap();
    living.intend(key("r1"), 1, intent("r1")).await.unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let (file, folder) = (elsewhere.path().join("other.db"), elsewhere.path().join("folder"));
    std::os::unix::fs::symlink(stage.path(), &file).unwrap();
    std::os::unix::fs::symlink(stage.0.path(), &folder).unwrap();
    for path in [file, folder.join("ledger.db"), folder.join("../folder/./ledger.db")] {
        let ledger = SqliteLedger::open(&path).unwrap();
        assert_eq!(ledger.recover().await.unwrap(), Recovered::default(), "{}", path.display());
    }
    living.finish(key("r1"), 1, Ending::Done { envelope: "x".into() }).await.unwrap();
}

#[tokio::test]
async fn a_process_whose_lock_file_was_swept_away_still_tells_how_its_write_ended() {
    let stage = SqliteStage::new();
    let (living, other) = (stage.open_here(), stage.open_here());
    for name in ["sent", "claimed"] {
        living.claim(claim(name)).await.unwrap();
    }
    living.intend(key("sent"), 1, intent("sent")).await.unwrap();
    for file in std::fs::read_dir(stage.0.path()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "lock") {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(other.recover().await.unwrap(), Recovered { unknown: 1, released: 1 });
    assert!(living.intend(key("claimed"), 1, intent("claimed")).await.is_err(), "given away, so not to be sent");
    living.finish(key("sent"), 1, Ending::Done { envelope: "it went".into() }).await.unwrap();
    assert_eq!(other.claim(claim("sent")).await.unwrap(), Claimed::Done { envelope: "it went".into() });
}

#[tokio::test]
async fn an_effect_of_a_newer_reach_is_treated_as_a_write() {
    let stage = SqliteStage::new();
    let gone = stage.open_here();
    gone.claim(claim_of("r1", "f", Effect::Keyed)).await.unwrap();
    gone.intend(key("r1"), 1, intent("r1")).await.unwrap();
    drop(gone);
    Connection::open(stage.path()).unwrap().execute("update record set effect = 'twice'", []).unwrap();
    let ledger = stage.open_here();
    assert_eq!(ledger.recover().await.unwrap().unknown, 1);
}

#[tokio::test]
async fn events_of_a_newer_reach_are_refused_by_name_rather_than_misread() {
    let stage = SqliteStage::new();
    let ledger = stage.open_here();
    ledger.append(row("tr", "s", 1, EventKind::Replayed));
    ledger.flush().await.unwrap();
    Connection::open(stage.path()).unwrap().execute("update journal set version = 9", []).unwrap();
    let said = ledger.session("s".into()).await.unwrap_err().to_string();
    assert!(said.contains("newer reach") && said.contains("version 9"), "{said}");
}

#[test]
fn no_list_walks_the_whole_journal() {
    let stage = SqliteStage::new();
    drop(stage.open_here());
    let connection = Connection::open(stage.path()).unwrap();
    let plan = |sql: &str| -> String {
        let mut statement = connection.prepare(&format!("explain query plan {sql}")).unwrap();
        let lines = statement.query_map([], |row| row.get::<_, String>(3)).unwrap();
        lines.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    };
    for (sql, index) in [
        ("select * from session order by last_ms desc, session_id desc limit 5", "session_last"),
        ("select * from journal where trace_id = 'x' order by at_ms, seq", "journal_trace"),
        ("select * from journal where session_id = 'x' order by at_ms, seq", "journal_session"),
        ("select * from journal where at_ms >= 5 order by at_ms desc, seq desc limit 9", "journal_at"),
        ("select seq, session_id from journal where at_ms < 5 order by at_ms limit 9", "journal_at"),
        ("select min(at_ms) from journal where session_id = 'x'", "COVERING INDEX journal_session"),
        (
            "select rowid from record where state in ('done', 'released') and at_ms < 5 order by at_ms limit 9",
            "record_ended",
        ),
        ("select * from record where state = 'unknown' order by at_ms desc, rowid desc limit 9", "record_unknown"),
        ("select distinct owner from record where state in ('claimed', 'in_flight')", "record_open"),
    ] {
        let plan = plan(sql);
        assert!(plan.contains(index), "{sql}: {plan}");
    }
}
