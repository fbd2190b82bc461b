//! SIGTERM with calls under way: they finish, and they are recorded.

use std::time::Duration;

use reach_kit::ledger_upstream::{Conduct, Then};

use super::process::{Heard, House};
use super::upstream::Upstream;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_under_way_at_a_sigterm_are_finished_answered_and_recorded() {
    let upstream = Upstream::start();
    let house = House::before(&upstream);
    let mut gateway = house.serve();
    upstream.conduct(Conduct { before_ms: 700, ..Conduct::default() }).await;
    let address = gateway.address.clone();
    let calls: Vec<_> = [("write_it", "w1"), ("write_it", "w2"), ("key_it", "k1")]
        .into_iter()
        .map(|(tool, key)| {
            let address = address.clone();
            tokio::spawn(async move { super::process::call(&address, tool, key).await })
        })
        .collect();
    upstream.received(3).await;
    gateway.terminate();
    for call in calls {
        let envelope = call.await.unwrap().expect("an answer, not a closed connection");
        assert_eq!(Heard::of(&envelope), Heard::Ok, "{envelope:?}");
    }
    assert!(gateway.ended().await.success());
    assert!(gateway.call("write_it", "late").await.is_err(), "nobody listens any more");
    let books = house.books();
    for key in ["w1", "w2", "k1"] {
        assert_eq!((books.state(key), upstream.effects_of(key)), (Some("done"), 1), "{key}");
    }
    assert_eq!(upstream.effects().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_caller_left_is_finished_before_a_sigterm_ends_the_gateway() {
    let upstream = Upstream::start();
    let house = House::before(&upstream);
    let mut gateway = house.serve();
    upstream.conduct(Conduct { before_ms: 700, ..Conduct::default() }).await;
    tokio::select! {
        answer = gateway.call("write_it", "left") => panic!("{answer:?}"),
        () = upstream.received(1) => {}
    }
    gateway.terminate();
    assert!(gateway.ended().await.success());
    assert_eq!((house.books().state("left"), upstream.effects_of("left")), (Some("done"), 1));

    let gateway = house.serve();
    let envelope = gateway.call("write_it", "left").await.unwrap();
    assert!(envelope.is_ok() && envelope.meta.replayed, "{envelope:?}");
    assert_eq!(upstream.effects_of("left"), 1);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_outlasts_the_patience_of_a_drain_is_unknown_to_the_next_start() {
    let upstream = Upstream::start();
    let house = House::with_drain_patience(&upstream, Duration::from_millis(200));
    let mut gateway = house.serve();
    upstream.conduct(Conduct { then: Then::HoldAfter, times: Some(1), ..Conduct::default() }).await;
    tokio::select! {
        answer = gateway.call("write_it", "stuck") => panic!("{answer:?}"),
        () = upstream.recorded(1) => {}
    }
    gateway.terminate();
    assert!(gateway.ended().await.success());

    let gateway = house.serve();
    let envelope = gateway.call("write_it", "stuck").await.unwrap();
    assert_eq!(Heard::of(&envelope), Heard::Unknown, "{envelope:?}");
    assert_eq!(upstream.effects_of("stuck"), 1);
    gateway.stop().await;
    assert_eq!(house.unsettled(), ["stuck"]);
}
