//! `reach call`: one call down the same road as every other surface, and its envelope.

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use reach_core::ids::IdError;
use reach_core::{Envelope, OnFailure, Plan, Priority, RequestId, SessionId, TraceId, exact};

use super::signals::Signals;
use super::{Common, Failure, output};
use crate::assemble::assemble_over;
use crate::config::Config;

/// The arguments of `reach call`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The tool's id.
    tool: String,
    /// Its arguments as a JSON object; `-` reads them from standard input.
    #[arg(default_value = "{}")]
    arguments: String,
    /// The idempotency key: the same key with the same arguments is carried out once.
    #[arg(long)]
    key: Option<String>,
    /// Give up after this many milliseconds, if that is sooner than the tool's own timeout.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: Option<u64>,
    /// Place in the waiting line of a busy upstream.
    #[arg(long, value_enum, default_value_t = Rank::Normal)]
    priority: Rank,
    /// Answer with the failure instead of walking the fallback chain.
    #[arg(long)]
    no_fallback: bool,
    /// The conversation this call belongs to.
    #[arg(long)]
    session: Option<String>,
    /// The chain of cause this call belongs to.
    #[arg(long)]
    trace: Option<String>,
    /// The agent's step.
    #[arg(long, default_value_t = 0)]
    step: u32,
    /// The question the agent works on; ranks passages of tools with `shape: extract`.
    #[arg(long)]
    question: Option<String>,
    /// Call as this declared caller, with its scopes and rate; otherwise as the local one.
    #[arg(long)]
    caller: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rank {
    Low,
    Normal,
    High,
}

pub(super) async fn run(arguments: Arguments, common: &Common) -> Result<ExitCode, Failure> {
    common.start_log("warn", output::LogFormat::Auto);
    let config = common.load()?;
    let plan = plan(arguments, &config, common)?;
    let mut signals = Signals::install()?;
    let assembled = assemble_over(&config, common.open_stores(&config)?).await?;
    let envelope = tokio::select! {
        envelope = assembled.engine.call(plan) => Some(envelope),
        () = signals.end() => None,
    };
    // A write that was sent is finished and recorded before the process ends, interrupted or not.
    assembled.engine.drain(Duration::from_secs(30)).await;
    let Some(envelope) = envelope else { return Ok(ExitCode::from(130)) };
    if common.json {
        output::print_json(&envelope)?;
    } else {
        // The headline is for the person; what can be piped on is the envelope alone.
        output::say(&format!("{}\n", headline(&envelope)));
        let body = serde_json::to_string_pretty(&envelope).map_err(anyhow::Error::from)?;
        output::print(&format!("{body}\n"))?;
    }
    Ok(if envelope.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn plan(given: Arguments, config: &Config, common: &Common) -> Result<Plan, Failure> {
    let unfit = |flag: &str, error: IdError| common.usage(&format!("{flag} {error}"));
    if let Some(key) = &given.key {
        RequestId::parse(key).map_err(|error| unfit("--key", error))?;
    }
    let session = given.session.as_deref().map(SessionId::parse).transpose();
    let session = session.map_err(|error| unfit("--session", error))?;
    let trace = given.trace.as_deref().map(TraceId::parse).transpose().map_err(|error| unfit("--trace", error))?;
    let text = match given.arguments.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
        text => text.to_owned(),
    };
    let arguments = exact::parse_arguments(&text).map_err(|error| {
        common.usage(&format!("the arguments are not a JSON object: {error}\n  fix: quote them for your shell, such as '{{\"order_id\": \"OD20241015\"}}'"))
    })?;
    let caller = common.caller(config, given.caller.as_deref())?;
    let mut plan = Plan::new(&given.tool, arguments, caller);
    if let Some(key) = &given.key {
        plan = plan.with_key(key);
    }
    plan.timeout = given.timeout_ms.map(Duration::from_millis);
    plan.priority = match given.priority {
        Rank::Low => Priority::Low,
        Rank::Normal => Priority::Normal,
        Rank::High => Priority::High,
    };
    if given.no_fallback {
        plan.on_failure = OnFailure::Return;
    }
    if let Some(session) = session {
        plan.session_id = session;
    }
    if let Some(trace) = trace {
        plan.trace_id = trace;
    }
    plan.step = given.step;
    plan.question = given.question;
    Ok(plan)
}

/// One line that says how a call went.
pub(super) fn headline(envelope: &Envelope) -> String {
    let meta = &envelope.meta;
    let mut parts = vec![match &envelope.error {
        None => output::good("ok"),
        Some(error) => output::bad(error.code.as_str()),
    }];
    parts.push(envelope.tool.to_string());
    parts.push(output::dim(&output::duration(meta.duration_ms)));
    if meta.attempts > 1 {
        parts.push(output::odd(&format!("{} attempts", meta.attempts)));
    }
    if let Some(server) = meta.served_by.as_ref().filter(|server| **server != envelope.tool) {
        parts.push(output::odd(&format!("served by {server}")));
    }
    if meta.replayed {
        parts.push(output::odd("replayed"));
    }
    if let Some(cut) = &meta.truncated {
        parts.push(output::odd(&format!("{} of {} characters shown", cut.shown, cut.total)));
    }
    parts.join("  ")
}
