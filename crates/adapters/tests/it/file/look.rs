//! `read`, `list` and `search`.

use reach_core::{FailureKind, Payload, Phase};
use serde_json::{Value, json};

use super::{attempt, call, folder, payload, tool};

#[tokio::test]
async fn a_text_is_read_with_its_size() {
    let base = folder(&[("notes/今天.md", "一\n二\n".as_bytes())]);
    let read = tool(base.path(), json!({"root": "root", "operation": "read"}), &["path"]);
    assert_eq!(
        call(&read, json!({"path": "./notes/今天.md"})).await.unwrap(),
        json!({"path": "notes/今天.md", "text": "一\n二\n", "lines": 2, "bytes": 8})
    );
}

#[tokio::test]
async fn lines_are_chosen_where_the_tool_declares_them() {
    let base = folder(&[("a.md", b"1\n2\n3\n4")]);
    let read = tool(base.path(), json!({"root": "root", "operation": "read"}), &["path", "start_line", "end_line"]);
    let some = call(&read, json!({"path": "a.md", "start_line": 2, "end_line": 3})).await.unwrap();
    assert_eq!(
        (&some["text"], &some["start_line"], &some["end_line"], &some["lines"]),
        (&json!("2\n3\n"), &json!(2), &json!(3), &json!(4))
    );
    assert_eq!(call(&read, json!({"path": "a.md", "start_line": 4})).await.unwrap()["text"], "4");
    assert_eq!(call(&read, json!({"path": "a.md", "end_line": 99})).await.unwrap()["text"], "1\n2\n3\n4");
    let past = call(&read, json!({"path": "a.md", "start_line": 5})).await.unwrap_err();
    assert_eq!(past.kind, FailureKind::Rejected);
    assert!(past.message.contains("has 4 lines"), "{}", past.message);
    for bad in [json!({"path": "a.md", "start_line": 0}), json!({"path": "a.md", "start_line": 3, "end_line": 2})] {
        assert_eq!(call(&read, bad).await.unwrap_err().kind, FailureKind::Refused);
    }
    let without = tool(base.path(), json!({"root": "root", "operation": "read"}), &["path"]);
    assert_eq!(call(&without, json!({"path": "a.md", "start_line": 2})).await.unwrap()["text"], "1\n2\n3\n4");
}

#[tokio::test]
async fn what_is_not_there_a_folder_and_nothing_at_all_are_told_apart() {
    let base = folder(&[("notes/a.md", b"x")]);
    let read = tool(base.path(), json!({"root": "root", "operation": "read"}), &["path"]);
    for (arguments, kind, phase, word) in [
        (json!({"path": "b.md"}), FailureKind::NotFound, Phase::Answered, "no `b.md`"),
        (json!({"path": "notes"}), FailureKind::Rejected, Phase::Answered, "is a folder"),
        (json!({"path": "notes/a.md/b"}), FailureKind::NotFound, Phase::Answered, "no folder"),
        (json!({"path": "notes/"}), FailureKind::Refused, Phase::Rejected, "ends like a folder"),
        (json!({"path": ""}), FailureKind::Refused, Phase::Rejected, "empty"),
        (json!({}), FailureKind::Refused, Phase::Rejected, "`path` is missing"),
        (json!({"path": "x".repeat(300)}), FailureKind::Refused, Phase::Rejected, "too long"),
    ] {
        let failure = call(&read, arguments.clone()).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (kind, phase), "{arguments}: {failure:?}");
        assert!(failure.message.contains(word), "{arguments}: {}", failure.message);
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_are_announced_with_their_type() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    let base = folder(&[("logo.png", png)]);
    let read = tool(base.path(), json!({"root": "root", "operation": "read"}), &["path"]);
    assert_eq!(
        payload(&read, json!({"path": "logo.png"})).await.unwrap(),
        Payload::Binary { media_type: "image/png".to_owned(), bytes: png.to_vec() }
    );
}

#[tokio::test]
async fn encodings_are_recognised_or_declared() {
    let (gb, _, _) = encoding("gb18030", "退货政策：七天内可以退货。");
    let (latin, _, _) = encoding("windows-1252", "café");
    let base = folder(&[("gb.txt", &gb), ("latin.txt", &latin), ("utf16.txt", b"\xff\xfeh\0i\0")]);
    let read = tool(base.path(), json!({"root": "root", "operation": "read"}), &["path"]);
    let text = call(&read, json!({"path": "gb.txt"})).await.unwrap();
    assert_eq!((&text["text"], &text["encoding"]), (&json!("退货政策：七天内可以退货。"), &json!("gb18030")));
    assert_eq!(call(&read, json!({"path": "utf16.txt"})).await.unwrap()["text"], "hi");
    assert!(matches!(payload(&read, json!({"path": "latin.txt"})).await.unwrap(), Payload::Binary { .. }));
    let config = json!({"root": "root", "operation": "read", "encoding": "windows-1252"});
    let declared = tool(base.path(), config, &["path"]);
    assert_eq!(call(&declared, json!({"path": "latin.txt"})).await.unwrap()["text"], "café");
}

