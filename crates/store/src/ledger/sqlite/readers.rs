//! The connections that read: a few, opened when needed, each used by one query at a time on a thread
//! that may block. Readers never wait for the writer and never hold it up.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::errors::{from_sqlite, ledger_error};
use super::schema::open_reader;
use crate::StoreError;

/// Queries that run at the same time.
const READERS: usize = 4;

/// The pool.
pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
}

impl Readers {
    /// A pool over one file; nothing is opened yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, idle: Mutex::default(), permits: Semaphore::new(READERS) }
    }

    /// Closes what is idle and opens nothing more. Whoever closes a file last tidies it up, and a
    /// connection that only reads cannot.
    pub(super) fn close(&self) {
        self.permits.close();
        self.idle.lock().clear();
    }

    /// Runs one query.
    pub(super) async fn read<T: Send + 'static>(
        self: Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let pool = Arc::clone(&self);
        let _permit = pool.permits.acquire().await.map_err(|_| ledger_error("it is closed"))?;
        let work = move || {
            let idle = self.idle.lock().pop();
            let connection = match idle {
                Some(connection) => connection,
                None => open_reader(&self.path).map_err(|error| from_sqlite(&error))?,
            };
            let answer = query(&connection);
            // A connection that failed may be broken; the next query opens a new one.
            if answer.is_ok() {
                self.idle.lock().push(connection);
            }
            answer
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| ledger_error("a query broke off"))?
    }
}
