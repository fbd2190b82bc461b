//! What a reader of the journal sees: calls put together, times and tokens summed, health computed.

use reach_core::breaker::StateName;
use reach_core::tokens::{Counted, Tokens};
use reach_core::{Effect, ErrorCode, Event, EventKind, JournalRow, Phase, ToolId};
use reach_journal::health::{last_event_ms, summaries};
use reach_journal::timeline::{CallStatus, Timeline};
use serde_json::json;

const ZERO: u64 = 1_700_000_000_000;

fn row(trace: &str, request: &str, tool: &str, step: u32, events: Vec<(u64, EventKind)>) -> JournalRow {
    JournalRow {
        at_ms: ZERO + events.first().map_or(0, |event| event.0),
        trace_id: trace.into(),
        session_id: "s-1".into(),
        request_id: request.into(),
        step,
        tool_id: ToolId::asked(tool),
        caller: "bot".into(),
        events: events.into_iter().map(|(at, kind)| Event { at_ms: ZERO + at, kind }).collect(),
    }
}

fn received(input: &str) -> EventKind {
    EventKind::Received { input: json!({ "q": input }), effect: Some(Effect::Read) }
}

fn started(attempt: u32, tool: &str, target: &str) -> EventKind {
    EventKind::AttemptStarted { attempt, tool_id: ToolId::asked(tool), target: target.to_owned() }
}

fn ended(attempt: u32, code: Option<ErrorCode>, duration_ms: u64) -> EventKind {
    EventKind::AttemptEnded { attempt, code, phase: Phase::Answered, duration_ms, detail: Vec::new() }
}

fn finished(code: Option<ErrorCode>, duration_ms: u64, served_by: &str, tokens: Tokens) -> EventKind {
    EventKind::Finished {
        code,
        attempts: 1,
        duration_ms,
        upstream_ms: 0,
        served_by: code.is_none().then(|| ToolId::asked(served_by)),
        phase: Phase::Answered,
        replayed: false,
        result_size: 10,
        tokens,
        message: code.map(|code| format!("{code:?}")),
    }
}

/// One call that worked: received at `at`, 10 ms of ours, then `busy` ms at the upstream.
fn simple(trace: &str, request: &str, tool: &str, at: u64, busy: u64) -> JournalRow {
    row(
        trace,
        request,
        tool,
        1,
        vec![
            (at, received(request)),
            (at + 10, started(1, tool, "http://up")),
            (at + 10 + busy, ended(1, None, busy)),
            (at + 10 + busy, finished(None, 10 + busy, tool, Tokens::default())),
        ],
    )
}

#[test]
fn parallel_calls_of_two_traces_never_mix() {
    // Case C011: one step calls three tools in parallel while another run is active; writes leave two rows,
    // all of them between one another, and both runs even chose the same request ids.
    let mut rows = Vec::new();
    for part in [0, 1] {
        for trace in ["t-1", "t-2"] {
            for (index, tool) in ["a", "b", "c"].into_iter().enumerate() {
                let shift = index as u64 * 3 + u64::from(trace == "t-2");
                let request = format!("r-{index}");
                rows.push(if part == 0 {
                    row(trace, &request, tool, 4, vec![(shift, received(trace)), (shift + 1, EventKind::Intended)])
                } else {
                    row(
                        trace,
                        &request,
                        tool,
                        4,
                        vec![
                            (20 + shift, started(1, tool, "http://up")),
                            (50 + shift, ended(1, None, 30)),
                            (51 + shift, finished(None, 51, tool, Tokens::default())),
                        ],
                    )
                });
            }
        }
    }
    for _ in 0..rows.len() {
        rows.rotate_left(1);
        let timeline = Timeline::of(&rows);
        assert_eq!(timeline.calls.len(), 6);
        for trace in ["t-1", "t-2"] {
            let calls: Vec<_> = timeline.calls.iter().filter(|call| call.trace_id.as_str() == trace).collect();
            assert_eq!(calls.len(), 3);
            for call in calls {
                assert_eq!(call.input, json!({ "q": trace }));
                assert_eq!((call.status, call.attempts.len(), call.step), (CallStatus::Ok, 1, 4));
                assert_eq!(call.attempts[0].tool_id, call.tool_id);
            }
        }
        assert_eq!((timeline.totals.calls, timeline.totals.unfinished), (6, 0));
    }
}

