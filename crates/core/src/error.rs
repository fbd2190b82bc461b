//! The one table of error codes. The envelope, the HTTP status, the docs page and the retry advice all
//! come from a code's row; nothing else in Reach invents an error.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Who may try again, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    /// Not before something in the request changes.
    ChangeRequest,
    /// The same request later; nothing happened.
    Later,
    /// It depends on the tool's effect; the envelope's `retryable` says.
    ByEffect,
    /// Nobody, until the outcome is known.
    CheckFirst,
    /// Not by the caller: an operator has to act.
    Operator,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The code.
    pub code: ErrorCode,
    /// As written on the wire.
    pub name: &'static str,
    /// The HTTP status of an answer that carries it.
    pub http_status: u16,
    /// Who may try again.
    pub retry: RetryAdvice,
    /// One sentence: what happened.
    pub meaning: &'static str,
    /// What a model should do.
    pub model_hint: &'static str,
    /// What an operator should look at.
    pub operator_hint: &'static str,
}

macro_rules! error_table {
    ($($variant:ident, $name:literal, $status:literal, $retry:ident, $meaning:literal, $model:literal, $operator:literal;)*) => {
        /// A stable code: what went wrong, as one word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum ErrorCode {
            $(#[doc = $meaning] #[serde(rename = $name)] $variant,)*
        }

        /// Every row, in the order of the documentation.
        pub const TABLE: &[Row] = &[
            $(Row {
                code: ErrorCode::$variant,
                name: $name,
                http_status: $status,
                retry: RetryAdvice::$retry,
                meaning: $meaning,
                model_hint: $model,
                operator_hint: $operator,
            },)*
        ];
    };
}

