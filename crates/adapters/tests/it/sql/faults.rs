//! What a failure means on a real server: how certain it is, and what is left behind.

use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use reach_core::{Credential, Effect, FailureKind, Phase};
use reach_kit::proxy::{Proxy, Rule, What, When};
use serde_json::json;

use super::world::{KINDS, Kind, SERVERS, World, attempt, call, call_attempt, postgres};

async fn notes(kind: Kind) -> World {
    let world = World::new(kind).await;
    world.sql("create table notes (id int primary key, note varchar(100) not null)").await;
    world
}

const INSERT: &str = "insert into notes (id, note) values (:id, :note)";

#[tokio::test]
async fn a_connection_lost_during_commit_is_never_called_certain() {
    for kind in SERVERS {
        // The server has COMMIT, and nobody hears that it is done; or it never gets it.
        for (when, rows) in [(When::Sent(b"commit".to_vec()), "1"), (When::BeforeSent(b"commit".to_vec()), "0")] {
            for what in [What::Reset, What::Close] {
                let world = notes(kind).await;
                let proxy = Proxy::start(world.address()).await.unwrap();
                let config = json!({"database": world.url_through(proxy.port()), "statement": INSERT});
                let tool = world.declare(Effect::Write, config, &["id", "note"]).unwrap();
                proxy.set(Some(Rule { when: when.clone(), what }));
                let failure = call(&tool, json!({"id": 1, "note": "a"})).await.unwrap_err();
                assert_eq!((failure.kind, failure.phase), (FailureKind::Interrupted, Phase::MaybeSent), "{failure:?}");
                assert!(failure.message.contains("not known"), "{failure:?}");
                assert_eq!(proxy.fired(), 1);
                world.becomes("select count(*) from notes", rows).await;
                // The next call has a connection of its own.
                proxy.set(None);
                call(&tool, json!({"id": 2, "note": "b"})).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_commit_that_stalls_is_maybe_sent_when_the_caller_gives_up() {
    for kind in SERVERS {
        let world = notes(kind).await;
        let proxy = Proxy::start(world.address()).await.unwrap();
        let config = json!({"database": world.url_through(proxy.port()), "statement": INSERT});
        let tool = world.declare(Effect::Write, config, &["id", "note"]).unwrap();
        proxy.set(Some(Rule { when: When::Sent(b"commit".to_vec()), what: What::Stall }));
        let attempt = attempt(json!({"id": 1, "note": "a"}));
        assert!(tokio::time::timeout(Duration::from_millis(500), tool.call(&attempt)).await.is_err());
        assert_eq!(attempt.sent.phase(), Phase::MaybeSent);
        tokio::time::timeout(Duration::from_secs(10), proxy.idle()).await.expect("the connection is closed");
    }
}

#[tokio::test]
async fn before_the_statement_is_sent_everything_is_not_sent() {
    for kind in SERVERS {
        let world = notes(kind).await;
        let proxy = Proxy::start(world.address()).await.unwrap();
        let config = json!({"database": world.url_through(proxy.port()), "statement": INSERT});
        let tool = world.declare(Effect::Write, config, &["id", "note"]).unwrap();
        for (when, what) in [
            (When::Connected, What::Close),
            (When::Connected, What::Reset),
            (When::Connected, What::Flood(b"SSH-2.0-nonsense\r\n".to_vec())),
            (When::Sent(b"transaction".to_vec()), What::Reset),
            (When::Sent(b"insert into notes".to_vec()), What::Close),
        ] {
            proxy.set(Some(Rule { when: when.clone(), what: what.clone() }));
            let attempt = attempt(json!({"id": 1, "note": "a"}));
            let failure = call_attempt(&tool, &attempt).await.unwrap_err();
            assert_eq!(
                (failure.kind, failure.phase),
                (FailureKind::Unreachable, Phase::NotSent),
                "{when:?}: {failure:?}"
            );
            assert_eq!(attempt.sent.phase(), Phase::NotSent, "{when:?} {what:?}");
        }
        assert_eq!(world.text("select count(*) from notes").await.unwrap(), "0");
    }
}

#[tokio::test]
async fn the_server_itself_keeps_the_deadline() {
    for kind in SERVERS {
        let world = notes(kind).await;
        let (read, write) = match kind {
            Kind::Postgres => ("select pg_sleep(30)", "insert into notes select 1, pg_sleep(30)::text"),
            _ => ("select sleep(30)", "insert into notes select 1, sleep(30)"),
        };
        for (effect, statement, kind_of, phase) in [
            (Effect::Read, read, FailureKind::Timeout, Phase::MaybeSent),
            (Effect::Write, write, FailureKind::Unavailable, Phase::Answered),
        ] {
            let tool = world.tool(effect, statement, &[]);
            let mut attempt = attempt(json!({}));
            attempt.timeout = Duration::from_millis(300);
            let started = tokio::time::Instant::now();
            let failure = call_attempt(&tool, &attempt).await.unwrap_err();
            assert_eq!((failure.kind, failure.phase), (kind_of, phase), "{kind:?}: {failure:?}");
            assert!(failure.message.contains("300 ms"), "{failure:?}");
            assert!(started.elapsed() < Duration::from_secs(5), "{kind:?}");
            assert_eq!(world.text("select count(*) from notes").await.unwrap(), "0");
        }
    }
}

#[tokio::test]
async fn sqlite_stops_a_statement_at_its_deadline_and_undoes_it() {
    let world = notes(Kind::Sqlite).await;
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    let write = format!("insert into notes select 1, ({endless})");
    for (effect, statement, kind) in
        [(Effect::Read, endless, FailureKind::Timeout), (Effect::Write, write.as_str(), FailureKind::Unavailable)]
    {
        let tool = world.tool(effect, statement, &[]);
        let mut attempt = attempt(json!({}));
        attempt.timeout = Duration::from_millis(200);
        let failure = call_attempt(&tool, &attempt).await.unwrap_err();
        assert_eq!(failure.kind, kind, "{failure:?}");
        assert_eq!(world.text("select count(*) from notes").await.unwrap(), "0");
    }
}

#[tokio::test]
async fn a_constraint_is_a_business_answer_in_the_servers_words() {
    for kind in KINDS {
        let world = notes(kind).await;
        let tool = world.tool(Effect::Write, INSERT, &["id", "note"]);
        call(&tool, json!({"id": 1, "note": "hidden-detail"})).await.unwrap();
        let failure = call(&tool, json!({"id": 1, "note": "b"})).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (FailureKind::Rejected, Phase::Answered), "{failure:?}");
        let words = failure.message.to_lowercase();
        assert!(words.contains("duplicate") || words.contains("unique"), "{failure:?}");
        let failure = call(&tool, json!({"id": 2})).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Rejected, "{failure:?}");
        // The connection is at rest and serves the next call.
        assert_eq!(call(&tool, json!({"id": 3, "note": "c"})).await.unwrap(), json!({"affected": 1}));
        assert_eq!(world.text("select count(*) from notes").await.unwrap(), "2");
    }
}

#[tokio::test]
async fn a_constraint_checked_at_commit_is_an_answer_too() {
    let world = World::new(Kind::Postgres).await;
    world
        .sql("create table a (id int primary key); create table b (a int references a deferrable initially deferred)")
        .await;
    let tool = world.tool(Effect::Write, "insert into b values (:a)", &["a"]);
    let failure = call(&tool, json!({"a": 1})).await.unwrap_err();
    assert_eq!((failure.kind, failure.phase), (FailureKind::Rejected, Phase::Answered), "{failure:?}");
    world.sql("insert into a values (1)").await;
    call(&tool, json!({"a": 1})).await.unwrap();
}

#[tokio::test]
async fn a_value_of_the_wrong_type_names_its_argument() {
    let world = notes(Kind::Postgres).await;
    let tool = world.tool(Effect::Read, "select * from notes where note = :note and id = :id", &["id", "note"]);
    let failure = call(&tool, json!({"id": "seven", "note": "a"})).await.unwrap_err();
    assert_eq!((failure.kind, failure.phase), (FailureKind::Rejected, Phase::Answered), "{failure:?}");
    assert!(failure.message.contains("argument `id`"), "{failure:?}");
    let failure = call(&tool, json!({"id": 1, "note": "a\0b"})).await.unwrap_err();
    assert_eq!((failure.kind, failure.phase), (FailureKind::Refused, Phase::Rejected), "{failure:?}");
}

#[tokio::test]
async fn a_table_that_is_missing_or_forbidden_is_said_so() {
    for kind in KINDS {
        let world = notes(kind).await;
        let tool = world.tool(Effect::Read, "select * from absent", &[]);
        let failure = call(&tool, json!({})).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (FailureKind::Rejected, Phase::Answered), "{failure:?}");
        assert!(failure.message.contains("absent"), "{failure:?}");
        assert!(tool.check(Duration::from_secs(5)).await.unwrap_err().message.contains("absent"));
    }
    for kind in SERVERS {
        let world = notes(kind).await;
        let user = world.name.clone();
        match kind {
            Kind::Postgres => world.sql(&format!("create role {user} login password 'low'")).await,
            _ => {
                world.sql(&format!("create user {user} identified by 'low'; grant create on {user}.* to {user}")).await
            }
        }
        let tool = world.tool(Effect::Read, "select * from notes", &[]);
        let mut attempt = attempt(json!({}));
        attempt.credential = Some(std::sync::Arc::new(Credential::Basic { username: user, password: "low".into() }));
        let failure = call_attempt(&tool, &attempt).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (FailureKind::Unauthorised, Phase::Answered), "{failure:?}");
        // The login of the URL is not the one that was just used.
        call(&tool, json!({})).await.unwrap();
    }
}

