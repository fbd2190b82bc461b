//! A hostile caller: nothing it sends is ever SQL, and a reading tool changes nothing.

use reach_core::{Effect, FailureKind, Phase};
use serde_json::json;

use super::world::{KINDS, Kind, World, call};

/// One JSON string a line; read by each database's test.
const PAYLOADS: &str = include_str!("../../../../../suites/sql-payloads.jsonl");

fn payloads() -> Vec<String> {
    let payloads: Vec<String> = PAYLOADS.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(payloads.len() >= 100, "{}", payloads.len());
    payloads
}

async fn guarded(kind: Kind) -> World {
    let world = World::new(kind).await;
    world.sql("create table canary (id int primary key, secret varchar(50))").await;
    world.sql("insert into canary values (1, 'untouched'), (2, 'untouched')").await;
    let columns = match kind {
        Kind::MariaDb => "id varchar(500) collate utf8mb4_nopad_bin primary key, one text, two text",
        Kind::Sqlite | Kind::Postgres => "id varchar(500) primary key, one text, two text",
    };
    world.sql(&format!("create table notes ({columns})")).await;
    world
}

async fn intact(world: &World, after: &str) {
    let found = world.text("select count(*) from canary where secret = 'untouched'").await;
    assert_eq!(found.as_deref(), Some("2"), "{:?}: {after:?}", world.kind);
}

async fn payloads_stay_values(kind: Kind) {
    let world = guarded(kind).await;
    let insert =
        world.tool(Effect::Write, "insert into notes (id, one, two) values (:id, :one, :two)", &["id", "one", "two"]);
    let update =
        world.tool(Effect::Write, "update notes set one = :one, two = :two where id = :id", &["id", "one", "two"]);
    let find = world.tool(
        Effect::Read,
        "select id, one, two from notes where id = :id and (one = :one or two = :two)",
        &["id", "one", "two"],
    );
    let delete = world.tool(Effect::Write, "delete from notes where id = :id", &["id"]);
    for payload in payloads() {
        let nul = payload.contains('\0') && kind == Kind::Postgres;
        for place in ["one", "two", "id"] {
            let mut arguments = json!({"id": "plain id", "one": "plain one", "two": "plain two"});
            arguments[place] = payload.clone().into();
            let inserted = call(&insert, arguments.clone()).await;
            if nul {
                assert_eq!(inserted.unwrap_err().kind, FailureKind::Refused);
                continue;
            }
            assert_eq!(inserted.unwrap_or_else(|failure| panic!("{payload:?}: {failure:?}")), json!({"affected": 1}));
            let found = call(&find, arguments.clone()).await.unwrap();
            assert_eq!(found["rows"], json!([arguments]), "{kind:?}: byte-equal in `{place}`");
            call(&update, arguments.clone()).await.unwrap();
            let deleted = call(&delete, json!({"id": arguments["id"]})).await.unwrap();
            assert_eq!(deleted, json!({"affected": 1}), "{kind:?}: {payload:?} matched more or less than itself");
        }
    }
    intact(&world, "all payloads").await;
    assert_eq!(world.text("select count(*) from notes").await.unwrap(), "0");
}

#[tokio::test]
async fn payloads_stay_values_on_sqlite() {
    payloads_stay_values(Kind::Sqlite).await;
}

#[tokio::test]
async fn payloads_stay_values_on_postgres() {
    payloads_stay_values(Kind::Postgres).await;
}

#[tokio::test]
async fn payloads_stay_values_on_mariadb() {
    payloads_stay_values(Kind::MariaDb).await;
}

#[tokio::test]
async fn payloads_choose_no_identifier() {
    for kind in KINDS {
        let world = guarded(kind).await;
        let config = json!({
            "database": world.url(), "statement": "select id from canary order by {sort} limit :most",
            "identifiers": {"sort": ["id", "secret"]},
        });
        let tool = world.declare(Effect::Read, config, &["sort", "most"]).unwrap();
        call(&tool, json!({"sort": "secret", "most": 2})).await.unwrap();
        for payload in payloads() {
            let failure = call(&tool, json!({"sort": payload, "most": 2})).await.unwrap_err();
            assert_eq!((failure.kind, failure.phase), (FailureKind::Refused, Phase::Rejected), "{payload:?}");
            // Where a number belongs, a payload is an error or a number, and never SQL.
            if let Ok(found) = call(&tool, json!({"sort": "id", "most": payload})).await {
                assert!(found["row_count"].as_u64().unwrap() <= 2, "{payload:?}");
            }
        }
        intact(&world, "identifiers").await;
    }
}

#[tokio::test]
async fn an_operators_odd_identifier_is_quoted_and_not_run() {
    for kind in KINDS {
        let world = guarded(kind).await;
        let odd = "id; drop table canary --";
        let quoted = if kind == Kind::MariaDb { format!("`{odd}`") } else { format!("\"{odd}\"") };
        world.sql(&format!("create table odd ({quoted} int)")).await;
        let config = json!({
            "database": world.url(), "statement": "select {column} as v from odd", "identifiers": {"column": [odd]},
        });
        let tool = world.declare(Effect::Read, config, &["column"]).unwrap();
        assert_eq!(call(&tool, json!({"column": odd})).await.unwrap()["row_count"], 0);
        intact(&world, odd).await;
    }
}

