//! What a call answers, and what its limits do.

use std::sync::Arc;

use futures_util::future::join_all;
use reach_core::{Credential, Effect, FailureKind};
use reach_kit::proxy::Proxy;
use serde_json::json;

use super::world::{KINDS, Kind, SERVERS, World, attempt, call, call_attempt};

async fn stock(kind: Kind) -> World {
    let world = World::new(kind).await;
    world.sql("create table stock (sku varchar(20) primary key, available int, price int)").await;
    world.sql("insert into stock values ('A1', 5, 30), ('B2', 7, 20), ('C3', 0, 10)").await;
    world
}

#[tokio::test]
async fn a_read_answers_rows_with_their_count() {
    for kind in KINDS {
        let world = stock(kind).await;
        let tool = world.tool(Effect::Read, "select sku, available from stock where sku = :sku", &["sku"]);
        assert_eq!(
            call(&tool, json!({"sku": "B2"})).await.unwrap(),
            json!({"rows": [{"sku": "B2", "available": 7}], "row_count": 1, "more": false})
        );
        assert_eq!(
            call(&tool, json!({"sku": "none"})).await.unwrap(),
            json!({"rows": [], "row_count": 0, "more": false})
        );
        assert_eq!(call(&tool, json!({})).await.unwrap()["row_count"], 0, "an absent argument is NULL");
    }
}

#[tokio::test]
async fn a_write_answers_how_many_rows_it_changed_and_what_it_returns() {
    for kind in KINDS {
        let world = stock(kind).await;
        let tool = world.tool(
            Effect::Write,
            "update stock set available = available + :more where price < :price",
            &["more", "price"],
        );
        assert_eq!(call(&tool, json!({"more": 1, "price": 25})).await.unwrap(), json!({"affected": 2}));
        assert_eq!(world.text("select sum(available) from stock").await.unwrap(), "14");
        let tool = world.tool(
            Effect::Write,
            "insert into stock values (:a, 1, 1), (:b, 2, 2) returning sku, price",
            &["a", "b"],
        );
        assert_eq!(
            call(&tool, json!({"a": "X", "b": "Y"})).await.unwrap(),
            json!({"affected": 2, "rows": [{"sku": "X", "price": 1}, {"sku": "Y", "price": 2}], "more": false}),
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn rows_beyond_max_rows_are_said_to_be_there_and_a_write_is_not_cut() {
    for kind in KINDS {
        let world = stock(kind).await;
        let declare = |effect, statement: &str| {
            let config = json!({"database": world.url(), "statement": statement, "max_rows": 2});
            world.declare(effect, config, &[]).unwrap()
        };
        let read = declare(Effect::Read, "select sku from stock order by sku");
        for _ in 0..3 {
            assert_eq!(
                call(&read, json!({})).await.unwrap(),
                json!({"rows": [{"sku": "A1"}, {"sku": "B2"}], "row_count": 2, "more": true})
            );
        }
        let write = declare(Effect::Write, "delete from stock returning sku");
        let answer = call(&write, json!({})).await.unwrap();
        assert_eq!((&answer["affected"], &answer["more"]), (&json!(3), &json!(true)), "{kind:?}: {answer}");
        assert_eq!(world.text("select count(*) from stock").await.unwrap(), "0");
    }
}

#[tokio::test]
async fn a_result_beyond_max_bytes_is_refused_and_its_write_undone() {
    for kind in KINDS {
        let world = stock(kind).await;
        let declare = |effect, statement: &str, max_bytes: usize| {
            let config = json!({"database": world.url(), "statement": statement, "max_bytes": max_bytes});
            world.declare(effect, config, &["text"]).unwrap()
        };
        let text = "x".repeat(3000);
        let cast = if kind == Kind::Postgres { "cast(:text as text)" } else { ":text" };
        let statement = format!("select {cast} as a");
        assert!(call(&declare(Effect::Read, &statement, 4000), json!({"text": text})).await.is_ok());
        let failure = call(&declare(Effect::Read, &statement, 2000), json!({"text": text})).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Oversize);
        let statement = format!("delete from stock returning {cast} as a");
        let failure = call(&declare(Effect::Write, &statement, 2000), json!({"text": text})).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Oversize);
        assert!(failure.message.contains("rolled back"), "{failure:?}");
        world.becomes("select count(*) from stock", "3").await;
    }
}

#[tokio::test]
async fn columns_of_one_name_are_not_lost() {
    for kind in KINDS {
        let world = stock(kind).await;
        let tool = world.tool(
            Effect::Read,
            "select a.sku, b.sku from stock a join stock b on b.price = a.price + 10 order by 1",
            &[],
        );
        let answer = call(&tool, json!({})).await.unwrap();
        assert_eq!(answer["rows"], json!([{"sku": "B2", "sku_2": "A1"}, {"sku": "C3", "sku_2": "B2"}]));
    }
}

#[tokio::test]
async fn an_identifier_is_chosen_from_its_list_and_quoted() {
    for kind in KINDS {
        let world = stock(kind).await;
        let config = json!({
            "database": world.url(),
            "statement": "select s.sku from stock s where available >= :least order by {sort}",
            "identifiers": {"sort": {"cheapest": "s.price", "name": "sku"}},
        });
        let tool = world.declare(Effect::Read, config, &["sort", "least"]).unwrap();
        let first =
            async |sort: &str| call(&tool, json!({"sort": sort, "least": 0})).await.unwrap()["rows"][0]["sku"].clone();
        assert_eq!(first("cheapest").await, "C3");
        assert_eq!(first("name").await, "A1");
        let config = json!({
            "database": world.url(), "statement": "select {column} as found from stock where sku = 'A1'",
            "identifiers": {"column": ["price", "available"]},
        });
        let tool = world.declare(Effect::Read, config, &["column"]).unwrap();
        assert_eq!(call(&tool, json!({"column": "available"})).await.unwrap()["rows"], json!([{"found": 5}]));
        for wrong in [json!("sku"), json!("price\""), json!("PRICE"), json!(1), json!(null), json!(["price"])] {
            let failure = call(&tool, json!({"column": wrong})).await.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Refused, "{failure:?}");
            assert_eq!(failure.message, "`column` has to be one of: price, available");
        }
    }
}

