//! The tools, checked and compiled: an immutable snapshot that a call keeps from beginning to end.
//!
//! A reload builds a new snapshot beside the old one; upstreams (their waiting lines and retry budgets)
//! are handed over, so that a reload never lets more calls through than the cap allows.

mod tool;
mod upstream;

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;
use reach_core::redact::Scrubber;
use reach_core::{Caller, Problem, ToolId, nearest};

pub use tool::Declared;
pub(crate) use tool::Tool;
pub(crate) use upstream::Upstream;
pub use upstream::UpstreamSettings;

/// A snapshot of every declared tool, in the order declared.
#[derive(Default)]
pub struct Registry {
    tools: IndexMap<String, Arc<Tool>>,
    upstreams: HashMap<String, Arc<Upstream>>,
    pub(crate) scrubber: Scrubber,
}

impl Registry {
    /// Compiles declared tools. `upstreams` holds the settings of upstreams by target; `scrubber` knows
    /// the secrets of the configuration. Problems carry pointers like `/tools/3/input_schema/...`.
    pub fn build(
        declared: Vec<Declared>,
        upstreams: &HashMap<String, UpstreamSettings>,
        scrubber: Scrubber,
    ) -> Result<Self, Vec<Problem>> {
        let mut registry = Self { scrubber, ..Self::default() };
        let mut problems = Vec::new();
        for (index, tool) in declared.into_iter().enumerate() {
            let target = tool.adapter.target().to_owned();
            let settings = upstreams.get(&target).copied().unwrap_or_default();
            let upstream = registry
                .upstreams
                .entry(target.clone())
                .or_insert_with(|| Arc::new(Upstream::new(target, settings)))
                .clone();
            match Tool::compile(tool, upstream) {
                Ok(tool) => {
                    let folded = tool.spec.tool_id.folded();
                    if registry.tools.contains_key(&folded) {
                        problems.push(Problem::new(
                            format!("/tools/{index}/tool_id"),
                            format!(
                                "`{}` is declared twice (ids are compared without regard to case)",
                                tool.spec.tool_id
                            ),
                            "give one of them another id",
                        ));
                    }
                    registry.tools.insert(folded, Arc::new(tool));
                }
                Err(found) => {
                    problems.extend(found.into_iter().map(|problem| problem.under(&format!("/tools/{index}"))))
                }
            }
        }
        if problems.is_empty() { Ok(registry) } else { Err(problems) }
    }

    /// Takes over the upstreams of the snapshot it replaces: lines and budgets go on, caps change.
    pub(crate) fn take_over(&mut self, previous: &Registry) {
        let kept: HashMap<String, Arc<Upstream>> = self
            .upstreams
            .iter()
            .map(|(target, new)| {
                let upstream = previous.upstreams.get(target).map_or_else(|| Arc::clone(new), |old| old.adopt(new));
                (target.clone(), upstream)
            })
            .collect();
        for tool in self.tools.values_mut() {
            if let Some(upstream) = kept.get(&tool.upstream.target) {
                *tool = Arc::new(tool.at(Arc::clone(upstream)));
            }
        }
        self.upstreams = kept;
    }

    /// The tool with exactly this id.
    pub(crate) fn find(&self, tool_id: &ToolId) -> Option<&Arc<Tool>> {
        self.tools.get(&tool_id.folded()).filter(|tool| tool.spec.tool_id == *tool_id)
    }

    /// At most three tools with ids near this one that the caller may use.
    pub(crate) fn near<'a>(&'a self, tool_id: &ToolId, caller: &'a Caller) -> Vec<&'a str> {
        let known = self.available(caller).map(|tool| tool.spec.tool_id.as_str());
        nearest::nearest(tool_id.as_str(), known, 3)
    }

    /// The tools a caller may use, in the order declared.
    pub(crate) fn available<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = &'a Arc<Tool>> {
        self.tools.values().filter(|tool| caller.scopes.allow(tool.spec.scope.as_deref()))
    }

    /// Every tool.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values()
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("tools", &self.tools.keys().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}
