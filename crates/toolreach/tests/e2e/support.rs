//! What the end-to-end tests stand on: an engine from configuration text, the real binary with its streams
//! apart, and a gateway that was started and is stopped again. Waiting is polling with a deadline.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reach_core::{Caller, Envelope, Plan};
use reach_engine::Engine;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, sleep, timeout};
use toolreach::assemble::assemble;
use toolreach::config::{self, Config, Report};

/// What anything in these tests may take at most; a busy machine is slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Waits until `look` finds something, at most [`PATIENCE`].
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come about in time");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Reads a configuration text as if it lay in `folder`.
pub(crate) fn configure(folder: &Path, text: &str) -> Result<Config, Report> {
    config::parse("reach.yaml", text, folder, &BTreeMap::<String, String>::new())
}

/// An engine as the binary puts it together, over stores in a folder of its own.
pub(crate) struct House {
    pub(crate) engine: Engine,
    pub(crate) folder: TempDir,
}

impl House {
    pub(crate) async fn open(text: &str) -> Self {
        Self::open_in(tempfile::tempdir().unwrap(), text).await
    }

    pub(crate) async fn open_in(folder: TempDir, text: &str) -> Self {
        // What the binary does first.
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let config = configure(folder.path(), text).unwrap_or_else(|report| panic!("{}", report.render(false)));
        let engine = assemble(&config).await.unwrap().engine;
        Self { engine, folder }
    }

    /// A plan of the local caller.
    pub(crate) fn plan(tool: &str, arguments: &Value) -> Plan {
        let arguments = arguments.as_object().expect("arguments are an object").clone();
        Plan::new(tool, arguments, Caller::local())
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Envelope {
        self.walk(Self::plan(tool, &arguments)).await
    }

    pub(crate) async fn walk(&self, plan: Plan) -> Envelope {
        let envelope = timeout(PATIENCE, self.engine.call(plan)).await.expect("every call is answered");
        assert_shape(&serde_json::to_value(&envelope).unwrap());
        envelope
    }

    /// Files in the folder of blobs.
    pub(crate) fn blobs(&self) -> usize {
        files(&self.folder.path().join(".reach/blobs")).len()
    }
}

/// Every file below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

/// Every key of the envelope is there, and its two halves agree.
pub(crate) fn assert_shape(envelope: &Value) {
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(envelope), ["status", "tool", "data", "error", "meta"], "{envelope}");
    assert_eq!(
        keys(&envelope["meta"]),
        [
            "step",
            "trace_id",
            "session_id",
            "request_id",
            "attempts",
            "duration_ms",
            "phase",
            "served_by",
            "replayed",
            "truncated",
            "tokens"
        ],
        "{envelope}"
    );
    match envelope["status"].as_str() {
        Some("ok") => assert!(envelope["data"].is_object() && envelope["error"].is_null(), "{envelope}"),
        Some("error") => {
            assert!(envelope["data"].is_null(), "{envelope}");
            let error = &envelope["error"];
            assert_eq!(
                keys(error),
                ["code", "message", "retryable", "hint", "retry_after_ms", "details"],
                "{envelope}"
            );
            assert!(!error["message"].as_str().unwrap().trim().is_empty(), "{envelope}");
        }
        _ => panic!("{envelope}"),
    }
}