#[test]
fn a_call_shows_its_attempts_its_fallback_and_its_waits() {
    let rows = [row(
        "t",
        "r",
        "main",
        2,
        vec![
            (0, received("x")),
            (1, EventKind::Coerced { fields: vec!["/n".to_owned()] }),
            (30, EventKind::Waited { target: "http://main".to_owned(), duration_ms: 25 }),
            (30, started(1, "main", "http://main")),
            (80, ended(1, Some(ErrorCode::UpstreamUnavailable), 50)),
            (80, EventKind::Retrying { delay_ms: 100 }),
            (180, started(2, "main", "http://main")),
            (200, ended(2, Some(ErrorCode::UpstreamUnavailable), 20)),
            (
                200,
                EventKind::Breaker { target: "http://main".to_owned(), from: StateName::Closed, to: StateName::Open },
            ),
            (
                201,
                EventKind::FellBack {
                    from: ToolId::asked("main"),
                    to: ToolId::asked("spare"),
                    reason: "UNREACHABLE".to_owned(),
                },
            ),
            (202, started(3, "spare", "http://spare")),
            (252, ended(3, None, 50)),
            (253, EventKind::Shortened { shown: 100, total: 900, blob: Some("b1".to_owned()) }),
            (254, finished(None, 254, "spare", Tokens::default())),
        ],
    )];
    let timeline = Timeline::of(&rows);
    let call = &timeline.calls[0];
    assert_eq!(timeline.started_at_ms, ZERO);
    assert_eq!((call.start_ms, call.duration_ms, call.waited_ms), (0, 254, 125));
    assert_eq!(call.served_by, Some(ToolId::asked("spare")));
    assert_eq!(
        call.attempts.iter().map(|one| (one.start_ms, one.duration_ms)).collect::<Vec<_>>(),
        [(30, Some(50)), (180, Some(20)), (202, Some(50))]
    );
    assert_eq!(call.fallbacks[0].to, ToolId::asked("spare"));
    assert_eq!(call.truncated.as_ref().map(|cut| (cut.shown, cut.total)), Some((100, 900)));
    let totals = &timeline.totals;
    assert_eq!(
        (totals.wall_ms, totals.upstream_ms, totals.waiting_ms, totals.own_ms, totals.idle_ms),
        (254, 120, 125, 9, 0)
    );
    assert_eq!(
        totals.upstreams.iter().map(|up| (up.target.as_str(), up.attempts, up.failed, up.busy_ms)).collect::<Vec<_>>(),
        [("http://main", 2, 2, 70), ("http://spare", 1, 0, 50)]
    );
}

#[test]
fn a_call_without_its_end_is_unfinished() {
    let rows = [
        row("t", "r-1", "send", 1, vec![(0, received("x")), (5, EventKind::Intended)]),
        row("t", "r-2", "read", 2, vec![(50, received("y")), (60, started(1, "read", "http://up"))]),
    ];
    let timeline = Timeline::of(&rows);
    assert_eq!(timeline.totals.unfinished, 2);
    assert_eq!((timeline.calls[0].status, timeline.calls[0].duration_ms), (CallStatus::Unfinished, 5));
    assert_eq!(timeline.calls[1].attempts[0].duration_ms, None);
    let text = serde_json::to_value(&timeline).unwrap();
    assert_eq!(text["calls"][0]["status"], "unfinished");
}

