//! Limits of single upstreams: every one named has to be the target of a tool, or it limits nothing.

use std::collections::{BTreeSet, HashMap};

use reach_core::breaker;
use reach_engine::UpstreamSettings;

use super::tools::Checked;
use super::{Draft, nearest_or_all, quoted};
use crate::config::sections;
use crate::config::tree::{Data, escape};

/// The settings by target.
pub(super) fn check(draft: &mut Draft<'_>, tools: &[Checked]) -> HashMap<String, UpstreamSettings> {
    // A tool that could not be built may be the one that reaches this upstream.
    let declared = match draft.root.entry("tools").map(|entry| &entry.node.data) {
        Some(Data::List(items)) => items.len(),
        _ => 0,
    };
    let all_built = tools.iter().filter(|tool| tool.declared.is_some()).count() == declared;
    let targets: BTreeSet<&str> =
        tools.iter().filter_map(|tool| tool.declared.as_ref()).map(|tool| tool.adapter.target()).collect();
    let mut all = HashMap::new();
    for target in draft.keys("/upstreams") {
        let pointer = format!("/upstreams/{}", escape(&target));
        if all_built && !targets.contains(target.as_str()) {
            let fix = nearest_or_all(&target, targets.iter().copied(), "no tool is declared");
            draft.add(pointer.as_str(), format!("no tool reaches the upstream {}", quoted(&target)), fix);
        }
        if let Some(part) = draft.part::<sections::Upstream>(&pointer) {
            breaker_order(draft, &format!("{pointer}/breaker"), part.breaker);
            all.insert(target, part.into());
        }
    }
    all
}

/// A breaker that would stay open longer at first than at most.
pub(super) fn breaker_order(draft: &mut Draft<'_>, pointer: &str, part: sections::Breaker) {
    if part.open_ms > part.open_max_ms {
        draft.add(
            format!("{pointer}/open_ms"),
            format!("`open_ms` is {}, more than `open_max_ms` ({})", part.open_ms, part.open_max_ms),
            "lower the first or raise the second",
        );
    }
}

impl From<sections::Breaker> for breaker::Settings {
    fn from(part: sections::Breaker) -> Self {
        Self {
            failures: part.failures,
            window_ms: part.window_ms,
            window_calls: part.window_calls,
            window_percent: part.window_percent,
            open_ms: part.open_ms,
            open_max_ms: part.open_max_ms,
            successes: part.successes,
        }
    }
}

impl From<sections::Upstream> for UpstreamSettings {
    fn from(part: sections::Upstream) -> Self {
        Self {
            max_concurrency: usize::try_from(part.max_concurrency).unwrap_or(usize::MAX),
            breaker: part.breaker.into(),
        }
    }
}
