//! The composition root: the only place that puts the parts together.
//!
//! The binary, the demo and the end-to-end tests all come through here, so that what is tested is what
//! runs.

use std::sync::Arc;

use anyhow::Context;
use reach_core::Problem;
use reach_engine::{Declared, Engine, Registry, Stores};
use reach_server::Callers;
use reach_store::ledger::Recovered;

use crate::config::Config;

/// An engine with its stores, ready for calls.
pub struct Assembled {
    /// The engine.
    pub engine: Engine,
    /// What the last crash left behind, and was settled before this was returned.
    pub recovered: Recovered,
}

/// Opens the stores, settles what a crash left in flight, and builds the engine.
pub async fn assemble(config: &Config) -> anyhow::Result<Assembled> {
    assemble_over(config, open_stores(config)?).await
}

/// The same over stores that are open already.
pub async fn assemble_over(config: &Config, stores: Stores) -> anyhow::Result<Assembled> {
    let recovered = stores.ledger.recover().await.context("failed to settle what the last run left in flight")?;
    let registry = registry(config, &stores).map_err(|problems| anyhow::anyhow!(lines(&problems)))?;
    Ok(Assembled { engine: Engine::new(registry, stores), recovered })
}

/// Opens the stores alone, for commands that only read.
pub fn open_stores(config: &Config) -> anyhow::Result<Stores> {
    let opened =
        reach_store::open(&config.state, &config.base).map_err(|problems| anyhow::anyhow!(lines(&problems)))?;
    let (ledger, board, blobs) = opened;
    Ok(Stores { ledger, board, blobs })
}

/// Compiles the declared tools and the built-in ones over these stores.
pub fn registry(config: &Config, stores: &Stores) -> Result<Registry, Vec<Problem>> {
    let (spec, adapter) =
        reach_engine::builtin::read_result::tool(Arc::clone(&stores.blobs), reach_core::tool::MAX_RESULT_LENGTH);
    let mut tools = config.tools.clone();
    tools.push(Declared { spec, adapter, credential: None, check: None });
    Registry::build(tools, &config.upstreams, config.scrubber())
}

/// Who may call, as declared.
pub fn callers(config: &Config) -> Callers {
    Callers::new(keys(config))
}

/// Replaces who may call by what is declared now.
pub fn replace_callers(callers: &Callers, config: &Config) {
    callers.replace(keys(config));
}

fn keys(config: &Config) -> impl Iterator<Item = (reach_core::Caller, secrecy::SecretString)> {
    config.callers.iter().map(|declared| (declared.caller.clone(), declared.key.clone()))
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems
        .iter()
        .map(|problem| format!("{}: {}\n  fix: {}", problem.pointer, problem.message, problem.fix))
        .collect();
    lines.join("\n")
}
