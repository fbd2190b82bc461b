//! The `sql` adapter in the shared suite, and what is its own.
//!
//! Everything runs on real databases: a SQLite file, and a PostgreSQL and a MariaDB of this run, each test
//! in a database of its own. `world` sets them up; the other modules are one theme each.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of a test fail the test, as the test itself may"
)]

mod attacks;
mod behaviour;
mod declaring;
mod faults;
mod stage;
mod values;
mod world;