#[tokio::test]
async fn too_many_connections_is_unreachable() {
    for kind in SERVERS {
        let world = notes(kind).await;
        let user = world.name.clone();
        let (_first, _second);
        match kind {
            Kind::Postgres => {
                world.sql(&format!("create role {user} login password 'low' connection limit 1")).await;
                let url = format!("postgres://{user}:low@127.0.0.1:{}/{}", world.server().port, world.name);
                _first = postgres(&url).await;
            }
            _ => {
                world.sql(&format!("create user {user} identified by 'low' with max_user_connections 1; grant all on {user}.* to {user}")).await;
                let url =
                    format!("mysql://{user}:low@127.0.0.1:{}/{}?prefer_socket=false", world.server().port, world.name);
                _second = mysql_async::Conn::from_url(url).await.unwrap();
            }
        }
        let config = json!({
            "database": format!("{}://{user}:low@127.0.0.1:{}/{}", world.server().scheme, world.server().port, world.name),
            "statement": "select 1",
        });
        let tool = world.declare(Effect::Read, config, &[]).unwrap();
        let failure = call(&tool, json!({})).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (FailureKind::Unreachable, Phase::NotSent), "{failure:?}");
        assert!(failure.message.contains("too many connections"), "{failure:?}");
        let missing = format!(
            "{}://reach:{}@127.0.0.1:{}/absent",
            world.server().scheme,
            world.server().password,
            world.server().port
        );
        let tool = world.declare(Effect::Read, json!({"database": missing, "statement": "select 1"}), &[]).unwrap();
        let failure = call(&tool, json!({})).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (FailureKind::Unreachable, Phase::NotSent), "{failure:?}");
    }
}

