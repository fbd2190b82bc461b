//! What a running gateway does beside its calls: settles what dead processes left, and forgets what is old.
//!
//! Both run in the background and never hold up a call; what fails is logged and tried at the next turn.
//! Only the ledger is touched here.

use std::sync::Arc;
use std::time::Duration;

use reach_store::Ledger;
use reach_store::ledger::{Pruned, Recovered};

use crate::config::Keep;

/// Between two looks for records whose owner is gone.
const SETTLE: Duration = Duration::from_secs(60);

/// Between two rounds of forgetting.
const FORGET: Duration = Duration::from_secs(60 * 60);

/// Runs until it is dropped.
pub(super) async fn tidy(ledger: Arc<dyn Ledger>, keep: Keep) {
    tokio::join!(settle_the_dead(ledger.as_ref()), forget_the_old(ledger.as_ref(), keep));
}

/// Another process on the same ledger (a `reach call`) may be killed while this one lives: its keys would
/// answer `IN_PROGRESS` until the next start.
async fn settle_the_dead(ledger: &dyn Ledger) {
    loop {
        tokio::time::sleep(SETTLE).await;
        match ledger.recover().await {
            Ok(recovered) if recovered == Recovered::default() => {}
            Ok(recovered) => tracing::warn!(?recovered, "settled what a dead process left behind"),
            Err(error) => tracing::warn!(%error, "could not look for what a dead process left behind"),
        }
    }
}

async fn forget_the_old(ledger: &dyn Ledger, keep: Keep) {
    loop {
        let now_ms = chrono::Utc::now().timestamp_millis().max(0) as u64;
        let before = |kept: Duration| now_ms.saturating_sub(u64::try_from(kept.as_millis()).unwrap_or(u64::MAX));
        match ledger.prune(before(keep.journal), before(keep.records)).await {
            Ok(pruned) if pruned == Pruned::default() => {}
            Ok(Pruned { rows, records }) => tracing::info!(rows, records, "forgot what was older than `state.keep`"),
            Err(error) => tracing::warn!(%error, "could not forget what is older than `state.keep`"),
        }
        tokio::time::sleep(FORGET).await;
    }
}
