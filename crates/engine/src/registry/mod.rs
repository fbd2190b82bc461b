//! The tools, checked and compiled: an immutable snapshot that a call keeps from beginning to end.
//!
//! A reload builds a new snapshot beside the old one; upstreams (their waiting lines and retry budgets)
//! are handed over, so that a reload never lets more calls through than the cap allows.

mod tool;
mod upstream;

use std::collections::HashMap;
use std::num::NonZero;
use std::panic::resume_unwind;
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
        let mut tools = Vec::with_capacity(declared.len());
        for tool in declared {
            let target = tool.adapter.target().to_owned();
            let settings = upstreams.get(&target).copied().unwrap_or_default();
            let upstream = registry
                .upstreams
                .entry(target.clone())
                .or_insert_with(|| Arc::new(Upstream::new(target, settings)))
                .clone();
            tools.push((tool, upstream));
        }
        for (index, compiled) in compile(tools).into_iter().enumerate() {
            match compiled {
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

/// Tools that are worth a thread of their own.
const SHARE_MIN: usize = 32;

/// Compiles all, in order, on every processor: with hundreds of tools a start and a reload wait for this.
fn compile(tools: Vec<(Declared, Arc<Upstream>)>) -> Vec<Result<Tool, Vec<Problem>>> {
    let each =
        |tools: Vec<_>| -> Vec<_> { tools.into_iter().map(|(tool, upstream)| Tool::compile(tool, upstream)).collect() };
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let share = tools.len().div_ceil(processors).max(SHARE_MIN);
    if tools.len() <= share {
        return each(tools);
    }
    let mut rest = tools.into_iter();
    std::thread::scope(|scope| {
        let mut parts = Vec::with_capacity(processors);
        while rest.len() > 0 {
            let part = rest.by_ref().take(share).collect();
            parts.push(scope.spawn(move || each(part)));
        }
        parts.into_iter().flat_map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("tools", &self.tools.keys().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}
