//! The gateway's ledger as a stranger reads it: the SQLite file, read-only.

use std::collections::BTreeMap;
use std::path::Path;

use reach_core::{Event, EventKind};
use rusqlite::{Connection, OpenFlags};

/// What stands in a ledger now.
#[derive(Debug)]
pub(super) struct Books {
    /// The state of each record, by request id.
    pub(super) records: BTreeMap<String, String>,
    /// The oldest durable intent of each request: milliseconds since the Unix epoch.
    pub(super) intents: BTreeMap<String, u64>,
}

impl Books {
    pub(super) fn open(ledger: &Path) -> Self {
        let connection = Connection::open_with_flags(ledger, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        let pairs = |sql: &str| -> Vec<(String, String)> {
            let mut statement = connection.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            rows.collect::<Result<_, _>>().unwrap()
        };
        let records = pairs("select request_id, state from record").into_iter().collect();
        let mut intents = BTreeMap::new();
        for (request, events) in pairs("select request_id, events from journal order by seq") {
            let events: Vec<Event> = serde_json::from_str(&events).unwrap();
            for event in events.iter().filter(|event| event.kind == EventKind::Intended) {
                intents.entry(request.clone()).or_insert(event.at_ms);
            }
        }
        Self { records, intents }
    }

    pub(super) fn state(&self, request: &str) -> Option<&str> {
        self.records.get(request).map(String::as_str)
    }

    /// Records that somebody would have to hold.
    pub(super) fn open_records(&self) -> Vec<&str> {
        let open = self.records.iter().filter(|(_, state)| matches!(state.as_str(), "claimed" | "in_flight"));
        open.map(|(request, _)| request.as_str()).collect()
    }
}
