//! What a declaration may say, and how a wrong one is told.

use std::time::Duration;

use reach_adapters::sql::Config;
use reach_core::{Effect, Problem};
use serde_json::{Value, json};

use super::world::{Kind, World};

fn problems(world: &World, effect: Effect, config: Value, arguments: &[&str]) -> Vec<Problem> {
    match world.declare(effect, config, arguments) {
        Ok(_) => Vec::new(),
        Err(problems) => problems,
    }
}

#[tokio::test]
async fn every_problem_of_a_declaration_is_reported_at_once() {
    let world = World::new(Kind::Sqlite).await;
    let config = json!({
        "database": "sqlite://stock.db",
        "statement": "select :skus, ? from t order by {sort}, {other}",
        "identifiers": {"sort": [], "unused": ["a..b"]},
        "credential": "orders",
        "max_rows": 0, "max_bytes": 1, "pool_size": 0,
    });
    let found = problems(&world, Effect::Read, config, &["sku"]);
    let pointers: Vec<&str> = found.iter().map(|problem| problem.pointer.as_str()).collect();
    for pointer in [
        "/max_rows",
        "/max_bytes",
        "/pool_size",
        "/statement",
        "/identifiers/sort",
        "/identifiers/unused",
        "/credential",
    ] {
        assert!(pointers.contains(&pointer), "{pointer}: {found:#?}");
    }
    assert!(found.iter().any(|problem| problem.fix == "did you mean `:sku`?"), "{found:#?}");
    assert!(found.iter().any(|problem| problem.message.contains("`{other}`")), "{found:#?}");
    assert!(found.iter().all(|problem| !problem.fix.is_empty() && !problem.message.ends_with('.')));
}

#[tokio::test]
async fn a_reading_tool_with_a_writing_statement_is_a_problem() {
    let world = World::new(Kind::Sqlite).await;
    for statement in ["delete from t", "insert into t values (1) returning a", "with x as (select 1) delete from t"] {
        let config = json!({"database": "sqlite://stock.db", "statement": statement});
        let found = problems(&world, Effect::Read, config.clone(), &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].pointer, "/statement");
        assert!(found[0].fix.contains("effect: write"));
        assert_eq!(problems(&world, Effect::Write, config, &[]), []);
    }
}

#[test]
fn the_effect_of_a_tool_that_declares_none_follows_its_statement() {
    let effect = |database: &str, statement: &str| {
        let config: Config = serde_json::from_value(json!({"database": database, "statement": statement})).unwrap();
        config.default_effect()
    };
    assert_eq!(effect("sqlite://a.db", "select * from t where a = :a"), Effect::Read);
    assert_eq!(effect("postgres://h/d", "with g as (delete from t returning *) select * from g"), Effect::Write);
    assert_eq!(effect("postgres://h/d", "select nextval('s')"), Effect::Write);
    assert_eq!(effect("mysql://h/d", "select * from t for update"), Effect::Write);
    assert_eq!(effect("mysql://h/d", "selct"), Effect::Write);
    assert_eq!(effect("nonsense", "select 1"), Effect::Write);
}

#[test]
fn unknown_keys_and_unknown_databases_are_refused_and_logins_are_never_shown() {
    assert!(
        serde_json::from_value::<Config>(json!({"database": "sqlite://a", "statement": "select 1", "max_row": 5}))
            .is_err()
    );
    let config: Config =
        serde_json::from_value(json!({"database": "postgres://bob:hunter2@h/d", "statement": "select 1"})).unwrap();
    let shown = format!("{config:?} {}", serde_json::to_string(&config).unwrap());
    assert!(shown.contains("postgres://h:5432/d"), "{shown}");
    assert!(!shown.contains("hunter2") && !shown.contains("bob"), "{shown}");
    let schema = serde_json::to_value(schemars::schema_for!(Config)).unwrap();
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(schema["required"], json!(["database", "statement"]));
    assert_eq!(schema["properties"]["max_rows"]["default"], json!(200));
    assert_eq!(schema["properties"]["max_bytes"]["default"], json!(1_048_576));
    assert_eq!(schema["properties"]["pool_size"]["default"], json!(4));
}

#[tokio::test]
async fn a_check_prepares_and_executes_nothing() {
    for kind in super::world::KINDS {
        let world = World::new(kind).await;
        world.sql("create table t (a int)").await;
        let name = match kind {
            Kind::Sqlite => "SQLite 3.",
            Kind::Postgres => "PostgreSQL 1",
            Kind::MariaDb => "MariaDB 1",
        };
        for (effect, statement) in
            [(Effect::Write, "insert into t values (:a)"), (Effect::Read, "select a from t where a = :a")]
        {
            let tool = world.tool(effect, statement, &["a"]);
            let line = tool.check(Duration::from_secs(10)).await.unwrap();
            assert!(line.starts_with(name) && line.ends_with("statement prepared"), "{line}");
            assert!(!tool.target().contains("hush-") && !tool.target().contains("reach:"), "{}", tool.target());
        }
        assert_eq!(world.text("select count(*) from t").await.unwrap(), "0");
    }
}

#[tokio::test]
async fn a_check_of_a_silent_server_ends_at_its_timeout() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    for kind in super::world::SERVERS {
        let world = World::new(kind).await;
        let config = json!({"database": world.url_through(port), "statement": "select 1"});
        let tool = world.declare(Effect::Read, config, &[]).unwrap();
        let failure = tool.check(Duration::from_millis(100)).await.unwrap_err();
        assert_eq!(failure.kind, reach_core::FailureKind::Unreachable);
        assert!(failure.message.contains("100 ms"));
    }
}

#[tokio::test]
async fn a_certificate_authority_that_cannot_be_read_is_a_problem() {
    let world = World::new(Kind::Sqlite).await;
    let config =
        json!({"database": "postgres://h/d?sslmode=verify-full&sslrootcert=absent.pem", "statement": "select 1"});
    let found = problems(&world, Effect::Read, config, &[]);
    assert_eq!(found[0].pointer, "/database");
    assert!(found[0].message.contains("sslrootcert"), "{found:?}");
}

#[tokio::test]
async fn encryption_that_is_required_is_not_given_up() {
    for kind in super::world::SERVERS {
        let world = World::new(kind).await;
        for mode in ["require", "verify-full"] {
            let url = format!("{}?sslmode={mode}", world.url());
            let tool = world.declare(Effect::Read, json!({"database": url, "statement": "select 1"}), &[]).unwrap();
            let failure = super::world::call(&tool, json!({})).await.unwrap_err();
            assert_eq!(failure.kind, reach_core::FailureKind::Unreachable, "the test server has no TLS: {failure:?}");
        }
        for mode in ["disable", "prefer"] {
            let url = format!("{}?sslmode={mode}", world.url());
            let tool = world.declare(Effect::Read, json!({"database": url, "statement": "select 1"}), &[]).unwrap();
            super::world::call(&tool, json!({})).await.unwrap();
        }
    }
}
