//! What all tools of one upstream share: the waiting line, the retry budget and the breaker's settings.

use std::sync::Arc;

use parking_lot::Mutex;
use reach_core::breaker::Settings;

use crate::call::Budget;
use crate::gate::Line;

/// Calls that may be out at one upstream at once when nothing is declared.
pub(super) const MAX_CONCURRENCY: usize = 64;

/// What an operator declares about one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamSettings {
    /// Calls that may be out at once; the rest wait by priority.
    pub max_concurrency: usize,
    /// When its breaker opens.
    pub breaker: Settings,
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self { max_concurrency: MAX_CONCURRENCY, breaker: Settings::default() }
    }
}

/// One upstream.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) target: String,
    pub(crate) line: Arc<Line>,
    pub(crate) budget: Budget,
    settings: Mutex<UpstreamSettings>,
}

impl Upstream {
    pub(super) fn new(target: String, settings: UpstreamSettings) -> Self {
        Self {
            target,
            line: Line::new(settings.max_concurrency),
            budget: Budget::default(),
            settings: Mutex::new(settings),
        }
    }

    /// The old value with the new settings: those who wait keep their place in the line.
    pub(super) fn adopt(self: &Arc<Self>, new: &Self) -> Arc<Self> {
        let settings = *new.settings.lock();
        *self.settings.lock() = settings;
        self.line.set_cap(settings.max_concurrency);
        Arc::clone(self)
    }

    pub(crate) fn breaker(&self) -> Settings {
        self.settings.lock().breaker
    }
}
