//! The signals by which a person or a supervisor ends a command.
//!
//! They are taken over before the command's work begins: from then on none of them may end it the hard way, in
//! the middle of a write. What ending means is the command's own matter; nothing here stops anything.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals of a command that does not end by itself.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn install() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Ctrl-C or SIGTERM. A SIGHUP is nothing here: to a gateway it means to read its file again.
    pub(super) async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// The same or SIGHUP, for what belongs to the terminal or the client that started it and has to go with it.
    pub(super) async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
