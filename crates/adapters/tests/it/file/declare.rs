//! Declarations: what is refused, with all problems at once, and what targets and checks say.

use std::time::Duration;

use reach_core::{FailureKind, Phase};
use serde_json::json;

use super::{folder, tool, try_build};

fn pointers(config: serde_json::Value, arguments: &[&str]) -> Vec<String> {
    let base = folder(&[]);
    let problems = try_build(base.path(), config, arguments).err().expect("problems");
    problems.into_iter().map(|problem| problem.pointer).collect()
}

#[test]
fn every_field_that_has_no_effect_on_the_operation_is_a_problem() {
    let all = json!({
        "root": "root", "operation": "read", "content": "x", "query": "x", "max_entries": 1, "max_hits": 1,
        "include": ["*.md"], "recursive": true, "create_directories": true, "overwrite": true
    });
    assert_eq!(
        pointers(all, &["path"]),
        [
            "/content",
            "/query",
            "/max_entries",
            "/max_hits",
            "/include",
            "/recursive",
            "/create_directories",
            "/overwrite"
        ]
    );
    let list = json!({"root": "root", "operation": "list", "max_bytes": 1, "encoding": "utf-8"});
    assert_eq!(pointers(list, &[]), ["/max_bytes", "/encoding"]);
}

#[test]
fn all_problems_of_a_declaration_are_reported_at_once() {
    let config = json!({
        "root": " ", "operation": "write", "path": "../{nam}", "content": "{text", "max_bytes": 0, "encoding": "utf-7"
    });
    assert_eq!(pointers(config, &["name"]), ["/root", "/max_bytes", "/path", "/encoding", "/content"]);
    assert_eq!(pointers(json!({"root": "root", "operation": "read"}), &["file"]), ["/path"]);
    assert_eq!(pointers(json!({"root": "root", "operation": "append"}), &["path"]), ["/content"]);
    assert_eq!(pointers(json!({"root": "root", "operation": "search"}), &[]), ["/query"]);
    assert_eq!(pointers(json!({"root": "root", "operation": "list", "include": ["{a,b}"]}), &[]), ["/include/0"]);
    assert_eq!(pointers(json!({"root": "root", "operation": "read", "path": "/etc/{path}"}), &["path"]), ["/path"]);
    let utf16 = json!({"root": "root", "operation": "write", "encoding": "utf-16le"});
    assert_eq!(pointers(utf16, &["path", "content"]), ["/encoding"]);
}

#[test]
fn unknown_fields_are_refused() {
    let unknown = json!({"root": "root", "operation": "read", "pth": "x"});
    assert!(serde_json::from_value::<reach_adapters::file::Config>(unknown).unwrap_err().to_string().contains("pth"));
}

#[test]
fn a_tool_that_changes_files_cannot_be_declared_a_read() {
    use reach_adapters::file::{Config, build};
    let config: Config = serde_json::from_value(json!({"root": "root", "operation": "append"})).unwrap();
    assert_eq!(config.default_effect(), reach_core::Effect::Write);
    let declared = reach_adapters::shared::Declared {
        tool_id: &reach_core::ToolId::asked("files"),
        input_schema: &json!({"properties": {"path": {}, "content": {}}}),
        effect: reach_core::Effect::Read,
        timeout: Duration::from_secs(1),
        base: std::path::Path::new("/"),
    };
    let problems = build(config, &declared).err().unwrap();
    assert_eq!(problems[0].pointer, "/operation");
}

#[test]
fn the_target_is_the_root_as_declared_and_reads_default_to_read() {
    let base = folder(&[]);
    for operation in ["read", "list", "search"] {
        let config = json!({"root": "./root", "operation": operation});
        let parsed: reach_adapters::file::Config = serde_json::from_value(config.clone()).unwrap();
        assert_eq!(parsed.default_effect(), reach_core::Effect::Read);
        let tool = tool(base.path(), config, &["path", "query"]);
        assert_eq!((tool.kind(), tool.target()), ("file", "file:./root"));
    }
}

#[tokio::test]
async fn a_check_opens_the_folder_and_nothing_else() {
    let base = folder(&[("a.md", b"x")]);
    let good = tool(base.path(), json!({"root": "root", "operation": "read"}), &["path"]);
    assert_eq!(good.check(Duration::from_secs(5)).await.unwrap(), "folder `root` opens");
    for root in ["missing", "root/a.md"] {
        let bad = tool(base.path(), json!({"root": root, "operation": "read"}), &["path"]);
        let failure = bad.check(Duration::from_secs(5)).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (FailureKind::Unreachable, Phase::NotSent));
        assert!(!failure.message.contains(base.path().to_str().unwrap()), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_root_that_is_replaced_is_seen_by_the_next_call() {
    let base = folder(&[("a.md", b"old")]);
    let read = tool(base.path(), json!({"root": "root", "operation": "read"}), &["path"]);
    assert_eq!(super::call(&read, json!({"path": "a.md"})).await.unwrap()["text"], "old");
    std::fs::rename(base.path().join("root"), base.path().join("before")).unwrap();
    std::fs::create_dir(base.path().join("root")).unwrap();
    std::fs::write(base.path().join("root/a.md"), "new").unwrap();
    assert_eq!(super::call(&read, json!({"path": "a.md"})).await.unwrap()["text"], "new");
}
