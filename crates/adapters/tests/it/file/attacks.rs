//! Paths that try to leave the root, from `suites/path-attacks.json`, and a thread that swaps folders for
//! links while files are read and written. Outside lies a canary: it must never be read, listed or changed.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reach_core::{Adapter, Answer, Failure, FailureKind, Payload, Phase};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{attempt, folder, tool};

const CANARY: &str = "CANARY-6b1f0c";
const ONLY_OUTSIDE: &str = "only-outside-6b1f0c";

#[derive(Deserialize)]
struct Attack {
    path: String,
    note: String,
    /// Not tried with writes: should the wall be broken, the machine of the tester is not the price.
    #[serde(default)]
    reads_only: bool,
}

fn attacks() -> Vec<Attack> {
    let attacks: Vec<Attack> =
        serde_json::from_str(include_str!("../../../../../suites/path-attacks.json")).expect("the suite parses");
    assert!(attacks.len() >= 150, "{}", attacks.len());
    attacks
}

/// A root full of links that lead out, beside a folder with the canary.
fn trap() -> TempDir {
    let base = folder(&[("a.md", b"inside"), ("notes/b.md", b"inside"), ("notes/deep/c.md", b"inside")]);
    let (root, outside) = (base.path().join("root"), base.path().join("outside"));
    std::fs::create_dir_all(outside.join("deep")).unwrap();
    for name in ["canary.txt", "deep/canary.txt", ONLY_OUTSIDE] {
        std::fs::write(outside.join(name), CANARY).unwrap();
    }
    let absolute = |name: &str| outside.join(name).to_string_lossy().into_owned();
    for (link, to) in [
        ("out", "../outside".to_owned()),
        ("absolute", absolute("")),
        ("chain", "chain2".to_owned()),
        ("chain2", "out".to_owned()),
        ("chain-file", "chain2/canary.txt".to_owned()),
        ("file-link", "../outside/canary.txt".to_owned()),
        ("absolute-file", absolute("canary.txt")),
        ("deep-link", "../outside/deep".to_owned()),
        ("dangling", "../outside/planted.txt".to_owned()),
        ("to-parent", "..".to_owned()),
        ("to-root", "/".to_owned()),
        ("loop", "loop".to_owned()),
        ("in-and-out", "notes/../../outside".to_owned()),
        ("notes/up", "../..".to_owned()),
        ("notes/deep/far", "../../..".to_owned()),
        ("proc", "/proc".to_owned()),
        ("dev", "/dev".to_owned()),
        ("magic-root", "/proc/self/root".to_owned()),
        ("magic-cwd", "/proc/self/cwd".to_owned()),
        ("magic-fd", "/proc/self/fd".to_owned()),
        ("magic-exe", "/proc/self/exe".to_owned()),
        ("zero", "/dev/zero".to_owned()),
        ("null", "/dev/null".to_owned()),
        ("tty", "/dev/tty".to_owned()),
    ] {
        symlink(to, root.join(link)).unwrap();
    }
    base
}

/// Every file outside, with its content.
fn outside(base: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(folder: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                into.insert(path.clone(), Vec::new());
                walk(&path, into);
            } else {
                into.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(base).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name() != Some("root".as_ref()) {
            found.insert(path.clone(), Vec::new());
            walk(&path, &mut found);
        }
    }
    found
}

fn tools(base: &Path) -> BTreeMap<&'static str, Arc<dyn Adapter>> {
    ["read", "list", "search", "write", "append"]
        .into_iter()
        .map(|operation| {
            let config = match operation {
                "write" | "append" => json!({"root": "root", "operation": operation, "create_directories": true}),
                "list" => json!({"root": "root", "operation": operation, "recursive": true}),
                _ => json!({"root": "root", "operation": operation}),
            };
            (operation, tool(base, config, &["path", "content", "query"]))
        })
        .collect()
}

