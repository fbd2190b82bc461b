//! What a checked configuration is: values that the rest of the program takes as they are.
//!
//! Whoever holds a [`Config`] need not check anything again: every reference in it exists, every adapter is
//! built, every number is within its bounds. It prints no secret.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use reach_core::Caller;
use reach_core::redact::Scrubber;
use reach_engine::{Declared, UpstreamSettings};
use reach_store::StateUrls;
use secrecy::SecretString;

/// A checked `reach.yaml`.
pub struct Config {
    /// SHA-256 of the text it was read from.
    pub digest: Digest,
    /// How the gateway listens.
    pub server: reach_server::Settings,
    /// The tools in the order declared, adapters built: what [`reach_engine::Registry::build`] takes.
    pub tools: Vec<Declared>,
    /// Who may call; empty means whoever is on this machine.
    pub callers: Vec<DeclaredCaller>,
    /// Limits of the upstreams named in the file, by target; every other one has [`UpstreamSettings::default`].
    pub upstreams: HashMap<String, UpstreamSettings>,
    /// Where state is kept; [`reach_store::open`] takes it with `base`.
    pub state: StateUrls,
    /// How long the ledger remembers.
    pub keep: Keep,
    /// The folder of the file: relative paths in it start here.
    pub base: PathBuf,
    /// Every secret of the file, for [`Scrubber::new`]: credentials, callers' keys, passwords in URLs.
    pub secrets: Vec<SecretString>,
}

/// How long the ledger remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The events of calls.
    pub journal: Duration,
    /// Requests that ended, and whose outcome is known.
    pub records: Duration,
}

/// SHA-256 of a file's content.
pub type Digest = [u8; 32];

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools = self.tools.iter().map(|tool| {
            (tool.spec.tool_id.as_str(), tool.adapter.kind(), tool.adapter.target(), tool.credential.as_deref())
        });
        f.debug_struct("Config")
            .field("server", &self.server)
            .field("tools", &tools.collect::<Vec<_>>())
            .field("callers", &self.callers)
            .field("upstreams", &self.upstreams)
            .field("state", &self.state)
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// A scrubber that knows every secret of the file, in every form in which it travels.
    pub fn scrubber(&self) -> Scrubber {
        Scrubber::new(self.secrets.iter().flat_map(super::secrets::forms))
    }
}

/// One caller and what it proves itself with.
#[derive(Clone, Debug)]
pub struct DeclaredCaller {
    /// Its name, scopes and rate.
    pub caller: Caller,
    /// Its key; compare it in constant time.
    pub key: SecretString,
}
