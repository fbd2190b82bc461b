//! What callers want of the writer, and the answers they get once it is committed.
//!
//! A wish is granted inside a transaction with others, so its answer is held back until the commit: an
//! answer that was sent is on disk. A claim whose caller has gone away meanwhile is given back. An
//! ending that the disk refused is told as failed and kept: it is known, and nobody else can write it. One
//! that the record refused is told and forgotten: it would be refused for ever.

use tokio::sync::oneshot;

use super::journal::{self, EncodedRow, SessionTally};
use super::prune::{self, Horizon};
use super::records::{self, Refusal};
use crate::StoreError;
use crate::ledger::{Claim, Claimed, Ending, Pruned, RecordKey, Recovered};

/// Where an answer goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What a caller wants.
pub(super) enum Wish {
    Claim {
        claim: Claim,
        reply: Reply<Claimed>,
    },
    Intend {
        key: RecordKey,
        epoch: u64,
        row: EncodedRow,
        reply: Reply<()>,
    },
    Finish {
        key: RecordKey,
        epoch: u64,
        ending: Ending,
        reply: Reply<()>,
    },
    Settle {
        key: RecordKey,
        ending: Ending,
        reply: Reply<bool>,
    },
    Recover {
        gone: Vec<String>,
        reply: Reply<Recovered>,
    },
    Prune {
        before: Horizon,
        reply: Reply<Pruned>,
    },
    Ping {
        reply: Reply<()>,
    },
    /// Something that goes wrong, for the tests of the writer.
    #[cfg(test)]
    Run {
        run: fn(&rusqlite::Connection) -> rusqlite::Result<()>,
        durable: bool,
        reply: Reply<()>,
    },
}

/// An answer that waits for the commit.
pub(super) enum Answer {
    Claimed {
        key: RecordKey,
        result: Result<Claimed, StoreError>,
        reply: Reply<Claimed>,
    },
    /// `ended` is none when the record has had its say.
    Finished {
        ended: Option<(RecordKey, u64, Ending)>,
        result: Result<(), StoreError>,
        reply: Reply<()>,
    },
    Done {
        result: Result<(), StoreError>,
        reply: Reply<()>,
    },
    Settled {
        result: Result<bool, StoreError>,
        reply: Reply<bool>,
    },
    Recovered {
        result: Result<Recovered, StoreError>,
        reply: Reply<Recovered>,
    },
    Pruned {
        result: Result<Pruned, StoreError>,
        reply: Reply<Pruned>,
    },
}

/// What is left to do once an answer was sent.
pub(super) enum Left {
    Nothing,
    /// A claim that nobody is there to use.
    GiveBack(Wish),
    /// An ending that the disk refused though it took what was beside it.
    Again(Wish),
}

impl Wish {
    /// Whether it must have reached the disk when it is answered. A lost release is found in flight after
    /// a crash of the machine, and settled on the safe side.
    pub(super) fn is_durable(&self) -> bool {
        match self {
            Wish::Intend { .. } | Wish::Settle { .. } | Wish::Recover { .. } => true,
            Wish::Finish { ending, .. } => *ending != Ending::Released,
            Wish::Claim { .. } | Wish::Prune { .. } | Wish::Ping { .. } => false,
            #[cfg(test)]
            Wish::Run { durable, .. } => *durable,
        }
    }

    /// Does it, inside an open transaction. A refusal undoes this wish and no other. An error beside
    /// the answer means that SQLite gave the whole transaction up.
    pub(super) fn grant(
        self,
        connection: &rusqlite::Connection,
        owner: &str,
        tally: &mut SessionTally,
    ) -> (Answer, Option<StoreError>) {
        match self {
            Wish::Claim { claim, reply } => {
                let result = apart(connection, |connection| records::claim(connection, owner, &claim));
                wrap(connection, result, |result| Answer::Claimed { key: claim.key, result, reply })
            }
            Wish::Intend { key, epoch, row, reply } => {
                let result = apart(connection, |connection| records::intend(connection, owner, &key, epoch, &row));
                if result.is_ok() {
                    tally.add(&row);
                }
                wrap(connection, result, |result| Answer::Done { result, reply })
            }
            Wish::Finish { key, epoch, ending, reply } => {
                let result = apart(connection, |connection| records::finish(connection, owner, &key, epoch, &ending));
                let is_final = result.as_ref().is_err_and(Refusal::is_final);
                let ended = (!is_final).then_some((key, epoch, ending));
                wrap(connection, result, |result| Answer::Finished { ended, result, reply })
            }
            Wish::Settle { key, ending, reply } => {
                let result = apart(connection, |connection| records::settle(connection, owner, &key, &ending));
                let result = result.map(|row| row.map(|row| tally.add(&row)).is_some());
                wrap(connection, result, |result| Answer::Settled { result, reply })
            }
            Wish::Recover { gone, reply } => {
                let result = apart(connection, |connection| records::recover(connection, owner, &gone));
                let result = result.map(|(recovered, rows)| {
                    rows.iter().for_each(|row| tally.add(row));
                    recovered
                });
                wrap(connection, result, |result| Answer::Recovered { result, reply })
            }
            Wish::Prune { before, reply } => {
                let result = apart(connection, |connection| prune::prune(connection, tally, before));
                if result.is_ok() {
                    *tally = SessionTally::default();
                }
                wrap(connection, result, |result| Answer::Pruned { result, reply })
            }
            Wish::Ping { reply } => {
                let result = apart(connection, |connection| {
                    connection
                        .prepare_cached("insert or replace into heartbeat (id, at_ms) values (1, ?1)")?
                        .execute([journal::millis(journal::now_ms())])?;
                    Ok(())
                });
                wrap(connection, result, |result| Answer::Done { result, reply })
            }
            #[cfg(test)]
            Wish::Run { run, reply, .. } => {
                let result = apart(connection, |connection| Ok(run(connection)?));
                wrap(connection, result, |result| Answer::Done { result, reply })
            }
        }
    }