/// Whether an answer shows anything of the outside.
fn leaks(outcome: &Result<Answer, Failure>) -> bool {
    let text = match outcome {
        Ok(Answer { payload: Payload::Binary { bytes, .. }, .. }) => String::from_utf8_lossy(bytes).into_owned(),
        Ok(answer) => format!("{answer:?}"),
        Err(failure) => failure.message.clone(),
    };
    [CANARY, ONLY_OUTSIDE, "root:x:", "PATH="].iter().any(|secret| text.contains(secret))
}

#[tokio::test]
async fn no_spelling_of_a_path_leaves_the_root() {
    let (mut tried, mut breaches, mut refused) = (0, Vec::new(), 0);
    let mut base = trap();
    for attack in attacks() {
        let before = outside(base.path());
        let mut has_changed = false;
        let path = attack
            .path
            .replace("{OUTSIDE}", base.path().join("outside").to_str().unwrap())
            .replace("{ROOT}", base.path().join("root").to_str().unwrap())
            .replace("{LONG}", &"n".repeat(5_000))
            .replace("{DEEP}", &"notes/../".repeat(400));
        for (operation, tool) in tools(base.path()) {
            if attack.reads_only && matches!(operation, "write" | "append") {
                continue;
            }
            let attempt = attempt(json!({"path": path, "content": "planted", "query": "canary inside 6b1f0c"}));
            let outcome = tokio::time::timeout(Duration::from_secs(20), tool.call(&attempt)).await;
            tried += 1;
            let Ok(outcome) = outcome else {
                breaches.push(format!("{operation} {:?} ({}) hangs", attack.path, attack.note));
                continue;
            };
            has_changed |= outcome.is_ok() && matches!(operation, "write" | "append");
            if leaks(&outcome) || outside(base.path()) != before {
                breaches.push(format!("{operation} {:?} ({}): {outcome:?}", attack.path, attack.note));
            }
            if let Err(failure) = &outcome {
                refused += 1;
                assert_eq!(failure.kind == FailureKind::Refused, failure.phase == Phase::Rejected, "{failure:?}");
                // The attacker's own words may come back; the machine's must not.
                let machine = base.path().to_str().unwrap();
                assert!(path.contains(machine) || !failure.message.contains(machine), "{failure:?}");
            }
        }
        // What one attack planted inside must not stand in the way of the next.
        if has_changed {
            base = trap();
        }
    }
    assert!(breaches.is_empty(), "{} of {tried}:\n{}", breaches.len(), breaches.join("\n"));
    assert!(refused > tried / 2, "{refused} of {tried}: the links and spellings did not bite");
    println!("{tried} attempts, {refused} refused or failed, 0 breaches");
}

#[tokio::test]
async fn links_that_stay_inside_are_followed_by_reads() {
    let base = folder(&[("notes/a.md", b"inside")]);
    symlink("notes", base.path().join("root/inner")).unwrap();
    symlink("../notes/a.md", base.path().join("root/notes/again")).unwrap();
    let read = tool(base.path(), json!({"root": "root", "operation": "read"}), &["path"]);
    for path in ["inner/a.md", "notes/again", "inner/again"] {
        assert_eq!(super::call(&read, json!({"path": path})).await.unwrap()["text"], "inside", "{path}");
    }
    symlink(base.path().join("root/notes/a.md"), base.path().join("root/absolute")).unwrap();
    let failure = super::call(&read, json!({"path": "absolute"})).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Refused, "an absolute link starts outside, wherever it ends");
    assert!(failure.message.contains("leads out"), "{}", failure.message);
}

#[tokio::test]
async fn nothing_that_waits_is_opened() {
    let base = folder(&[]);
    let root = base.path().join("root");
    let made = tokio::process::Command::new("mkfifo").arg(root.join("pipe")).status().await.unwrap();
    assert!(made.success());
    let _listener = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    for (operation, tool) in tools(base.path()) {
        for path in ["pipe", "socket"] {
            let call = attempt(json!({"path": path, "content": "x", "query": "x"}));
            let outcome = tokio::time::timeout(Duration::from_secs(20), tool.call(&call)).await.expect("never waits");
            let failure = outcome.unwrap_err();
            assert!(
                matches!(failure.kind, FailureKind::Rejected | FailureKind::NotFound),
                "{operation} {path}: {failure:?}"
            );
        }
    }
    // A listing shows them, a search passes over them.
    let list = super::call(&tools(base.path())["list"], json!({})).await.unwrap();
    let types: Vec<&Value> = list["entries"].as_array().unwrap().iter().map(|entry| &entry["type"]).collect();
    assert_eq!(types, ["pipe", "socket"]);
    assert_eq!(super::call(&tools(base.path())["search"], json!({"query": "x"})).await.unwrap()["files"], 0);
}

