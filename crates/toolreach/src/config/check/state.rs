//! Where state is kept: one URL each, of the kinds that the store room has.

use reach_store::StateUrls;

use super::Draft;
use crate::config::sections;

/// The three URLs, if they are sound. Nothing is opened.
pub(super) fn check(draft: &mut Draft<'_>) -> Option<StateUrls> {
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
    Some(urls)
}
