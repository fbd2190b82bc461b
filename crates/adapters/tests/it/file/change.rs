//! `write` and `append`.

use std::os::unix::fs::PermissionsExt;

use futures_util::FutureExt;
use reach_core::{FailureKind, Phase};
use serde_json::json;

use super::{attempt, call, folder, names, text, tool};

#[tokio::test]
async fn a_write_makes_and_replaces_a_file_whole_and_leaves_nothing_else() {
    let base = folder(&[]);
    let write = tool(base.path(), json!({"root": "root", "operation": "write"}), &["path", "content"]);
    let first = call(&write, json!({"path": "a.md", "content": "订单一\n"})).await.unwrap();
    assert_eq!(first, json!({"path": "a.md", "bytes": 10, "created": true}));
    std::fs::set_permissions(base.path().join("root/a.md"), std::fs::Permissions::from_mode(0o640)).unwrap();
    let second = call(&write, json!({"path": "a.md", "content": "two"})).await.unwrap();
    assert_eq!(second, json!({"path": "a.md", "bytes": 3, "created": false}));
    assert_eq!((text(&base, "a.md").as_str(), names(&base, "")), ("two", vec!["a.md".to_owned()]));
    let mode = std::fs::metadata(base.path().join("root/a.md")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640, "a replaced file keeps its permissions");
}

#[tokio::test]
async fn without_overwrite_a_file_that_is_there_stays() {
    let base = folder(&[("a.md", b"old")]);
    let config = json!({"root": "root", "operation": "write", "overwrite": false});
    let write = tool(base.path(), config, &["path", "content"]);
    let failure = call(&write, json!({"path": "a.md", "content": "new"})).await.unwrap_err();
    assert_eq!((failure.kind, failure.phase), (FailureKind::Rejected, Phase::Answered));
    assert!(failure.message.contains("nothing was changed"));
    assert_eq!(call(&write, json!({"path": "b.md", "content": "new"})).await.unwrap()["created"], true);
    assert_eq!((text(&base, "a.md"), text(&base, "b.md")), ("old".to_owned(), "new".to_owned()));
    assert_eq!(names(&base, ""), ["a.md", "b.md"]);
}

#[tokio::test]
async fn of_many_writers_without_overwrite_one_wins() {
    let base = folder(&[]);
    let config = json!({"root": "root", "operation": "write", "overwrite": false});
    let write = tool(base.path(), config, &["path", "content"]);
    let calls = (0..16).map(|writer| {
        let write = std::sync::Arc::clone(&write);
        tokio::spawn(async move { call(&write, json!({"path": "a.md", "content": format!("{writer}")})).await.ok() })
    });
    let won: Vec<_> = futures_util::future::join_all(calls).await.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(won.len(), 1);
    assert_eq!(names(&base, ""), ["a.md"]);
}

#[tokio::test]
async fn an_append_adds_at_the_end_and_makes_the_file() {
    let base = folder(&[]);
    let config = json!({"root": "root", "operation": "append", "path": "log/{day}.md", "content": "- {note}\n", "create_directories": true});
    let append = tool(base.path(), config, &["day", "note"]);
    let first = call(&append, json!({"day": "mon", "note": "一"})).await.unwrap();
    assert_eq!(first, json!({"path": "log/mon.md", "bytes": 6, "size": 6, "created": true}));
    let second = call(&append, json!({"day": "mon", "note": "b"})).await.unwrap();
    assert_eq!((&second["size"], &second["created"]), (&json!(10), &json!(false)));
    assert_eq!(text(&base, "log/mon.md"), "- 一\n- b\n");
}

#[tokio::test]
async fn concurrent_appends_are_all_there_and_whole() {
    let base = folder(&[]);
    let append = tool(base.path(), json!({"root": "root", "operation": "append"}), &["path", "content"]);
    let line = "x".repeat(3_000);
    let calls = (0..20).map(|_| call(&append, json!({"path": "log", "content": format!("{line}\n")})));
    for outcome in futures_util::future::join_all(calls).await {
        outcome.unwrap();
    }
    let log = text(&base, "log");
    assert_eq!(log.lines().count(), 20);
    assert!(log.lines().all(|found| found == line));
}

