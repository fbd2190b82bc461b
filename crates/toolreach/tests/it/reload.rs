//! Reloading with real files: what counts as a change, and what a broken file does.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use toolreach::config;
use toolreach::reload;

/// What a change led to: the ids of the tools, or the first problem.
type Seen = Result<Vec<String>, String>;

struct Watched {
    path: PathBuf,
    seen: UnboundedReceiver<Seen>,
    task: JoinHandle<()>,
}

fn text(ids: &[&str]) -> String {
    let tools =
        ids.iter().map(|id| format!("  - {{tool_id: {id}, description: x, http: {{url: \"https://h.internal/\"}}}}\n"));
    format!("version: 1\ntools:\n{}", tools.collect::<String>())
}

impl Watched {
    fn start(path: &Path) -> Self {
        let environment = BTreeMap::<String, String>::new();
        let loaded = config::load(path, &environment).unwrap().digest;
        let (sender, seen) = unbounded_channel();
        let watched = path.to_owned();
        let task = tokio::spawn(async move {
            let on_change = move |result: Result<config::Config, config::Report>| {
                let seen = result
                    .map(|config| config.tools.iter().map(|tool| tool.spec.tool_id.to_string()).collect())
                    .map_err(|report| report.problems[0].message.clone());
                let _ = sender.send(seen);
            };
            reload::watch(watched, environment, loaded, on_change).await.unwrap();
        });
        Self { path: path.to_owned(), seen, task }
    }

    async fn next(&mut self) -> Seen {
        timeout(Duration::from_secs(30), self.seen.recv()).await.expect("a change is noticed").expect("the watch runs")
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn ids(ids: &[&str]) -> Seen {
    Ok(ids.iter().map(|id| (*id).to_owned()).collect())
}

fn folder_with(content: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reach.yaml");
    fs::write(&path, content).unwrap();
    (folder, path)
}

#[tokio::test]
async fn a_file_written_in_place_or_renamed_over_is_read_again_and_a_broken_one_is_reported() {
    let (folder, path) = folder_with(&text(&["one"]));
    let mut watched = Watched::start(&path);
    fs::write(&path, text(&["one", "two"])).unwrap();
    assert_eq!(watched.next().await, ids(&["one", "two"]));

    let beside = folder.path().join(".reach.yaml.swp");
    fs::write(&beside, text(&["three"])).unwrap();
    fs::rename(&beside, &path).unwrap();
    assert_eq!(watched.next().await, ids(&["three"]));

    fs::write(&path, "version: 1\ntool: []\n").unwrap();
    assert_eq!(watched.next().await, Err("unknown key `tool` in the file".to_owned()));
    fs::write(&path, text(&["four"])).unwrap();
    assert_eq!(watched.next().await, ids(&["four"]));
}

#[tokio::test]
async fn a_change_before_the_watch_began_is_noticed() {
    let (_folder, path) = folder_with(&text(&["one"]));
    let mut watched = Watched::start(&path); // It runs at the next await; the file changes first.
    fs::write(&path, text(&["two"])).unwrap();
    assert_eq!(watched.next().await, ids(&["two"]));
}

#[tokio::test]
async fn the_same_content_and_files_beside_it_change_nothing() {
    let (folder, path) = folder_with(&text(&["one"]));
    let mut watched = Watched::start(&path);
    fs::write(&path, text(&["two"])).unwrap();
    assert_eq!(watched.next().await, ids(&["two"]), "the watch runs");
    fs::write(&path, text(&["two"])).unwrap();
    fs::write(folder.path().join("notes.txt"), "x").unwrap();
    let told = timeout(Duration::from_millis(600), watched.seen.recv()).await;
    assert!(told.is_err(), "{told:?}");
}

#[tokio::test]
async fn a_burst_of_changes_is_read_once_when_it_is_over() {
    let (_folder, path) = folder_with(&text(&["one"]));
    let mut watched = Watched::start(&path);
    for _ in 0..20 {
        fs::write(&path, "version: 1\ntools: [").unwrap();
        fs::write(&path, text(&["two"])).unwrap();
    }
    assert_eq!(watched.next().await, ids(&["two"]));
    assert!(watched.seen.try_recv().is_err());
}

#[tokio::test]
async fn a_file_that_vanishes_is_reported_and_its_return_is_read() {
    let (_folder, path) = folder_with(&text(&["one"]));
    let mut watched = Watched::start(&path);
    fs::remove_file(&path).unwrap();
    assert_eq!(watched.next().await, Err("the file cannot be read: no such file or directory".to_owned()));
    fs::write(&watched.path, text(&["one"])).unwrap();
    assert_eq!(watched.next().await, ids(&["one"]));
}

/// A mounted ConfigMap: `reach.yaml -> ..data/reach.yaml`, `..data -> ..1`, swapped by a rename.
#[cfg(unix)]
#[tokio::test]
async fn a_config_map_that_swaps_its_link_is_read_again() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let version = |number: u32, content: &str| {
        let name = format!("..{number}");
        fs::create_dir(folder.path().join(&name)).unwrap();
        fs::write(folder.path().join(&name).join("reach.yaml"), content).unwrap();
        symlink(&name, folder.path().join("..data_tmp")).unwrap();
        fs::rename(folder.path().join("..data_tmp"), folder.path().join("..data")).unwrap();
    };
    version(1, &text(&["one"]));
    let path = folder.path().join("reach.yaml");
    symlink("..data/reach.yaml", &path).unwrap();
    let mut watched = Watched::start(&path);
    version(2, &text(&["two"]));
    assert_eq!(watched.next().await, ids(&["two"]));
    fs::remove_dir_all(folder.path().join("..1")).unwrap();
    version(3, &text(&["three"]));
    assert_eq!(watched.next().await, ids(&["three"]));
}

/// The link leads into another folder, and the file is written there.
#[cfg(unix)]
#[tokio::test]
async fn a_change_behind_a_link_is_noticed() {
    let (real, target) = folder_with(&text(&["one"]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reach.yaml");
    std::os::unix::fs::symlink(&target, &path).unwrap();
    let mut watched = Watched::start(&path);
    fs::write(real.path().join("reach.yaml"), text(&["two"])).unwrap();
    assert_eq!(watched.next().await, ids(&["two"]));
}

#[cfg(unix)]
#[tokio::test]
async fn sighup_reads_the_file_again_even_if_nothing_changed() {
    let (_folder, path) = folder_with(&text(&["one"]));
    // A handler of our own first: until the watch has installed its one, the signal would end the process.
    let _guard = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).unwrap();
    let mut watched = Watched::start(&path);
    fs::write(&path, text(&["two"])).unwrap();
    assert_eq!(watched.next().await, ids(&["two"]), "the watch runs");
    let me = std::process::id().to_string();
    let sent = tokio::process::Command::new("kill").args(["-HUP", &me]).status().await.unwrap();
    assert!(sent.success());
    assert_eq!(watched.next().await, ids(&["two"]));
}

#[tokio::test]
async fn a_watch_that_is_dropped_lets_go_of_everything() {
    let (_folder, path) = folder_with(&text(&["one"]));
    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    let loaded = config::load(&path, &BTreeMap::new()).unwrap().digest;
    let watch = reload::watch(path, BTreeMap::<String, String>::new(), loaded, move |_| drop(Arc::clone(&held)));
    assert!(timeout(Duration::from_millis(50), watch).await.is_err());
    assert_eq!(Arc::strong_count(&alive), 1);
}