#[tokio::test]
async fn a_conflict_undone_by_the_server_may_be_tried_again() {
    let world = notes(Kind::Postgres).await;
    world.sql("insert into notes values (1, 'a')").await;
    world.sql(&format!("alter database {} set default_transaction_isolation = 'repeatable read'", world.name)).await;
    let tool = world.tool(Effect::Write, "update notes set note = :note where id = 1", &["note"]);
    let admin = postgres(&world.url()).await;
    admin.batch_execute("begin; update notes set note = 'b' where id = 1").await.unwrap();
    let waits = tokio::spawn(async move { call(&tool, json!({"note": "c"})).await });
    world.becomes(&format!("{} and wait_event_type = 'Lock'", world.running("update notes")), "1").await;
    admin.batch_execute("commit").await.unwrap();
    let failure = waits.await.unwrap().unwrap_err();
    assert_eq!((failure.kind, failure.phase), (FailureKind::Unavailable, Phase::Answered), "{failure:?}");
    assert_eq!(world.text("select note from notes").await.unwrap(), "b");
}

#[tokio::test]
async fn a_lock_held_by_another_ends_with_the_deadline_and_no_change() {
    for kind in [Kind::MariaDb, Kind::Sqlite] {
        let world = notes(kind).await;
        world.sql("insert into notes values (1, 'a')").await;
        let tool = world.tool(Effect::Write, "update notes set note = :note where id = 1", &["note"]);
        let mut attempt = attempt(json!({"note": "c"}));
        attempt.timeout = Duration::from_millis(1000);
        let failure = match kind {
            Kind::Sqlite => {
                let other = rusqlite::Connection::open(world.file()).unwrap();
                other.execute_batch("begin immediate").unwrap();
                call_attempt(&tool, &attempt).await.unwrap_err()
            }
            _ => {
                let url = format!("{}?prefer_socket=false", world.url());
                let mut other = mysql_async::Conn::from_url(url).await.unwrap();
                other.query_drop("begin").await.unwrap();
                other.query_drop("update notes set note = 'b'").await.unwrap();
                let failure = call_attempt(&tool, &attempt).await.unwrap_err();
                other.query_drop("rollback").await.unwrap();
                failure
            }
        };
        assert_eq!((failure.kind, failure.phase), (FailureKind::Unavailable, Phase::Answered), "{failure:?}");
        assert_eq!(world.text("select note from notes").await.unwrap(), "a");
        call(&tool, json!({"note": "d"})).await.unwrap();
    }
}

