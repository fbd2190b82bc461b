//! What PostgreSQL's errors mean.
//!
//! An error that the server reports has rolled the transaction back, so that a writing tool knows that
//! nothing was done. The exceptions are a connection that broke, and a server that went down while COMMIT
//! was with it: then nobody knows.

use reach_core::{Failure, FailureKind, Phase};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

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
}

#[derive(Debug)]
enum What {
    Server(Error),
    Refused(Failure),
    TooLarge,
    Malformed(String),
}

impl Trouble {
    pub(super) fn preparing(error: Error) -> Self {
        let at_rest = error.as_db_error().is_some();
        Self { what: What::Server(error), stage: Stage::Preparing, at_rest }
    }

    pub(super) fn server(error: Error, stage: Stage) -> Self {
        // A failed COMMIT ends the transaction by itself.
        let at_rest = stage == Stage::Committing && error.as_db_error().is_some();
        Self { what: What::Server(error), stage, at_rest }
    }

    /// Found before anything was sent.
    pub(super) fn refused(failure: Failure) -> Self {
        Self { what: What::Refused(failure), stage: Stage::Preparing, at_rest: true }
    }

    pub(super) fn too_large() -> Self {
        Self { what: What::TooLarge, stage: Stage::Executing, at_rest: false }
    }

    pub(super) fn malformed(column: &str) -> Self {
        Self { what: What::Malformed(column.to_owned()), stage: Stage::Executing, at_rest: false }
    }

    /// Whether an idle connection turned out to be dead before anything was asked of it.
    pub(super) fn is_stale(&self) -> bool {
        match &self.what {
            What::Server(error) if self.stage == Stage::Preparing => error.as_db_error().is_none_or(is_fatal),
            _ => false,
        }
    }

    /// Whether the server answered with an error and still listens.
    pub(super) fn is_answer(&self) -> bool {
        matches!(&self.what, What::Server(error) if error.as_db_error().is_some_and(|error| !is_fatal(error)))
    }

    pub(super) fn code(&self) -> Option<&SqlState> {
        match &self.what {
            What::Server(error) => error.code(),
            _ => None,
        }
    }
}

fn is_fatal(error: &DbError) -> bool {
    matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

/// Folds what went wrong into a failure. `overflowed`: the wire received more than its cap.
pub(super) fn fold(trouble: &Trouble, job: &Job<'_>, overflowed: bool) -> Failure {
    // Without a COMMIT the server rolls back whatever it had begun.
    let undone = !job.reads && trouble.stage < Stage::Committing;
    match &trouble.what {
        What::Refused(failure) => failure.clone(),
        What::TooLarge => Rows::too_large(job.caps, undone),
        What::Malformed(column) => Failure::new(
            FailureKind::Malformed,
            Phase::Answered,
            format!("column `{}` holds a value that cannot be read", words::clean(column)),
        ),
        What::Server(_) if overflowed && trouble.stage == Stage::Executing => Rows::too_large(job.caps, undone),
        What::Server(error) => match error.as_db_error() {
            None => words::lost(trouble.stage, job.reads, chain(error)),
            Some(answer) if trouble.stage == Stage::Committing && is_fatal(answer) => {
                words::lost(Stage::Committing, job.reads, detail(answer))
            }
            Some(answer) if *answer.code() == SqlState::QUERY_CANCELED && answer.message().contains("timeout") => {
                words::timed_out(job.reads, job.timeout, detail(answer))
            }
            Some(answer) if trouble.stage == Stage::Preparing => before(answer, job.parameters),
            Some(answer) => by_code(answer, job.reads, job.parameters),
        },
    }
}

/// An error while a statement was prepared, outside any attempt.
pub(super) fn before_execution(error: &Error, parameters: &[String]) -> Failure {
    match error.as_db_error() {
        Some(answer) => before(answer, parameters),
        None => words::lost(Stage::Preparing, true, chain(error)),
    }
}

fn before(answer: &DbError, parameters: &[String]) -> Failure {
    if is_fatal(answer) {
        words::unreachable("the database is going down", detail(answer))
    } else {
        by_code(answer, true, parameters)
    }
}

/// An error while logging in.
pub(super) fn at_login(error: &Error) -> Failure {
    let Some(answer) = error.as_db_error() else {
        let detail = chain(error);
        // The driver gives up by itself where the server wants a proof that was not configured.
        if detail.contains("password missing") || detail.contains("authentication error") {
            return words::unauthorised(detail);
        }
        return words::unreachable("the database cannot be reached: its greeting failed", detail);
    };
    match answer.code().code() {
        code if code.starts_with("28") => words::unauthorised(detail(answer)),
        "3D000" => words::unreachable("the server has no database of this name", detail(answer)),
        "53300" => words::unreachable("the database has too many connections", detail(answer)),
        "57P03" => words::unreachable("the database is starting up or going down", detail(answer)),
        _ => words::unreachable("the database refused the connection", detail(answer)),
    }
}

fn by_code(answer: &DbError, reads: bool, parameters: &[String]) -> Failure {
    let detail = detail(answer);
    let code = answer.code().code();
    match code {
        "40001" | "40P01" => {
            words::not_now("the database undid the statement in favour of another (deadlock or conflict)", detail)
        }
        "55P03" => words::not_now("another transaction holds a lock", detail),
        "26000" => words::not_now("the prepared statement was lost", detail),
        "0A000" if answer.message().contains("cached plan") => {
            words::not_now("the table has just been changed", detail)
        }
        "42501" => Failure::new(
            FailureKind::Unauthorised,
            Phase::Answered,
            format!("the database does not let this tool do that: {}", words::clean(answer.message())),
        )
        .with_detail(detail),
        "25006" => words::rejected("this tool may only read, and its statement tried to write", detail),
        _ => match &code[..2] {
            "08" | "53" | "55" | "57" => {
                words::not_now(&format!("the database could not do it: {}", words::clean(answer.message())), detail)
            }
            "58" | "XX" | "F0" => words::server_error(reads, answer.message(), detail),
            _ => {
                let mut said = answer.message().to_owned();
                if let Some(name) = parameter(answer, parameters) {
                    said = format!("argument `{name}`: {said}");
                }
                if let Some(hint) = answer.hint() {
                    said = format!("{said} ({hint})");
                }
                words::rejected(&said, detail)
            }
        },
    }
}

/// The argument that an error is about: the server says `parameter $2` in its context.
fn parameter<'a>(answer: &DbError, parameters: &'a [String]) -> Option<&'a str> {
    let context = answer.where_()?;
    let behind = &context[context.find("parameter $")? + "parameter $".len()..];
    let digits = behind.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(behind.len());
    let number: usize = behind[..digits].parse().ok()?;
    parameters.get(number.checked_sub(1)?).map(String::as_str)
}

/// Everything the server said, for the journal.
fn detail(answer: &DbError) -> String {
    let mut said = format!("{} {}: {}", answer.severity(), answer.code().code(), answer.message());
    for (name, more) in [("detail", answer.detail()), ("hint", answer.hint()), ("where", answer.where_())] {
        if let Some(more) = more {
            said = format!("{said}; {name}: {more}");
        }
    }
    said
}
