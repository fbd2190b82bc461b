//! The shared suite on each database, for a reading and a writing tool.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use reach_core::{Adapter, BoxFuture, Credential, Effect};
use reach_kit::proxy::{Proxy, Rule, What, When};
use serde_json::{Value, json};

use super::world::{Kind, World, attempt};
use crate::suite::{self, Fault, Scene, Stage};

/// A value that the proxy knows.
const MARK: &str = "pull-the-plug-7f3a";

struct Sql {
    kind: Kind,
    effect: Effect,
}

impl Sql {
    fn statement(&self) -> &'static str {
        match self.effect {
            Effect::Read => "select id, note from notes where note <> :note",
            _ => "insert into notes (id, note) values (2, :note)",
        }
    }

    /// A statement that runs until it is stopped, and a word of it.
    fn endless(&self) -> (&'static str, &'static str) {
        match (self.kind, self.effect) {
            (Kind::Postgres, Effect::Read) => ("select pg_sleep(60), :note::text", "pg_sleep"),
            (Kind::Postgres, _) => ("insert into notes select 3, :note from pg_sleep(60)", "pg_sleep"),
            (Kind::MariaDb, Effect::Read) => ("select sleep(60), :note", "sleep(60)"),
            (Kind::MariaDb, _) => ("insert into notes select sleep(60), :note", "sleep(60)"),
            (Kind::Sqlite, Effect::Read) => (
                "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n, notes where note <> :note",
                "",
            ),
            (Kind::Sqlite, _) => (
                "insert into notes with recursive n(i) as (select 1 union all select i + 1 from n) \
                 select count(*) + 10, :note from n, notes",
                "",
            ),
        }
    }

    fn tool(&self, world: &World, url: String, statement: &str, max_bytes: usize) -> Arc<dyn Adapter> {
        let config = json!({"database": url, "statement": statement, "max_bytes": max_bytes});
        world.declare(self.effect, config, &["note"]).unwrap()
    }

    async fn set(&self, fault: Fault) -> Result<Scene, &'static str> {
        let world = World::new(self.kind).await;
        world.sql("create table notes (id int primary key, note text)").await;
        world.sql("insert into notes values (1, 'first')").await;
        let note = json!({"note": MARK});
        let cap = 1024 * 1024;
        let scene =
            |adapter, attempt, gone, keep: Box<dyn std::any::Any + Send>| Ok(Scene { adapter, attempt, gone, keep });
        let nothing = || -> BoxFuture<'static, ()> { Box::pin(async {}) };
        match (fault, self.kind) {
            (Fault::None, _) => {
                let tool = self.tool(&world, world.url(), self.statement(), cap);
                scene(tool, attempt(note), nothing(), Box::new(world))
            }
            (Fault::Refused, Kind::Sqlite) => {
                let tool = self.tool(&world, "sqlite://missing.db".to_owned(), self.statement(), cap);
                scene(tool, attempt(note), nothing(), Box::new(world))
            }
            (Fault::Refused, _) => {
                let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
                let tool = self.tool(&world, world.url_through(port), self.statement(), cap);
                scene(tool, attempt(note), nothing(), Box::new(world))
            }
            (Fault::Oversize, kind) => {
                let statement = match (self.effect, kind) {
                    (Effect::Read, _) => "select note, :note as again from notes",
                    (_, Kind::Postgres) => "insert into notes values (2, :note) returning repeat(note, 1000)",
                    (_, Kind::MariaDb) => "insert into notes values (2, :note) returning repeat(note, 1000)",
                    (_, Kind::Sqlite) => "insert into notes values (2, :note) returning hex(zeroblob(4000))",
                };
                let tool = self.tool(&world, world.url(), statement, 1024);
                scene(tool, attempt(json!({"note": "x".repeat(2000)})), nothing(), Box::new(world))
            }
            (Fault::Cancelled, Kind::Sqlite) | (Fault::Stall, Kind::Sqlite) => {
                let tool = self.tool(&world, world.url(), self.endless().0, cap);
                let file = world.file();
                let gone = Box::pin(async move {
                    // An exclusive lock is given only when nobody reads or writes any more.
                    let connection = rusqlite::Connection::open(file).unwrap();
                    connection.busy_timeout(Duration::ZERO).unwrap();
                    while connection.execute_batch("begin exclusive; rollback").is_err() {
                        tokio::task::yield_now().await;
                    }
                });
                scene(tool, attempt(note), gone, Box::new(world))
            }
            (Fault::Cancelled, _) => {
                let (statement, word) = self.endless();
                let tool = self.tool(&world, world.url(), statement, cap);
                let world = Arc::new(world);
                let watched = Arc::clone(&world);
                let gone = Box::pin(async move { watched.becomes(&watched.running(word), "0").await });
                scene(tool, attempt(note), gone, Box::new(world))
            }
            (Fault::ExpiredCredential, Kind::Postgres | Kind::MariaDb) => {
                let tool = self.tool(&world, world.url(), self.statement(), cap);
                let mut attempt = attempt(note);
                let credential = Credential::Basic { username: "reach".to_owned(), password: "expired".into() };
                attempt.credential = Some(Arc::new(credential));
                scene(tool, attempt, nothing(), Box::new(world))
            }
            (Fault::Stall | Fault::Reset | Fault::HalfAnswer, Kind::Postgres | Kind::MariaDb) => {
                let what = match fault {
                    Fault::Stall => What::Stall,
                    Fault::Reset => What::Reset,
                    _ => What::Truncate(3),
                };
                let proxy = Proxy::start(world.address()).await.unwrap();
                proxy.set(Some(Rule { when: When::Sent(MARK.into()), what }));
                let tool = self.tool(&world, world.url_through(proxy.port()), self.statement(), cap);
                let gone = Box::pin(proxy.idle());
                scene(tool, attempt(note), gone, Box::new((world, proxy)))
            }
            (Fault::Malformed, Kind::Sqlite) => Err("a file that is no database is found before a statement runs"),
            (Fault::Malformed, _) => Err("an answer that is no protocol ends the connection: that is an interruption"),
            (Fault::Reset | Fault::HalfAnswer, Kind::Sqlite) => Err("a file has no connection that could break"),
            (Fault::ExpiredCredential, Kind::Sqlite) => Err("SQLite knows no login"),
        }
    }
}

