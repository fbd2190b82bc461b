//! The story: eight short chapters, each a thing that goes well or wrong in front of real systems.

use std::time::Duration;

use reach_core::Envelope;
use reach_shop::{orders, smtp};
use serde_json::{Value, json};

use super::gateway::{Gateway, SESSION};
use crate::cli::show;

/// Tells the story; `paced` pauses between chapters, so that a person can read along.
pub async fn tell(gateway: &Gateway, paced: bool) -> anyhow::Result<()> {
    let mut teller = Teller { gateway, paced, step: 0, chapter: 0 };
    teller.a_good_call().await?;
    teller.a_refused_argument().await?;
    teller.a_slow_upstream().await?;
    teller.a_dead_upstream().await?;
    teller.a_duplicate_request().await?;
    teller.a_large_result().await?;
    teller.an_unknown_outcome().await?;
    teller.two_more_systems().await?;
    teller.the_timeline().await
}

struct Teller<'g> {
    gateway: &'g Gateway,
    paced: bool,
    step: u32,
    chapter: u32,
}

/// How long a person needs for a chapter's heading.
const PACE: Duration = Duration::from_millis(1_200);

impl Teller<'_> {
    async fn a_good_call(&mut self) -> anyhow::Result<()> {
        self.chapter("A good call", "An HTTP endpoint, declared once. The answer has the one shape every answer has.")
            .await?;
        let envelope = self.call("order_status_query", json!({"order_id": "OD20241015"}), None).await?;
        show::envelope(&envelope)
    }

    async fn a_refused_argument(&mut self) -> anyhow::Result<()> {
        self.chapter(
            "A refused argument",
            "The model invents a field and forgets the prefix. Nothing is sent; it is told what to change.",
        )
        .await?;
        let wrong = json!({"order_id": "20241015", "lang": "zh"});
        show::envelope(&self.call("order_status_query", wrong, None).await?)?;
        self.narrate("It corrects both and tries again:")?;
        let envelope = self.call("order_status_query", json!({"order_id": "OD20241015"}), None).await?;
        show::headline(&envelope)
    }

    async fn a_slow_upstream(&mut self) -> anyhow::Result<()> {
        self.chapter(
            "A slow upstream",
            "The order service stalls. After its timeout the standby copy answers; meta.served_by says so.",
        )
        .await?;
        self.gateway.orders.set_mode(orders::Mode::Slow).await?;
        let envelope = self.call("order_status_query", json!({"order_id": "OD20241015"}), None).await?;
        self.gateway.orders.set_mode(orders::Mode::Ok).await?;
        show::envelope(&envelope)
    }

    async fn a_dead_upstream(&mut self) -> anyhow::Result<()> {
        self.chapter(
            "A dead upstream",
            "The order service is switched off. With the stall before, that makes three failures in a row: its breaker opens, and nothing more is sent.",
        )
        .await?;
        self.gateway.orders.set_mode(orders::Mode::Down).await?;
        show::headline(&self.call("order_list", json!({}), None).await?)?;
        let refused = self.call("order_list", json!({}), None).await?;
        show::envelope(&refused)?;
        self.gateway.orders.set_mode(orders::Mode::Ok).await?;
        self.narrate("It is switched on again. When the breaker's pause is over, one probe goes through, then another, and it closes:")?;
        let mut wait = refused.error.and_then(|error| error.retry_after_ms).unwrap_or(1_500);
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(wait + 20)).await;
            let envelope = self.call("order_list", json!({}), None).await?;
            show::headline(&envelope)?;
            if envelope.is_ok() {
                break;
            }
            wait = envelope.error.and_then(|error| error.retry_after_ms).unwrap_or(250);
        }
        Ok(())
    }

    async fn a_duplicate_request(&mut self) -> anyhow::Result<()> {
        self.chapter("A duplicate request", "The same refund arrives twice under one key. It is carried out once; the second is answered from the record.").await?;
        let refund = json!({"order_id": "OD20241015", "amount": 20});
        for _ in 0..2 {
            show::headline(&self.call("refund_create", refund.clone(), Some("refund-1")).await?)?;
        }
        self.narrate(&format!(
            "Refunds the shop made: {}. The same key with another amount:",
            self.gateway.orders.refunds().len()
        ))?;
        let other = json!({"order_id": "OD20241015", "amount": 200});
        show::headline(&self.call("refund_create", other, Some("refund-1")).await?)
    }

    async fn a_large_result(&mut self) -> anyhow::Result<()> {
        self.chapter(
            "A large result",
            "The list of orders is too long for a model. It is clipped as valid JSON, and the whole is kept.",
        )
        .await?;
        let envelope = self.call("order_list", json!({}), None).await?;
        show::envelope(&envelope)?;
        let Some(blob) = envelope.meta.truncated.and_then(|cut| cut.blob) else { return Ok(()) };
        self.narrate("The tool read_result finds a line in the whole:")?;
        show::envelope(&self.call("read_result", json!({"blob": blob, "search": "OD20241020"}), None).await?)
    }

    async fn an_unknown_outcome(&mut self) -> anyhow::Result<()> {
        self.chapter("An unknown outcome", "The mail server takes a mail and hangs up without a word. Was it delivered? The answer says that nobody knows.").await?;
        self.gateway.mail.set_mode(smtp::Mode::VanishAfterData);
        let mail =
            json!({"to": "li@example.org", "subject": "您的退款已处理", "body": "退款 20.00 元将在三天内到账。"});
        show::envelope(&self.call("notification_email_send", mail.clone(), Some("mail-1")).await?)?;
        self.gateway.mail.set_mode(smtp::Mode::Accept);
        self.narrate("The server is well again and the agent insists. The record answers; no second mail leaves:")?;
        let again = self.call("notification_email_send", mail, Some("mail-1")).await?;
        show::headline(&again)?;
        self.narrate(&format!(
            "Mails the server has: {}. What became of it is for a person to find out and settle.",
            self.gateway.mail.mails().len()
        ))
    }

    async fn two_more_systems(&mut self) -> anyhow::Result<()> {
        self.chapter("A database and a folder", "A SQL statement with a bound parameter (the usual attack is just a name nobody has), and a search in two languages.").await?;
        show::envelope(&self.call("inventory_query", json!({"sku": "A-17"}), None).await?)?;
        show::headline(&self.call("inventory_query", json!({"sku": "' or 1=1; drop table stock; --"}), None).await?)?;
        show::envelope(&self.call("search_notes", json!({"query": "退款 重复"}), None).await?)
    }

    async fn the_timeline(&mut self) -> anyhow::Result<()> {
        self.chapter("What happened", "Every step of every call, read from the journal.").await?;
        show::session(&self.gateway.engine.ledger(), SESSION).await
    }

    async fn call(&mut self, tool: &str, arguments: Value, key: Option<&str>) -> anyhow::Result<Envelope> {
        self.step += 1;
        let key_words = key.map(|key| format!("  key {key}")).unwrap_or_default();
        show::line(&format!("\n  {} {tool} {arguments}{key_words}", show::arrow()))?;
        self.gateway.call(tool, arguments, key, self.step).await
    }

    async fn chapter(&mut self, title: &str, words: &str) -> anyhow::Result<()> {
        if self.paced && self.chapter > 0 {
            tokio::time::sleep(PACE).await;
        }
        self.chapter += 1;
        show::chapter(self.chapter, title, words)
    }

    fn narrate(&self, words: &str) -> anyhow::Result<()> {
        show::line(&format!("  {words}"))
    }
}
