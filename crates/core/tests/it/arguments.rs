//! The argument check: the cases of `suites/arguments/cases.jsonl`, and what holds for every schema.

use std::path::Path;

use proptest::prelude::*;
use reach_core::Problem;
use reach_core::arguments::{ArgumentCheck, Schema};
use serde_json::{Value, json};

fn cases() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suites/arguments/cases.jsonl");
    let text = std::fs::read_to_string(path).expect("the suite is part of the project");
    text.lines().map(|line| serde_json::from_str(line).expect("a case is JSON")).collect()
}

#[test]
fn every_case_of_the_suite_holds() {
    let wrong: Vec<String> = cases()
        .iter()
        .flat_map(|case| check_case(case).into_iter().map(move |problem| format!("{}: {problem}", case["case"])))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check_case(case: &Value) -> Vec<String> {
    let coerce = case["coerce"] == true;
    let check =
        ArgumentCheck::compile(&case["schema"], coerce).unwrap_or_else(|problems| panic!("{case}: {problems:?}"));
    let mut wrong = Vec::new();
    match check.check(case["arguments"].as_object().expect("an object").clone()) {
        Ok(checked) => {
            // By text: 3 and 3.0 are equal as numbers and differ on the wire.
            let (passed, wanted) = (json!(checked.arguments).to_string(), case["passes"].to_string());
            if passed != wanted {
                wrong.push(format!("passed with {:?}", checked.arguments));
            }
            if json!(checked.coerced) != case["coerced"] {
                wrong.push(format!("coerced {:?}", checked.coerced));
            }
        }
        Err(refusal) => {
            let problems = refusal.problems.as_array().expect("a list");
            let found: Vec<Value> = problems.iter().map(|one| json!([one["field"], one["problem"]])).collect();
            if case["refused"] != Value::Array(found) {
                wrong.push(format!("refused with {}", refusal.problems));
            }
            let whole = format!("{}\n{}", refusal.message, refusal.problems);
            for phrase in case["says"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !refusal.message.contains(phrase) {
                    wrong.push(format!("does not say {phrase:?}: {}", refusal.message));
                }
            }
            for phrase in case["never"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if whole.contains(phrase) {
                    wrong.push(format!("says {phrase:?}: {whole}"));
                }
            }
            if case.get("send").is_some_and(|send| problems[0]["send"] != *send) {
                wrong.push(format!("would send {}", problems[0]["send"]));
            }
            println!("{}\n  {}", case["case"], refusal.message.replace('\n', "\n  "));
        }
    }
    wrong
}

#[test]
fn more_than_ten_problems_are_counted() {
    let names: Vec<String> = (0..35).map(|index| format!("field_{index}")).collect();
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
    let check = ArgumentCheck::compile(&json!({"type": "object", "properties": properties, "required": names}), false);
    let refusal = check.expect("compiles").check(serde_json::Map::new()).expect_err("everything is missing");
    assert_eq!(refusal.problems.as_array().map(Vec::len), Some(10));
    assert!(refusal.message.starts_with("35 problems"), "{}", refusal.message);
    assert!(refusal.message.ends_with("- and 25 more"), "{}", refusal.message);
}

#[test]
fn a_huge_value_is_clipped_in_the_message() {
    let check =
        ArgumentCheck::compile(&json!({"type": "object", "properties": {"n": {"type": "integer"}}}), true).unwrap();
    let sent = json!({"n": "x".repeat(1_000_000), "y".repeat(1_000_000): 1});
    let refusal = check.check(sent.as_object().unwrap().clone()).unwrap_err();
    assert!(refusal.message.len() < 1_000, "{} bytes", refusal.message.len());
}

#[test]
fn a_thousand_wrong_items_are_refused_without_quadratic_work() {
    let schema = json!({"type": "object", "properties": {"ids": {"type": "array", "items": {"type": "integer"}}}});
    let check = ArgumentCheck::compile(&schema, true).unwrap();
    let good: Vec<String> = (0..20_000).map(|id| id.to_string()).collect();
    let checked = check.check(json!({"ids": good}).as_object().unwrap().clone()).unwrap();
    assert_eq!(checked.coerced.len(), 20_000);
    let bad = vec!["x "; 20_000];
    let refusal = check.check(json!({"ids": bad}).as_object().unwrap().clone()).unwrap_err();
    assert!(refusal.message.starts_with("20000 problems"), "{}", refusal.message);
}

fn problems_of(schema: &Value) -> Vec<Problem> {
    ArgumentCheck::compile(schema, false).err().unwrap_or_default()
}

fn pointers(problems: &[Problem]) -> Vec<&str> {
    let mut pointers: Vec<&str> = problems.iter().map(|problem| problem.pointer.as_str()).collect();
    pointers.sort_unstable();
    pointers
}

#[test]
fn all_problems_of_a_schema_come_at_once_each_with_its_place_and_fix() {
    let problems = problems_of(&json!({
        "type": "object",
        "properties": {
            "a": {"type": "strnig"},
            "b": {"type": "string", "pattern": "(?=x)y"},
            "c": {"type": "array", "items": {"type": "string", "pattern": "(a)\\1"}},
            "d": {"$ref": "https://example.com/address.json"},
            "e": {"$ref": "#/$defs/nowhere"},
            "f": {"type": "int", "minLength": -1},
            "g": 5,
            "h": {"type": "string", "required": true},
            "i": {"type": "string", "pattern": "["},
        }
    }));
    assert_eq!(
        pointers(&problems),
        [
            "/properties/a/type",
            "/properties/b/pattern",
            "/properties/c/items/pattern",
            "/properties/d/$ref",
            "/properties/e/$ref",
            "/properties/f/minLength",
            "/properties/f/type",
            "/properties/g",
            "/properties/h/required",
            "/properties/i/pattern",
        ]
    );
    let fix = |pointer: &str| problems.iter().find(|one| one.pointer == pointer).map(|one| one.fix.as_str()).unwrap();
    assert_eq!(fix("/properties/a/type"), "write `type: string`");
    assert_eq!(fix("/properties/f/type"), "write `type: integer`");
    assert!(fix("/properties/b/pattern").contains("without look-around"));
    assert!(fix("/properties/d/$ref").contains("$defs"));
    assert!(problems.iter().all(|problem| !problem.message.is_empty() && !problem.fix.is_empty()));
}

#[test]
fn arguments_that_are_no_object_are_a_problem_of_the_schema() {
    assert_eq!(pointers(&problems_of(&json!({"type": "array"}))), ["/type"]);
    assert_eq!(pointers(&problems_of(&json!({"type": ["object", "null"]}))), ["/type"]);
    assert_eq!(pointers(&problems_of(&json!(true))), [""]);
    assert_eq!(pointers(&problems_of(&json!("object"))), [""]);
}

#[test]
fn a_required_field_that_a_closed_object_refuses_is_a_problem() {
    let schema = json!({"type": "object", "properties": {"order_id": {}}, "required": ["orderid", "sku"]});
    let problems = problems_of(&schema);
    assert_eq!(pointers(&problems), ["/required/0", "/required/1"]);
    assert!(problems[0].fix.contains("did you mean `order_id`?"), "{problems:?}");
    let open = json!({"type": "object", "properties": {"a": {}}, "required": ["b"], "additionalProperties": true});
    assert_eq!(problems_of(&open), []);
    let through = json!({"type": "object", "$defs": {"B": {"properties": {"b": {}}}}, "properties": {"a": {}},
        "allOf": [{"$ref": "#/$defs/B"}, {"required": ["b", "c"]}]});
    assert_eq!(pointers(&problems_of(&through)), ["/allOf/1/required/1"]);
}

#[test]
fn a_pattern_runs_in_linear_time_on_hostile_text() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}});
    let check = ArgumentCheck::compile(&schema, true).unwrap();
    // A backtracking engine would need 2^100000 steps.
    let sent = json!({"a": format!("{}!", "a".repeat(100_000))});
    assert!(check.check(sent.as_object().unwrap().clone()).is_err());
}

