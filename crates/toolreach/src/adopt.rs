//! What a running gateway makes of a changed file: which part of it is used at once, and which is not.
//!
//! Tools and callers are replaced together, without dropping a call. The listener and the stores are set up
//! once, so that a change of theirs is told, not used. A file that cannot be used, or that would take the lock off
//! a gateway that asks for keys, changes nothing. `reach serve` and the demo both come through here.

use std::path::PathBuf;

use reach_engine::{Engine, Stores};
use reach_server::Callers;
use reach_store::StateUrls;

use crate::assemble;
use crate::config::{Config, Digest, ProcessEnvironment, Report};
use crate::reload;

/// A gateway that runs, as far as its file can change it.
pub struct Adopter {
    engine: Engine,
    callers: Callers,
    stores: Stores,
    loaded: Digest,
    server: reach_server::Settings,
    state: StateUrls,
}

/// What became of a changed file.
#[derive(Debug, PartialEq, Eq)]
pub enum Adopted {
    /// Its tools and callers are in use; these sections of it are not before a restart.
    InUse {
        /// Names of sections of the file.
        after_restart: Vec<&'static str>,
    },
    /// The old configuration stays, whole.
    Refused,
}

impl Adopter {
    /// For a gateway that was put together from `config` over these parts.
    pub fn new(config: &Config, engine: Engine, callers: Callers, stores: Stores) -> Self {
        let (server, state) = (config.server.clone(), config.state.clone());
        Self { engine, callers, stores, loaded: config.digest, server, state }
    }

    /// Watches the file and adopts what it becomes, until the future is dropped.
    ///
    /// # Errors
    /// As [`reload::watch`].
    pub async fn follow(self, path: PathBuf) -> std::io::Result<()> {
        reload::watch(path, ProcessEnvironment, self.loaded, move |loaded| {
            self.adopt(loaded);
        })
        .await
    }

    /// Takes what was read of a changed file, and logs what came of it.
    pub fn adopt(&self, loaded: Result<Config, Report>) -> Adopted {
        let adopted = self.try_adopt(loaded);
        // Whoever is woken up at night looks at the health first.
        self.engine.notice(match adopted {
            Adopted::InUse { .. } => None,
            Adopted::Refused => Some("the configuration on disk was refused; an older one is in use".to_owned()),
        });
        adopted
    }

    fn try_adopt(&self, loaded: Result<Config, Report>) -> Adopted {
        let config = match loaded {
            Ok(config) => config,
            Err(report) => {
                tracing::error!(
                    "the new configuration has problems and was not used; the old one stays\n{}",
                    report.render(false)
                );
                return Adopted::Refused;
            }
        };
        // An editor that saves half a file must not open the gateway to everybody on the machine.
        if !self.callers.is_empty() && config.callers.is_empty() {
            tracing::error!(
                "the new configuration declares no callers: everything would be open without a key. It was not \
                 used; the old one stays. Restart the gateway if this is meant"
            );
            return Adopted::Refused;
        }
        let registry = match assemble::registry(&config, &self.stores) {
            Ok(registry) => registry,
            Err(problems) => {
                tracing::error!(?problems, "the new configuration cannot be used; the old one stays");
                return Adopted::Refused;
            }
        };
        assemble::replace_callers(&self.callers, &config);
        self.engine.replace(registry);
        tracing::info!(tools = config.tools.len(), callers = config.callers.len(), "the new configuration is in use");
        let after_restart = self.after_restart(&config);
        if !after_restart.is_empty() {
            tracing::warn!(
                sections = after_restart.join(", "),
                "these sections of the configuration have changed and need a restart; until then the old ones hold"
            );
        }
        Adopted::InUse { after_restart }
    }

    fn after_restart(&self, config: &Config) -> Vec<&'static str> {
        let sections = [("server", config.server != self.server), ("state", config.state != self.state)];
        sections.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
    }
}
