//! The shop and the gateway in front of it, in one folder that other commands can look into.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use reach_core::Envelope;
use reach_server::{Callers, Server};
use reach_shop::orders::Orders;
use reach_shop::smtp::MailSink;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::adopt::Adopter;
use crate::assemble::{self, Assembled};
use crate::config::{self, ProcessEnvironment};

/// The running demo.
pub struct Gateway {
    /// The folder with reach.yaml, the stock database, the notes and the gateway's state.
    pub folder: PathBuf,
    /// Where the gateway listens.
    pub address: SocketAddr,
    /// The order service.
    pub orders: Orders,
    /// The mailbox.
    pub mail: MailSink,
    /// The engine, for the readers of the journal.
    pub engine: reach_engine::Engine,
    client: reqwest::Client,
    stop: CancellationToken,
    server: tokio::task::JoinHandle<()>,
    watching: tokio::task::JoinHandle<std::io::Result<()>>,
}

/// The session under which the story's calls are recorded.
pub(super) const SESSION: &str = "demo";

impl Gateway {
    /// Starts the shop, writes its configuration into `folder`, starts the gateway on a free port, and follows the
    /// changes of that configuration as `reach serve` does. `folder` has to be ours: what is in it is overwritten.
    pub async fn start(folder: &Path) -> anyhow::Result<Self> {
        let orders = Orders::start(0).await.context("failed to start the order service")?;
        let mail = MailSink::start(0).await.context("failed to start the mail server")?;
        let config_file = furnish(folder, &orders, &mail)?;

        let config = config::load(&config_file, &ProcessEnvironment).map_err(|report| {
            anyhow::anyhow!("the demo's own configuration has problems:\n{}", report.render(false))
        })?;
        let stores = assemble::open_stores(&config)?;
        let Assembled { engine, .. } = assemble::assemble_over(&config, stores.clone()).await?;
        let mut settings = config.server.clone();
        settings.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let callers = Callers::new([]);
        let server = Server::bind(settings, engine.clone(), callers.clone()).await?;
        let address = server.address();
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let server = tokio::spawn(async move {
            server.serve(stopped).await;
        });
        let watching = tokio::spawn(Adopter::new(&config, engine.clone(), callers, stores).follow(config_file));
        let client = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { folder: folder.to_path_buf(), address, orders, mail, engine, client, stop, server, watching })
    }

    /// One call over the HTTP API, as any agent would make it.
    pub async fn call(&self, tool: &str, arguments: Value, key: Option<&str>, step: u32) -> anyhow::Result<Envelope> {
        let url = format!("http://{}/v1/tools/{tool}/calls", self.address);
        let body = json!({ "arguments": arguments, "session_id": SESSION, "step": step });
        let mut request = self.client.post(url).json(&body);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        Ok(request.send().await?.json().await?)
    }

    /// Stops taking calls, finishes those under way, writes the journal to its end.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.watching.abort();
        self.stop.cancel();
        self.server.await?;
        Ok(())
    }
}

/// Puts everything the gateway needs into the folder, and says where its configuration is.
fn furnish(folder: &Path, orders: &Orders, mail: &MailSink) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(folder.join("notes"))?;
    for (name, text) in reach_shop::NOTES {
        std::fs::write(folder.join("notes").join(name), text)?;
    }
    reach_shop::stock::create(&folder.join("stock.db"))?;
    let text = reach_shop::REACH_YAML
        .replace("{orders}", &orders.url())
        .replace("{orders_standby}", &orders.stand_in_url())
        .replace("{smtp}", &format!("smtp://127.0.0.1:{}?tls=none", mail.port()));
    let path = folder.join("reach.yaml");
    std::fs::write(&path, text)?;
    Ok(path)
}
