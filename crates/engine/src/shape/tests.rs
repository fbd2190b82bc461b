//! Scenarios of shaping: what is kept, what is counted, and that the limit holds.

use proptest::prelude::*;
use reach_core::Payload;
use serde_json::json;

use super::*;

fn object(value: Value) -> Object {
    value.as_object().expect("an object").clone()
}

fn clip(value: Value, limit: usize) -> Value {
    let shaped = shorten(object(value), limit, Shape::Clip, "");
    let text = Value::Object(shaped.data).to_string();
    assert!(text.chars().count() <= limit.max(FLOOR), "{} of {limit}: {text}", text.chars().count());
    serde_json::from_str(&text).expect("valid JSON")
}

fn extract(value: Value, limit: usize, query: &str) -> Value {
    let shaped = shorten(object(value), limit, Shape::Extract, query);
    let value = Value::Object(shaped.data);
    assert!(measure(&value) <= limit, "{value}");
    value
}

#[test]
fn what_fits_is_left_alone() {
    let data = object(json!({"a": [1, 2, {"b": "中"}]}));
    let shaped = shorten(data.clone(), 2_000, Shape::Clip, "");
    assert_eq!(shaped, Shaped { data, truncated: None });
}

#[test]
fn a_long_text_keeps_head_and_tail_and_tells_what_is_missing() {
    let text: String = (0..1_000).map(|number| format!("line {number}\n")).collect();
    let shown = clip(json!({"value": text, "status": 200}), 300);
    let value = shown["value"].as_str().unwrap();
    assert!(value.starts_with("line 0\nline 1\n") && value.ends_with("line 999\n"), "{value}");
    assert!(value.contains("of 8890 characters left out]"), "{value}");
    assert_eq!(shown["status"], 200);
}

#[test]
fn case_c001_chinese_is_cut_between_characters_and_the_size_is_named() {
    // The case counts 500 kept characters beside its mark; our limit holds the mark as well, so that what
    // is kept and what is told to be missing make up the whole.
    let shaped = shorten(object(json!({"value": "中".repeat(40_000)})), 500, Shape::Clip, "");
    let value = shaped.data["value"].as_str().unwrap();
    let kept = value.chars().filter(|c| *c == '中').count();
    assert!((400..500).contains(&kept), "{kept}");
    assert!(value.contains(&format!("[{} of 40000 characters left out]", 40_000 - kept)), "{value}");
    assert!(!value.contains('\u{fffd}'));
    let cut = shaped.truncated.unwrap();
    assert_eq!((cut.total, cut.how), (40_012, "clip"));
    assert!(cut.shown <= 500);
}

#[test]
fn case_c002_a_thousand_rows_become_the_first_whole_rows_and_a_count() {
    let rows: Vec<Value> = (0..1_000).map(|id| json!({"id": id, "text": "x".repeat(375)})).collect();
    let shown = clip(json!({"count": 1_000, "rows": rows}), 4_096);
    assert_eq!(shown["count"], 1_000);
    let rows = shown["rows"].as_array().unwrap();
    assert!(rows.len() > 8, "{}", rows.len());
    let (last, whole) = rows.split_last().unwrap();
    assert_eq!(last, &json!(format!("… {} more of 1000", 1_000 - whole.len())));
    for (id, row) in whole.iter().enumerate() {
        assert_eq!((&row["id"], row["text"].as_str().unwrap().len()), (&json!(id), 375));
    }
}

#[test]
fn small_fields_stay_whole_beside_a_large_one() {
    let shown = clip(
        json!({"order": {"id": "OD20241015", "status": "shipped", "notes": ["fragile"]}, "log": "y".repeat(50_000), "eta": "2024-10-18"}),
        400,
    );
    assert_eq!(shown["order"], json!({"id": "OD20241015", "status": "shipped", "notes": ["fragile"]}));
    assert_eq!(shown["eta"], "2024-10-18");
    assert!(shown["log"].as_str().unwrap().len() > 200, "the rest of the budget is used");
}

