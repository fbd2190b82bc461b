//! The promise of a ledger, as scenarios that every body runs.
//!
//! A [`Stage`] is one storage; each [`Stage::open`] is one more owner on it, as another process would
//! be, and dropping a ledger is that process's end.

use std::sync::Arc;

use reach_core::breaker::StateName;
use reach_core::{
    CallerId, Effect, Envelope, ErrorCode, Event, EventKind, JournalRow, Phase, RequestId, SessionId, ToolId, TraceId,
};
use reach_store::Ledger;
use reach_store::ledger::{Claim, Claimed, Ending, Pruned, RecordKey, Recovered, SqliteLedger};

/// One storage.
pub(crate) trait Stage {
    /// One more owner.
    fn open(&self) -> Arc<dyn Ledger>;
}

/// A SQLite file in a folder of its own.
pub(crate) struct SqliteStage(pub(crate) tempfile::TempDir);

impl SqliteStage {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.0.path().join("ledger.db")
    }

    pub(crate) fn open_here(&self) -> SqliteLedger {
        SqliteLedger::open(&self.path()).unwrap()
    }
}

impl Stage for SqliteStage {
    fn open(&self) -> Arc<dyn Ledger> {
        Arc::new(self.open_here())
    }
}

pub(crate) fn key(name: &str) -> RecordKey {
    RecordKey { caller: CallerId::new("bot"), tool_id: ToolId::asked("pay"), request_id: RequestId::new(name) }
}

pub(crate) fn claim_of(name: &str, fingerprint: &str, effect: Effect) -> Claim {
    Claim {
        key: key(name),
        fingerprint: fingerprint.to_owned(),
        effect,
        trace_id: TraceId::new(format!("tr_{name}")),
        session_id: SessionId::new("s_records"),
        step: 3,
    }
}

pub(crate) fn claim(name: &str) -> Claim {
    claim_of(name, "f", Effect::Write)
}

pub(crate) fn row(trace: &str, session: &str, at_ms: u64, kind: EventKind) -> JournalRow {
    JournalRow {
        at_ms,
        trace_id: TraceId::new(trace),
        session_id: SessionId::new(session),
        request_id: RequestId::new("r"),
        step: 1,
        tool_id: ToolId::asked("pay"),
        caller: CallerId::new("bot"),
        events: vec![Event { at_ms, kind }],
    }
}

pub(crate) fn intent(name: &str) -> JournalRow {
    row(&format!("tr_{name}"), "s_records", 1_000, EventKind::Intended)
}

fn done(text: &str) -> Ending {
    Ending::Done { envelope: text.to_owned() }
}

fn unknown(text: &str) -> Ending {
    Ending::Unknown { envelope: text.to_owned() }
}

async fn epoch_of(ledger: &Arc<dyn Ledger>, claim: Claim) -> u64 {
    match ledger.claim(claim).await.unwrap() {
        Claimed::Fresh { epoch } => epoch,
        other => panic!("wanted a fresh claim, got {other:?}"),
    }
}

/// Claims, intends and leaves it in flight.
async fn send(ledger: &Arc<dyn Ledger>, claim: Claim) -> u64 {
    let name = claim.key.request_id.to_string();
    let key = claim.key.clone();
    let epoch = epoch_of(ledger, claim).await;
    ledger.intend(key, epoch, intent(&name)).await.unwrap();
    epoch
}