fn encoding(label: &str, text: &str) -> (Vec<u8>, (), ()) {
    let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).expect("an encoding");
    (encoding.encode(text).0.into_owned(), (), ())
}

#[tokio::test]
async fn max_bytes_is_the_size_of_the_largest_file_read() {
    let base = folder(&[("a.md", b"12345")]);
    let read = |cap: u64| tool(base.path(), json!({"root": "root", "operation": "read", "max_bytes": cap}), &["path"]);
    assert!(call(&read(5), json!({"path": "a.md"})).await.is_ok());
    let failure = call(&read(4), json!({"path": "a.md"})).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Oversize);
    assert!(failure.message.contains("5 bytes") && failure.message.contains('4'), "{}", failure.message);
}

#[tokio::test]
async fn a_value_inside_a_path_is_a_single_name() {
    let base = folder(&[
        ("customers/acme/notes.md", b"ours"),
        ("customers/notes.md", b"all"),
        ("customers/a/b/notes.md", b"deep"),
    ]);
    let config = json!({"root": "root", "operation": "read", "path": "customers/{id}/notes.md"});
    let read = tool(base.path(), config, &["id"]);
    assert_eq!(call(&read, json!({"id": "acme"})).await.unwrap()["text"], "ours");
    for id in [".", "..", "", "a/b", "a/../acme", "/acme", "acme/"] {
        let failure = call(&read, json!({"id": id})).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused, "{id}");
    }
    let config = json!({"root": "root", "operation": "read", "path": "customers/{path}"});
    let below = tool(base.path(), config, &["path"]);
    assert_eq!(call(&below, json!({"path": "a/b/notes.md"})).await.unwrap()["text"], "deep");
    assert_eq!(call(&below, json!({"path": "/notes.md"})).await.unwrap_err().kind, FailureKind::Refused);
}

#[tokio::test]
async fn a_list_shows_names_types_sizes_and_times_in_order() {
    let base = folder(&[("b.md", b"12"), ("a/x.md", b""), ("c.txt", b"1")]);
    std::os::unix::fs::symlink("b.md", base.path().join("root/link")).unwrap();
    std::fs::write(base.path().join("root/.reach-tmp-1"), "left over").unwrap();
    let list = tool(base.path(), json!({"root": "root", "operation": "list"}), &["path"]);
    let data = call(&list, json!({})).await.unwrap();
    let entries = data["entries"].as_array().unwrap();
    let shown: Vec<Value> = entries.iter().map(|entry| json!([entry["name"], entry["type"], entry["bytes"]])).collect();
    assert_eq!(
        Value::from(shown),
        json!([["a", "folder", null], ["b.md", "file", 2], ["c.txt", "file", 1], ["link", "link", null]])
    );
    assert!(entries[1]["modified"].as_str().unwrap().ends_with('Z'));
    assert_eq!((&data["total"], &data["capped"], &data["path"]), (&json!(4), &Value::Null, &json!("")));
    assert_eq!(call(&list, json!({"path": "a"})).await.unwrap()["entries"][0]["name"], "x.md");
    assert_eq!(call(&list, json!({"path": "zzz"})).await.unwrap_err().kind, FailureKind::NotFound);
}

#[tokio::test]
async fn a_list_is_capped_counted_filtered_and_goes_deeper_when_declared() {
    let base = folder(&[("a.md", b""), ("b.md", b""), ("c.txt", b""), ("d/e.md", b""), ("d/f/g.md", b"")]);
    let capped = tool(base.path(), json!({"root": "root", "operation": "list", "max_entries": 2}), &[]);
    let data = call(&capped, json!({})).await.unwrap();
    assert_eq!((data["entries"].as_array().unwrap().len(), &data["total"]), (2, &json!(4)));
    assert_eq!(data["capped"], "the first 2 of 4 entries are shown");
    let config = json!({"root": "root", "operation": "list", "recursive": true, "include": ["*.md"]});
    let data = call(&tool(base.path(), config, &["path"]), json!({})).await.unwrap();
    let names: Vec<&str> =
        data["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a.md", "b.md", "d", "d/e.md", "d/f", "d/f/g.md"]);
}

#[tokio::test]
async fn a_list_of_a_fixed_folder_needs_no_argument() {
    let base = folder(&[("docs/a.md", b""), ("b.md", b"")]);
    let list = tool(base.path(), json!({"root": "root", "operation": "list", "path": "docs"}), &[]);
    assert_eq!(call(&list, json!({})).await.unwrap()["total"], 1);
}