#[tokio::test]
async fn missing_folders_are_made_only_when_declared() {
    let base = folder(&[]);
    for operation in ["write", "append"] {
        let plain = tool(base.path(), json!({"root": "root", "operation": operation}), &["path", "content"]);
        let arguments = json!({"path": format!("{operation}/b/c.md"), "content": "x"});
        let failure = call(&plain, arguments.clone()).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::NotFound, "{failure:?}");
        let config = json!({"root": "root", "operation": operation, "create_directories": true});
        call(&tool(base.path(), config, &["path", "content"]), arguments).await.unwrap();
        assert_eq!(text(&base, &format!("{operation}/b/c.md")), "x");
    }
}

#[tokio::test]
async fn contents_are_capped_and_written_in_the_declared_encoding() {
    let base = folder(&[]);
    for operation in ["write", "append"] {
        let config = json!({"root": "root", "operation": operation, "max_bytes": 4, "encoding": "gb18030"});
        let change = tool(base.path(), config, &["path", "content"]);
        let too_much = call(&change, json!({"path": operation, "content": "三个字"})).await.unwrap_err();
        assert_eq!((too_much.kind, too_much.phase), (FailureKind::Refused, Phase::Rejected));
        call(&change, json!({"path": operation, "content": "中文"})).await.unwrap();
        assert_eq!(std::fs::read(base.path().join("root").join(operation)).unwrap(), b"\xd6\xd0\xce\xc4");
    }
    let config = json!({"root": "root", "operation": "write", "encoding": "windows-1252"});
    let latin = tool(base.path(), config, &["path", "content"]);
    let failure = call(&latin, json!({"path": "x", "content": "中"})).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.message.contains("windows-1252"));
    assert_eq!(call(&latin, json!({"path": "x"})).await.unwrap_err().message, "`content` is missing");
}

#[tokio::test]
async fn folders_links_and_protected_files_are_not_written() {
    let base = folder(&[("dir/a.md", b"x"), ("protected.md", b"keep")]);
    std::os::unix::fs::symlink("dir/a.md", base.path().join("root/link")).unwrap();
    std::fs::set_permissions(base.path().join("root/protected.md"), std::fs::Permissions::from_mode(0o444)).unwrap();
    for operation in ["write", "append"] {
        let change = tool(base.path(), json!({"root": "root", "operation": operation}), &["path", "content"]);
        for path in ["dir", "link", "protected.md"] {
            let failure = call(&change, json!({"path": path, "content": "new"})).await.unwrap_err();
            assert_eq!((failure.kind, failure.phase), (FailureKind::Rejected, Phase::Answered), "{path}: {failure:?}");
        }
    }
    assert_eq!((text(&base, "dir/a.md"), text(&base, "protected.md")), ("x".to_owned(), "keep".to_owned()));
    assert_eq!(names(&base, ""), ["dir", "link", "protected.md"]);
}

/// Dropping the call is the executor's cancel. Whatever the moment: either the mark was not set, and
/// nothing happened and nothing will; or it was set, and the file is whole, old or new.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_write_never_happens_or_is_marked_as_sent() {
    let base = folder(&[("a.md", b"old")]);
    let write = tool(base.path(), json!({"root": "root", "operation": "write"}), &["path", "content"]);
    let content = "new ".repeat(20_000);
    for patience in 0..40 {
        std::fs::write(base.path().join("root/a.md"), "old").unwrap();
        let attempt = attempt(json!({"path": "a.md", "content": content}));
        let mut call = Box::pin(write.call(&attempt));
        // Polled a few times and dropped: at another moment of the work each time.
        let mut is_done = false;
        for _ in 0..patience * 20 {
            if call.as_mut().now_or_never().is_some() {
                is_done = true;
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(call);
        let was_sent = attempt.sent.phase() == Phase::MaybeSent;
        // The work has ended when its temporary file is gone and stays gone.
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
        let mut quiet = 0;
        while quiet < 3 {
            assert!(tokio::time::Instant::now() < deadline, "the work goes on without its caller");
            quiet = if names(&base, "") == ["a.md"] { quiet + 1 } else { 0 };
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let now = text(&base, "a.md");
        assert!(now == "old" || now == content);
        assert!(was_sent || now == "old", "a write nobody waits for happened unmarked");
        assert!(!is_done || was_sent);
    }
}