/// How a run of the binary ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Standard output, which has to be one JSON document and nothing else.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The same, when the exit code is this one.
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// The binary, in a folder, with an environment that nobody's shell changes.
pub(crate) fn reach(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reach"));
    command.current_dir(folder).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", folder);
    command.env("TMPDIR", std::env::temp_dir()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    command
}

/// Runs the binary to its end.
pub(crate) async fn run(folder: &Path, arguments: &[&str]) -> Ran {
    finish(reach(folder).args(arguments)).await
}

pub(crate) async fn finish(command: &mut Command) -> Ran {
    let output = timeout(PATIENCE, command.output()).await.expect("the command ends").unwrap();
    Ran {
        code: output.status.code().expect("it was not killed"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A running process whose lines can be looked at while they come.
pub(crate) struct Running {
    child: Child,
    out: Arc<Mutex<String>>,
    err: Arc<Mutex<String>>,
}

fn gather(mut from: impl tokio::io::AsyncRead + Unpin + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let shared = Arc::clone(&text);
    tokio::spawn(async move {
        let mut piece = [0; 8192];
        while let Ok(read @ 1..) = from.read(&mut piece).await {
            shared.lock().push_str(&String::from_utf8_lossy(&piece[..read]));
        }
    });
    text
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { out: gather(out), err: gather(err), child }
    }

    /// Its input, where that is a pipe; once.
    pub(crate) fn input(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("its input is a pipe")
    }

    pub(crate) fn out(&self) -> String {
        self.out.lock().clone()
    }

    pub(crate) fn err(&self) -> String {
        self.err.lock().clone()
    }

    /// Waits until standard error says this.
    pub(crate) async fn says(&self, words: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.err().contains(words) {
            assert!(Instant::now() < end, "`{words}` was not said:\n{}", self.err());
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = self.child.id().expect("it runs");
        let id = rustix::process::Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Waits for the end; the exit code.
    pub(crate) async fn end(&mut self) -> i32 {
        let status = timeout(PATIENCE, self.child.wait()).await.expect("the process ends").unwrap();
        status.code().unwrap_or(-1)
    }
}

/// What stands before the address in the line that says ready.
const ADDRESS: &str = "\"message\":\"ready\",\"address\":\"";

/// `reach serve` on a free port.
pub(crate) struct Gateway {
    pub(crate) process: Running,
    pub(crate) address: String,
    pub(crate) http: reqwest::Client,
}

impl Gateway {
    pub(crate) async fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = reach(folder);
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
        Self::start_with(&mut command).await
    }

    pub(crate) async fn start_with(command: &mut Command) -> Self {
        let process = Running::start(command);
        // What goes to a pipe is the log alone, one JSON object a line.
        process.says(ADDRESS).await;
        let words = process.err();
        let address = words.split(ADDRESS).nth(1).unwrap().split('"').next().unwrap().to_owned();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { process, address, http }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// One call over the HTTP API.
    pub(crate) fn request(&self, tool: &str, arguments: &Value) -> reqwest::RequestBuilder {
        self.http.post(self.url(&format!("/v1/tools/{tool}/calls"))).json(&json!({ "arguments": arguments }))
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let said = self.request(tool, &arguments).send().await.unwrap();
        let envelope = said.json().await.unwrap();
        assert_shape(&envelope);
        envelope
    }

    /// The ids of the tools it lists.
    pub(crate) async fn tools(&self) -> Vec<String> {
        let listed: Value = self.http.get(self.url("/v1/tools")).send().await.unwrap().json().await.unwrap();
        let tools = listed["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["tool_id"].as_str().unwrap().to_owned()).collect()
    }

    /// SIGTERM, and the exit code.
    pub(crate) async fn stop(&mut self) -> i32 {
        self.process.signal(rustix::process::Signal::TERM);
        self.process.end().await
    }
}

/// `reach mcp`: one line of JSON each way.
pub(crate) struct Mcp {
    child: Child,
    input: ChildStdin,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    next_id: u64,
}

impl Mcp {
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = reach(folder);
        let mut child = command.arg("mcp").args(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let (input, lines) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
        Self { child, input, lines, next_id: 1 }
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Asks, and reads lines until the answer comes; every line has to be a message.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        loop {
            let line = timeout(PATIENCE, self.lines.next_line()).await.expect("an answer comes").unwrap();
            let message: Value = serde_json::from_str(&line.expect("the stream is open")).expect("only messages");
            assert_eq!(message["jsonrpc"], "2.0");
            if message["id"] == id {
                return message;
            }
        }
    }

    pub(crate) async fn shake_hands(&mut self, version: &str) -> Value {
        let hello = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
        });
        let said = self.ask("initialize", hello).await;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        said
    }

    /// Closes its input, and waits for the exit code.
    pub(crate) async fn end(mut self) -> i32 {
        drop(self.input);
        let status = timeout(PATIENCE, self.child.wait()).await.expect("it ends with its input").unwrap();
        status.code().unwrap_or(-1)
    }
}