error_table! {
    InvalidArguments, "INVALID_ARGUMENTS", 400, ChangeRequest,
        "The arguments do not match the tool's input_schema, or the system behind it cannot accept them.",
        "Correct the named fields and call again.",
        "If many calls fail on the same field, the tool's description or schema misleads the model.";
    Unauthenticated, "UNAUTHENTICATED", 401, Operator,
        "The caller showed no key, or one that is not known.",
        "Stop: this connection has no valid key.",
        "Check the caller's Bearer key against callers in reach.yaml.";
    Forbidden, "FORBIDDEN", 403, Operator,
        "The caller may not do this.",
        "Do not try again; use another tool or tell the user.",
        "Check the caller's scopes against the tool's auth.scope.";
    ToolNotFound, "TOOL_NOT_FOUND", 404, ChangeRequest,
        "There is no such tool, or it is not available to this caller.",
        "Use one of the listed tools, with its exact id.",
        "The journal says whether the tool does not exist or the caller lacks its scope.";
    ApprovalRequired, "APPROVAL_REQUIRED", 202, Later,
        "A person has to approve this call first.",
        "Tell the user that approval is pending.",
        "Approve or deny it.";
    ApprovalDenied, "APPROVAL_DENIED", 403, ChangeRequest,
        "A person refused this call.",
        "Do not try again; tell the user.",
        "Nothing to do.";
    RateLimited, "RATE_LIMITED", 429, Later,
        "Too many calls: of this caller, of this tool, or by the upstream's own count.",
        "Wait for retry_after_ms, then send the same request.",
        "See which rate was hit in the journal; raise it or slow the agent down.";
    BudgetExceeded, "BUDGET_EXCEEDED", 429, Operator,
        "The budget of this caller or run is used up.",
        "Finish with what you have.",
        "Raise the budget, or find out why it was used up.";
    InProgress, "IN_PROGRESS", 409, Later,
        "The same request is still running.",
        "Wait for retry_after_ms, then send the same request with the same key.",
        "If it never ends, look for the instance that owns it in the journal.";
    IdempotencyMismatch, "IDEMPOTENCY_MISMATCH", 422, ChangeRequest,
        "This key was used before with other arguments.",
        "Use a new key for a new request.",
        "The client reuses keys: look at how it makes them.";
    Unreachable, "UNREACHABLE", 503, Later,
        "The system behind the tool is known to be down, and no stand-in could serve; nothing was sent.",
        "Use an alternative, or wait for retry_after_ms; do not claim a result.",
        "See reach health for since when and why; the breaker probes by itself.";
    AuthFailed, "AUTH_FAILED", 502, Operator,
        "The upstream refused our credential.",
        "Do not try again; tell the user that the system refused access.",
        "Check or renew the credential named by the tool.";
    Timeout, "TIMEOUT", 504, ByEffect,
        "The upstream did not answer in time.",
        "Try once more later, or ask for less.",
        "Compare timeout_ms with the upstream's p95 in reach health.";
    UpstreamUnavailable, "UPSTREAM_UNAVAILABLE", 502, ByEffect,
        "The upstream could not be reached or broke the connection.",
        "Try once more later, or use another tool.",
        "Check that the upstream is running and reachable from here (reach doctor).";
    UpstreamError, "UPSTREAM_ERROR", 502, ByEffect,
        "The upstream failed by its own word.",
        "Try once more later, or use another tool.",
        "Read the upstream's own log; the journal holds what it answered.";
    UpstreamRejected, "UPSTREAM_REJECTED", 422, ChangeRequest,
        "The upstream understood the request and refused it.",
        "Read the reason and change the arguments.",
        "Not a fault of the connection; often a business rule.";
    NotFound, "NOT_FOUND", 404, ChangeRequest,
        "The thing asked for does not exist.",
        "Check the id with the user or with a search tool.",
        "Not a fault of the connection.";
    ResultInvalid, "RESULT_INVALID", 502, ByEffect,
        "The upstream answered with something that is not what the tool promises.",
        "Try once more, or use another tool; do not guess the result.",
        "Compare the answer in the journal with expect, the size cap and output_schema.";
    OutcomeUnknown, "OUTCOME_UNKNOWN", 502, CheckFirst,
        "The request may have been carried out; nobody knows.",
        "Do not send it again. Check with a tool that reads whether it happened, or tell the user.",
        "Look at the upstream for the request id; then record it with reach settle.";
    ToolChanged, "TOOL_CHANGED", 409, ChangeRequest,
        "The tool is no longer as it was when it was approved or pinned.",
        "Read the tool list again.",
        "Compare the old and the new declaration, then accept it.";
    Cancelled, "CANCELLED", 499, ByEffect,
        "The caller went away before the call was sent.",
        "Nothing happened; send it again if it is still wanted.",
        "Nothing to do.";
    StoreUnavailable, "STORE_UNAVAILABLE", 503, Later,
        "The ledger cannot be written, so a side effect could not be recorded; nothing was sent.",
        "Wait, then send the same request with the same key.",
        "Check the disk and the URL of state.ledger.";
    Overloaded, "OVERLOADED", 503, Later,
        "Too many calls wait for this upstream; this one was not sent.",
        "Wait for retry_after_ms, then send the same request.",
        "Raise max_concurrency of the upstream if it can take more.";
    ShuttingDown, "SHUTTING_DOWN", 503, Later,
        "The gateway is stopping and takes no new calls.",
        "Send the same request again in a moment.",
        "Nothing to do; another instance should take over.";
    Internal, "INTERNAL", 500, Operator,
        "A defect in Reach itself.",
        "Do not try again; tell the user.",
        "Please report it with the trace id; the journal holds the detail.";
}

impl ErrorCode {
    /// The code's row.
    pub fn row(self) -> &'static Row {
        // The macro writes enum and table in one order, so that the discriminant is the index.
        &TABLE[self as usize]
    }

    /// As written on the wire.
    pub fn as_str(self) -> &'static str {
        self.row().name
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The documentation page of a code, as Markdown; `docs/errors/CODE.md` is exactly this.
pub fn page(row: &Row) -> String {
    let retry = match row.retry {
        RetryAdvice::ChangeRequest => "Not before something in the request changes.",
        RetryAdvice::Later => "Yes, the same request with the same key, later: nothing happened.",
        RetryAdvice::ByEffect => "It depends on the tool's effect: `retryable` in the envelope says.",
        RetryAdvice::CheckFirst => "No. Find out first whether it happened.",
        RetryAdvice::Operator => "Not by the caller; an operator has to act.",
    };
    format!(
        "# {}\n\n{}\n\n| | |\n| --- | --- |\n| HTTP status | {} |\n| May it be tried again? | {} |\n| What the model is told | {} |\n| What an operator looks at | {} |\n",
        row.name, row.meaning, row.http_status, retry, row.model_hint, row.operator_hint
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_finds_its_own_row() {
        for row in TABLE {
            assert_eq!(row.code.row().name, row.name);
            assert_eq!(serde_json::to_value(row.code).unwrap(), row.name);
        }
    }

    #[test]
    fn no_error_has_a_success_status_but_the_pending_approval() {
        for row in TABLE {
            assert!(row.http_status >= 400 || row.code == ErrorCode::ApprovalRequired, "{}", row.name);
        }
    }
}