#[test]
fn the_same_key_again_is_a_call_of_its_own() {
    let replayed = EventKind::Finished {
        code: None,
        attempts: 0,
        duration_ms: 2,
        upstream_ms: 0,
        served_by: Some(ToolId::asked("send")),
        phase: Phase::Answered,
        replayed: true,
        result_size: 10,
        tokens: Tokens::default(),
        message: None,
    };
    let rows = [
        row("t", "r", "send", 1, vec![(0, received("x")), (1, EventKind::Intended)]),
        // While the first is running.
        row(
            "t",
            "r",
            "send",
            1,
            vec![
                (10, received("x")),
                (
                    11,
                    EventKind::Refused {
                        code: ErrorCode::InProgress,
                        reason: ErrorCode::InProgress,
                        detail: String::new(),
                    },
                ),
                (11, finished(Some(ErrorCode::InProgress), 1, "", Tokens::default())),
            ],
        ),
        row(
            "t",
            "r",
            "send",
            1,
            vec![
                (2, started(1, "send", "smtp")),
                (40, ended(1, None, 38)),
                (41, finished(None, 41, "send", Tokens::default())),
            ],
        ),
        // After it has ended.
        row("t", "r", "send", 1, vec![(90, received("x")), (91, EventKind::Replayed), (92, replayed)]),
        // A person speaks about it a day later.
        row("t", "r", "send", 1, vec![(86_400_000, EventKind::Settled { done: true })]),
    ];
    let timeline = Timeline::of(&rows);
    let seen: Vec<_> =
        timeline.calls.iter().map(|call| (call.status, call.code, call.attempts.len(), call.replayed)).collect();
    assert_eq!(
        seen,
        [
            (CallStatus::Ok, None, 1, false),
            (CallStatus::Error, Some(ErrorCode::InProgress), 0, false),
            (CallStatus::Ok, None, 0, true)
        ]
    );
    assert_eq!(timeline.totals.wall_ms, 92);
}

#[test]
fn time_adds_up_when_calls_run_side_by_side() {
    // Two at once, a pause in which the model thinks, one more.
    let rows = [simple("t", "r-1", "a", 0, 90), simple("t", "r-2", "b", 0, 40), simple("t", "r-3", "a", 1_000, 90)];
    let totals = Timeline::of(&rows).totals;
    assert_eq!((totals.wall_ms, totals.upstream_ms, totals.own_ms, totals.idle_ms), (1_100, 180, 20, 900));
    assert_eq!(totals.wall_ms, totals.upstream_ms + totals.waiting_ms + totals.own_ms + totals.idle_ms);
    assert_eq!(totals.upstreams[0].busy_ms, 180);
    assert_eq!(totals.own_share, Some(20.0 / 1_100.0));
    assert_eq!(Timeline::of(&[]), Timeline::default());
}

#[test]
fn heavy_results_are_told_with_their_figures_and_a_shared_turn_counts_once() {
    let tokens = |input, tool_result| Tokens { input, output: 50, tool_result, counted: Counted::Usage };
    let call = |request: &str, step, tokens| {
        row(
            "t",
            request,
            "a",
            step,
            vec![(u64::from(step), received("x")), (u64::from(step), finished(None, 0, "a", tokens))],
        )
    };
    // Step 1 made two calls from one turn of 1,000 tokens.
    let rows =
        [call("r-1", 1, tokens(1_000, 150)), call("r-2", 1, tokens(1_000, 150)), call("r-3", 2, tokens(1_500, 250))];
    let totals = Timeline::of(&rows).totals;
    assert_eq!((totals.input_tokens, totals.output_tokens, totals.tool_result_tokens), (2_500, 100, 550));
    assert_eq!(totals.counted, Counted::Usage);
    assert!(totals.heavy_results);
    let note = totals.results.unwrap().note;
    assert!(note.contains("550") && note.contains("2500") && note.contains("22 %"), "{note}");

    let light = Timeline::of(&[call("r-1", 1, tokens(1_000, 200))]).totals;
    assert!(!light.heavy_results, "exactly a fifth is not more than a fifth");
    let unknown = Timeline::of(&[call("r-1", 1, Tokens { tool_result: 9_000, ..Tokens::default() })]).totals;
    assert_eq!((unknown.heavy_results, unknown.results), (false, None));
}