impl Stage for Sql {
    fn scene(&self, fault: Fault) -> BoxFuture<'_, Result<Scene, &'static str>> {
        Box::pin(self.set(fault))
    }
}

async fn both(kind: Kind) {
    for effect in [Effect::Read, Effect::Write] {
        suite::run(&Sql { kind, effect }).await;
    }
}

#[tokio::test]
async fn sqlite_keeps_the_promise_of_an_adapter() {
    both(Kind::Sqlite).await;
}

#[tokio::test]
async fn postgres_keeps_the_promise_of_an_adapter() {
    both(Kind::Postgres).await;
}

#[tokio::test]
async fn mariadb_keeps_the_promise_of_an_adapter() {
    both(Kind::MariaDb).await;
}

/// Once per place of the suite where a value could have been written: nothing of a lost write is left.
#[tokio::test]
async fn a_write_that_was_cut_off_before_commit_leaves_nothing() {
    for kind in super::world::SERVERS {
        for what in [What::Reset, What::Truncate(3), What::Close] {
            let world = World::new(kind).await;
            world.sql("create table notes (id int primary key, note text)").await;
            let proxy = Proxy::start(world.address()).await.unwrap();
            proxy.set(Some(Rule { when: When::Sent(MARK.into()), what }));
            let stage = Sql { kind, effect: Effect::Write };
            let tool = stage.tool(&world, world.url_through(proxy.port()), stage.statement(), 1024);
            let failure = super::world::call(&tool, json!({"note": MARK})).await.unwrap_err();
            assert_eq!(failure.phase, reach_core::Phase::MaybeSent);
            assert_eq!(proxy.fired(), 1);
            world.becomes("select count(*) from notes", "0").await;
            let _: Value = super::world::call(&world.tool(Effect::Read, "select 1", &[]), json!({})).await.unwrap();
        }
    }
}
