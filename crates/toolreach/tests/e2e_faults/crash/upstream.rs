//! The ledger upstream as a process: this test binary, started again.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use reach_kit::ledger_upstream::{self, Conduct, Effect, Seen, Then};
use serde_json::json;

use super::process::{client, until};

/// Tells the child that it is one, and where its file is.
const FILE: &str = "REACH_TEST_LEDGER_UPSTREAM";

/// The test below, by its name for the test harness.
const TEST: &str = "crash::upstream::an_effect_is_on_disk_before_it_is_answered_and_a_key_has_one";

/// A running ledger upstream; it ends when dropped, and with the test that started it.
pub(super) struct Upstream {
    child: Child,
    origin: String,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Upstream {
    #[expect(clippy::disallowed_methods, reason = "it has to outlive the gateway: a process of its own")]
    pub(super) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("effects.jsonl");
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(FILE, &file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let origin = lines
            .map_while(Result::ok)
            .find_map(|line| line.split_once("upstream at ").map(|(_, origin)| origin.to_owned()))
            .expect("the upstream says where it listens");
        Self { child, origin, file, _folder: folder }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    pub(super) async fn conduct(&self, conduct: Conduct) {
        let answer = client().post(self.url("/control")).json(&conduct).send().await.unwrap();
        assert!(answer.status().is_success());
    }

    pub(super) async fn seen(&self) -> Seen {
        client().get(self.url("/seen")).send().await.unwrap().json().await.unwrap()
    }

    /// Waits until it has read this many requests for effects, since it began.
    pub(super) async fn received(&self, count: u64) {
        until("the request arrives upstream", async || self.seen().await.received >= count).await;
    }

    /// Waits until this many effects are on its disk.
    pub(super) async fn recorded(&self, count: u64) {
        until("the effect is on the upstream's disk", async || self.seen().await.recorded >= count).await;
    }

    /// What is on its disk.
    pub(super) fn effects(&self) -> Vec<Effect> {
        ledger_upstream::effects(&self.file).unwrap()
    }

    /// The effects of one entry.
    pub(super) fn effects_of(&self, entry: &str) -> usize {
        self.effects().iter().filter(|effect| effect.body["entry"] == entry).count()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the child: serves until the parent is gone, however it went.
async fn serve_until_the_parent_is_gone(file: PathBuf) {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "upstream at http://{}", listener.local_addr().unwrap()).unwrap();
    out.flush().unwrap();
    ledger_upstream::serve(listener, &file).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_is_on_disk_before_it_is_answered_and_a_key_has_one() {
    if let Some(file) = std::env::var_os(FILE) {
        return serve_until_the_parent_is_gone(PathBuf::from(file)).await;
    }
    let mut upstream = Upstream::start();
    let send = async |path: &str, key: &str| {
        let request = client().post(upstream.url(path)).header("Idempotency-Key", key);
        request.json(&json!({ "entry": key })).timeout(Duration::from_secs(5)).send().await
    };
    for (path, key, effects) in [("/keyed", "a", 1), ("/keyed", "a", 1), ("/write", "b", 1), ("/write", "b", 2)] {
        assert!(send(path, key).await.unwrap().status().is_success());
        assert_eq!(upstream.effects_of(key), effects, "{path}");
    }
    assert_eq!(upstream.seen().await, Seen { received: 4, recorded: 3, repeated: 1 });
    let once = |then| Conduct { then, times: Some(1), ..Conduct::default() };
    upstream.conduct(once(Then::ResetBefore)).await;
    assert!(send("/write", "c").await.is_err());
    upstream.conduct(once(Then::ResetAfter)).await;
    assert!(send("/write", "d").await.is_err());
    upstream.conduct(once(Then::FailAfter)).await;
    assert_eq!(send("/write", "e").await.unwrap().status(), 500);
    assert!(send("/write", "f").await.unwrap().status().is_success(), "it behaves again");
    upstream.child.kill().unwrap();
    let of = |key| upstream.effects_of(key);
    assert_eq!((of("c"), of("d"), of("e"), of("f")), (0, 1, 1, 1));
}
