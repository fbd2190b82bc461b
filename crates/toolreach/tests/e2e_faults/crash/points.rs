//! A crash at each named point of the road, one by one: what is left, and what the same key is told then.

use reach_kit::ledger_upstream::{Conduct, Then};

use super::process::{Heard, House};
use super::upstream::Upstream;

/// How the gateway dies.
#[derive(Clone, Copy)]
enum Death {
    /// By itself, at this point.
    Point(&'static str),
    /// Killed while the upstream has the request and has not acted.
    WhileSending,
    /// Killed while the upstream has acted and has not answered.
    AfterSend,
}

/// How a death is found by the next start.
struct Case {
    name: &'static str,
    death: Death,
    /// The record of a write, and of a keyed call, once the next start is ready.
    left: (&'static str, &'static str),
    /// Effects at that moment.
    before: usize,
    /// What the same write is told, and how many effects there are in the end.
    write: (Heard, usize),
}

/// In the order of the road. A keyed call always ends well, with one effect.
const CASES: &[Case] = &[
    point("after_claim", ("released", "released"), 0, (Heard::Ok, 1)),
    point("before_intent", ("released", "released"), 0, (Heard::Ok, 1)),
    point("after_intent", ("unknown", "released"), 0, (Heard::Unknown, 0)),
    point("before_send", ("unknown", "released"), 0, (Heard::Unknown, 0)),
    Case {
        name: "while_sending",
        death: Death::WhileSending,
        left: ("unknown", "released"),
        before: 0,
        write: (Heard::Unknown, 0),
    },
    Case {
        name: "after_send",
        death: Death::AfterSend,
        left: ("unknown", "released"),
        before: 1,
        write: (Heard::Unknown, 1),
    },
    point("after_answer", ("unknown", "released"), 1, (Heard::Unknown, 1)),
    point("before_finish", ("unknown", "released"), 1, (Heard::Unknown, 1)),
    point("after_finish", ("done", "done"), 1, (Heard::Ok, 1)),
    point("before_reply", ("done", "done"), 1, (Heard::Ok, 1)),
];

const fn point(name: &'static str, left: (&'static str, &'static str), before: usize, write: (Heard, usize)) -> Case {
    Case { name, death: Death::Point(name), left, before, write }
}

/// One call that dies as the case says. Nobody hears an answer.
async fn die(house: &House, upstream: &Upstream, case: &Case, tool: &str) {
    let before = upstream.seen().await;
    let mut gateway = match case.death {
        Death::Point(point) => house.serve_until(Some(point)),
        Death::WhileSending | Death::AfterSend => house.serve(),
    };
    let hold = |then| Conduct { then, times: Some(1), ..Conduct::default() };
    match case.death {
        Death::Point(_) => {
            let answer = gateway.call(tool, case.name).await;
            assert!(answer.is_err(), "{}: {answer:?}", case.name);
            assert!(!gateway.ended().await.success(), "{}", case.name);
        }
        Death::WhileSending => {
            upstream.conduct(hold(Then::HoldBefore)).await;
            tokio::select! {
                answer = gateway.call(tool, case.name) => panic!("{answer:?}"),
                () = upstream.received(before.received + 1) => gateway.kill(),
            }
        }
        Death::AfterSend => {
            upstream.conduct(hold(Then::HoldAfter)).await;
            tokio::select! {
                answer = gateway.call(tool, case.name) => panic!("{answer:?}"),
                () = upstream.recorded(before.recorded + 1) => gateway.kill(),
            }
        }
    }
}

async fn every_point(tool: &str) {
    let upstream = Upstream::start();
    let house = House::before(&upstream);
    let writes = tool == "write_it";
    for case in CASES {
        let name = case.name;
        die(&house, &upstream, case, tool).await;
        assert_eq!(upstream.effects_of(name), case.before, "{name}");

        let gateway = house.serve();
        assert!(gateway.is_ready().await, "{name}");
        let books = house.books();
        assert_eq!(books.open_records(), Vec::<&str>::new(), "{name}: ready means settled");
        let left = if writes { case.left.0 } else { case.left.1 };
        assert_eq!(books.state(name), Some(left), "{name}");

        let (wanted, effects) = if writes { case.write } else { (Heard::Ok, 1) };
        for _ in 0..2 {
            let envelope = gateway.call(tool, name).await.unwrap();
            assert_eq!(Heard::of(&envelope), wanted, "{name}: {envelope:?}");
            assert_eq!(upstream.effects_of(name), effects, "{name}");
        }
        if effects > 0 {
            let intent = house.books().intents[name];
            let effect = upstream.effects().into_iter().find(|effect| effect.body["entry"] == name).unwrap();
            assert!(intent <= effect.at_ms, "{name}: intended at {intent}, done at {}", effect.at_ms);
        }
        gateway.stop().await;
    }
    let unknown = CASES.iter().filter(|case| writes && case.write.0 == Heard::Unknown).map(|case| case.name.to_owned());
    let mut unknown: Vec<String> = unknown.collect();
    unknown.sort();
    assert_eq!(house.unsettled(), unknown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_crashed_at_any_point_is_never_sent_twice_and_never_silently_unknown() {
    every_point("write_it").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keyed_call_that_crashed_at_any_point_ends_well_with_one_effect() {
    every_point("key_it").await;
}

#[test]
fn every_point_that_the_road_has_is_crashed_at() {
    let crashed: Vec<&str> = CASES
        .iter()
        .filter_map(|case| match case.death {
            Death::Point(point) => Some(point),
            Death::WhileSending | Death::AfterSend => None,
        })
        .collect();
    assert_eq!(crashed, reach_engine::crash::POINTS);
}