#[test]
fn health_counts_each_tool_asked_and_nothing_that_was_refused() {
    let mut rows: Vec<JournalRow> =
        (0..8).map(|index| simple("t", &format!("r-{index}"), "a", index * 100, 40)).collect();
    rows.push(row(
        "t",
        "r-8",
        "a",
        1,
        vec![
            (900, received("x")),
            (910, started(1, "a", "http://up")),
            (1_010, ended(1, Some(ErrorCode::Timeout), 100)),
            (
                1_010,
                EventKind::Breaker { target: "http://up".to_owned(), from: StateName::Closed, to: StateName::Open },
            ),
            (
                1_010,
                EventKind::FellBack { from: ToolId::asked("a"), to: ToolId::asked("b"), reason: "TIMEOUT".to_owned() },
            ),
            (1_020, started(2, "b", "http://spare")),
            (1_030, ended(2, None, 10)),
            (1_030, finished(None, 130, "b", Tokens::default())),
        ],
    ));
    rows.push(row(
        "t",
        "r-9",
        "a",
        1,
        vec![
            (1_100, received("x")),
            (
                1_101,
                EventKind::Refused {
                    code: ErrorCode::InvalidArguments,
                    reason: ErrorCode::InvalidArguments,
                    detail: String::new(),
                },
            ),
            (1_101, finished(Some(ErrorCode::InvalidArguments), 1, "", Tokens::default())),
        ],
    ));
    rows.push(row(
        "t",
        "r-10",
        "a",
        1,
        vec![(
            1_200,
            EventKind::Breaker { target: "http://up".to_owned(), from: StateName::Open, to: StateName::HalfOpen },
        )],
    ));
    rows.reverse();
    assert_eq!(last_event_ms(&rows), ZERO + 1_200);
    let health = summaries(&rows, last_event_ms(&rows));
    let a = &health.tools[&ToolId::asked("a")];
    assert_eq!((a.calls, a.success_rate, a.codes[&ErrorCode::Timeout]), (9, Some(8.0 / 9.0), 1));
    assert_eq!(a.mean_ms, Some((8 * 40 + 100) / 9));
    assert_eq!(health.tools[&ToolId::asked("b")].calls, 1);
    assert_eq!(health.breakers["http://up"].state, StateName::HalfOpen);
    assert_eq!(health.breakers["http://up"].since_ms, ZERO + 1_200);
    // An hour later nothing of it is recent, and the breaker still stands where it stood.
    let later = summaries(&rows, ZERO + 3_600_000);
    assert!(later.tools.is_empty());
    assert_eq!(later.breakers.len(), 1);
}

#[test]
fn numbers_from_outside_fill_up_and_never_overflow() {
    let most = Tokens { input: u64::MAX, output: u64::MAX, tool_result: u64::MAX, counted: Counted::Usage };
    let events = |at: u64| {
        vec![
            (at, received("x")),
            (at, EventKind::Waited { target: "http://up".to_owned(), duration_ms: u64::MAX }),
            (at, EventKind::Waited { target: "http://up".to_owned(), duration_ms: u64::MAX }),
            (at, EventKind::Retrying { delay_ms: u64::MAX }),
            (at + 5, started(1, "a", "http://up")),
            (at + 6, ended(1, None, u64::MAX)),
            (at + 7, finished(None, u64::MAX, "a", most)),
        ]
    };
    let rows = [row("t-1", "r-1", "a", 1, events(0)), row("t-2", "r-2", "a", 2, events(10))];
    let timeline = Timeline::of(&rows);
    let totals = &timeline.totals;
    assert_eq!([totals.input_tokens, totals.output_tokens, totals.tool_result_tokens], [u64::MAX; 3]);
    assert_eq!((totals.wall_ms, totals.calls), (u64::MAX, 2));
    assert_eq!(totals.upstream_ms + totals.waiting_ms + totals.own_ms + totals.idle_ms, totals.wall_ms);
    assert_eq!(timeline.calls[1].waited_ms, u64::MAX);
    let health = summaries(&rows, u64::MAX);
    assert!(health.tools.values().all(|summary| summary.calls <= 2));
    serde_json::to_string(&timeline).unwrap();
}
