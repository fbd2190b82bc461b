//! The words of Reach, and the rules that need nothing but values.
//!
//! Every other crate speaks in the types of this one: a [`Plan`] walks the road, an [`Adapter`] makes
//! one [`Attempt`], the result is an [`Envelope`], and each step leaves an [`Event`]. This crate does
//! no I/O and knows no async runtime, HTTP or file system; an adapter's future is a plain
//! `std::future::Future`.
//!
//! Read in this order: [`tool`] (what an operator declares), [`plan`], [`adapter`], [`envelope`],
//! [`error`] (the one table of codes), [`event`]. The rules beside them are pure functions:
//! [`arguments`], [`breaker`], [`canonical`], [`exact`], [`rank`], [`redact`], [`scope`], [`tokens`].

pub mod adapter;
pub mod arguments;
pub mod breaker;
pub mod canonical;
pub mod effect;
pub mod envelope;
pub mod error;
pub mod event;
pub mod exact;
pub mod ids;
pub mod nearest;
pub mod plan;
pub mod problem;
pub mod rank;
pub mod redact;
pub mod scope;
pub mod tokens;
pub mod tool;
pub mod window;

pub use adapter::{Adapter, Answer, Attempt, BoxFuture, Credential, Failure, FailureKind, Payload, SentMark};
pub use effect::{Effect, Phase};
pub use envelope::{Envelope, ErrorBody, Meta, Status, Truncated};
pub use error::ErrorCode;
pub use event::{Event, EventKind, JournalRow};
pub use ids::{CallerId, RequestId, SessionId, ToolId, TraceId};
pub use plan::{Caller, OnFailure, Plan, Priority};
pub use problem::Problem;
pub use tool::ToolSpec;

/// A JSON object: the shape of every tool's arguments and of every `ok` envelope's data.
pub type Object = serde_json::Map<String, serde_json::Value>;