#[test]
fn two_large_branches_share_and_no_key_is_lost() {
    let shown = clip(
        json!({"a": "a".repeat(9_000), "b": {"deep": {"deeper": "b".repeat(9_000)}}, "c": [["c".repeat(9_000)]]}),
        900,
    );
    for text in [&shown["a"], &shown["b"]["deep"]["deeper"], &shown["c"][0][0]] {
        assert!((200..300).contains(&text.as_str().unwrap().chars().count()), "{shown}");
    }
}

#[test]
fn an_object_with_too_many_keys_says_how_many_are_missing() {
    let wide: Object = (0..500).map(|key| (format!("key{key}"), json!("v".repeat(50)))).collect();
    let shown = clip(Value::Object(wide), 600);
    let count = shown.as_object().unwrap().len() - 1;
    assert!(count >= 5);
    assert_eq!(shown["key0"], "v".repeat(50));
    assert_eq!(shown["…"], format!("{} more of 500 keys", 500 - count));
}

#[test]
fn types_stay_even_at_the_floor() {
    let shown = clip(json!({"text": "t".repeat(500), "list": vec![0; 500], "map": {"k": "v".repeat(500)}}), 75);
    assert_eq!(shown, json!({"text": "… 500 characters", "list": ["… 500 items"], "map": {"…": "1 keys"}}));
    assert_eq!(clip(json!({"list": vec![0; 500], "another": vec![0; 500]}), 1), json!({"…": "2 keys"}));
}

#[test]
fn base64_is_named_and_not_shown() {
    let image: String = "iVBORw0KGgoAAAANSUhEUgAA".repeat(1_000);
    let shown = clip(json!({"image": image, "alt": "logo"}), 2_048);
    assert_eq!(shown, json!({"image": "… 24000 characters of base64", "alt": "logo"}));
    let words = "Deliver2 the order to Hangzhou ".repeat(200);
    assert!(clip(json!({"value": words}), 300)["value"].as_str().unwrap().starts_with("Deliver2"));
}

#[test]
fn extract_keeps_the_paragraphs_that_answer_in_their_order() {
    let filler = "Our company was founded long ago and has many offices in many cities of the world.\n\n".repeat(40);
    let text = format!(
        "# Handbook\n\n{filler}Refunds are paid within five working days.\n\n{filler}A refund goes to the card that was used.\n\n{filler}"
    );
    let shown = extract(json!({"path": "handbook.md", "text": text}), 700, "how are refunds paid");
    let value = shown["text"].as_str().unwrap();
    let (first, second) = (value.find("five working days").unwrap(), value.find("card that was used").unwrap());
    assert!(first < second, "{value}");
    assert!(value.starts_with("\n… [") && value.ends_with("characters left out] …\n"), "{value}");
    assert_eq!(shown["path"], "handbook.md");
}

#[test]
fn extract_reads_chinese() {
    let filler = "公司成立于多年以前，在许多城市设有办事处，欢迎前来参观。\n\n".repeat(60);
    let text = format!("{filler}退款将在五个工作日内原路退回。\n\n{filler}");
    let shown = extract(json!({"value": text}), 500, "退款多久到账");
    assert!(shown["value"].as_str().unwrap().contains("五个工作日内原路退回"), "{shown}");
}

#[test]
fn extract_keeps_the_array_elements_that_answer_and_tells_the_gaps() {
    let rows: Vec<Value> = (0..300)
        .map(|id| json!({"sku": format!("S{id}"), "name": if id == 150 { "red bicycle" } else { "blue chair" }}))
        .collect();
    let shown = extract(json!({"rows": rows}), 400, "bicycle stock");
    assert_eq!(shown["rows"], json!(["… 150 left out", {"sku": "S150", "name": "red bicycle"}, "… 149 more of 300"]));
}

#[test]
fn extract_without_a_match_clips() {
    let data = json!({"value": "word ".repeat(2_000)});
    assert_eq!(extract(data.clone(), 300, "zebra"), clip(data, 300));
}