#[test]
fn endless_references_and_wide_unions_end() {
    let looped =
        json!({"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {"$ref": "#/properties/a"}}});
    // Whether a loop is accepted is the validator's business; that we come back is ours.
    let _ = ArgumentCheck::compile(&looped, false);
    let mut properties = serde_json::Map::new();
    for index in 0..200 {
        properties.insert(format!("p{index}"), json!({"allOf": [{"$ref": "#"}, {"properties": {"x": {"$ref": "#"}}}]}));
    }
    let wide = json!({"type": "object", "properties": properties});
    let check = ArgumentCheck::compile(&wide, false).unwrap();
    assert!(check.check(json!({"p0": {}}).as_object().unwrap().clone()).is_ok());
}

#[test]
fn a_plain_schema_reports_places_but_no_values() {
    let schema = Schema::compile(&json!({"type": "object", "properties": {"token": {"type": "integer"}}})).unwrap();
    let problems = schema.problems(&json!({"token": "tok-REAL", "more": 1}));
    assert_eq!(pointers(&problems), ["/token"]);
    assert!(!format!("{problems:?}").contains("REAL"));
}

/// A schema and a value that fits it, grown together.
fn fitting() -> impl Strategy<Value = (Value, Value)> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(|n| (json!({"type": "integer"}), json!(n))),
        any::<u64>().prop_map(|n| (json!({"type": "integer"}), json!(n))),
        (-1e15f64..1e15).prop_map(|n| (json!({"type": "number"}), json!(n))),
        any::<bool>().prop_map(|b| (json!({"type": "boolean"}), json!(b))),
        ".*".prop_map(|text| (json!({"type": "string"}), json!(text))),
        // Text that looks like something else.
        prop_oneof![Just("2000"), Just("true"), Just("null"), Just("{\"a\": 1}"), Just("[1]"), Just(" x ")]
            .prop_map(|text| (json!({"type": "string"}), json!(text))),
        Just((json!({"type": ["integer", "null"]}), Value::Null)),
        Just((json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), json!("12"))),
        "[a-z]{1,5}".prop_map(|text| (json!({"enum": [text, 1]}), json!(text))),
    ];
    let value = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(("[a-z~/ ]{1,6}", inner.clone(), any::<bool>()), 0..4).prop_map(object),
            (inner.clone(), 0usize..3).prop_map(|((schema, value), count)| {
                (json!({"type": "array", "items": schema}), Value::Array(vec![value; count]))
            }),
            inner.prop_map(|(schema, value)| (json!({"anyOf": [schema, {"type": "null"}]}), value)),
        ]
    });
    proptest::collection::vec(("[a-z_]{1,8}", value, any::<bool>()), 0..5).prop_map(object)
}

