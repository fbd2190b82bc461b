//! The `file` adapter: one folder, and one thing that may be done in it.
//!
//! Every path is resolved by the kernel beneath the declared root (`openat2` with `RESOLVE_BENEATH` and
//! `RESOLVE_NO_MAGICLINKS`, through cap-std): a symbolic link may be followed as long as it stays inside, and
//! nothing (a link, `..`, a folder swapped at the wrong moment) leads out. Only regular files are opened,
//! and never in a way that could wait for another program. A hard link or a mount inside the root is part
//! of it: whoever can make one already has the file.
//!
//! Read `config` (what may be declared), `path` (which spellings are taken), `root` (the kernel's part),
//! then one file for each operation. Blocking work runs on threads of its own and stops when its caller goes.

mod config;
mod decode;
mod failure;
mod glob;
mod list;
mod path;
mod read;
mod root;
mod search;
mod work;
mod write;

use std::sync::Arc;
use std::time::Duration;

use reach_core::{Adapter, Answer, Attempt, BoxFuture, Failure, FailureKind, Object, Phase, Problem, SentMark};
use serde_json::Value;

pub use config::{Config, Operation};

use self::config::{Action, Checked};
use self::failure::Error;
use self::path::RelativePath;
use self::root::Root;
use self::work::Leave;
use crate::shared::Declared;

/// Builds the adapter of one declared tool, or says everything that is wrong with the declaration. The
/// root need not exist yet: it is opened anew for each call, so that a folder that is replaced is seen.
pub fn build(config: Config, declared: &Declared<'_>) -> Result<Arc<dyn Adapter>, Vec<Problem>> {
    config::check(config, declared).map(|checked| Arc::new(FileAdapter { checked: Arc::new(checked) }) as _)
}

#[derive(Debug)]
struct FileAdapter {
    checked: Arc<Checked>,
}

impl Adapter for FileAdapter {
    fn kind(&self) -> &'static str {
        "file"
    }

    fn target(&self) -> &str {
        &self.checked.target
    }

    fn call<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let checked = Arc::clone(&self.checked);
            let arguments = attempt.arguments.clone();
            let timeout = attempt.timeout;
            work::run(&attempt.sent, move |leave| {
                perform(&checked, &arguments, leave, timeout).map_err(Error::into_failure)
            })
            .await
        })
    }

    fn check<'a>(&'a self, timeout: Duration) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(async move {
            let checked = Arc::clone(&self.checked);
            let nothing_sent = SentMark::default();
            let opened = work::run(&nothing_sent, move |_| {
                let root = Root::open(&checked.root).map_err(Error::into_failure)?;
                drop(root.entries(&RelativePath::root()).map_err(Error::into_failure)?);
                Ok(format!("folder `{}` opens", checked.declared_root))
            });
            tokio::time::timeout(timeout, opened).await.unwrap_or_else(|_| {
                Err(Failure::new(FailureKind::Timeout, Phase::NotSent, "the folder of this tool does not open in time"))
            })
        })
    }
}

/// One call from arguments to answer, on a thread that may wait for the disk. Arguments are checked before
/// anything is opened.
fn perform(checked: &Checked, arguments: &Object, leave: &Leave, timeout: Duration) -> Result<Answer, Error> {
    let path = checked.path.resolve(arguments, &checked.action)?;
    match &checked.action {
        Action::Read(read) => {
            let lines = read.lines(arguments)?;
            read.run(&open(checked, leave)?, &path, lines)
        }
        Action::List(list) => list.run(&open(checked, leave)?, &path, leave),
        Action::Search(search) => {
            let query = search.query(arguments)?;
            search.run(&open(checked, leave)?, &path, &query, leave, timeout)
        }
        Action::Write(write) => {
            let content = write.content.bytes(arguments)?;
            write.run(&Root::open(&checked.root)?, &path, &content, leave)
        }
        Action::Append(append) => {
            let content = append.content.bytes(arguments)?;
            append.run(&Root::open(&checked.root)?, &path, &content, leave)
        }
    }
}

/// Opens the root for an operation that only reads: from here on the folder has been asked.
fn open(checked: &Checked, leave: &Leave) -> Result<Root, Error> {
    let root = Root::open(&checked.root)?;
    leave.commit()?;
    Ok(root)
}

/// The `data` of an answer.
fn answer(data: Value) -> Answer {
    Answer::from(reach_core::Payload::Json(data))
}
