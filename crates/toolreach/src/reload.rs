//! Reloading: a changed file becomes a new configuration, a broken one leaves the old one in force.
//!
//! The *folder* of the file is watched, not the file: editors write a new file over the old one, and a
//! mounted ConfigMap swaps a symbolic link beside it; a watch on the file itself would go with the old one.
//! A burst of changes is waited out and read once. SIGHUP reads at once, changed or not. Nothing here
//! replaces anything: whoever watches is handed the new configuration or the report, and decides.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::config::{self, Config, Digest, Environment, Report};

/// How long a folder has to be quiet before the file is read.
const QUIET: Duration = Duration::from_millis(150);

/// How long a folder that never gets quiet (a log is written beside the file) is waited for at most.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks at the file when its folder cannot be watched, and as a net under a watch that misses
/// something (network file systems).
const LOOK: Duration = Duration::from_secs(10);

/// Watches `path` until the future is dropped, and calls `on_change` with the new configuration, or with the
/// report of a file that is broken, whenever its content is another one, and at every SIGHUP.
///
/// `loaded` is the digest of the content in force ([`Config::digest`]): a change between loading and watching is
/// noticed, too. Content is compared, so that touching the file or a change beside it calls nothing.
/// `on_change` runs on this task and should be quick. Reading and checking runs on a blocking thread.
///
/// # Errors
/// When the signal handler cannot be installed. A folder that cannot be watched is no error: the file is
/// then looked at every ten seconds.
pub async fn watch<E, F>(path: PathBuf, environment: E, loaded: Digest, on_change: F) -> std::io::Result<()>
where
    E: Environment + Send + 'static,
    F: Fn(Result<Config, Report>) + Send,
{
    let environment = Arc::new(environment);
    let stirred = Arc::new(Notify::new());
    let mut hangup = Hangup::install()?;
    let mut folders = Folders::default();
    let mut seen = Some(loaded);
    // The watch is set up first and the file looked at after it: nothing falls between the two.
    stirred.notify_one();
    loop {
        folders.follow(&path, &stirred);
        let asked = tokio::select! {
            () = hangup.recv() => true,
            () = stirred.notified() => {
                until_quiet(&stirred).await;
                false
            }
            () = sleep(LOOK) => false,
        };
        let now = tokio::fs::read(&path).await.ok().map(|content| config::digest(&content));
        if !asked && now == seen {
            continue;
        }
        seen = now;
        let (path, environment) = (path.clone(), Arc::clone(&environment));
        let read = tokio::task::spawn_blocking(move || config::load(&path, environment.as_ref())).await;
        match read {
            Ok(result) => {
                // What was checked may be newer than what was compared.
                if let Ok(config) = &result {
                    seen = Some(config.digest);
                }
                on_change(result);
            }
            Err(error) => tracing::error!(%error, "reading the configuration again was interrupted"),
        }
    }
}

/// Waits until nothing has stirred for [`QUIET`], at most [`PATIENCE`].
async fn until_quiet(stirred: &Notify) {
    let end = Instant::now() + PATIENCE;
    loop {
        tokio::select! {
            () = sleep_until(end) => return,
            quiet = timeout(QUIET, stirred.notified()) => {
                if quiet.is_err() {
                    return;
                }
            }
        }
    }
}

/// The folders in which a change can concern the file: its own, and that of what it links to.
#[derive(Default)]
struct Folders {
    watcher: Option<RecommendedWatcher>,
    watched: Vec<Folder>,
}

/// A folder by name and by what the system knows it as: one that was removed and made again is another one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Folder {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Folders {
    /// Watches the folders that matter now, and no others. Does nothing while they are the same.
    fn follow(&mut self, path: &Path, stirred: &Arc<Notify>) {
        let mut wanted = vec![Folder::of(path)];
        wanted.extend(std::fs::canonicalize(path).ok().map(|real| Folder::of(&real)));
        wanted.sort();
        wanted.dedup();
        if wanted == self.watched {
            return;
        }
        self.watched = wanted;
        self.watcher = watcher(stirred);
        let Some(watcher) = &mut self.watcher else { return };
        for folder in &self.watched {
            if let Err(error) = watcher.watch(&folder.path, RecursiveMode::NonRecursive) {
                tracing::warn!(%error, "a folder of the configuration cannot be watched; it is looked at every ten seconds");
            }
        }
        // What changed while the watches were exchanged is found by looking once more.
        stirred.notify_one();
    }
}

impl Folder {
    /// The folder of a file.
    fn of(file: &Path) -> Self {
        let path = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        #[cfg(unix)]
        let identity = {
            use std::os::unix::fs::MetadataExt as _;
            std::fs::metadata(&path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
        };
        #[cfg(not(unix))]
        let identity = None;
        Self { path, identity }
    }
}

/// A watcher that stirs us at everything but reading.
fn watcher(stirred: &Arc<Notify>) -> Option<RecommendedWatcher> {
    let stirred = Arc::clone(stirred);
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Our own reading is an event as well. An error may mean that events were lost.
        if !matches!(&event, Ok(event) if matches!(event.kind, EventKind::Access(_))) {
            stirred.notify_one();
        }
    });
    match watcher {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            tracing::warn!(%error, "changes cannot be watched; the configuration is looked at every ten seconds");
            None
        }
    }
}

/// SIGHUP where there is one.
struct Hangup {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Hangup {
    fn install() -> std::io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?,
        })
    }

    /// Completes at the next signal; never where there is none.
    async fn recv(&mut self) {
        #[cfg(unix)]
        if self.signal.recv().await.is_some() {
            return;
        }
        std::future::pending::<()>().await;
    }
}
