//! Where words go and how they look: colour by terminal, tables, and the log on standard error.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use tracing_subscriber::EnvFilter;

use super::Colour;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// One line of text each.
    Text,
    /// One JSON object a line.
    Json,
}

pub(crate) fn choose_colour(choice: Colour) {
    let choice = match choice {
        Colour::Auto => anstream::ColorChoice::Auto,
        Colour::Always => anstream::ColorChoice::Always,
        Colour::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Whether standard error shows colour.
pub(crate) fn is_coloured() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

/// Prints data on standard output; colour codes are removed where nobody sees them.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Prints one JSON document and a line end.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), super::Failure> {
    let mut text = serde_json::to_string(value).map_err(anyhow::Error::from)?;
    text.push('\n');
    Ok(print(&text)?)
}

/// Says something to the person, on standard error. A closed standard error loses words, not work.
pub(crate) fn say(text: &str) {
    drop(anstream::stderr().lock().write_all(text.as_bytes()));
}

pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

fn painted(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

/// Green: it worked.
pub(crate) fn good(text: &str) -> String {
    painted(text, AnsiColor::Green.on_default().bold())
}

/// Red: it did not.
pub(crate) fn bad(text: &str) -> String {
    painted(text, AnsiColor::Red.on_default().bold())
}

/// Yellow: look here.
pub(crate) fn odd(text: &str) -> String {
    painted(text, AnsiColor::Yellow.on_default().bold())
}

/// Grey: by the way.
pub(crate) fn dim(text: &str) -> String {
    painted(text, Style::new().dimmed())
}

/// Bold: a heading.
pub(crate) fn strong(text: &str) -> String {
    painted(text, Style::new().bold())
}

/// A table with a head line and no frame that would get in the way of copying.
pub(crate) fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    // In a pipe nothing is wrapped, so that a line can be searched; on a terminal it is wrapped to fit.
    let arrangement = match std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        true => ContentArrangement::Dynamic,
        false => ContentArrangement::Disabled,
    };
    table.load_style(presets::NOTHING).set_content_arrangement(arrangement);
    table.set_header(head.iter().map(|title| title.to_uppercase()).collect::<Vec<_>>());
    // Whatever is wrapped, it is not the name that a person copies.
    if let Some(names) = table.column_mut(0) {
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    table
}

/// Milliseconds as people read them.
pub(crate) fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..=9_999 => format!("{milliseconds} ms"),
        10_000..=119_999 => format!("{:.1} s", milliseconds as f64 / 1_000.0),
        _ => format!("{} min", milliseconds / 60_000),
    }
}

/// A moment, in local form without a date library: ISO in UTC.
pub(crate) fn moment(at_ms: u64) -> String {
    chrono::DateTime::from_timestamp_millis(at_ms as i64)
        .map(|time| time.format("%Y-%m-%d %H:%M:%S").to_string())
        .unwrap_or_else(|| at_ms.to_string())
}

/// Starts the log. REACH_LOG overrides the level, in the syntax of `tracing` filters.
pub(crate) fn start_log(level: &str, format: LogFormat) {
    let filter = EnvFilter::try_from_env("REACH_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let json = match format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::IsTerminal::is_terminal(&std::io::stderr()),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start (tests in one process) keeps the first.
    let started = if json {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    } else {
        builder.with_ansi(is_coloured()).try_init()
    };
    drop(started);
}

/// A progress bar on standard error, for work that a person waits for; silent when nobody looks.
pub(crate) fn progress(steps: u64, silent: bool) -> indicatif::ProgressBar {
    if silent {
        return indicatif::ProgressBar::hidden();
    }
    let style = indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed}")
        .unwrap_or_else(|_| indicatif::ProgressStyle::default_bar());
    indicatif::ProgressBar::new(steps).with_style(style)
}
