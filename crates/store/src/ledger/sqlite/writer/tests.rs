//! The writer when things go wrong below it: a full disk, a panic.

use reach_core::{CallerId, Effect, Event, EventKind, JournalRow, RequestId, SessionId, ToolId, TraceId};

use std::sync::atomic::Ordering;

use crate::StoreError;
use crate::ledger::sqlite::errors::ledger_error;
use crate::ledger::sqlite::journal::SessionTally;
use crate::ledger::sqlite::wish::{Left, Wish, finish_unheard};
use crate::ledger::{Claim, Claimed, Ending, Ledger, RecordKey, SqliteLedger};

fn ledger(folder: &tempfile::TempDir) -> SqliteLedger {
    SqliteLedger::open(&folder.path().join("ledger.db")).unwrap()
}

async fn run(ledger: &SqliteLedger, run: fn(&rusqlite::Connection) -> rusqlite::Result<()>) -> Result<(), StoreError> {
    super::super::told(ledger.ask(|reply| Wish::Run { run, durable: false, reply })).await
}

/// As a full disk looks to SQLite: no page more.
fn fill(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
    connection.query_row("pragma max_page_count = 1", [], |_| Ok(()))
}

fn free(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
    connection.query_row("pragma max_page_count = 1000000", [], |_| Ok(()))
}

fn key(name: &str) -> RecordKey {
    RecordKey { caller: CallerId::new("bot"), tool_id: ToolId::asked("pay"), request_id: RequestId::new(name) }
}

fn claim(name: &str) -> Claim {
    Claim {
        key: key(name),
        fingerprint: "f".into(),
        effect: Effect::Write,
        trace_id: TraceId::new("tr"),
        session_id: SessionId::new("s"),
        step: 1,
    }
}

fn row(bytes: usize) -> JournalRow {
    let kind = EventKind::Received { input: "x".repeat(bytes).into(), effect: None };
    JournalRow {
        at_ms: 1,
        trace_id: TraceId::new("tr"),
        session_id: SessionId::new("s"),
        request_id: RequestId::new("r"),
        step: 1,
        tool_id: ToolId::asked("pay"),
        caller: CallerId::new("bot"),
        events: vec![Event { at_ms: 1, kind }],
    }
}

#[tokio::test]
async fn a_full_disk_fails_what_waits_for_it_and_writing_resumes_with_nothing_lost() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger(&folder);
    for name in ["done", "intended"] {
        assert_eq!(ledger.claim(claim(name)).await.unwrap(), Claimed::Fresh { epoch: 1 });
    }
    ledger.intend(key("done"), 1, row(10)).await.unwrap();
    run(&ledger, fill).await.unwrap();

    let refused = ledger.intend(key("intended"), 1, row(50_000)).await.unwrap_err();
    assert!(refused.message.contains("disk is full"), "{refused}");
    let ending = Ending::Done { envelope: "y".repeat(50_000) };
    assert!(ledger.finish(key("done"), 1, ending.clone()).await.is_err());
    ledger.append(row(50_000));
    assert!(ledger.flush().await.is_err(), "a flush must not hang, nor say that it was written");
    assert_eq!(ledger.trace(TraceId::new("tr")).await.unwrap().len(), 1, "reading goes on");

    run(&ledger, free).await.unwrap();
    ledger.flush().await.unwrap();
    assert_eq!(ledger.trace(TraceId::new("tr")).await.unwrap().len(), 2, "the appended row was kept");
    assert_eq!(ledger.dropped(), 0);
    let Ending::Done { envelope } = ending else { unreachable!() };
    assert_eq!(ledger.claim(claim("done")).await.unwrap(), Claimed::Done { envelope }, "and so was the ending");
    assert_eq!(ledger.claim(claim("intended")).await.unwrap(), Claimed::InProgress);
    ledger.intend(key("intended"), 1, row(10)).await.unwrap();
}

#[tokio::test]
async fn a_durable_batch_waits_for_the_disk_and_the_next_one_does_not() {
    fn wanted(connection: &rusqlite::Connection, level: i64) -> rusqlite::Result<()> {
        let found: i64 = connection.query_row("pragma synchronous", [], |row| row.get(0))?;
        if found == level { Ok(()) } else { Err(rusqlite::Error::IntegralValueOutOfRange(0, found)) }
    }
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger(&folder);
    let (full, normal) = (|connection: &_| wanted(connection, 2), |connection: &_| wanted(connection, 1));
    for _ in 0..2 {
        super::super::told(ledger.ask(|reply| Wish::Run { run: full, durable: true, reply })).await.unwrap();
        super::super::told(ledger.ask(|reply| Wish::Run { run: normal, durable: false, reply })).await.unwrap();
    }
}

