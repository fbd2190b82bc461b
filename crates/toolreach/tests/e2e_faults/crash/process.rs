//! The real binary in front of a ledger upstream, and a client of it.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use reach_core::{Envelope, ErrorCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::books::Books;
use super::upstream::Upstream;

/// How long anything may take before the test has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again and again until it is so.
pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// One client for all requests. It keeps no connection: the other side dies often here.
pub(super) fn client() -> &'static reqwest::Client {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    CLIENT.get_or_init(|| {
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).timeout(PATIENCE).build().unwrap()
    })
}

/// A folder with a `reach.yaml` and the ledger that outlives every process.
pub(super) struct House {
    folder: tempfile::TempDir,
}

impl House {
    /// `write_it` and `key_it` in front of this upstream.
    pub(super) fn before(upstream: &Upstream) -> Self {
        Self::with_drain_patience(upstream, Duration::from_secs(20))
    }

    /// The same, with so much time for calls under way when it is told to stop.
    pub(super) fn with_drain_patience(upstream: &Upstream, patience: Duration) -> Self {
        let tool = |tool_id: &str, effect: &str, path: &str| {
            json!({
                "tool_id": tool_id,
                "description": "Adds an entry.",
                "effect": effect,
                "input_schema": {"type": "object", "properties": {"entry": {"type": "string"}}, "required": ["entry"]},
                "timeout_ms": 20_000,
                // The upstream misbehaves on purpose; a breaker would only hide it.
                "breaker": {"failures": 1_000, "window_calls": 100_000},
                "http": {"method": "POST", "url": upstream.url(path)},
            })
        };
        let config = json!({
            "version": 1,
            "server": {"drain_patience_ms": patience.as_millis() as u64},
            "tools": [tool("write_it", "write", "/write"), tool("key_it", "keyed", "/keyed")],
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("reach.yaml"), config.to_string()).unwrap();
        Self { folder }
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("reach.yaml")
    }

    pub(super) fn books(&self) -> Books {
        Books::open(&self.folder.path().join(".reach/ledger.db"))
    }

    #[expect(clippy::disallowed_methods, reason = "the binary under test")]
    fn reach(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reach"));
        command.arg("--config").arg(self.config()).env_remove("REACH_LISTEN").env_remove("REACH_LOG");
        command
    }

    /// Starts the gateway and returns when it says that it listens.
    pub(super) fn serve(&self) -> Gateway {
        self.serve_until(None)
    }

    /// The same; it ends itself at this point of the road.
    pub(super) fn serve_until(&self, point: Option<&str>) -> Gateway {
        let mut command = self.reach();
        command.args(["serve", "--listen", "127.0.0.1:0", "--log", "json"]);
        command.envs(point.map(|point| ("REACH_CRASH_AT", point)));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let (told, address) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn({
            let log = Arc::clone(&log);
            move || {
                for line in lines.map_while(Result::ok) {
                    if let Some((_, rest)) = line.split_once("\"message\":\"ready\",\"address\":\"") {
                        let _ = told.send(rest.split('"').next().unwrap_or_default().to_owned());
                    }
                    log.lock().unwrap().push(line);
                }
            }
        });
        let address = first(&address, &log);
        Gateway { child, address, log }
    }

    /// What `reach settle --json` lists: the request ids whose outcome is unknown.
    pub(super) fn unsettled(&self) -> Vec<String> {
        let output = self.reach().args(["settle", "--json"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let ids = listed["unsettled"].as_array().unwrap().iter();
        let mut ids: Vec<String> = ids.map(|record| record["request_id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    }
}

fn first(address: &Receiver<String>, log: &Mutex<Vec<String>>) -> String {
    address.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("the gateway does not listen: {:#?}", log.lock().unwrap()))
}

/// A running gateway; killed when dropped.
pub(super) struct Gateway {
    child: Child,
    pub(super) address: String,
    log: Arc<Mutex<Vec<String>>>,
}

impl Gateway {
    /// SIGKILL.
    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, without waiting.
    pub(super) fn terminate(&self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
    }

    /// Waits until it has ended.
    pub(super) async fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("the gateway ends", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }

    /// SIGTERM, and a good end.
    pub(super) async fn stop(mut self) {
        self.terminate();
        let status = self.ended().await;
        assert!(status.success(), "{status}: {:#?}", self.log.lock().unwrap());
    }

    pub(super) async fn call(&self, tool: &str, key: &str) -> reqwest::Result<Envelope> {
        call(&self.address, tool, key).await
    }

    pub(super) async fn is_ready(&self) -> bool {
        let answer = client().get(format!("http://{}/readyz", self.address)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One call; the key is its entry, too. An error is an answer that never came.
pub(super) async fn call(address: &str, tool: &str, key: &str) -> reqwest::Result<Envelope> {
    let request = client()
        .post(format!("http://{address}/v1/tools/{tool}/calls"))
        .header("Idempotency-Key", key)
        .json(&json!({"arguments": {"entry": key}}));
    request.send().await?.json().await
}

/// What a client makes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It is done.
    Ok,
    /// Nobody knows whether it is.
    Unknown,
    /// It is not, and asking again is no use.
    Refused(ErrorCode),
    /// Ask again with the same key.
    Again,
}

impl Heard {
    pub(super) fn of(envelope: &Envelope) -> Self {
        match &envelope.error {
            None => Self::Ok,
            Some(error) if error.code == ErrorCode::OutcomeUnknown => Self::Unknown,
            Some(error) if error.retryable => Self::Again,
            Some(error) => Self::Refused(error.code),
        }
    }
}
