//! The `file` adapter in the shared suite, and what is its own.

mod attacks;
mod change;
mod declare;
mod look;

use std::path::Path;
use std::sync::Arc;

use reach_adapters::file::{Config, build};
use reach_adapters::shared::Declared;
use reach_core::{Adapter, Attempt, BoxFuture, Effect, Failure, Payload, Problem, ToolId};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::suite::{Fault, Scene, Stage};

/// Builds a tool as a declaration would: the `file:` part, the names of its arguments, the folder it is in.
fn try_build(base: &Path, config: Value, arguments: &[&str]) -> Result<Arc<dyn Adapter>, Vec<Problem>> {
    let config: Config = serde_json::from_value(config).expect("a declaration that parses");
    let properties: serde_json::Map<String, Value> =
        arguments.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    let schema = json!({"type": "object", "properties": properties});
    let declared = Declared {
        tool_id: &ToolId::asked("files"),
        input_schema: &schema,
        effect: config.default_effect(),
        timeout: std::time::Duration::from_secs(10),
        base,
    };
    build(config, &declared)
}

fn tool(base: &Path, config: Value, arguments: &[&str]) -> Arc<dyn Adapter> {
    try_build(base, config, arguments).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn attempt(arguments: Value) -> Attempt {
    Attempt::new(ToolId::asked("files"), arguments.as_object().expect("an object").clone(), Effect::Read)
}

async fn payload(tool: &Arc<dyn Adapter>, arguments: Value) -> Result<Payload, Failure> {
    tool.call(&attempt(arguments)).await.map(|answer| answer.payload)
}

async fn call(tool: &Arc<dyn Adapter>, arguments: Value) -> Result<Value, Failure> {
    match payload(tool, arguments).await? {
        Payload::Json(value) => Ok(value),
        other => panic!("JSON was promised: {other:?}"),
    }
}

/// A folder `root` with these files in it.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let base = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(base.path().join("root")).expect("a root");
    for (path, content) in files {
        let path = base.path().join("root").join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, content).expect("a file");
    }
    base
}

fn text(base: &TempDir, path: &str) -> String {
    std::fs::read_to_string(base.path().join("root").join(path)).expect("a file")
}

/// Names in a folder of the root, temporary ones included.
fn names(base: &TempDir, path: &str) -> Vec<String> {
    let entries = std::fs::read_dir(base.path().join("root").join(path)).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

struct Folder;

impl Stage for Folder {
    fn scene(&self, fault: Fault) -> BoxFuture<'_, Result<Scene, &'static str>> {
        Box::pin(async move {
            let base = folder(&[("a.md", b"hello"), ("large.md", &[b'x'; 2_000]), ("broken.md", b"caf\xe9")]);
            let (config, path) = match fault {
                Fault::None => (json!({"root": "root", "operation": "read"}), "a.md"),
                Fault::Refused => (json!({"root": "missing", "operation": "read"}), "a.md"),
                Fault::Oversize => (json!({"root": "root", "operation": "read", "max_bytes": 1_999}), "large.md"),
                Fault::Malformed => (json!({"root": "root", "operation": "read", "encoding": "utf-8"}), "broken.md"),
                Fault::Stall | Fault::Cancelled => {
                    return Err(
                        "whatever could wait (a pipe, a socket, a lease) is refused or opened without waiting; \
                                attacks::nothing_that_waits_is_opened and change::a_dropped_write hold the two halves",
                    );
                }
                Fault::Reset | Fault::HalfAnswer => return Err("a folder is no connection: the kernel answers whole"),
                Fault::ExpiredCredential => return Err("a folder takes no credential"),
            };
            Ok(Scene {
                adapter: tool(base.path(), config, &["path"]),
                attempt: attempt(json!({"path": path})),
                gone: Box::pin(async {}),
                keep: Box::new(base),
            })
        })
    }
}

#[tokio::test]
async fn a_folder_keeps_the_promise_of_every_adapter() {
    crate::suite::run(&Folder).await;
}
