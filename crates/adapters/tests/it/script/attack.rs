//! Attacks on argv: whatever a value holds arrives as that value, byte by byte, or the call is refused.

use proptest::prelude::{Strategy, any};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{call, folder, text};
use reach_core::{FailureKind, Phase};

fn payloads() -> Vec<String> {
    let source = std::fs::read_to_string(folder().join("argv-payloads.json")).unwrap();
    let payloads: Vec<String> = serde_json::from_str(&source).unwrap();
    assert!(payloads.len() >= 100);
    payloads
}

/// What the program saw: `printf` writes each of its arguments behind a NUL.
async fn seen(command: Value, arguments: Value) -> Vec<String> {
    let printed =
        text(call(json!({"command": command, "expect": "text", "max_output_bytes": 20_000_000}), arguments).await);
    printed.split('\0').skip(1).map(str::to_owned).collect()
}

#[tokio::test]
async fn every_payload_arrives_byte_by_byte_in_every_kind_of_place() {
    for payload in payloads() {
        let arguments = json!({"a": payload, "b": [payload, "x", payload]});
        let command = json!(["printf", "\\0%s", "--", "{a}", "--option={a}", "{a}{a}", ["-o", "{a}"], "{b}", "end"]);
        let wanted = [
            "--".to_owned(),
            payload.clone(),
            format!("--option={payload}"),
            format!("{payload}{payload}"),
            "-o".to_owned(),
            payload.clone(),
            payload.clone(),
            "x".to_owned(),
            payload.clone(),
            "end".to_owned(),
        ];
        assert_eq!(seen(command, arguments).await, wanted, "{payload:?}");
    }
    assert!(!folder().join("PWNED").exists(), "a payload was run");
}

#[tokio::test]
async fn ten_thousand_random_values_arrive_byte_by_byte() {
    let mut runner = TestRunner::deterministic();
    let values = proptest::collection::vec(
        proptest::collection::vec(any::<char>().prop_filter("no NUL", |c| *c != '\0'), 0..40)
            .prop_map(|chars| chars.into_iter().collect::<String>()),
        500,
    );
    let mut total = 0;
    while total < 10_000 {
        let batch = values.new_tree(&mut runner).unwrap().current();
        total += batch.len();
        let got = seen(json!(["printf", "\\0%s", "--", "{a}"]), json!({"a": batch, "b": 0})).await;
        assert_eq!(got[1..], batch);
    }
}

#[tokio::test]
async fn a_value_that_begins_with_a_dash_is_refused_where_it_could_be_an_option() {
    let dashed: Vec<String> = payloads().into_iter().filter(|payload| payload.starts_with('-')).collect();
    assert!(dashed.len() >= 8);
    for payload in dashed {
        for (command, arguments) in [
            (json!(["printf", "%s", "{a}"]), json!({"a": payload, "b": 0})),
            (json!(["printf", "%s", "{a}{b}"]), json!({"a": payload, "b": 0})),
            (json!(["printf", "%s", ["-o", "{a}"]]), json!({"a": payload, "b": 0})),
            (json!(["printf", "%s", "{b}"]), json!({"a": 0, "b": ["fine", payload]})),
        ] {
            let failure = call(json!({"command": command}), arguments).await.unwrap_err();
            assert_eq!((failure.kind, failure.phase), (FailureKind::Refused, Phase::Rejected), "{payload}");
            assert!(failure.message.contains("option"), "{}", failure.message);
        }
    }
    let failure = call(json!({"command": ["printf", "%s", "{a}"]}), json!({"a": -5, "b": 0})).await.unwrap_err();
    assert!(failure.detail.unwrap().contains("`--`"), "the operator is told the way out");
}

#[tokio::test]
async fn what_the_system_cannot_carry_is_refused_by_name() {
    for value in ["a\0b".to_owned(), "x".repeat(128 * 1024)] {
        let failure = call(json!({"command": ["printf", "%s", "{a}"]}), json!({"a": value, "b": 0})).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (FailureKind::Refused, Phase::Rejected));
        assert!(failure.message.contains("`a`"), "{}", failure.message);
    }
    let long: Vec<String> = vec!["x".repeat(100_000); 100];
    let failure = call(json!({"command": ["printf", "%s", "{a}"]}), json!({"a": long, "b": 0})).await.unwrap_err();
    assert_eq!((failure.kind, failure.phase), (FailureKind::Refused, Phase::Rejected), "{failure:?}");
}

#[tokio::test]
async fn a_value_that_names_a_placeholder_is_not_replaced_again() {
    let got = seen(json!(["printf", "\\0%s", "{a}"]), json!({"a": "{b} {{a}}", "b": "secret"})).await;
    assert_eq!(got, ["{b} {{a}}"]);
}