    /// Answers that nothing was done. Returns an ending to be tried again.
    pub(super) fn refuse(self, error: &StoreError) -> Option<Wish> {
        match self {
            Wish::Claim { reply, .. } => deliver(reply, Err(error.clone())),
            Wish::Finish { key, epoch, ending, reply } => {
                deliver(reply, Err(error.clone()));
                return Some(finish_unheard(key, epoch, ending));
            }
            Wish::Intend { reply, .. } | Wish::Ping { reply } => deliver(reply, Err(error.clone())),
            Wish::Settle { reply, .. } => deliver(reply, Err(error.clone())),
            Wish::Recover { reply, .. } => deliver(reply, Err(error.clone())),
            Wish::Prune { reply, .. } => deliver(reply, Err(error.clone())),
            #[cfg(test)]
            Wish::Run { reply, .. } => deliver(reply, Err(error.clone())),
        }
        None
    }
}

impl Answer {
    /// Sends it after the commit.
    pub(super) fn send(self) -> Left {
        match self {
            Answer::Claimed { key, result, reply } => {
                if let Err(Ok(Claimed::Fresh { epoch })) = reply.send(result) {
                    return Left::GiveBack(finish_unheard(key, epoch, Ending::Released));
                }
            }
            Answer::Finished { ended, result, reply } => {
                let failed = result.is_err();
                deliver(reply, result);
                if let (true, Some((key, epoch, ending))) = (failed, ended) {
                    return Left::Again(finish_unheard(key, epoch, ending));
                }
            }
            Answer::Done { result, reply } => deliver(reply, result),
            Answer::Settled { result, reply } => deliver(reply, result),
            Answer::Recovered { result, reply } => deliver(reply, result),
            Answer::Pruned { result, reply } => deliver(reply, result),
        }
        Left::Nothing
    }

    /// Sends the reason why the transaction did not come to be, instead of what was granted inside it.
    /// Returns an ending to be tried again.
    pub(super) fn fail(self, error: &StoreError) -> Option<Wish> {
        match self {
            Answer::Claimed { reply, .. } => deliver(reply, Err(error.clone())),
            Answer::Finished { ended: Some((key, epoch, ending)), reply, .. } => {
                deliver(reply, Err(error.clone()));
                return Some(finish_unheard(key, epoch, ending));
            }
            Answer::Finished { ended: None, result, reply } => deliver(reply, result),
            Answer::Done { reply, .. } => deliver(reply, Err(error.clone())),
            Answer::Settled { reply, .. } => deliver(reply, Err(error.clone())),
            Answer::Recovered { reply, .. } => deliver(reply, Err(error.clone())),
            Answer::Pruned { reply, .. } => deliver(reply, Err(error.clone())),
        }
        None
    }
}

/// Whoever went away without waiting did not need to know.
fn deliver<T>(reply: Reply<T>, result: Result<T, StoreError>) {
    drop(reply.send(result));
}

/// The wish to end a record, of which nobody waits to hear.
pub(super) fn finish_unheard(key: RecordKey, epoch: u64, ending: Ending) -> Wish {
    Wish::Finish { key, epoch, ending, reply: oneshot::channel().0 }
}

/// Runs one wish so that its failure undoes nothing but itself.
fn apart<T>(
    connection: &rusqlite::Connection,
    wish: impl FnOnce(&rusqlite::Connection) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    connection.prepare_cached("savepoint wish")?.execute([])?;
    let result = wish(connection);
    // After a full disk SQLite may have rolled everything back, and the savepoint is gone with it.
    if !connection.is_autocommit() {
        if result.is_err() {
            connection.prepare_cached("rollback to wish")?.execute([])?;
        }
        connection.prepare_cached("release wish")?.execute([])?;
    }
    result
}

fn wrap<T>(
    connection: &rusqlite::Connection,
    result: Result<T, Refusal>,
    answer: impl FnOnce(Result<T, StoreError>) -> Answer,
) -> (Answer, Option<StoreError>) {
    let result = result.map_err(StoreError::from);
    let given_up = result.as_ref().err().filter(|_| connection.is_autocommit()).cloned();
    (answer(result), given_up)
}
