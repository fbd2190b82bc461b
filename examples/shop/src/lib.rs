//! The shop: the systems that the demo of Reach stands in front of.
//!
//! Everything here is real and small: an order service over HTTP, a stock database in SQLite, a mail
//! server over SMTP, a folder of notes. Each can be told to misbehave, so that one can watch what the
//! gateway makes of it. Nothing here knows Reach.

pub mod orders;
pub mod smtp;
pub mod stock;

/// The gateway's configuration of the demo; `{orders}`, `{orders_standby}` and `{smtp}` become addresses.
pub const REACH_YAML: &str = include_str!("../reach.yaml");

/// The notes folder: file name and text.
pub const NOTES: &[(&str, &str)] = &[
    ("returns.md", include_str!("../notes/returns.md")),
    ("shipping.md", include_str!("../notes/shipping.md")),
    ("退换货.md", include_str!("../notes/退换货.md")),
];