#[tokio::test]
async fn no_more_connections_than_the_pool_allows_are_opened_and_they_are_used_again() {
    for kind in SERVERS {
        for size in [1, 3] {
            let world = World::new(kind).await;
            let proxy = Proxy::start(world.address()).await.unwrap();
            let statement = if kind == Kind::Postgres { "select pg_sleep(0.05)" } else { "select sleep(0.05)" };
            let config =
                json!({"database": world.url_through(proxy.port()), "statement": statement, "pool_size": size});
            let tool = world.declare(Effect::Read, config, &[]).unwrap();
            // MariaDB without TLS is greeted once more, with the question for TLS.
            call(&tool, json!({})).await.unwrap();
            let before = proxy.opened() - 1;
            for outcome in join_all((0..12).map(|_| call(&tool, json!({})))).await {
                outcome.unwrap();
            }
            assert_eq!(proxy.opened() - before, size, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_credential_logs_in_instead_of_the_url() {
    for kind in SERVERS {
        let world = World::new(kind).await;
        let bare = format!("{}://127.0.0.1:{}/{}", world.server().scheme, world.server().port, world.name);
        let statement =
            if kind == Kind::Postgres { "select session_user::text as who" } else { "select current_user() as who" };
        let config = json!({"database": bare, "statement": statement, "credential": "stock"});
        let tool = world.declare(Effect::Read, config, &[]).unwrap();
        let line = tool.check(std::time::Duration::from_secs(10)).await.unwrap();
        assert_eq!(line, "the database answers, and asks for the credential of this tool");
        let mut attempt = attempt(json!({}));
        let credential =
            Credential::Basic { username: "reach".into(), password: world.server().password.clone().into() };
        attempt.credential = Some(Arc::new(credential));
        let who = call_attempt(&tool, &attempt).await.unwrap()["rows"][0]["who"].as_str().unwrap().to_owned();
        assert!(who.starts_with("reach"), "{who}");
        assert_eq!(call(&tool, json!({})).await.unwrap_err().kind, FailureKind::Unauthorised);
        attempt.credential = Some(Arc::new(Credential::Bearer("token".into())));
        assert_eq!(call_attempt(&tool, &attempt).await.unwrap_err().kind, FailureKind::Unauthorised);
    }
}

#[tokio::test]
async fn a_procedure_is_called_and_its_rows_are_shown() {
    let world = World::new(Kind::MariaDb).await;
    world.sql("create table t (a int)").await;
    world.sql("create procedure work(x int) begin insert into t values (x); select a from t; select 2; end").await;
    let tool = world.tool(Effect::Write, "call work(:x)", &["x"]);
    for count in 1..=3 {
        let answer = call(&tool, json!({"x": count})).await.unwrap();
        assert_eq!(answer["rows"].as_array().unwrap().len(), count, "{answer}");
    }
    let world = World::new(Kind::Postgres).await;
    world.sql("create table t (a int)").await;
    world.sql("create procedure work(x int, inout y int) language plpgsql as $$ begin insert into t values (x); y := x * 2; end $$").await;
    let tool = world.tool(Effect::Write, "call work(:x, null)", &["x"]);
    assert_eq!(call(&tool, json!({"x": 4})).await.unwrap()["rows"], json!([{"y": 8}]));
    assert_eq!(world.text("select count(*) from t").await.unwrap(), "1");
}

#[tokio::test]
async fn full_text_tables_and_counters_of_sqlite_work_under_the_authoriser() {
    let world = World::new(Kind::Sqlite).await;
    world
        .sql("create table t (id integer primary key autoincrement, a text); create virtual table f using fts5(body)")
        .await;
    let insert = world.tool(Effect::Write, "insert into t (a) values (:a) returning id", &["a"]);
    assert_eq!(call(&insert, json!({"a": "x"})).await.unwrap()["rows"], json!([{"id": 1}]));
    let insert = world.tool(Effect::Write, "insert into f values (:body)", &["body"]);
    call(&insert, json!({"body": "the quick fox"})).await.unwrap();
    let search = world.tool(Effect::Read, "select body from f where f match :query", &["query"]);
    assert_eq!(call(&search, json!({"query": "fox"})).await.unwrap()["row_count"], 1);
    let columns = world.tool(Effect::Read, "select name from pragma_table_info('t')", &[]);
    assert_eq!(call(&columns, json!({})).await.unwrap()["row_count"], 2);
}
