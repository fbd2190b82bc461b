//! The words in which every database's errors reach a caller.
//!
//! Each database folds its own errors in its own file; what they share is here: how a server's words are
//! cleaned, and the failures that mean the same whatever the database. What the driver said goes to
//! `detail`, for the journal.

use std::time::Duration;

use reach_core::{Failure, FailureKind, Phase};

/// How far an attempt had got when something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Connecting, preparing, opening the transaction: the statement has not been executed.
    Preparing,
    /// The statement is with the server.
    Executing,
    /// COMMIT is with the server.
    Committing,
}

/// A server's words on one line, without control characters, not longer than a model should read.
pub(super) fn clean(words: &str) -> String {
    const LONGEST: usize = 400;
    let spaced: String = words.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let line = spaced.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None if line.is_empty() => "no reason given".to_owned(),
        None => line,
    }
}

/// The database cannot be reached at all.
pub(super) fn unreachable(what: &str, detail: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Unreachable, Phase::NotSent, what).with_detail(detail)
}

/// The database refused the login.
pub(super) fn unauthorised(detail: impl Into<String>) -> Failure {
    let message = "the database refused the login of this tool; an operator has to check its user and password";
    Failure::new(FailureKind::Unauthorised, Phase::Answered, message).with_detail(detail)
}

/// The connection broke.
pub(super) fn lost(stage: Stage, reads: bool, detail: impl Into<String>) -> Failure {
    let message = match stage {
        Stage::Preparing => {
            return unreachable("the connection to the database broke before anything was asked of it", detail);
        }
        Stage::Executing | Stage::Committing if reads => {
            "the connection to the database broke before its answer was whole"
        }
        Stage::Executing => {
            "the connection to the database broke while the statement ran; whether it took effect is not known"
        }
        Stage::Committing => "the connection to the database broke during COMMIT; whether it took effect is not known",
    };
    Failure::new(FailureKind::Interrupted, Phase::MaybeSent, message).with_detail(detail)
}

/// The database stopped the statement at its deadline. A change that is known to be undone is no open
/// question: the answer says that nothing was done.
pub(super) fn timed_out(reads: bool, timeout: Duration, detail: impl Into<String>) -> Failure {
    let message = format!("the database stopped the statement after {} ms", timeout.as_millis());
    if reads {
        Failure::new(FailureKind::Timeout, Phase::MaybeSent, message).with_detail(detail)
    } else {
        not_now(&format!("{message} and rolled it back"), detail)
    }
}

/// The database did nothing, and may do it later: a deadlock, a lock, too little of something.
pub(super) fn not_now(what: &str, detail: impl Into<String>) -> Failure {
    let message = format!("{what}; nothing was changed, and it may work later");
    Failure::new(FailureKind::Unavailable, Phase::Answered, message).with_detail(detail)
}

/// The database refused the statement or a value, and did nothing.
pub(super) fn rejected(words: &str, detail: impl Into<String>) -> Failure {
    let message = format!("the database refused it: {}", clean(words));
    Failure::new(FailureKind::Rejected, Phase::Answered, message).with_detail(detail)
}

/// The database failed by its own word. A change is rolled back then, so that only a reading tool needs
/// to call it a failure of the server.
pub(super) fn server_error(reads: bool, words: &str, detail: impl Into<String>) -> Failure {
    if reads {
        let message = format!("the database failed: {}", clean(words));
        Failure::new(FailureKind::ServerError, Phase::Answered, message).with_detail(detail)
    } else {
        not_now(&format!("the database failed and rolled back: {}", clean(words)), detail)
    }
}

/// The result holds a type that cannot be shown; found before anything ran.
pub(super) fn unreadable_column(name: &str, type_name: &str) -> Failure {
    let message = format!(
        "column `{}` has the type {}, which cannot be read; an operator has to cast it to text in the statement",
        clean(name),
        clean(type_name)
    );
    Failure::new(FailureKind::Rejected, Phase::Answered, message)
}

/// The whole chain of an error, for the journal.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let more = inner.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        source = inner.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_server_become_one_line_of_bounded_length() {
        assert_eq!(clean("duplicate\n\tkey \u{1b}[31m\"a\""), "duplicate key [31m\"a\"");
        assert_eq!(clean(" \n"), "no reason given");
        assert_eq!(clean(&"é".repeat(1000)).chars().count(), 403);
    }

    #[test]
    fn a_broken_connection_is_as_certain_as_its_stage() {
        assert_eq!(lost(Stage::Preparing, false, "").phase, Phase::NotSent);
        assert_eq!(lost(Stage::Executing, false, "").phase, Phase::MaybeSent);
        assert_eq!(lost(Stage::Committing, false, "").kind, FailureKind::Interrupted);
    }
}
