//! What the errors of MySQL and MariaDB mean.
//!
//! An error of a statement is followed by a rollback, so that a writing tool knows that nothing was done,
//! unless the server says that some of it could not be taken back.

use mysql_async::{DriverError, Error, ServerError};
use reach_core::{Failure, FailureKind, Phase};

use crate::sql::failure::{self as words, Stage, chain};
use crate::sql::job::Job;
use crate::sql::rows::Rows;

/// What went wrong in an attempt.
#[derive(Debug)]
pub(super) struct Trouble {
    what: What,
    stage: Stage,
    /// The transaction is over and the connection can serve another attempt.
    pub(super) at_rest: bool,
    /// A table without transactions kept a part of the change.
    pub(super) half_done: bool,
}

#[derive(Debug)]
enum What {
    Server(Error),
    TooLarge,
}

impl Trouble {
    pub(super) fn preparing(error: Error) -> Self {
        let at_rest = matches!(&error, Error::Server(answer) if !ends_connection(answer));
        Self { what: What::Server(error), stage: Stage::Preparing, at_rest, half_done: false }
    }

    pub(super) fn server(error: Error, stage: Stage) -> Self {
        let what = if matches!(&error, Error::Driver(DriverError::PacketTooLarge)) || is_packet_too_large(&error) {
            What::TooLarge
        } else {
            What::Server(error)
        };
        Self { what, stage, at_rest: false, half_done: false }
    }

    pub(super) fn too_large() -> Self {
        Self { what: What::TooLarge, stage: Stage::Executing, at_rest: false, half_done: false }
    }

    /// Whether an idle connection turned out to be dead before anything was asked of it.
    pub(super) fn is_stale(&self) -> bool {
        self.stage == Stage::Preparing
            && matches!(&self.what, What::Server(error) if answer(error).is_none_or(ends_connection))
    }

    /// Whether the server answered with an error and still listens.
    pub(super) fn is_answer(&self) -> bool {
        matches!(&self.what, What::Server(Error::Server(answer)) if !ends_connection(answer))
    }
}

fn answer(error: &Error) -> Option<&ServerError> {
    match error {
        Error::Server(answer) => Some(answer),
        Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => None,
    }
}

/// The driver wraps its own refusal of a large packet in an I/O error.
fn is_packet_too_large(error: &Error) -> bool {
    matches!(error, Error::Io(_)) && chain(error).contains("larger than max_allowed_packet")
}

/// Shutdown, a killed connection, a forced close.
fn ends_connection(answer: &ServerError) -> bool {
    matches!(answer.code, 1053 | 1077 | 1079 | 1080 | 1152 | 1184 | 1927 | 4031 | 3169)
        || answer.state.starts_with("08")
}

/// Folds what went wrong into a failure.
pub(super) fn fold(trouble: &Trouble, job: &Job<'_>) -> Failure {
    let undone = !job.reads && trouble.stage < Stage::Committing;
    match &trouble.what {
        What::TooLarge => Rows::too_large(job.caps, undone),
        What::Server(Error::Server(answer)) if ends_connection(answer) => {
            words::lost(trouble.stage, job.reads, detail(answer))
        }
        What::Server(Error::Server(answer)) if trouble.half_done => Failure::new(
            FailureKind::Interrupted,
            Phase::MaybeSent,
            format!(
                "a part of the change could not be rolled back, since its table knows no transactions: {}",
                words::clean(&answer.message)
            ),
        )
        .with_detail(detail(answer)),
        What::Server(Error::Server(answer)) if trouble.stage == Stage::Executing && !trouble.at_rest => {
            words::lost(trouble.stage, job.reads, detail(answer))
        }
        What::Server(Error::Server(answer)) => by_code(answer, job),
        What::Server(error) => words::lost(trouble.stage, job.reads, chain(error)),
    }
}

/// An error while a statement was prepared, outside any attempt.
pub(super) fn before_execution(error: &Error) -> Failure {
    match answer(error) {
        Some(answer) if !ends_connection(answer) => words::rejected(&answer.message, detail(answer)),
        Some(answer) => words::unreachable("the database is going down", detail(answer)),
        None => words::lost(Stage::Preparing, true, chain(error)),
    }
}

/// An error while logging in.
pub(super) fn at_login(error: &Error) -> Failure {
    let Some(answer) = answer(error) else {
        return words::unreachable(
            "the database cannot be reached: no connection, or its greeting failed",
            chain(error),
        );
    };
    match answer.code {
        1044 | 1045 | 1130 | 1698 | 1862 | 3118 | 3955 | 4151 => words::unauthorised(detail(answer)),
        1049 => words::unreachable("the server has no database of this name", detail(answer)),
        1040 | 1203 | 1226 => words::unreachable("the database has too many connections", detail(answer)),
        _ => words::unreachable("the database refused the connection", detail(answer)),
    }
}

fn by_code(answer: &ServerError, job: &Job<'_>) -> Failure {
    let detail = detail(answer);
    match answer.code {
        1213 | 1205 | 1020 | 3572 | 1222 => {
            words::not_now("the database undid the statement in favour of another (lock or deadlock)", detail)
        }
        1969 | 3024 => words::timed_out(job.reads, job.timeout, detail),
        1317 | 1028 => words::not_now("the statement was stopped by an administrator", detail),
        1044 | 1045 | 1142 | 1143 | 1227 | 1370 => Failure::new(
            FailureKind::Unauthorised,
            Phase::Answered,
            format!("the database does not let this tool do that: {}", words::clean(&answer.message)),
        )
        .with_detail(detail),
        1792 => words::rejected("this tool may only read, and its statement tried to write", detail),
        1021 | 1037 | 1038 | 1041 | 1114 | 1135 | 1290 | 1836 => {
            words::not_now(&format!("the database could not do it: {}", words::clean(&answer.message)), detail)
        }
        1030 | 1034 | 1035 | 1105 | 1194 | 1712 => words::server_error(job.reads, &answer.message, detail),
        _ => words::rejected(&answer.message, detail),
    }
}

/// Everything the server said, for the journal.
fn detail(answer: &ServerError) -> String {
    format!("{} ({}): {}", answer.code, answer.state, answer.message)
}
