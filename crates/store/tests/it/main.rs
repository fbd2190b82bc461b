//! Integration tests of the stores, one binary: each trait's suite of scenarios on each of its bodies,
//! then what is a body's own. A new body adds a stage and runs the same scenarios.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "scenarios are functions beside the tests, and end like them"
)]

mod blobs;
mod board;
mod crash;
mod ledger;
mod ledger_model;
mod sqlite;

/// Runs scenarios, each as a test of its own on a fresh stage.
macro_rules! run_on {
    ($stage:expr => $($scenario:ident),+ $(,)?) => {
        $(#[tokio::test]
        async fn $scenario() {
            super::$scenario(&$stage).await;
        })+
    };
}
pub(crate) use run_on;