#[tokio::test]
async fn a_change_that_cannot_be_rolled_back_is_an_open_question() {
    let world = World::new(Kind::MariaDb).await;
    world.sql("create table plain (id int primary key) engine = MyISAM; insert into plain values (3)").await;
    let tool = world.tool(Effect::Write, "insert into plain values (1), (:id)", &["id"]);
    let failure = call(&tool, json!({"id": 3})).await.unwrap_err();
    assert_eq!((failure.kind, failure.phase), (FailureKind::Interrupted, Phase::MaybeSent), "{failure:?}");
    assert_eq!(world.text("select count(*) from plain").await.unwrap(), "2");
}

#[tokio::test]
async fn a_connection_that_died_while_idle_costs_nothing() {
    for kind in SERVERS {
        let world = notes(kind).await;
        let proxy = Proxy::start(world.address()).await.unwrap();
        let config = json!({"database": world.url_through(proxy.port()), "statement": INSERT});
        let tool = world.declare(Effect::Write, config, &["id", "note"]).unwrap();
        call(&tool, json!({"id": 1, "note": "a"})).await.unwrap();
        call(&tool, json!({"id": 2, "note": "a"})).await.unwrap();
        assert_eq!(proxy.opened(), if kind == Kind::Postgres { 1 } else { proxy.opened() });
        let before = proxy.opened();
        match kind {
            Kind::Postgres => {
                let kill = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
                world.sql(kill).await;
            }
            _ => {
                let id = world
                    .text(&format!(
                        "select id from information_schema.processlist where db = '{}' and id <> connection_id()",
                        world.name
                    ))
                    .await
                    .unwrap();
                world.sql(&format!("kill {id}")).await;
            }
        }
        call(&tool, json!({"id": 3, "note": "a"})).await.unwrap();
        assert!(proxy.opened() > before);
        assert_eq!(world.text("select count(*) from notes").await.unwrap(), "3");
    }
}

#[tokio::test]
async fn a_table_changed_under_a_prepared_statement_is_prepared_anew() {
    let world = World::new(Kind::Postgres).await;
    world.sql("create table t (a int); insert into t values (1)").await;
    let tool = world.tool(Effect::Read, "select * from t", &[]);
    call(&tool, json!({})).await.unwrap();
    world.sql("alter table t add b int default 2").await;
    let failure = call(&tool, json!({})).await.unwrap_err();
    assert_eq!((failure.kind, failure.phase), (FailureKind::Unavailable, Phase::Answered), "{failure:?}");
    assert_eq!(call(&tool, json!({})).await.unwrap()["rows"], json!([{"a": 1, "b": 2}]));
}

#[tokio::test]
async fn one_row_of_a_gigabyte_does_not_fill_the_memory() {
    for kind in KINDS {
        let world = World::new(kind).await;
        let statement = match kind {
            Kind::Sqlite => "select hex(zeroblob(100000000)) as big",
            Kind::Postgres => "select repeat('x', 200000000) as big",
            Kind::MariaDb => "select repeat('x', 15000000) as big",
        };
        let tool = world.tool(Effect::Read, statement, &[]);
        let failure = call(&tool, json!({})).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (FailureKind::Oversize, Phase::Answered), "{kind:?}: {failure:?}");
    }
}

#[tokio::test]
async fn a_missing_file_is_unreachable_and_is_not_created() {
    let world = World::new(Kind::Sqlite).await;
    for effect in [Effect::Read, Effect::Write] {
        let config = json!({"database": "sqlite://absent.db", "statement": "select 1"});
        let tool = world.declare(effect, config, &[]).unwrap();
        let failure = call(&tool, json!({})).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (FailureKind::Unreachable, Phase::NotSent), "{failure:?}");
        assert_eq!(tool.check(Duration::from_secs(5)).await.unwrap_err().kind, FailureKind::Unreachable);
        assert!(!world.folder.path().join("absent.db").exists());
    }
    std::fs::write(
        world.folder.path().join("noise.db"),
        "this is no database, however long it may be read ".repeat(50),
    )
    .unwrap();
    let tool = world
        .declare(Effect::Read, json!({"database": "sqlite://noise.db", "statement": "select * from t"}), &[])
        .unwrap();
    assert_eq!(call(&tool, json!({})).await.unwrap_err().kind, FailureKind::Unreachable);
}
