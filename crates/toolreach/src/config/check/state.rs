//! Where state is kept: one URL each, of the kinds that the store room has; and for how long.

use std::time::Duration;

use reach_store::StateUrls;

use super::Draft;
use crate::config::checked::Keep;
use crate::config::sections;

/// The three URLs and how long the ledger remembers, if they are sound. Nothing is opened.
pub(super) fn check(draft: &mut Draft<'_>) -> Option<(StateUrls, Keep)> {
    let part = match draft.root.entry("state") {
        Some(_) => draft.part::<sections::State>("/state")?,
        None => sections::State::default(),
    };
    let urls = StateUrls { ledger: part.ledger, board: part.board, blobs: part.blobs };
    let problems = reach_store::check(&urls);
    if !problems.is_empty() {
        draft.add_under("/state", problems);
        return None;
    }
    let days = |days: u32| Duration::from_secs(u64::from(days) * 24 * 60 * 60);
    Some((urls, Keep { journal: days(part.keep.journal_days), records: days(part.keep.records_days) }))
}