async fn a_claim_is_given_once(stage: &impl Stage) {
    let (one, other) = (stage.open(), stage.open());
    let mut under_way = Vec::new();
    for index in 0..32 {
        let ledger = if index % 2 == 0 { &one } else { &other };
        under_way.push(ledger.claim(claim("r1")));
    }
    let mut fresh = 0;
    for claimed in under_way {
        match claimed.await.unwrap() {
            Claimed::Fresh { epoch: 1 } => fresh += 1,
            Claimed::InProgress => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fresh, 1);
}

async fn a_record_under_way_is_in_progress_even_for_its_own_process(stage: &impl Stage) {
    let (ledger, other) = (stage.open(), stage.open());
    let epoch = epoch_of(&ledger, claim("r1")).await;
    assert_eq!(ledger.claim(claim("r1")).await.unwrap(), Claimed::InProgress);
    ledger.intend(key("r1"), epoch, intent("r1")).await.unwrap();
    assert_eq!(ledger.claim(claim("r1")).await.unwrap(), Claimed::InProgress);
    assert_eq!(other.claim(claim("r1")).await.unwrap(), Claimed::InProgress);
}

async fn a_done_record_answers_with_its_envelope_and_stays_done(stage: &impl Stage) {
    let ledger = stage.open();
    let epoch = send(&ledger, claim("r1")).await;
    ledger.finish(key("r1"), epoch, done("{\"answer\":1}")).await.unwrap();
    for ledger in [&ledger, &stage.open()] {
        let claimed = ledger.claim(claim("r1")).await.unwrap();
        assert_eq!(claimed, Claimed::Done { envelope: "{\"answer\":1}".into() });
    }
    for ending in [done("{\"answer\":2}"), unknown("?"), Ending::Released] {
        assert!(ledger.finish(key("r1"), epoch, ending).await.is_err());
    }
    assert!(!ledger.settle(key("r1"), Ending::Released).await.unwrap());
    assert!(matches!(ledger.claim(claim("r1")).await.unwrap(), Claimed::Done { .. }));
}

async fn other_arguments_are_a_mismatch_in_every_state(stage: &impl Stage) {
    let ledger = stage.open();
    let other = claim_of("r1", "other", Effect::Write);
    let mismatch = async |state: &str| {
        assert_eq!(ledger.claim(other.clone()).await.unwrap(), Claimed::Mismatch, "{state}");
    };
    let epoch = epoch_of(&ledger, claim("r1")).await;
    mismatch("claimed").await;
    ledger.finish(key("r1"), epoch, Ending::Released).await.unwrap();
    mismatch("released").await;
    let epoch = send(&ledger, claim("r1")).await;
    mismatch("in_flight").await;
    ledger.finish(key("r1"), epoch, unknown("?")).await.unwrap();
    mismatch("unknown").await;
    ledger.finish(key("r1"), epoch, done("!")).await.unwrap();
    mismatch("done").await;
}

async fn the_same_key_of_another_caller_or_tool_is_another_record(stage: &impl Stage) {
    let ledger = stage.open();
    epoch_of(&ledger, claim("r1")).await;
    let mut of_caller = claim("r1");
    of_caller.key.caller = CallerId::new("somebody");
    let mut of_tool = claim("r1");
    of_tool.key.tool_id = ToolId::asked("refund");
    for other in [of_caller, of_tool] {
        assert_eq!(ledger.claim(other).await.unwrap(), Claimed::Fresh { epoch: 1 });
    }
}

async fn a_released_record_is_claimed_again_under_the_next_epoch(stage: &impl Stage) {
    let ledger = stage.open();
    let first = epoch_of(&ledger, claim("r1")).await;
    ledger.finish(key("r1"), first, Ending::Released).await.unwrap();
    let second = send(&ledger, claim("r1")).await;
    ledger.finish(key("r1"), second, Ending::Released).await.unwrap();
    assert_eq!([first, second, epoch_of(&ledger, claim("r1")).await], [1, 2, 3]);
}

async fn an_unknown_record_answers_unknown_until_somebody_verified_it(stage: &impl Stage) {
    let (ledger, other) = (stage.open(), stage.open());
    let epoch = send(&ledger, claim("r1")).await;
    ledger.finish(key("r1"), epoch, unknown("who knows")).await.unwrap();
    for ledger in [&ledger, &other] {
        let claimed = ledger.claim(claim("r1")).await.unwrap();
        assert_eq!(claimed, Claimed::Unknown { envelope: "who knows".into(), epoch });
    }
    assert!(other.finish(key("r1"), epoch + 1, done("no")).await.is_err(), "another epoch");
    other.finish(key("r1"), epoch, done("it was")).await.unwrap();
    assert_eq!(ledger.claim(claim("r1")).await.unwrap(), Claimed::Done { envelope: "it was".into() });
    assert!(ledger.finish(key("r1"), epoch, Ending::Released).await.is_err(), "verified once");
}

async fn an_unknown_record_found_not_done_may_be_sent_again(stage: &impl Stage) {
    let ledger = stage.open();
    let epoch = send(&ledger, claim("r1")).await;
    ledger.finish(key("r1"), epoch, unknown("?")).await.unwrap();
    ledger.finish(key("r1"), epoch, Ending::Released).await.unwrap();
    assert_eq!(send(&ledger, claim("r1")).await, epoch + 1);
}

async fn a_late_writer_loses(stage: &impl Stage) {
    let (slow, quick) = (stage.open(), stage.open());
    let old = epoch_of(&slow, claim("r1")).await;
    slow.finish(key("r1"), old, Ending::Released).await.unwrap();
    let new = epoch_of(&quick, claim("r1")).await;
    assert!(slow.intend(key("r1"), old, intent("r1")).await.is_err());
    assert!(slow.finish(key("r1"), old, done("old")).await.is_err());
    assert!(slow.finish(key("r1"), new, done("stolen")).await.is_err(), "the right epoch of another owner");
    assert!(slow.intend(key("r1"), new, intent("r1")).await.is_err());
    quick.intend(key("r1"), new, intent("r1")).await.unwrap();
    quick.finish(key("r1"), new, done("new")).await.unwrap();
    assert_eq!(slow.claim(claim("r1")).await.unwrap(), Claimed::Done { envelope: "new".into() });
}

async fn what_was_never_claimed_can_be_neither_intended_nor_finished(stage: &impl Stage) {
    let ledger = stage.open();
    assert!(ledger.intend(key("r1"), 1, intent("r1")).await.is_err());
    assert!(ledger.finish(key("r1"), 1, done("x")).await.is_err());
    assert!(!ledger.settle(key("r1"), done("x")).await.unwrap());
    assert!(ledger.trace(TraceId::new("tr_r1")).await.unwrap().is_empty(), "a refused intent leaves no event");
}

async fn the_same_ending_twice_is_no_error(stage: &impl Stage) {
    let ledger = stage.open();
    for (name, ending) in [("r1", done("x")), ("r2", unknown("x")), ("r3", Ending::Released)] {
        let epoch = send(&ledger, claim(name)).await;
        ledger.finish(key(name), epoch, ending.clone()).await.unwrap();
        ledger.finish(key(name), epoch, ending).await.unwrap();
    }
}

async fn one_refusal_does_not_fail_its_neighbours(stage: &impl Stage) {
    let ledger = stage.open();
    let mut epochs = Vec::new();
    for index in 0..40 {
        epochs.push(epoch_of(&ledger, claim(&format!("r{index}"))).await);
    }
    let mut under_way = Vec::new();
    for (index, epoch) in epochs.into_iter().enumerate() {
        let name = format!("r{index}");
        let epoch = if index % 4 == 0 { epoch + 7 } else { epoch };
        under_way.push((index, ledger.intend(key(&name), epoch, intent(&name))));
    }
    for (index, intended) in under_way {
        assert_eq!(intended.await.is_ok(), index % 4 != 0, "{index}");
    }
    for index in 0..40 {
        let rows = ledger.trace(TraceId::new(format!("tr_r{index}"))).await.unwrap();
        assert_eq!(rows.len(), usize::from(index % 4 != 0), "{index}");
    }
    assert_eq!(ledger.sessions(1).await.unwrap()[0].rows, 30, "a refused intent is not counted either");
}

async fn an_intent_is_in_the_journal_when_it_returns(stage: &impl Stage) {
    let ledger = stage.open();
    send(&ledger, claim("r1")).await;
    assert_eq!(stage.open().trace(TraceId::new("tr_r1")).await.unwrap(), [intent("r1")]);
}

async fn a_claim_that_nobody_waits_for_is_given_back(stage: &impl Stage) {
    let ledger = stage.open();
    drop(ledger.claim(claim("early")));
    let answered = ledger.claim(claim("late"));
    // A later answer of the same writer says that the earlier one is already under way to us.
    epoch_of(&ledger, claim("after")).await;
    drop(answered);
    epoch_of(&ledger, claim("after that")).await;
    for name in ["early", "late"] {
        assert_eq!(ledger.claim(claim(name)).await.unwrap(), Claimed::Fresh { epoch: 2 }, "{name}");
    }
}

async fn an_intent_that_nobody_waits_for_is_given_back(stage: &impl Stage) {
    let ledger = stage.open();
    let epoch = epoch_of(&ledger, claim("r1")).await;
    drop(ledger.intend(key("r1"), epoch, intent("r1")));
    assert_eq!(ledger.claim(claim("r1")).await.unwrap(), Claimed::Fresh { epoch: 2 });
}

async fn an_ending_is_written_though_nobody_waits_for_it(stage: &impl Stage) {
    let ledger = stage.open();
    let epoch = send(&ledger, claim("r1")).await;
    drop(ledger.finish(key("r1"), epoch, done("x")));
    assert_eq!(ledger.claim(claim("r1")).await.unwrap(), Claimed::Done { envelope: "x".into() });
}

async fn recovery_settles_what_a_gone_owner_left_by_its_effect(stage: &impl Stage) {
    let gone = stage.open();
    epoch_of(&gone, claim("claimed")).await;
    let effects = [
        ("write", Effect::Write),
        ("keyed", Effect::Keyed),
        ("idempotent", Effect::Idempotent),
        ("read", Effect::Read),
    ];
    for (name, effect) in effects {
        send(&gone, claim_of(name, "f", effect)).await;
    }
    let finished = send(&gone, claim("finished")).await;
    gone.finish(key("finished"), finished, done("x")).await.unwrap();
    drop(gone);

    let ledger = stage.open();
    assert_eq!(ledger.recover().await.unwrap(), Recovered { unknown: 1, released: 4 });
    assert_eq!(ledger.recover().await.unwrap(), Recovered::default(), "once is enough");
    for name in ["claimed", "keyed", "idempotent", "read"] {
        let effect = effects.iter().find(|(known, _)| *known == name).map_or(Effect::Write, |(_, effect)| *effect);
        assert_eq!(ledger.claim(claim_of(name, "f", effect)).await.unwrap(), Claimed::Fresh { epoch: 2 }, "{name}");
    }
    assert_eq!(ledger.claim(claim("finished")).await.unwrap(), Claimed::Done { envelope: "x".into() });
    assert!(matches!(ledger.claim(claim("write")).await.unwrap(), Claimed::Unknown { epoch: 1, .. }));

    let outcome = async |name: &str| {
        let rows = ledger.trace(TraceId::new(format!("tr_{name}"))).await.unwrap();
        match rows.last().map(|row| (row.step, row.session_id.as_str(), row.events[0].kind.clone())) {
            Some((3, "s_records", EventKind::Recovered { outcome })) => outcome,
            other => panic!("{name}: {other:?}"),
        }
    };
    assert_eq!(outcome("write").await, "unknown");
    for name in ["claimed", "keyed", "idempotent", "read"] {
        assert_eq!(outcome(name).await, "released");
    }
}

async fn a_recovered_write_answers_with_an_envelope_of_its_own_call(stage: &impl Stage) {
    let gone = stage.open();
    send(&gone, claim("r1")).await;
    drop(gone);
    let ledger = stage.open();
    ledger.recover().await.unwrap();
    let Claimed::Unknown { envelope, .. } = ledger.claim(claim("r1")).await.unwrap() else { panic!("not unknown") };
    let envelope: Envelope = serde_json::from_str(&envelope).unwrap();
    assert_eq!(envelope.code(), Some(ErrorCode::OutcomeUnknown));
    assert_eq!(envelope.tool, ToolId::asked("pay"));
    assert_eq!(envelope.error.as_ref().map(|error| error.retryable), Some(false));
    assert_eq!((envelope.meta.phase, envelope.meta.attempts, envelope.meta.step), (Phase::MaybeSent, 1, 3));
    assert_eq!(envelope.meta.request_id, RequestId::new("r1"));
    assert_eq!(envelope.meta.trace_id, TraceId::new("tr_r1"));
    assert_eq!(envelope.meta.session_id, SessionId::new("s_records"));
}

async fn recovery_leaves_the_records_of_living_owners_alone(stage: &impl Stage) {
    let (living, ledger) = (stage.open(), stage.open());
    let theirs = send(&living, claim("theirs")).await;
    let ours = send(&ledger, claim("ours")).await;
    assert_eq!(ledger.recover().await.unwrap(), Recovered::default());
    living.finish(key("theirs"), theirs, done("x")).await.unwrap();
    ledger.finish(key("ours"), ours, done("x")).await.unwrap();
}

async fn unknown_records_are_listed_newest_first_and_settled_by_hand(stage: &impl Stage) {
    let ledger = stage.open();
    for name in ["r1", "r2", "r3"] {
        let epoch = send(&ledger, claim(name)).await;
        ledger.finish(key(name), epoch, unknown("?")).await.unwrap();
    }
    let names = async |limit| {
        let listed = ledger.unsettled(limit).await.unwrap();
        listed.iter().map(|record| record.request_id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(9).await, ["r3", "r2", "r1"]);
    assert_eq!(names(2).await, ["r3", "r2"]);
    assert_eq!(ledger.unsettled(1).await.unwrap()[0].trace_id, TraceId::new("tr_r3"));

    assert!(ledger.settle(key("r1"), done("it happened")).await.unwrap());
    assert!(ledger.settle(key("r2"), Ending::Released).await.unwrap());
    assert!(!ledger.settle(key("r1"), Ending::Released).await.unwrap(), "settled once");
    assert_eq!(names(9).await, ["r3"]);
    assert_eq!(ledger.claim(claim("r1")).await.unwrap(), Claimed::Done { envelope: "it happened".into() });
    assert_eq!(ledger.claim(claim("r2")).await.unwrap(), Claimed::Fresh { epoch: 2 });
    for (name, happened) in [("r1", true), ("r2", false)] {
        let rows = ledger.trace(TraceId::new(format!("tr_{name}"))).await.unwrap();
        assert_eq!(rows.last().unwrap().events[0].kind, EventKind::Settled { done: happened });
    }
}

async fn appended_rows_are_read_at_once_whole_and_in_order(stage: &impl Stage) {
    let ledger = stage.open();
    let mut wanted = Vec::new();
    for index in 0..300 {
        let kind = EventKind::Received { input: serde_json::json!({"n": index, "text": "付款"}), effect: None };
        wanted.push(row("tr_1", "s_1", 1_000 + index / 10, kind));
        ledger.append(wanted[wanted.len() - 1].clone());
    }
    ledger.append(row("tr_2", "s_1", 5, EventKind::Replayed));
    assert_eq!(ledger.trace(TraceId::new("tr_1")).await.unwrap(), wanted);
    let session = ledger.session(SessionId::new("s_1")).await.unwrap();
    assert_eq!((session.len(), session[0].at_ms), (301, 5), "oldest first, whatever came when");
    assert!(ledger.trace(TraceId::new("tr_none")).await.unwrap().is_empty());
    assert_eq!(ledger.dropped(), 0);
}

async fn a_flush_returns_when_others_can_read(stage: &impl Stage) {
    let (ledger, other) = (stage.open(), stage.open());
    ledger.flush().await.unwrap();
    for at_ms in 0..2_000 {
        ledger.append(row("tr_1", "s_1", at_ms, EventKind::Replayed));
    }
    ledger.flush().await.unwrap();
    assert_eq!(other.trace(TraceId::new("tr_1")).await.unwrap().len(), 2_000);
}

async fn sessions_are_listed_newest_first_with_their_sums(stage: &impl Stage) {
    let ledger = stage.open();
    for (session, at_ms) in [("s_a", 30), ("s_b", 10), ("s_a", 20), ("s_c", 25)] {
        ledger.append(row("tr", session, at_ms, EventKind::Replayed));
        ledger.flush().await.unwrap();
    }
    let mut long = row("tr", "s_b", 11, EventKind::Replayed);
    long.events.push(Event { at_ms: 40, kind: EventKind::CallerLeft });
    ledger.append(long);
    let lines = ledger.sessions(10).await.unwrap();
    let sums: Vec<_> = lines.iter().map(|s| (s.session_id.as_str(), s.first_ms, s.last_ms, s.rows)).collect();
    assert_eq!(sums, [("s_b", 10, 40, 2), ("s_a", 20, 30, 2), ("s_c", 25, 25, 1)]);
    assert_eq!(ledger.sessions(1).await.unwrap(), lines[..1]);
}

async fn sessions_of_a_caller_count_its_own_rows_only(stage: &impl Stage) {
    let ledger = stage.open();
    for (session, at_ms, caller) in
        [("s_own", 10, "bot"), ("s_both", 20, "bot"), ("s_both", 30, "other"), ("s_other", 40, "other")]
    {
        ledger.append(JournalRow { caller: CallerId::new(caller), ..row("tr", session, at_ms, EventKind::Replayed) });
    }
    let of = async |caller: &str, limit| {
        let lines = ledger.sessions_of(CallerId::new(caller), limit).await.unwrap();
        lines.iter().map(|s| (s.session_id.to_string(), s.first_ms, s.last_ms, s.rows)).collect::<Vec<_>>()
    };
    let line = |session: &str, at_ms: u64| (session.to_owned(), at_ms, at_ms, 1);
    assert_eq!(of("bot", 10).await, [line("s_both", 20), line("s_own", 10)]);
    assert_eq!(of("other", 1).await, [line("s_other", 40)]);
    assert!(of("nobody", 10).await.is_empty());
}

async fn rows_since_a_moment_come_oldest_first_up_to_the_limit(stage: &impl Stage) {
    let ledger = stage.open();
    for at_ms in [5, 3, 4, 1, 2] {
        ledger.append(row("tr", "s", at_ms, EventKind::Replayed));
    }
    let times = async |at_ms, limit| {
        let rows = ledger.since(at_ms, limit).await.unwrap();
        rows.iter().map(|row| row.at_ms).collect::<Vec<_>>()
    };
    assert_eq!(times(3, 10).await, [3, 4, 5]);
    assert_eq!(times(0, 2).await, [4, 5], "the newest");
    assert_eq!(times(6, 10).await, Vec::<u64>::new());
}

fn moved(target: &str, at_ms: u64, to: StateName) -> JournalRow {
    let kind = EventKind::Breaker { target: target.to_owned(), from: StateName::Closed, to };
    row("tr_moves", "s_moves", at_ms, kind)
}

async fn breakers_stand_where_their_newest_move_left_them(stage: &impl Stage) {
    let (ledger, other) = (stage.open(), stage.open());
    assert_eq!(ledger.breakers().await.unwrap(), []);
    ledger.append(moved("http://b", 20, StateName::Open));
    ledger.append(moved("http://a", 30, StateName::ForcedOpen));
    ledger.append(moved("http://b", 10, StateName::HalfOpen));
    ledger.flush().await.unwrap();
    other.append(moved("http://a", 40, StateName::Closed));
    let mut written_before_the_send = intent("r1");
    written_before_the_send.events.extend(moved("http://c", 50, StateName::HalfOpen).events);
    let epoch = epoch_of(&other, claim("r1")).await;
    other.intend(key("r1"), epoch, written_before_the_send).await.unwrap();
    other.flush().await.unwrap();
    let lines = ledger.breakers().await.unwrap();
    let lines: Vec<_> = lines.iter().map(|line| (line.target.as_str(), line.state, line.since_ms)).collect();
    let wanted =
        [("http://a", StateName::Closed, 40), ("http://b", StateName::Open, 20), ("http://c", StateName::HalfOpen, 50)];
    assert_eq!(lines, wanted);
    ledger.prune(40, 0).await.unwrap();
    assert_eq!(ledger.breakers().await.unwrap().len(), 2, "as old as the journal and no older");
}

async fn pruning_forgets_old_rows_and_the_list_of_sessions_follows(stage: &impl Stage) {
    let (ledger, other) = (stage.open(), stage.open());
    // Several batches of one session, of which ten rows stay; one session goes, one is not touched.
    for at_ms in 0..1_000 {
        ledger.append(row("tr", "s_long", at_ms, EventKind::Replayed));
    }
    ledger.append(row("tr_gone", "s_gone", 3, EventKind::Replayed));
    ledger.append(row("tr_kept", "s_kept", 2_000, EventKind::Replayed));
    ledger.flush().await.unwrap();
    assert_eq!(other.prune(990, 0).await.unwrap(), Pruned { rows: 991, records: 0 });
    assert_eq!(other.prune(990, 0).await.unwrap(), Pruned::default(), "once is enough");
    let kept: Vec<u64> = ledger.since(0, 9_999).await.unwrap().iter().map(|row| row.at_ms).collect();
    assert_eq!(kept, (990..1_000).chain([2_000]).collect::<Vec<_>>());
    let sums = async || {
        let lines = ledger.sessions(10).await.unwrap();
        lines.iter().map(|s| (s.session_id.to_string(), s.first_ms, s.last_ms, s.rows)).collect::<Vec<_>>()
    };
    assert_eq!(sums().await, [("s_kept".to_owned(), 2_000, 2_000, 1), ("s_long".to_owned(), 990, 999, 10)]);
    // Written and pruned at once, in whatever batches: what is left is what is counted.
    let mut under_way = Vec::new();
    for index in 0..20u64 {
        let name = format!("r{index}");
        let epoch = epoch_of(&ledger, claim(&name)).await;
        under_way.push(ledger.intend(key(&name), epoch, row("tr_r", "s_r", 900 + index * 10, EventKind::Intended)));
    }
    let pruned = ledger.prune(1_000, 0);
    for intended in under_way {
        intended.await.unwrap();
    }
    assert_eq!(pruned.await.unwrap().rows, 20, "ten of the long session, ten intents");
    let left = [("s_kept".to_owned(), 2_000, 2_000, 1), ("s_r".to_owned(), 1_000, 1_090, 10)];
    assert_eq!(sums().await, left);
}

async fn pruning_forgets_what_ended_and_never_what_is_open_or_unknown(stage: &impl Stage) {
    let (ledger, other) = (stage.open(), stage.open());
    for index in 0..600 {
        let epoch = epoch_of(&ledger, claim(&format!("done{index}"))).await;
        ledger.finish(key(&format!("done{index}")), epoch, done("x")).await.unwrap();
    }
    let released = epoch_of(&ledger, claim("released")).await;
    ledger.finish(key("released"), released, Ending::Released).await.unwrap();
    epoch_of(&ledger, claim("claimed")).await;
    send(&ledger, claim("in_flight")).await;
    let epoch = send(&ledger, claim("unknown")).await;
    ledger.finish(key("unknown"), epoch, unknown("?")).await.unwrap();

    assert_eq!(other.prune(0, 1_000).await.unwrap(), Pruned::default(), "nothing ended in 1970");
    assert_eq!(other.prune(0, u64::MAX).await.unwrap(), Pruned { rows: 0, records: 601 });
    for name in ["done0", "done599", "released"] {
        assert_eq!(ledger.claim(claim(name)).await.unwrap(), Claimed::Fresh { epoch: 1 }, "{name} is new again");
    }
    assert_eq!(ledger.claim(claim("claimed")).await.unwrap(), Claimed::InProgress);
    assert_eq!(ledger.claim(claim("in_flight")).await.unwrap(), Claimed::InProgress);
    assert_eq!(ledger.claim(claim("unknown")).await.unwrap(), Claimed::Unknown { envelope: "?".into(), epoch });
}

async fn text_from_outside_stays_text(stage: &impl Stage) {
    let ledger = stage.open();
    for name in ["'; drop table record; --", "\u{0}\u{1f4a9}\n\"", "", "ключ/../键"] {
        let mut odd = claim(name);
        odd.key.caller = CallerId::new(name);
        let key = odd.key.clone();
        let epoch = send(&ledger, odd.clone()).await;
        ledger.finish(key.clone(), epoch, unknown(name)).await.unwrap();
        assert_eq!(ledger.claim(odd).await.unwrap(), Claimed::Unknown { envelope: name.to_owned(), epoch });
        let listed = ledger.unsettled(1).await.unwrap();
        assert_eq!((&listed[0].caller, &listed[0].request_id), (&key.caller, &key.request_id));
        assert_eq!(ledger.trace(TraceId::new(format!("tr_{name}"))).await.unwrap(), [intent(name)]);
    }
}

async fn what_was_written_is_there_after_a_restart(stage: &impl Stage) {
    let first = stage.open();
    let epoch = send(&first, claim("r1")).await;
    first.finish(key("r1"), epoch, done("x")).await.unwrap();
    first.append(row("tr_last", "s_last", 9, EventKind::Replayed));
    drop(first);
    let second = stage.open();
    assert_eq!(second.claim(claim("r1")).await.unwrap(), Claimed::Done { envelope: "x".into() });
    assert_eq!(second.trace(TraceId::new("tr_last")).await.unwrap().len(), 1, "closing writes what still waits");
    second.ping().await.unwrap();
}

mod on_sqlite {
    use super::SqliteStage;

    crate::run_on!(SqliteStage::new() =>
        a_claim_is_given_once,
        a_record_under_way_is_in_progress_even_for_its_own_process,
        a_done_record_answers_with_its_envelope_and_stays_done,
        other_arguments_are_a_mismatch_in_every_state,
        the_same_key_of_another_caller_or_tool_is_another_record,
        a_released_record_is_claimed_again_under_the_next_epoch,
        an_unknown_record_answers_unknown_until_somebody_verified_it,
        an_unknown_record_found_not_done_may_be_sent_again,
        a_late_writer_loses,
        what_was_never_claimed_can_be_neither_intended_nor_finished,
        the_same_ending_twice_is_no_error,
        one_refusal_does_not_fail_its_neighbours,
        an_intent_is_in_the_journal_when_it_returns,
        a_claim_that_nobody_waits_for_is_given_back,
        an_intent_that_nobody_waits_for_is_given_back,
        an_ending_is_written_though_nobody_waits_for_it,
        recovery_settles_what_a_gone_owner_left_by_its_effect,
        a_recovered_write_answers_with_an_envelope_of_its_own_call,
        recovery_leaves_the_records_of_living_owners_alone,
        unknown_records_are_listed_newest_first_and_settled_by_hand,
        appended_rows_are_read_at_once_whole_and_in_order,
        a_flush_returns_when_others_can_read,
        sessions_are_listed_newest_first_with_their_sums,
        sessions_of_a_caller_count_its_own_rows_only,
        rows_since_a_moment_come_oldest_first_up_to_the_limit,
        breakers_stand_where_their_newest_move_left_them,
        pruning_forgets_old_rows_and_the_list_of_sessions_follows,
        pruning_forgets_what_ended_and_never_what_is_open_or_unknown,
        text_from_outside_stays_text,
        what_was_written_is_there_after_a_restart,
    );
}
