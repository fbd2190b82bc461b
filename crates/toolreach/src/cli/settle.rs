//! `reach settle`: writes whose outcome is unknown, and what a person found out about them.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use reach_core::{CallerId, Envelope, Meta, Object, Phase, RequestId, ToolId};
use reach_store::ledger::{Ending, RecordKey, Unsettled};
use serde_json::json;

use super::{Common, Failure, output};

/// The arguments of `reach settle`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// It happened: the same key is answered `ok` from now on.
    Done(Record),
    /// It did not happen: the same key may be sent again.
    NotDone(Record),
}

#[derive(Debug, Args)]
struct Record {
    /// The request id, as listed.
    request_id: String,
    /// The tool; only needed when several records have this request id.
    #[arg(long)]
    tool: Option<String>,
    /// The caller; only needed when several records have this request id.
    #[arg(long)]
    caller: Option<String>,
}

pub(super) async fn run(arguments: Arguments, common: &Common) -> Result<ExitCode, Failure> {
    common.start_log("warn", output::LogFormat::Auto);
    let config = common.load()?;
    let ledger = common.open_stores(&config)?.ledger;
    // What a crash left behind becomes visible here, too.
    ledger.recover().await?;
    let unsettled = ledger.unsettled(1_000).await?;
    let (record, done) = match arguments.action {
        None => return list(&unsettled, common),
        Some(Action::Done(record)) => (record, true),
        Some(Action::NotDone(record)) => (record, false),
    };
    let found = the_one(&unsettled, &record)?;
    let key = RecordKey {
        caller: CallerId::new(found.caller.as_str()),
        tool_id: ToolId::asked(found.tool_id.as_str()),
        request_id: RequestId::new(found.request_id.as_str()),
    };
    let ending = if done { Ending::Done { envelope: settled_envelope(found) } } else { Ending::Released };
    if !ledger.settle(key, ending).await? {
        return Err(Failure::Failed(anyhow::anyhow!("the record was settled by somebody else in the meantime")));
    }
    if common.json {
        output::print_json(&json!({ "request_id": found.request_id, "tool": found.tool_id, "done": done }))?;
    } else {
        let words = if done { "is answered ok from now on" } else { "may be sent again" };
        output::print(&format!("{} {} {words}\n", output::good("settled:"), found.request_id))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(unsettled: &[Unsettled], common: &Common) -> Result<ExitCode, Failure> {
    if common.json {
        output::print_json(&json!({ "unsettled": unsettled }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if unsettled.is_empty() {
        output::print("no write has an unknown outcome\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = output::table(&["request_id", "tool", "caller", "since (UTC)", "trace"]);
    for record in unsettled {
        table.add_row([
            record.request_id.to_string(),
            record.tool_id.to_string(),
            record.caller.to_string(),
            output::moment(record.at_ms),
            record.trace_id.to_string(),
        ]);
    }
    output::print(&format!(
        "{table}\nLook at the upstream for the request id, then: reach settle done|not-done REQUEST_ID\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn the_one<'a>(unsettled: &'a [Unsettled], wanted: &Record) -> Result<&'a Unsettled, Failure> {
    let same = |given: &Option<String>, found: &str| given.as_deref().is_none_or(|given| given == found);
    let mut matching = unsettled.iter().filter(|record| {
        record.request_id.as_str() == wanted.request_id
            && same(&wanted.tool, record.tool_id.as_str())
            && same(&wanted.caller, record.caller.as_str())
    });
    let usage = |text: &str| Failure::Usage(format!("{} {text}", output::bad("error:")));
    match (matching.next(), matching.next()) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => Err(usage("several records have this request id; add --tool or --caller")),
        (None, _) => Err(usage("no write with this request id has an unknown outcome; `reach settle` lists them")),
    }
}

/// What the same key is answered from now on.
fn settled_envelope(record: &Unsettled) -> String {
    let mut data = Object::new();
    data.insert("settled_by".to_owned(), "a person".into());
    let meta = Meta {
        step: 0,
        trace_id: record.trace_id.clone(),
        session_id: record.session_id.clone(),
        request_id: record.request_id.clone(),
        attempts: 1,
        duration_ms: 0,
        phase: Phase::Answered,
        served_by: Some(record.tool_id.clone()),
        replayed: false,
        truncated: None,
        tokens: reach_core::tokens::Tokens::default(),
    };
    serde_json::to_string(&Envelope::ok(record.tool_id.clone(), data, meta)).unwrap_or_default()
}
