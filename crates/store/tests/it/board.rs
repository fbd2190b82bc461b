//! The promise of a board, as scenarios that every body runs on a clock that the test holds.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reach_core::ErrorCode;
use reach_core::breaker::{Permit, Settings, Signal, StateName, Transition};
use reach_core::plan::Rate;
use reach_store::Board;
use reach_store::board::MemoryBoard;

async fn fail(board: &dyn Board, target: &str, probe: bool) -> Option<Transition> {
    board.report(target, Signal::Failure, probe, "connection refused", &Settings::default()).await.unwrap()
}

async fn succeed(board: &dyn Board, target: &str, probe: bool) -> Option<Transition> {
    board.report(target, Signal::Success, probe, "", &Settings::default()).await.unwrap()
}

async fn permit(board: &dyn Board, target: &str) -> Permit {
    board.permit(target).await.unwrap().0
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

async fn a_breaker_opens_probes_and_closes_on_the_boards_clock(board: &Arc<dyn Board>) {
    let board = &**board;
    let opened_at = unix_ms();
    assert_eq!(permit(board, "orders").await, Permit::Allowed { probe: false });
    for _ in 0..2 {
        assert_eq!(fail(board, "orders", false).await, None);
    }
    let moved = fail(board, "orders", false).await;
    assert_eq!(moved, Some(Transition { from: StateName::Closed, to: StateName::Open }));
    let Permit::Refused { since_ms, retry_after_ms: Some(wait), reason } = permit(board, "orders").await else {
        panic!("it is open")
    };
    assert!(since_ms.abs_diff(opened_at) < 60_000, "milliseconds since the Unix epoch");
    assert!((3_750..=5_000).contains(&wait), "{wait}");
    assert_eq!(reason, "connection refused");
    assert_eq!(permit(board, "stock").await, Permit::Allowed { probe: false }, "targets are apart");

    tokio::time::advance(Duration::from_millis(wait - 1)).await;
    assert!(matches!(permit(board, "orders").await, Permit::Refused { .. }));
    tokio::time::advance(Duration::from_millis(1)).await;
    let (probe, moved) = board.permit("orders").await.unwrap();
    assert_eq!(probe, Permit::Allowed { probe: true });
    assert_eq!(moved, Some(Transition { from: StateName::Open, to: StateName::HalfOpen }));
    assert!(matches!(permit(board, "orders").await, Permit::Refused { .. }), "one probe at a time");
    assert_eq!(succeed(board, "orders", true).await, None);
    assert_eq!(permit(board, "orders").await, Permit::Allowed { probe: true });
    let closed = succeed(board, "orders", true).await;
    assert_eq!(closed, Some(Transition { from: StateName::HalfOpen, to: StateName::Closed }));
}

async fn breakers_are_listed_as_a_person_reads_them(board: &Arc<dyn Board>) {
    let board = &**board;
    permit(board, "stock").await;
    for _ in 0..3 {
        fail(board, "orders", false).await;
    }
    board.force("mail", StateName::ForcedOpen, "moving house").await.unwrap();
    let listed = board.breakers().await.unwrap();
    let named: Vec<_> = listed.iter().map(|view| (view.target.as_str(), view.state, view.reason.as_str())).collect();
    assert_eq!(
        named,
        [
            ("mail", StateName::ForcedOpen, "moving house"),
            ("orders", StateName::Open, "connection refused"),
            ("stock", StateName::Closed, "")
        ]
    );
    assert_eq!(listed[0].retry_after_ms, None);
    assert!(listed[1].retry_after_ms.is_some_and(|wait| wait <= 5_000));
}

async fn a_breaker_set_by_hand_stays_until_given_back(board: &Arc<dyn Board>) {
    let board = &**board;
    let moved = board.force("orders", StateName::ForcedOpen, "maintenance").await.unwrap();
    assert_eq!(moved, Transition { from: StateName::Closed, to: StateName::ForcedOpen });
    tokio::time::advance(Duration::from_secs(86_400)).await;
    assert!(matches!(permit(board, "orders").await, Permit::Refused { retry_after_ms: None, .. }));
    board.force("orders", StateName::Closed, "").await.unwrap();
    assert_eq!(permit(board, "orders").await, Permit::Allowed { probe: false });
}

async fn a_rate_gives_its_burst_then_one_call_an_interval(board: &Arc<dyn Board>) {
    let rate = Rate { per_minute: 120, burst: 2 };
    let take = async |key: &str| board.take(key, rate).await.unwrap();
    assert_eq!(take("bot").await, Ok(()));
    assert_eq!(take("bot").await, Ok(()));
    assert_eq!(take("bot").await, Err(Duration::from_millis(500)));
    assert_eq!(take("other").await, Ok(()), "keys are apart");
    tokio::time::advance(Duration::from_millis(499)).await;
    assert_eq!(take("bot").await, Err(Duration::from_millis(1)));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(take("bot").await, Ok(()));
    tokio::time::advance(Duration::from_secs(3_600)).await;
    assert_eq!([take("bot").await.is_ok(), take("bot").await.is_ok(), take("bot").await.is_ok()], [true, true, false]);
}

async fn a_rate_that_was_lowered_holds_at_once(board: &Arc<dyn Board>) {
    let take = async |per_minute| board.take("bot", Rate { per_minute, burst: 1 }).await.unwrap();
    assert_eq!(take(60).await, Ok(()));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(take(1).await, Ok(()));
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(take(1).await, Err(Duration::from_secs(1)));
}

async fn health_counts_the_last_five_minutes_of_each_tool(board: &Arc<dyn Board>) {
    for index in 0..10 {
        board.count("orders", (index == 0).then_some(ErrorCode::Timeout), 20).await.unwrap();
    }
    board.count("stock", None, 5).await.unwrap();
    let health = board.health().await.unwrap();
    assert_eq!(health.iter().map(|tool| &*tool.tool_id).collect::<Vec<_>>(), ["orders", "stock"]);
    assert_eq!((health[0].summary.calls, health[0].summary.success_rate), (10, Some(0.9)));
    assert_eq!(health[0].summary.codes[&ErrorCode::Timeout], 1);
    assert_eq!(health[1].summary.mean_ms, Some(5));
    tokio::time::advance(Duration::from_secs(301)).await;
    let later = board.health().await.unwrap();
    assert_eq!(later.iter().map(|tool| tool.summary.calls).collect::<Vec<_>>(), [0, 0], "still listed, with nothing");
}

async fn many_callers_at_once_lose_no_count_and_get_one_probe(board: &Arc<dyn Board>) {
    for _ in 0..3 {
        fail(&**board, "orders", false).await;
    }
    tokio::time::advance(Duration::from_secs(5)).await;
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let board = Arc::clone(board);
        callers.spawn(async move {
            board.count("orders", None, 1).await.unwrap();
            matches!(board.permit("orders").await.unwrap().0, Permit::Allowed { .. })
        });
    }
    let allowed = callers.join_all().await.into_iter().filter(|allowed| *allowed).count();
    assert_eq!(allowed, 1);
    assert_eq!(board.health().await.unwrap()[0].summary.calls, 200);
}

macro_rules! run_on_a_held_clock {
    ($board:expr => $($scenario:ident),+ $(,)?) => {
        $(#[tokio::test(start_paused = true)]
        async fn $scenario() {
            super::$scenario(&$board).await;
        })+
    };
}

mod in_memory {
    use super::{Arc, Board, MemoryBoard};

    run_on_a_held_clock!((Arc::new(MemoryBoard::new()) as Arc<dyn Board>) =>
        a_breaker_opens_probes_and_closes_on_the_boards_clock,
        breakers_are_listed_as_a_person_reads_them,
        a_breaker_set_by_hand_stays_until_given_back,
        a_rate_gives_its_burst_then_one_call_an_interval,
        a_rate_that_was_lowered_holds_at_once,
        health_counts_the_last_five_minutes_of_each_tool,
        many_callers_at_once_lose_no_count_and_get_one_probe,
    );
}
