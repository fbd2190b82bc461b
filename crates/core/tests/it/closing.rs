//! Closing objects refuses unknown fields and nothing else.

use proptest::prelude::*;
use reach_core::arguments::{ArgumentCheck, Schema, closed};
use serde_json::{Value, json};

/// Checks which of these arguments pass.
fn verdicts<const COUNT: usize>(schema: &Value, arguments: [Value; COUNT]) -> [bool; COUNT] {
    let check = ArgumentCheck::compile(schema, false).unwrap_or_else(|problems| panic!("{problems:?}"));
    let open = Schema::compile(schema).expect("compiled before");
    arguments.map(|arguments| {
        let passes = check.check(arguments.as_object().expect("an object").clone()).is_ok();
        assert!(!passes || open.is_valid(&arguments), "closing made {arguments} acceptable");
        passes
    })
}

#[test]
fn a_bare_schema_is_shown_as_an_object_without_fields() {
    let shown = json!({"type": "object", "properties": {}, "additionalProperties": false});
    assert_eq!(closed(&json!({})), shown);
    assert_eq!(closed(&json!({"type": "object"})), shown);
    assert_eq!(closed(&shown), shown);
}

#[test]
fn objects_are_closed_at_every_depth_unless_they_say_otherwise() {
    let schema = json!({"type": "object", "properties": {
        "to": {"type": "object", "properties": {"street": {"type": "string"}}},
        "free": {"type": "object"},
        "open": {"type": "object", "properties": {"a": {}}, "additionalProperties": true},
        "typed": {"type": "object", "properties": {"a": {}}, "patternProperties": {"^x-": {"type": "integer"}}},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"sku": {}}}},
    }});
    assert_eq!(
        verdicts(
            &schema,
            [
                json!({"to": {"street": "Elm"}, "free": {"x": 1}, "open": {"x": 1}, "typed": {"x-a": 1, "y": 2}, "rows": [{"sku": 1}]}),
                json!({"more": 1}),
                json!({"to": {"zip": 1}}),
                json!({"rows": [{"sku": 1}, {"skew": 1}]}),
            ]
        ),
        [true, false, false, false]
    );
}

#[test]
fn data_that_looks_like_a_schema_is_left_alone() {
    let schema = json!({"type": "object", "properties": {"a": {"default": {"properties": {"x": 1}}, "const": {"properties": {"x": 1}}}}});
    assert_eq!(closed(&schema)["properties"]["a"], schema["properties"]["a"]);
}

#[test]
fn schemas_that_build_upon_one_another_keep_each_others_fields() {
    let schema = json!({"type": "object", "$defs": {
        "Base": {"type": "object", "properties": {"id": {"type": "integer"}, "at": {"type": "object", "properties": {"x": {}}}}},
        "More": {"allOf": [{"$ref": "#/$defs/Base"}, {"properties": {"name": {}, "at": {"properties": {"y": {}}}}}]}},
        "properties": {"one": {"$ref": "#/$defs/Base"}, "two": {"$ref": "#/$defs/More"}}});
    assert_eq!(
        verdicts(
            &schema,
            [
                json!({"one": {"id": 1}, "two": {"id": 1, "name": "n"}}),
                json!({"two": {"id": 1, "at": {"x": 1, "y": 1}}}),
                json!({"one": {"id": 1, "name": "n"}}),
                json!({"two": {"id": 1, "nmae": "n"}}),
            ]
        ),
        [true, true, false, false]
    );
}