#[tokio::test]
async fn devices_are_refused_even_where_the_root_holds_them() {
    let read = tool(Path::new("/"), json!({"root": "dev", "operation": "read"}), &["path"]);
    for path in ["zero", "null", "random"] {
        let failure = super::call(&read, json!({"path": path})).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Rejected);
        assert!(failure.message.contains("is a device"), "{}", failure.message);
    }
    let append = tool(Path::new("/"), json!({"root": "dev", "operation": "append"}), &["path", "content"]);
    let failure = super::call(&append, json!({"path": "null", "content": "x"})).await.unwrap_err();
    assert!(failure.message.contains("is a device"), "{}", failure.message);
}

/// Swaps the folder `swap` for a link to the outside and back, as fast as the system lets it.
fn racer(base: &Path, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    let root = base.join("root");
    let (swap, hold, link) = (root.join("swap"), root.join("hold"), root.join("link"));
    std::thread::spawn(move || {
        let (mut swaps, mut junk) = (0, 0);
        // A write that makes missing folders may make `swap` while it is away: that one is put aside.
        let mut place = |from: &Path, to: &Path| {
            while std::fs::rename(from, to).is_err() {
                std::fs::rename(to, root.join(format!("aside-{junk}"))).unwrap();
                junk += 1;
            }
        };
        while !stop.load(Ordering::Relaxed) {
            place(&swap, &hold);
            place(&link, &swap);
            place(&swap, &link);
            place(&hold, &swap);
            swaps += 1;
        }
        swaps
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_swapped_for_a_link_at_any_moment_leads_nowhere() {
    let base = folder(&[("swap/canary.txt", b"inside"), ("swap/deep/x.md", b"inside")]);
    let outer = base.path().join("outside");
    std::fs::create_dir_all(outer.join("deep")).unwrap();
    for name in ["canary.txt", "deep/x.md", ONLY_OUTSIDE] {
        std::fs::write(outer.join(name), CANARY).unwrap();
    }
    symlink("../outside", base.path().join("root/link")).unwrap();
    let before = outside(base.path());
    let stop = Arc::new(AtomicBool::new(false));
    let racer = racer(base.path(), Arc::clone(&stop));
    let tools = tools(base.path());
    let (mut inside, mut kept_out, mut leaked) = (0, 0, Vec::new());
    for round in 0..1_500 {
        let mut calls = vec![
            ("read", json!({"path": "swap/canary.txt"})),
            ("read", json!({"path": "swap/deep/x.md"})),
            ("list", json!({"path": "swap"})),
            ("append", json!({"path": "swap/canary.txt", "content": "."})),
        ];
        if round % 3 == 0 {
            calls.push(("write", json!({"path": "swap/deep/new.md", "content": "planted"})));
            calls.push(("write", json!({"path": "swap/made/new.md", "content": "planted"})));
            calls.push(("search", json!({"path": "swap", "query": "inside canary 6b1f0c"})));
        }
        for (operation, arguments) in calls {
            let outcome = tools[operation].call(&attempt(arguments)).await;
            if leaks(&outcome) {
                leaked.push(format!("{operation} in round {round}: {outcome:?}"));
            }
            match outcome {
                Ok(_) => inside += 1,
                Err(_) => kept_out += 1,
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    let swaps = racer.join().unwrap();
    assert!(leaked.is_empty(), "{leaked:?}");
    assert_eq!(outside(base.path()), before, "nothing outside was changed");
    assert!(inside > 100 && kept_out > 100 && swaps > 1_000, "no race: {inside} inside, {kept_out} out, {swaps} swaps");
    println!("{inside} inside, {kept_out} kept out, {swaps} swaps, 0 breaches");
}
