//! No digit is lost between text and value.

use proptest::prelude::*;
use reach_core::exact::{ExactError, parse_arguments, parse_result};
use serde_json::{Value, json};

#[test]
fn a_result_keeps_every_digit_as_text_where_a_number_cannot() {
    let check = |text: &str, expected: Value| assert_eq!(parse_result(text).as_ref(), Ok(&expected), "{text}");
    check(r#"{"id": 12345678901234567890123, "n": 1}"#, json!({"id": "12345678901234567890123", "n": 1}));
    check("[18446744073709551615, 18446744073709551616]", json!([u64::MAX, "18446744073709551616"]));
    check("[-9223372036854775808, -9223372036854775809]", json!([i64::MIN, "-9223372036854775809"]));
    check(r#"{"p": 0.12345678901234567890}"#, json!({"p": "0.12345678901234567890"}));
    check(
        "[12.30, 0.1, 1e3, 1.5e-7, 100.0, -0.0, 0.30000000000000004]",
        json!([12.3, 0.1, 1e3, 1.5e-7, 100.0, -0.0, 0.300_000_000_000_000_04]),
    );
    check("[1e400, 1e-400]", json!(["1e400", "1e-400"]));
    check(
        r#"{"t": "say 12345678901234567890123 \" 12345678901234567890123"}"#,
        json!({"t": "say 12345678901234567890123 \" 12345678901234567890123"}),
    );
    check("99999999999999999999", json!("99999999999999999999"));
    check(r#"{"a": 1, "a": 2}"#, json!({"a": 2}));
}

#[test]
fn quoting_a_number_never_makes_bad_json_good() {
    for text in [
        "{12345678901234567890123: 1}",
        "[012345678901234567890123]",
        "[1 12345678901234567890123]",
        "[12345678901234567890123.]",
        "",
    ] {
        assert!(matches!(parse_result(text), Err(ExactError::Syntax(_))), "{text}");
    }
}

#[test]
fn not_a_number_is_named_with_its_place() {
    let error = parse_result(r#"{"count": 0, "mean": NaN, "max": Infinity}"#).unwrap_err();
    assert_eq!(error, ExactError::NotANumber { field: "mean".to_owned(), token: "NaN".to_owned() });
    assert!(error.to_string().contains("NaN"));
    let error = parse_result(r#"{"rows": [{"x": 1}, {"x": -Infinity}]}"#).unwrap_err();
    assert_eq!(error, ExactError::NotANumber { field: "rows[1].x".to_owned(), token: "-Infinity".to_owned() });
    assert_eq!(parse_result(r#"["NaN", null]"#), Ok(json!(["NaN", null])));
}

#[test]
fn arguments_that_would_lose_digits_are_refused_by_name() {
    let error = parse_arguments(r#"{"items": [{"sku": "a"}, {"order id": 12345678901234567890123}]}"#).unwrap_err();
    let refusal = error.refusal();
    assert_eq!(refusal.problems[0]["field"], "items[1][\"order id\"]");
    assert_eq!(refusal.problems[0]["problem"], "integer_too_big");
    assert!(
        refusal.message.contains("12345678901234567890123") && refusal.message.contains("as text"),
        "{}",
        refusal.message
    );
    let error = parse_arguments(r#"{"price": 0.12345678901234567890}"#).unwrap_err();
    assert_eq!(error.refusal().problems[0]["field"], "price");
}

#[test]
fn a_key_given_twice_is_refused_by_name_at_any_depth() {
    let error = parse_arguments(r#"{"a": 1, "to": [{"x": 1}, {"x/y": 1, "z": 2, "x/y": 1}]}"#).unwrap_err();
    assert_eq!(
        error,
        ExactError::DuplicateKey { field: "to[1][\"x/y\"]".to_owned(), pointer: "/to/1/x~1y".to_owned() }
    );
    assert!(error.refusal().message.contains("twice"), "{}", error.refusal().message);
    assert!(parse_arguments(r#"{"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 2}]}"#).is_ok());
    // The same key in another spelling.
    assert!(matches!(parse_arguments(r#"{"a": 1, "\u0061": 2}"#), Err(ExactError::DuplicateKey { .. })));
}

#[test]
fn arguments_are_one_object_and_nothing_after_it() {
    assert_eq!(parse_arguments("[1]"), Err(ExactError::NotAnObject("a list")));
    assert_eq!(parse_arguments("\"{}\""), Err(ExactError::NotAnObject("text")));
    assert!(matches!(parse_arguments("{} {}"), Err(ExactError::Syntax(_))));
    assert!(matches!(parse_arguments(""), Err(ExactError::Syntax(_))));
    assert_eq!(parse_arguments(" {\"a\": null}\n").map(Value::Object), Ok(json!({"a": null})));
}

#[test]
fn depth_is_bounded_without_growing_the_stack() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse_result(&nested(120)).is_ok());
    for depth in [129, 1_000_000] {
        assert_eq!(parse_result(&nested(depth)), Err(ExactError::TooDeep));
        assert_eq!(parse_arguments(&format!("{{\"a\":{}}}", nested(depth))), Err(ExactError::TooDeep));
        assert_eq!(parse_result(&"[".repeat(depth)), Err(ExactError::TooDeep));
    }
}

/// Any JSON text, with numbers of any length in it.
fn json_text() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        "-?[1-9][0-9]{0,40}",
        "-?(0|[1-9][0-9]{0,20})\\.[0-9]{1,25}",
        "-?[1-9](\\.[0-9]{1,5})?e[+-]?[0-9]{1,3}"
    ];
    let leaf = prop_oneof![
        number,
        Just("null".to_owned()),
        Just("true".to_owned()),
        ".*".prop_map(|text| json!(text).to_string())
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(" , "))),
            proptest::collection::btree_map(".{0,6}", inner, 0..5).prop_map(|fields| {
                let fields: Vec<String> =
                    fields.into_iter().map(|(key, value)| format!("{}: {value}", json!(key))).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

/// The numbers of a text outside strings, without what does not change their value.
fn numbers(text: &str) -> Vec<String> {
    let (mut found, mut current, mut inside, mut escaped) = (Vec::new(), String::new(), false, false);
    for c in text.chars().chain([' ']) {
        if inside {
            inside = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if c.is_ascii_digit() || (!current.is_empty() && matches!(c, '.' | 'e' | 'E' | '+' | '-')) || c == '-' {
            current.push(c);
        } else {
            inside = c == '"';
            if !current.is_empty() {
                found.push(std::mem::take(&mut current));
            }
        }
    }
    found
}

fn leaves<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| leaves(item, found)),
        Value::Object(object) => object.values().for_each(|value| leaves(value, found)),
        leaf => found.push(leaf),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_number_of_a_result_is_there_exactly_or_as_text(text in json_text()) {
        let value = parse_result(&text).expect("the text is JSON");
        let mut found = Vec::new();
        leaves(&value, &mut found);
        let mut wanted = numbers(&text).into_iter().peekable();
        for leaf in found {
            match leaf {
                Value::Number(number) => {
                    let token = wanted.next().expect("as many numbers as in the text");
                    if number.is_f64() {
                        prop_assert!(token.contains(['.', 'e']), "{token} became {number}");
                        // The standard parser is correctly rounded: reading the shortest form back agrees.
                        prop_assert_eq!(number.to_string().parse::<f64>().ok(), token.parse::<f64>().ok(), "{}", token);
                    } else {
                        prop_assert_eq!(number.to_string(), token);
                    }
                }
                Value::String(text) => {
                    wanted.next_if_eq(text);
                }
                _ => {}
            }
        }
        prop_assert_eq!(wanted.next(), None);
    }

    #[test]
    fn any_text_ends_in_a_value_or_an_error(text in ".{0,200}|[\\[\\]{}\",:0-9eE.NaInfity\\\\-]{0,200}") {
        let result = parse_result(&text);
        let arguments = parse_arguments(&text);
        let plain: Result<Value, _> = serde_json::from_str(&text);
        prop_assert!(plain.is_err() || result.is_ok());
        prop_assert!(result.is_ok() || arguments.is_err());
    }
}