#[test]
fn the_branches_of_a_union_know_their_own_fields_only() {
    let schema = json!({"type": "object", "$defs": {
        "Cat": {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}, "toy": {"type": "object", "properties": {"name": {}}}}, "required": ["kind"]},
        "Dog": {"type": "object", "properties": {"kind": {"const": "dog"}, "tricks": {"type": "array"}}, "required": ["kind"]}},
        "properties": {"pet": {"oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}}});
    assert_eq!(
        verdicts(
            &schema,
            [
                json!({"pet": {"kind": "cat", "lives": 9, "toy": {"name": "ball"}}}),
                json!({"pet": {"kind": "dog", "tricks": []}}),
                json!({"pet": {"kind": "dog", "lives": 9}}),
                json!({"pet": {"kind": "cat", "tricks": []}}),
                // The constants tell the branches apart, so that what is inside them may be closed as well.
                json!({"pet": {"kind": "cat", "toy": {"colour": "red"}}}),
            ]
        ),
        [true, true, false, false, false]
    );
}

#[test]
fn overlapping_alternatives_stay_exclusive() {
    // Open, {x, y} fits both and is refused; closing each branch alone would let it through one of them.
    let schema = json!({"type": "object", "properties": {"at": {"oneOf": [
        {"properties": {"in": {"properties": {"x": {}}}}},
        {"properties": {"in": {"properties": {"y": {}}}}}]}}});
    assert_eq!(verdicts(&schema, [json!({"at": {"in": {"x": 1}}}), json!({"at": {"in": {}}})]), [false, false]);
}

#[test]
fn a_union_with_a_free_object_stays_free() {
    let schema = json!({"type": "object", "properties": {"a": {"anyOf": [
        {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}, {"type": "object", "maxProperties": 1}]}}});
    assert_eq!(verdicts(&schema, [json!({"a": {"y": 1}}), json!({"a": {"x": 1}})]), [true, true]);
}

#[test]
fn conditions_bring_their_fields_along() {
    let schema = json!({"type": "object", "properties": {"kind": {"enum": ["a", "b"]}}, "required": ["kind"],
        "if": {"properties": {"kind": {"const": "a"}}}, "then": {"properties": {"size": {"type": "integer"}}}});
    assert_eq!(
        verdicts(&schema, [json!({"kind": "a", "size": 1}), json!({"kind": "b", "size": 1}), json!({"kind": "b"})]),
        [true, false, true]
    );
    let only_then = json!({"type": "object", "properties": {"o": {"type": "object",
        "if": {"required": ["x"]}, "then": {"properties": {"y": {"type": "integer"}}}}}});
    assert_eq!(
        verdicts(&only_then, [json!({"o": {"x": 1, "y": 2}}), json!({"o": {"x": 1, "y": "no"}})]),
        [true, false]
    );
}

#[test]
fn what_is_negated_is_not_closed() {
    let schema = json!({"type": "object", "$defs": {"Bad": {"type": "object", "properties": {"x": {"const": 1}}, "required": ["x"]}},
        "properties": {"a": {"not": {"$ref": "#/$defs/Bad"}}, "b": {"$ref": "#/$defs/Bad"}}});
    assert_eq!(
        verdicts(
            &schema,
            [
                json!({"a": {"x": 1, "y": 2}}),
                json!({"a": {"x": 2}}),
                json!({"b": {"x": 1}}),
                json!({"b": {"x": 1, "y": 2}})
            ]
        ),
        [false, true, true, false]
    );
}

#[test]
fn recursive_objects_are_closed_all_the_way_down() {
    let schema =
        json!({"type": "object", "properties": {"name": {}, "children": {"type": "array", "items": {"$ref": "#"}}}});
    assert_eq!(
        verdicts(
            &schema,
            [
                json!({"name": 1, "children": [{"name": 2, "children": []}]}),
                json!({"children": [{"children": [{"nmae": 1}]}]}),
            ]
        ),
        [true, false]
    );
}

#[test]
fn older_drafts_are_closed_with_their_own_words() {
    let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "definitions": {"Base": {"type": "object", "properties": {"id": {"type": "integer"}}}},
        "properties": {"a": {"$ref": "#/definitions/Base"}},
        "allOf": [{"properties": {"b": {"type": "string"}}}]});
    assert!(!closed(&schema).to_string().contains("unevaluated"));
    assert_eq!(
        verdicts(
            &schema,
            [json!({"a": {"id": 1}, "b": "x"}), json!({"c": 1}), json!({"a": {"di": 1}}), json!({"b": 1})]
        ),
        [true, false, false, false]
    );
}

#[test]
fn nullable_is_written_as_a_type() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true, "enum": ["x"]}, "nullable": {"type": "integer"}}});
    let shown = closed(&schema);
    assert_eq!(shown["properties"]["a"], json!({"type": ["string", "null"], "enum": ["x", null]}));
    assert_eq!(shown["properties"]["nullable"], json!({"type": "integer"}));
}

/// Schemas of objects that refer to, build upon, choose between and negate one another, over four names.
fn tangled() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "object"})),
        Just(json!({"const": 1})),
        Just(json!({"$ref": "#/$defs/X"})),
        Just(json!({"$ref": "#/$defs/Y"})),
        Just(json!({"required": ["a"]})),
    ];
    let schema = leaf.prop_recursive(3, 20, 3, |inner| {
        let list = proptest::collection::vec(inner.clone(), 1..3);
        let fields = proptest::collection::btree_map("[a-d]", inner.clone(), 1..3);
        prop_oneof![
            fields.clone().prop_map(|fields| json!({"properties": fields})),
            fields.clone().prop_map(|fields| json!({"type": "object", "properties": fields})),
            (fields, list.clone()).prop_map(|(fields, list)| json!({"properties": fields, "allOf": list})),
            list.clone().prop_map(|list| json!({"anyOf": list})),
            list.prop_map(|list| json!({"oneOf": list})),
            inner.clone().prop_map(|schema| json!({"not": schema})),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| json!({"if": left, "then": right})),
            inner.prop_map(|schema| json!({"additionalProperties": schema})),
        ]
    });
    let fields = proptest::collection::btree_map("[a-d]", schema.clone(), 1..4);
    (fields, schema.clone(), schema).prop_map(|(fields, x, y)| {
        json!({"type": "object", "properties": fields, "$defs": {"X": {"properties": {"a": x}}, "Y": {"allOf": [{"$ref": "#/$defs/X"}, y]}}})
    })
}

fn object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!("s")), Just(json!(1)), Just(json!({}))];
    let value = leaf.prop_recursive(4, 16, 3, |inner| {
        proptest::collection::btree_map("[a-d]", inner, 0..3).prop_map(|fields| json!(fields))
    });
    proptest::collection::btree_map("[a-d]", value, 0..3).prop_map(|fields| json!(fields))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn closing_never_makes_a_refused_value_acceptable(schema in tangled(), values in proptest::collection::vec(object(), 12)) {
        // Schemas that require what they refuse are problems, and no subject here.
        if let (Ok(open), Ok(enforced)) = (Schema::compile(&schema), Schema::compile(&closed(&schema))) {
            for value in values {
                prop_assert!(!enforced.is_valid(&value) || open.is_valid(&value), "{value}\n{schema}\n{}", closed(&schema));
            }
        }
    }

    #[test]
    fn closing_what_is_closed_refuses_nothing_more(schema in tangled(), values in proptest::collection::vec(object(), 12)) {
        let once = closed(&schema);
        if let (Ok(enforced), Ok(twice)) = (Schema::compile(&once), Schema::compile(&closed(&once))) {
            for value in values {
                prop_assert_eq!(enforced.is_valid(&value), twice.is_valid(&value), "{}\n{}", value, once);
            }
        }
    }
}
