//! A bench: one upstream that can be broken in one way and mended again.

use std::path::Path;

use reach_core::{BoxFuture, Effect};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};

use super::table::Fault;
use super::{email, file, http, script, sql};

/// How long a bench stays broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// Until it is mended.
    Ever,
    /// For the next request only.
    OneRequest,
}

/// What the upstream is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The fault under test.
    Broken(For),
    /// Something that counts as a failure whatever the effect, to open a breaker with.
    Tripped,
    /// All is well.
    Well,
}

type Turn = Box<dyn FnMut(State) -> BoxFuture<'static, ()> + Send + Sync>;

/// One upstream, and the tool's part of the configuration that reaches it.
pub(super) struct Bench {
    /// The adapter's key and what it holds.
    pub(super) adapter: (&'static str, Value),
    /// The arguments of every call but `id`.
    pub(super) properties: Value,
    /// The value of `id`.
    pub(super) id: &'static str,
    /// Whether [`For::OneRequest`] can be made.
    pub(super) can_do_once: bool,
    /// Whether [`State::Tripped`] can be made.
    pub(super) can_trip: bool,
    turn: Turn,
    /// What has left a trace upstream so far, oldest first: the key that came along, if any.
    traces: Box<dyn Fn() -> BoxFuture<'static, Vec<Option<String>>> + Send + Sync>,
}

impl Bench {
    pub(super) async fn of(fault: &Fault, effect: Effect, folder: &Path) -> Self {
        match fault.adapter.as_str() {
            "http" => http::bench(&fault.fault).await,
            "script" => script::bench(&fault.fault, folder),
            "email" => email::bench(&fault.fault).await,
            "file" => file::bench(&fault.fault, effect, folder),
            "sqlite" => sql::sqlite(&fault.fault, effect, folder),
            "postgres" => sql::postgres(&fault.fault, effect).await,
            other => panic!("no bench for {other}"),
        }
    }

    pub(super) fn new<T, R>(
        adapter: (&'static str, Value),
        mut turn: impl FnMut(State) -> T + Send + Sync + 'static,
        traces: impl Fn() -> R + Send + Sync + 'static,
    ) -> Self
    where
        T: Future<Output = ()> + Send + 'static,
        R: Future<Output = Vec<Option<String>>> + Send + 'static,
    {
        Self {
            adapter,
            properties: json!({"id": {"type": "string"}}),
            id: "x",
            can_do_once: false,
            can_trip: false,
            turn: Box::new(move |state| Box::pin(turn(state))),
            traces: Box::new(move || Box::pin(traces())),
        }
    }

    pub(super) async fn turn(&mut self, state: State) {
        (self.turn)(state).await;
    }

    pub(super) async fn traces(&self) -> Vec<Option<String>> {
        (self.traces)().await
    }
}

/// A port of this machine that is ours and at which nobody listens.
pub(super) struct Reserved(TcpSocket);

impl Reserved {
    pub(super) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self(socket)
    }

    pub(super) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// Listens from now on.
    pub(super) fn listen(self) -> TcpListener {
        self.0.listen(64).unwrap()
    }
}
