//! What can go wrong with a file, and the one place where it becomes a [`Failure`].
//!
//! Paths in messages are those of the arguments, relative to the root; the root itself and the words of
//! the system go to the journal only.

use std::io;

use reach_core::{Failure, FailureKind, Phase};

/// How far an operation was when the system said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Looking and reading: nothing can have changed.
    Reading,
    /// Preparing a change that nobody sees yet: the file is as it was.
    Preparing,
    /// In the middle of changing the file itself.
    Changing,
    /// The change is visible; whether it survives a crash is not known.
    Confirming,
}

/// One failed operation.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{0}")]
    Refused(String),
    #[error("the folder of this tool cannot be opened")]
    Root(#[source] io::Error),
    #[error("`{path}` is {kind}, not a file")]
    NotRegular { path: String, kind: &'static str },
    #[error("`{0}` is a folder; name a file in it, or list it")]
    Folder(String),
    #[error("there is no `{0}`")]
    NotFound(String),
    #[error("`{0}` exists already, and this tool does not overwrite; nothing was changed")]
    Exists(String),
    #[error("`{path}` has {bytes} bytes, more than the {cap} this tool reads")]
    TooLarge { path: String, bytes: u64, cap: u64 },
    #[error("`{path}` is not valid {encoding} text")]
    NotText { path: String, encoding: &'static str },
    #[error("`{path}` has {lines} lines; there is no line {asked}")]
    NoSuchLine { path: String, lines: usize, asked: usize },
    #[error("`{path}` could not be {what}")]
    System {
        path: String,
        what: &'static str,
        stage: Stage,
        #[source]
        source: io::Error,
    },
    #[error("the caller has gone")]
    Gone,
}

impl Error {
    /// An error of the system while `path` was being `what` (`read`, `written`), sorted by what it means.
    pub(super) fn system(path: &str, what: &'static str, stage: Stage, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.raw_os_error() {
            Some(libc::ENOENT) => Error::NotFound(path),
            Some(libc::EISDIR) => Error::Folder(path),
            Some(libc::ENXIO) => Error::NotRegular { path, kind: "a socket, pipe or device" },
            _ => Error::System { path, what, stage, source },
        }
    }

    pub(super) fn into_failure(self) -> Failure {
        let message = self.to_string();
        let failure = |kind, phase| Failure::new(kind, phase, message.clone());
        match self {
            Error::Refused(_) => Failure::refused(message),
            Error::Root(source) => {
                failure(FailureKind::Unreachable, Phase::NotSent).with_detail(format!("{message}: {source}"))
            }
            Error::NotRegular { .. } | Error::Folder(_) | Error::Exists(_) | Error::NoSuchLine { .. } => {
                failure(FailureKind::Rejected, Phase::Answered)
            }
            Error::NotFound(_) => failure(FailureKind::NotFound, Phase::Answered),
            Error::TooLarge { .. } => failure(FailureKind::Oversize, Phase::Answered),
            Error::NotText { .. } => failure(FailureKind::Malformed, Phase::Answered),
            Error::System { path, what, stage, source } => from_system(&path, what, stage, &source),
            Error::Gone => failure(FailureKind::Interrupted, Phase::NotSent),
        }
    }
}

/// Folds an error of the system. A refusal of the kernel to leave the root has no number of its own.
fn from_system(path: &str, what: &str, stage: Stage, source: &io::Error) -> Failure {
    let detail = format!("`{path}` could not be {what}: {source}");
    let failure = |kind, phase, why: &str| {
        Failure::new(kind, phase, format!("`{path}` could not be {what}: {why}")).with_detail(detail.clone())
    };
    let answered = |kind, why: &str| failure(kind, Phase::Answered, why);
    match (source.raw_os_error(), stage) {
        (None, _) if source.kind() == io::ErrorKind::PermissionDenied => {
            Failure::refused(format!("`{path}` leads out of the folder of this tool")).with_detail(detail)
        }
        (Some(libc::ENAMETOOLONG), _) => Failure::refused(format!("`{path}` is too long a name")).with_detail(detail),
        (Some(libc::ENOTDIR), _) => answered(FailureKind::NotFound, "a part of its path is no folder"),
        (Some(libc::ELOOP), _) => answered(FailureKind::Rejected, "it is a symbolic link that is not followed"),
        (Some(libc::EACCES | libc::EPERM | libc::EROFS), Stage::Reading | Stage::Preparing) => {
            answered(FailureKind::Rejected, "permission denied")
        }
        (_, Stage::Confirming) => failure(
            FailureKind::Interrupted,
            Phase::MaybeSent,
            "it was changed, but the disk did not confirm that the change will last",
        ),
        (Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG), Stage::Preparing) => {
            answered(FailureKind::Unavailable, "no room on the disk; nothing was changed")
        }
        (Some(libc::EMFILE | libc::ENFILE), Stage::Reading | Stage::Preparing) => {
            failure(FailureKind::Unreachable, Phase::NotSent, "too many files are open")
        }
        (Some(libc::EWOULDBLOCK), Stage::Reading | Stage::Preparing) => {
            answered(FailureKind::Unavailable, "another program holds it")
        }
        (_, Stage::Preparing) => answered(FailureKind::Unavailable, "the disk failed; nothing was changed"),
        (_, Stage::Reading) => answered(FailureKind::ServerError, "the disk failed"),
        (_, Stage::Changing) => answered(FailureKind::ServerError, "the disk failed, perhaps after a part was written"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_system_has_its_kind_and_phase() {
        use Stage::{Changing, Confirming, Preparing, Reading};
        for (number, stage, kind, phase) in [
            (libc::ENOENT, Reading, FailureKind::NotFound, Phase::Answered),
            (libc::ENOTDIR, Reading, FailureKind::NotFound, Phase::Answered),
            (libc::EISDIR, Preparing, FailureKind::Rejected, Phase::Answered),
            (libc::ENXIO, Reading, FailureKind::Rejected, Phase::Answered),
            (libc::ELOOP, Preparing, FailureKind::Rejected, Phase::Answered),
            (libc::EACCES, Reading, FailureKind::Rejected, Phase::Answered),
            (libc::EROFS, Preparing, FailureKind::Rejected, Phase::Answered),
            (libc::ENAMETOOLONG, Preparing, FailureKind::Refused, Phase::Rejected),
            (libc::EIO, Reading, FailureKind::ServerError, Phase::Answered),
            (libc::EMFILE, Reading, FailureKind::Unreachable, Phase::NotSent),
            (libc::EWOULDBLOCK, Reading, FailureKind::Unavailable, Phase::Answered),
            // A full disk before the step that shows: nothing was done. In the middle: perhaps a part.
            (libc::ENOSPC, Preparing, FailureKind::Unavailable, Phase::Answered),
            (libc::EIO, Preparing, FailureKind::Unavailable, Phase::Answered),
            (libc::ENOSPC, Changing, FailureKind::ServerError, Phase::Answered),
            (libc::EIO, Confirming, FailureKind::Interrupted, Phase::MaybeSent),
        ] {
            let source = io::Error::from_raw_os_error(number);
            let failure = Error::system("notes/a.md", "written", stage, source).into_failure();
            assert_eq!((failure.kind, failure.phase), (kind, phase), "{number} {stage:?}: {failure:?}");
            assert!(failure.message.contains("notes/a.md"), "{}", failure.message);
            assert!(!failure.message.contains("os error"), "{}", failure.message);
        }
    }
}
