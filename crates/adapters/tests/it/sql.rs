//! The `sql` adapter in the shared suite, and what is its own.
//!
//! Everything runs on real databases: a SQLite file, and a PostgreSQL and a MariaDB of this run, each test
//! in a database of its own. `world` sets them up; the other modules are one theme each.

mod attacks;
mod behaviour;
mod declaring;
mod faults;
mod stage;
mod values;
mod world;