#[test]
fn extract_looks_at_the_beginning_of_what_is_very_long() {
    let early = format!("{}\n\nthe bicycle\n\n{}", "a b\n".repeat(1_000), "a b\n".repeat(150_000));
    let shown = extract(json!({"value": early}), 300, "bicycle");
    assert!(shown["value"].as_str().unwrap().contains("the bicycle"), "{shown}");
    let late = json!({"value": format!("{}\n\nthe bicycle", "a b\n".repeat(150_000))});
    assert!(extract(late, 300, "bicycle")["value"].as_str().unwrap().starts_with("a b\n"), "clipped");
    let mut rows = vec![json!("blue chair of wood"); 30_000];
    rows.push(json!("bicycle"));
    assert_eq!(extract(json!({"rows": rows}), 300, "bicycle")["rows"][0], "blue chair of wood", "clipped");
}

#[test]
fn every_payload_has_one_form() {
    let data = |payload| match data_of(payload) {
        DataOrBinary::Data(data) => Value::Object(data),
        DataOrBinary::Binary { media_type, bytes } => json!([media_type, bytes.len()]),
    };
    assert_eq!(data(Payload::Empty), json!({}));
    assert_eq!(data(Payload::Json(json!({"a": 1}))), json!({"a": 1}));
    assert_eq!(data(Payload::Json(json!([1]))), json!({"value": [1]}));
    assert_eq!(data(Payload::Text("x".into())), json!({"value": "x"}));
    assert_eq!(data(Payload::Binary { media_type: "image/png".into(), bytes: vec![0; 3] }), json!(["image/png", 3]));
}

#[test]
fn a_lone_text_is_stored_as_text_and_everything_else_with_lines() {
    assert_eq!(blob_of(&object(json!({"value": "a\nb"}))).1, b"a\nb");
    assert_eq!(blob_of(&object(json!({"a": 1}))), ("application/json", b"{\n  \"a\": 1\n}".to_vec()));
}

#[test]
fn a_query_is_the_question_and_the_words_of_the_arguments() {
    let arguments = object(json!({"city": "杭州", "deep": {"ids": ["A", 7]}, "flag": true}));
    assert_eq!(query_of(&arguments, Some("weather?")), "weather?\n杭州\nA\n7");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,80}".prop_map(Value::from),
        "[\u{0}-\u{1f}\"\\\\中😀]{0,60}".prop_map(Value::from),
        "(alpha beta\n\n|gamma\\. ){0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 120, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
            prop::collection::vec(("[a-z…\"]{0,6}", inner), 0..12).prop_map(|entries| entries.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn measuring_is_counting_what_is_written(value in any_json()) {
        prop_assert_eq!(measure(&value), value.to_string().chars().count());
    }

    #[test]
    fn any_result_fits_any_limit_as_valid_json(
        entries in prop::collection::vec((".{0,30}", any_json()), 0..10), limit in 0usize..1_500, extracts in any::<bool>(),
    ) {
        let data: Object = entries.into_iter().collect();
        let how = if extracts { Shape::Extract } else { Shape::Clip };
        let total = Value::Object(data.clone()).to_string().chars().count();
        let shaped = shorten(data.clone(), limit, how, "alpha gamma 中");
        let text = Value::Object(shaped.data.clone()).to_string();
        let shown = text.chars().count();
        prop_assert!(shown <= limit.max(FLOOR), "{} > {}: {}", shown, limit, text);
        prop_assert!(serde_json::from_str::<Object>(&text).is_ok(), "{}", text);
        prop_assert_eq!(shaped.truncated.is_some(), total > limit.max(FLOOR));
        if let Some(cut) = shaped.truncated {
            prop_assert_eq!((cut.shown, cut.total), (shown as u64, total as u64));
        }
        prop_assert_eq!(shorten(data, limit, how, "alpha gamma 中"), shaped, "deterministic");
    }
}
