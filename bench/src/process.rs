//! The programs that are measured: started in a folder of their own, watched through `/proc`, ended with
//! the value that holds them.

#![expect(clippy::disallowed_methods, reason = "starting the programs that are measured is what this file is for")]

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::load::Target;

/// What the bench is called by the gateway.
pub(crate) const KEY: &str = "bench-key-0123456789abcdef";

const INPUT_SCHEMA: &str = include_str!("../cases/input_schema.json");
const VALID: &str = include_str!("../cases/valid.json");

/// A running program.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Process {
    /// The upstream of the measurements.
    pub(crate) fn upstream() -> anyhow::Result<Self> {
        Self::role(&["upstream"])
    }

    /// The bare proxy in front of it.
    pub(crate) fn proxy(upstream: &Self) -> anyhow::Result<Self> {
        Self::role(&["proxy", &upstream.address.to_string()])
    }

    fn role(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("failed to start a part of the measurement")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no standard output")?).read_line(&mut line)?;
        let address = line.trim().parse().with_context(|| format!("`{}` did not start", arguments.join(" ")))?;
        Ok(Self { child, address })
    }

    /// `reach serve` on what is in this folder, ready for calls; its log goes to a file there.
    pub(crate) async fn gateway(folder: &Path, quiet: bool) -> anyhow::Result<Self> {
        let (gateway, _) = Self::gateway_timed(folder, quiet).await?;
        Ok(gateway)
    }

    /// The same, and how long it took from exec to the first 200 of `/readyz`.
    pub(crate) async fn gateway_timed(folder: &Path, quiet: bool) -> anyhow::Result<(Self, Duration)> {
        let binary = std::env::current_exe()?.with_file_name("reach");
        // With -q it does not say where it listens, so the port is chosen here.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let log = std::fs::File::create(folder.join("log"))?;
        let mut command = Command::new(&binary);
        command.arg("serve").arg("--config").arg(folder.join("reach.yaml")).arg("--listen").arg(address.to_string());
        if quiet {
            command.arg("-q");
        }
        command.env_remove("REACH_LOG").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let began = Instant::now();
        let child = command.spawn().with_context(|| {
            format!("failed to start {}; build it first: cargo build --release -p toolreach", binary.display())
        })?;
        let mut gateway = Self { child, address };
        while !is_ready(address).await {
            if gateway.child.try_wait()?.is_some() || began.elapsed() > Duration::from_secs(30) {
                bail!("the gateway did not start: {}", std::fs::read_to_string(folder.join("log"))?);
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        Ok((gateway, began.elapsed()))
    }

    /// Time its threads have spent on a processor.
    pub(crate) fn processor_time(&self) -> anyhow::Result<Duration> {
        let mut nanoseconds = 0;
        for task in std::fs::read_dir(self.proc("task"))? {
            let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
            nanoseconds += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Memory it holds now, in bytes.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        let text = std::fs::read_to_string(self.proc("status"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes * 1024)
    }

    fn proc(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.child.id()))
    }
}

async fn is_ready(address: SocketAddr) -> bool {
    get(address, "/readyz").await.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// The whole answer to a GET on a connection of its own.
pub(crate) async fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// A folder on the disk that the build is on (a temporary file system has no syncs to measure).
pub(crate) fn folder() -> anyhow::Result<TempDir> {
    let beside = std::env::current_exe()?.parent().map(Path::to_path_buf).unwrap_or_default();
    tempfile::Builder::new().prefix("bench-").tempdir_in(beside).context("failed to make a folder")
}

/// Writes a configuration with `tools` reading tools (at least one), one that writes and one that is
/// never answered; all with the same realistic `input_schema`, for a caller with a key and scopes.
pub(crate) fn declare(folder: &Path, upstream: SocketAddr, tools: usize) -> anyhow::Result<()> {
    let schema = INPUT_SCHEMA.replace('\n', "");
    let mut text = format!(
        "version: 1\n\
         server: {{max_connections: 4096}}\n\
         callers:\n  bench: {{key: \"{KEY}\", scopes: [\"order:read\", \"order:write\"]}}\n\
         upstreams:\n  \"http://{upstream}\": {{max_concurrency: 4096}}\n\
         tools:\n"
    );
    let mut add = |id: &str, effect: &str, scope: &str, path: &str| {
        text.push_str(&format!(
            "  - tool_id: {id}\n    description: Orders of a merchant that fit the filter.\n    \
             effect: {effect}\n    input_schema: {schema}\n    auth: {{scope: \"{scope}\"}}\n    \
             timeout_ms: 600000\n    http: {{method: POST, url: \"http://{upstream}/{path}\"}}\n"
        ));
    };
    for number in 0..tools.max(1) {
        add(&format!("order_search_{number}"), "read", "order:read", "orders");
    }
    add("order_create", "write", "order:write", "orders");
    add("order_stall", "read", "order:read", "stall");
    Ok(std::fs::write(folder.join("reach.yaml"), text)?)
}

/// Valid calls of a declared tool.
pub(crate) fn calls_of(tool: &str, address: SocketAddr) -> Target {
    Target {
        address,
        path: format!("/v1/tools/{tool}/calls"),
        key: Some(KEY),
        body: format!("{{\"arguments\":{}}}", VALID.replace('\n', "")),
        keyed: false,
        expects: "\"status\":\"ok\"",
    }
}

/// The same arguments sent to the bare proxy.
pub(crate) fn forwards(address: SocketAddr) -> Target {
    Target {
        address,
        path: "/orders".to_owned(),
        key: None,
        body: VALID.replace('\n', ""),
        keyed: false,
        expects: "\"merchant_id\"",
    }
}