#[tokio::test]
async fn a_panic_in_one_batch_is_an_error_for_its_callers_and_the_next_batch_works() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger(&folder);
    let broken = run(&ledger, |_| panic!("on purpose")).await.unwrap_err();
    assert_eq!(broken.store, "ledger");
    assert_eq!(ledger.claim(claim("r")).await.unwrap(), Claimed::Fresh { epoch: 1 });
    ledger.intend(key("r"), 1, row(10)).await.unwrap();
    ledger.append(row(10));
    ledger.flush().await.unwrap();
    assert_eq!(ledger.trace(TraceId::new("tr")).await.unwrap().len(), 2);
}

#[tokio::test]
async fn after_the_writer_is_gone_nobody_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger(&folder);
    let waiting = ledger.claim(claim("r"));
    ledger.queue.close();
    // What was asked before is still answered; what comes later is refused.
    assert_eq!(waiting.await.unwrap(), Claimed::Fresh { epoch: 1 });
    assert!(ledger.claim(claim("late")).await.is_err());
    assert!(ledger.finish(key("r"), 1, Ending::Released).await.is_err());
    assert!(ledger.ping().await.is_err());
    ledger.append(row(1));
    assert_eq!(ledger.dropped(), 1);
}

#[tokio::test]
async fn a_statement_that_fails_undoes_itself_and_not_its_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger(&folder);
    let one = ledger.claim(claim("one"));
    let broken = run(&ledger, |connection| {
        connection.execute("delete from record", [])?;
        connection.execute("insert into record (caller) values ('half')", []).map(|_| ())
    });
    let two = ledger.claim(claim("two"));
    assert!(broken.await.is_err());
    assert_eq!(one.await.unwrap(), Claimed::Fresh { epoch: 1 });
    assert_eq!(two.await.unwrap(), Claimed::Fresh { epoch: 1 });
    assert_eq!(ledger.claim(claim("one")).await.unwrap(), Claimed::InProgress, "its deletion was undone");
}

/// What is left of an ending after its batch was committed, and after its batch was rolled back.
fn left_of(connection: &rusqlite::Connection, owner: &str, name: &str, epoch: u64) -> (bool, bool, bool) {
    let grant = || {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let ending = Ending::Done { envelope: "x".into() };
        let wish = Wish::Finish { key: key(name), epoch, ending, reply };
        connection.execute_batch("begin").unwrap();
        let (granted, given_up) = wish.grant(connection, owner, &mut SessionTally::default());
        assert!(given_up.is_none());
        connection.execute_batch("rollback").unwrap();
        (granted, answer)
    };
    let (granted, mut answer) = grant();
    let again = matches!(granted.send(), Left::Again(_));
    let is_ok = answer.try_recv().unwrap().is_ok();
    let (granted, _answer) = grant();
    let kept = granted.fail(&ledger_error("the disk is full")).is_some();
    (is_ok, again, kept)
}

#[tokio::test]
async fn an_ending_that_the_record_refuses_is_not_tried_again_and_one_that_the_disk_refuses_is() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger(&folder);
    ledger.claim(claim("r")).await.unwrap();
    let connection = crate::ledger::sqlite::schema::open_writer(&ledger.path).unwrap();
    assert_eq!(
        left_of(&connection, &ledger.owner, "r", 1),
        (true, false, true),
        "good, and kept while it is not written"
    );
    assert_eq!(left_of(&connection, &ledger.owner, "r", 2), (false, false, false), "another epoch");
    assert_eq!(left_of(&connection, "somebody", "r", 1), (false, false, false), "another owner");
    assert_eq!(left_of(&connection, &ledger.owner, "none", 1), (false, false, false), "no such record");
    connection.execute_batch("pragma query_only = on").unwrap();
    assert_eq!(left_of(&connection, &ledger.owner, "r", 1), (false, true, true), "SQLite refuses this one alone");
    connection.execute_batch("pragma query_only = off").unwrap();
    let (before, queue) = (ledger.counters.failed.load(Ordering::Relaxed), &ledger.queue);
    queue.wish(finish_unheard(key("none"), 1, Ending::Released));
    assert!(ledger.finish(key("r"), 2, Ending::Released).await.is_err());
    assert_eq!(ledger.counters.failed.load(Ordering::Relaxed), before, "a refusal is no failure of the disk");
}
