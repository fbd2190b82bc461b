//! What the story and the readers print: envelopes at a glance, chapters, a session's timeline.

use std::sync::Arc;

use reach_core::{Envelope, SessionId};
use reach_journal::timeline::Timeline;
use reach_store::Ledger;

use super::output;
use crate::demo::Gateway;

/// One line.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    Ok(output::print(&format!("{text}\n"))?)
}

/// The mark before a call.
pub(crate) fn arrow() -> String {
    output::dim("→")
}

/// The heading of a chapter.
pub(crate) fn chapter(number: u32, title: &str, words: &str) -> anyhow::Result<()> {
    line(&format!("\n{} {}\n  {}", output::strong(&format!("{number}.")), output::strong(title), output::dim(words)))
}

/// How a call went, in one line, with the words of an error.
pub(crate) fn headline(envelope: &Envelope) -> anyhow::Result<()> {
    line(&format!("    {}", super::call::headline(envelope)))?;
    match &envelope.error {
        Some(error) => line(&format!("    {}", error.message.replace('\n', "\n    "))),
        None => Ok(()),
    }
}

/// The headline, then the data or the advice.
pub(crate) fn envelope(envelope: &Envelope) -> anyhow::Result<()> {
    headline(envelope)?;
    if let Some(data) = &envelope.data {
        let text = serde_json::to_string_pretty(data)?;
        let shown: Vec<&str> = text.lines().take(14).collect();
        let more = text.lines().count().saturating_sub(shown.len());
        line(&format!("    {}", output::dim(&shown.join("\n    "))))?;
        if more > 0 {
            line(&format!("    {}", output::dim(&format!("… {more} more lines on your screen, not in the answer"))))?;
        }
    }
    if let Some(error) = &envelope.error {
        if let Some(hint) = &error.hint {
            line(&format!("    {} {hint}", output::odd("hint:")))?;
        }
        let retry =
            error.retry_after_ms.map(|wait| format!(", retry after {}", output::duration(wait))).unwrap_or_default();
        line(&format!(
            "    {}",
            output::dim(&format!("retryable: {}{retry}, phase: {}", error.retryable, envelope.meta.phase.as_str()))
        ))?;
    }
    Ok(())
}

/// The timeline of one session.
pub(crate) async fn session(ledger: &Arc<dyn Ledger>, session_id: &str) -> anyhow::Result<()> {
    ledger.flush().await?;
    let rows = ledger.session(SessionId::new(session_id)).await?;
    line(&super::timeline::text(&Timeline::of(&rows)))
}

/// What to try while the demo is up.
pub(crate) fn what_next(gateway: &Gateway) -> anyhow::Result<()> {
    let (address, config) = (gateway.address, gateway.folder.join("reach.yaml"));
    // This very program and a whole path: the commands work in any folder, and build nothing.
    let program = word(&std::env::current_exe()?.to_string_lossy());
    let config_word = word(&config.to_string_lossy());
    let config = config.display();
    line(&format!(
        "\n{}\n\
         \n  The gateway stays up on http://{address}. In another terminal:\n\
         \n    curl -s http://{address}/v1/tools\
         \n    curl -s http://{address}/v1/tools/inventory_query/calls -H 'content-type: application/json' \\\
         \n         -d '{{\"arguments\": {{\"sku\": \"B-04\"}}}}'\
         \n    {program} --config {config_word} call inventory_query '{{\"sku\": \"A-18\"}}'\
         \n    {program} --config {config_word} sessions show demo\
         \n    {program} --config {config_word} settle\
         \n\n  An MCP client connects to http://{address}/mcp. Change {config} and watch the tools follow.\
         \n  Ctrl-C stops everything.",
        output::strong("Your turn")
    ))
}

/// Text as one word of a shell.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:,@%=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(word("/tmp/reach-demo-1/reach.yaml"), "/tmp/reach-demo-1/reach.yaml");
        assert_eq!(word("/tmp/a b/it's"), r"'/tmp/a b/it'\''s'");
        assert_eq!(word("/tmp/$(id)"), "'/tmp/$(id)'");
    }
}