fn library() -> tempfile::TempDir {
    folder(&[
        ("returns.md", "# Returns\n\nGoods can be returned within 14 days.\n\n## Refunds\n\nA refund is paid within five working days\nto the card that was used.\n".as_bytes()),
        ("zh/退货.md", "# 退货政策\n\n收到商品后七天内可以退货。\n\n退款将在五个工作日内原路退回。\n".as_bytes()),
        ("shipping.txt", b"Orders above 50 euros ship free of charge."),
        ("logo.png", b"\x89PNG\r\n\x1a\n\0\0refund refund refund"),
        (".git/config", b"refund"),
        ("large.md", &b"refund ".repeat(1_000)),
    ])
}

#[tokio::test]
async fn a_search_finds_the_passage_in_english_and_in_chinese() {
    let base = library();
    let config = json!({"root": "root", "operation": "search", "max_bytes": 2_000});
    let search = tool(base.path(), config, &["query"]);
    let data = call(&search, json!({"query": "how are refunds paid?"})).await.unwrap();
    let best = &data["hits"][0];
    assert_eq!((&best["path"], &best["line"]), (&json!("returns.md"), &json!(7)), "{data}");
    assert!(best["excerpt"].as_str().unwrap().contains("card that was used"));
    assert_eq!((&data["files"], &data["skipped"], &data["capped"]), (&json!(3), &json!(2), &Value::Null));
    let data = call(&search, json!({"query": "退款多久到账"})).await.unwrap();
    assert_eq!((&data["hits"][0]["path"], &data["hits"][0]["line"]), (&json!("zh/退货.md"), &json!(5)), "{data}");
    let again = call(&search, json!({"query": "退款多久到账"})).await.unwrap();
    assert_eq!(data, again);
    let nothing = call(&search, json!({"query": "zebra"})).await.unwrap();
    assert_eq!((&nothing["hits"], &nothing["total"]), (&json!([]), &json!(0)));
    assert_eq!(call(&search, json!({"query": " ?!"})).await.unwrap_err().kind, FailureKind::Refused);
}

#[tokio::test]
async fn a_search_is_capped_filtered_and_kept_to_a_folder_when_declared() {
    let base = library();
    let config = json!({"root": "root", "operation": "search", "max_hits": 1, "query": "refund {topic}"});
    let capped = call(&tool(base.path(), config, &["topic"]), json!({"topic": "goods returned"})).await.unwrap();
    assert_eq!(capped["hits"].as_array().unwrap().len(), 1);
    assert!(capped["total"].as_u64().unwrap() > 1);
    assert_eq!(capped["query"], "refund goods returned");
    let config = json!({"root": "root", "operation": "search", "include": ["*.txt"]});
    let filtered = call(&tool(base.path(), config, &["query"]), json!({"query": "refund orders"})).await.unwrap();
    assert_eq!((&filtered["files"], &filtered["hits"][0]["path"]), (&json!(1), &json!("shipping.txt")));
    let below = tool(base.path(), json!({"root": "root", "operation": "search"}), &["query", "path"]);
    let data = call(&below, json!({"query": "退货", "path": "zh"})).await.unwrap();
    assert_eq!((&data["files"], &data["hits"][0]["path"]), (&json!(1), &json!("zh/退货.md")));
    let config = json!({"root": "root", "operation": "search", "encoding": "utf-16le", "include": ["*.txt"]});
    let declared = call(&tool(base.path(), config, &["query"]), json!({"query": "orders"})).await.unwrap();
    assert_eq!(declared["total"], 0, "declared encodings are taken at their word");
}

#[tokio::test]
async fn a_search_says_when_it_could_not_look_at_everything() {
    let base = folder(&[]);
    for number in 0..5_003 {
        std::fs::write(base.path().join(format!("root/{number:05}.md")), "apple").unwrap();
    }
    let search = tool(base.path(), json!({"root": "root", "operation": "search"}), &["query"]);
    let mut wide = attempt(json!({"query": "apple"}));
    wide.timeout = std::time::Duration::from_secs(600);
    let Payload::Json(data) = search.call(&wide).await.unwrap().payload else { panic!("JSON was promised") };
    assert_eq!((&data["files"], &data["total"]), (&json!(5_000), &json!(5_000)));
    assert_eq!(data["capped"], "only 5000 of 5003 files were searched: 5000 files is the limit");
    let mut hurried = attempt(json!({"query": "apple"}));
    hurried.timeout = std::time::Duration::ZERO;
    let Payload::Json(data) = search.call(&hurried).await.unwrap().payload else { panic!("JSON was promised") };
    assert_eq!(data["capped"], "only 0 of 5003 files were searched: the time there was is the limit");
}