/// Statements that an operator must not be able to declare as reading, whatever their disguise.
#[tokio::test]
async fn a_reading_tool_with_a_writing_statement_cannot_be_declared() {
    let everywhere = [
        "delete from canary",
        "update canary set secret = 'x'",
        "insert into canary values (3, 'x')",
        "drop table canary",
        "create table x (a int)",
        "alter table canary add x int",
        "select 1; delete from canary",
        "select 1; drop table canary",
        "/* select */ delete from canary",
        "-- select\ndelete from canary",
        "(select 1); delete from canary",
        "begin",
        "commit",
        "rollback",
        "with x as (select 1) delete from canary",
        "explain analyze delete from canary",
        "set x = 1",
    ];
    let postgres = [
        "with x as (delete from canary returning *) select * from x",
        "select * into y from canary",
        "select * from canary for update",
        "select setval('s', 1)",
        "select \"setval\"('s', 1)",
        "select pg_catalog.\"nextval\"('s')",
        "copy canary to program 'sh -c id'",
        "do $$ begin delete from canary; end $$",
        "truncate canary",
        "vacuum",
        "listen x",
        "select lo_import('/etc/passwd')",
        "select * from dblink('', 'delete from canary') as t(a int)",
        "select pg_terminate_backend(1)",
        "select set_config('a.b', 'c', false)",
        "call x()",
        "lock table canary",
        "values (1); delete from canary",
        "table canary; delete from canary",
        "select pg_advisory_lock(1)",
        "with x as (insert into canary values (9, 'x') returning 1) select 1 union select 2",
        "select 1 where exists (with x as (delete from canary returning 1) select 1 from x)",
    ];
    let mariadb = [
        "replace into canary values (1, 'x')",
        "truncate table canary",
        "load data infile '/etc/passwd' into table canary",
        "select * from canary into outfile '/tmp/x'",
        "select secret from canary into @x",
        "select /*! 1 into outfile '/tmp/x' */",
        "select 1 /*!; delete from canary */",
        "select /*M!100000 1 */",
        "handler canary open",
        "call x()",
        "kill 1",
        "select get_lock('a', 1)",
        "select * from canary for update",
        "select * from canary lock in share mode",
        "do release_lock('a')",
        "rename table canary to x",
        "optimize table canary",
        "set global general_log = 1",
        "select 1 # \n; delete from canary",
        "select ';' ; delete from canary",
    ];
    let sqlite = [
        "replace into canary values (1, 'x')",
        "attach database '/tmp/x.db' as x",
        "detach database x",
        "pragma writable_schema = 1",
        "pragma journal_mode = delete",
        "vacuum",
        "vacuum into '/tmp/x.db'",
        "reindex",
        "analyze",
        "select load_extension('x')",
        "insert or replace into canary values (1, 'x')",
        "create virtual table x using fts5(a)",
        "savepoint x",
        "select writefile('/tmp/x', 'y')",
    ];
    for kind in KINDS {
        let world = guarded(kind).await;
        let own: &[&str] = match kind {
            Kind::Postgres => &postgres,
            Kind::MariaDb => &mariadb,
            Kind::Sqlite => &sqlite,
        };
        for statement in everywhere.iter().chain(own) {
            let config = json!({"database": world.url(), "statement": statement});
            let declared = world.declare(Effect::Read, config, &[]);
            assert!(
                declared.is_err_and(|problems| problems.iter().all(|problem| problem.pointer == "/statement")),
                "{kind:?}: {statement}"
            );
        }
    }
}

/// Functions hide what they do from any reader of the text: here the database itself has to say no.
#[tokio::test]
async fn a_function_that_writes_is_stopped_by_the_database() {
    let world = guarded(Kind::Postgres).await;
    world
        .sql("create function quiet() returns int language plpgsql as $$ begin delete from canary; return 1; end $$")
        .await;
    world.sql("create function builder() returns int language plpgsql as $$ begin execute 'create table made (a int)'; return 1; end $$").await;
    world.sql("create function opener() returns int language plpgsql as $$ begin set transaction read write; delete from canary; return 1; end $$").await;
    world.sql("create function setter() returns int language plpgsql as $$ begin perform set_config('transaction_read_only', 'off', false); delete from canary; return 1; end $$").await;
    world.sql("create view trap as select quiet() as v").await;
    for statement in [
        "select quiet()",
        "select builder()",
        "select opener()",
        "select setter()",
        "select * from trap",
        "select * from canary where quiet() = 1",
    ] {
        let tool = world.tool(Effect::Read, statement, &[]);
        let failure = call(&tool, json!({})).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (FailureKind::Rejected, Phase::Answered), "{statement}: {failure:?}");
        intact(&world, statement).await;
    }
    let world = guarded(Kind::MariaDb).await;
    world.sql("create function quiet() returns int begin delete from canary; return 1; end").await;
    for statement in ["select quiet()", "select * from canary where quiet() = 1"] {
        let tool = world.tool(Effect::Read, statement, &[]);
        let failure = call(&tool, json!({})).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (FailureKind::Rejected, Phase::Answered), "{statement}: {failure:?}");
        intact(&world, statement).await;
    }
}

#[tokio::test]
async fn sqlite_lets_a_tool_touch_rows_and_nothing_else() {
    let world = guarded(Kind::Sqlite).await;
    for (effect, statement) in [
        (Effect::Write, "select load_extension('./evil')"),
        (Effect::Write, "insert into sqlite_master (type) values ('table')"),
        (Effect::Write, "update sqlite_master set sql = ''"),
        (Effect::Write, "delete from sqlite_schema"),
        (Effect::Read, "select * from pragma_journal_mode('delete')"),
        (Effect::Read, "select * from pragma_writable_schema"),
        (Effect::Read, "select fts3_tokenizer('simple')"),
    ] {
        let tool = world.tool(effect, statement, &[]);
        let failure = call(&tool, json!({})).await.unwrap_err();
        assert_eq!((failure.kind, failure.phase), (FailureKind::Rejected, Phase::Answered), "{statement}: {failure:?}");
    }
    intact(&world, "authoriser").await;
}