fn object(fields: Vec<(String, (Value, Value), bool)>) -> (Value, Value) {
    let mut properties = serde_json::Map::new();
    let mut value = serde_json::Map::new();
    let mut required = Vec::new();
    for (name, (schema, field), is_required) in fields {
        properties.insert(name.clone(), schema);
        value.insert(name.clone(), field);
        if is_required && !required.contains(&name) {
            required.push(name);
        }
    }
    (json!({"type": "object", "properties": properties, "required": required}), Value::Object(value))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn valid_arguments_are_never_altered_and_never_refused((schema, value) in fitting(), coerce: bool) {
        let check = ArgumentCheck::compile(&schema, coerce).expect("a schema of known words");
        let sent = value.as_object().expect("an object").clone();
        let checked = check.check(sent.clone());
        prop_assert_eq!(checked.as_ref().map(|checked| &checked.arguments), Ok(&sent), "{}", schema);
        prop_assert_eq!(checked.map(|checked| checked.coerced), Ok(Vec::new()));
    }

    #[test]
    fn arbitrary_arguments_end_in_a_verdict_that_agrees_with_the_schema(
        (schema, _) in fitting(), (_, other) in fitting(), coerce: bool,
    ) {
        let check = ArgumentCheck::compile(&schema, coerce).expect("a schema of known words");
        let enforced = Schema::compile(check.enforced()).expect("the enforced schema is a schema");
        match check.check(other.as_object().expect("an object").clone()) {
            Ok(checked) => prop_assert!(enforced.is_valid(&Value::Object(checked.arguments))),
            Err(refusal) => {
                prop_assert!(!enforced.is_valid(&other));
                prop_assert!(!refusal.message.is_empty());
                prop_assert!(refusal.problems.as_array().is_some_and(|all| !all.is_empty() && all.len() <= 10));
            }
        }
    }
}
