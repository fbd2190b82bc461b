//! SQL faults: a SQLite file that is gone or slow, and a PostgreSQL server behind a proxy that cuts in at an
//! exact moment.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use reach_core::Effect;
use reach_kit::databases;
use reach_kit::proxy::{Proxy, Rule, What, When};
use serde_json::json;

use super::bench::{Bench, State};

const TABLES: &str = "create table entry (id varchar(20) primary key); create table pace (n bigint not null); insert into pace values (1);";

pub(super) fn sqlite(fault: &str, effect: Effect, folder: &Path) -> Bench {
    let (file, away) = (folder.join("stock.db"), folder.join("stock.db.away"));
    let sql = {
        let file = file.clone();
        move |sql: &str| rusqlite::Connection::open(&file).unwrap().execute_batch(sql).unwrap()
    };
    sql(TABLES);
    // As slow as `pace` says.
    let counting = "with recursive n(i) as (select 1 union all select i + 1 from n limit (select n from pace)) select count(*) as c from n";
    let statement = match effect {
        Effect::Read => format!("select c, :id as id from ({counting})"),
        Effect::Idempotent | Effect::Keyed | Effect::Write => {
            format!("insert into entry (id) select :id from ({counting})")
        }
    };
    let part = json!({"database": "sqlite://stock.db", "statement": statement});
    let fault = fault.to_owned();
    let turn = move |state| {
        if away.exists() {
            fs::rename(&away, &file).unwrap();
        }
        sql("delete from entry; update pace set n = 1;");
        match (state, fault.as_str()) {
            (State::Broken(_), "gone") => fs::rename(&file, &away).unwrap(),
            (State::Broken(_), "duplicate") => sql("insert into entry values ('x')"),
            (State::Broken(_), "slow") => sql("update pace set n = 1000000000000"),
            (State::Well, _) => {}
            (state, fault) => panic!("{fault}: {state:?} cannot be made"),
        }
        std::future::ready(())
    };
    Bench::new(("sql", part), turn, || std::future::ready(Vec::new()))
}

pub(super) async fn postgres(fault: &str, effect: Effect) -> Bench {
    let server = tokio::task::spawn_blocking(databases::postgres).await.unwrap();
    let name = databases::fresh_name();
    let operator = Arc::new(Operator { url: server.url(&name) });
    Operator { url: server.url("postgres") }.sql(&format!("create database {name}")).await;
    operator.sql(TABLES).await;
    let proxy = Arc::new(Proxy::start(([127, 0, 0, 1], server.port).into()).await.unwrap());
    let statement = match effect {
        Effect::Read => "select n, :id as id from pace",
        Effect::Idempotent | Effect::Keyed | Effect::Write => {
            "insert into entry (id) select :id from (select pg_sleep(n - 1) from pace) as paced"
        }
    };
    let part = json!({"database": server.url_through(proxy.port(), &name), "statement": statement});
    let rule = |when, what| Some(Rule { when, what });
    let commit = || b"commit".to_vec();
    let broken = match fault {
        "refused at the door" => rule(When::Connected, What::Reset),
        "reset after commit" => rule(When::Sent(commit()), What::Reset),
        "reset before commit" => rule(When::BeforeSent(commit()), What::Reset),
        "stall after commit" => rule(When::Sent(commit()), What::Stall),
        "duplicate" | "slow" => None,
        other => panic!("no such fault: {other}"),
    };
    let in_the_way = fault == "duplicate";
    let fault = fault.to_owned();
    let turn = {
        let operator = Arc::clone(&operator);
        move |state| {
            let (operator, proxy, broken, fault) =
                (Arc::clone(&operator), Arc::clone(&proxy), broken.clone(), fault.clone());
            async move {
                proxy.set(None);
                // Connections of the pool were opened before the rule.
                operator.sql("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()").await;
                operator.sql("delete from entry; update pace set n = 1").await;
                match (state, fault.as_str()) {
                    (State::Broken(_), "duplicate") => operator.sql("insert into entry values ('x')").await,
                    (State::Broken(_), "slow") => operator.sql("update pace set n = 60").await,
                    (State::Broken(_), _) => proxy.set(broken),
                    (State::Well | State::Tripped, _) => {}
                }
            }
        }
    };
    let traces = move || {
        let operator = Arc::clone(&operator);
        // The entry that is in the way is no trace.
        async move { if in_the_way { Vec::new() } else { vec![None; operator.count().await] } }
    };
    Bench::new(("sql", part), turn, traces)
}

/// The operator's own way to the database.
struct Operator {
    url: String,
}

impl Operator {
    async fn client(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn sql(&self, statements: &str) {
        self.client().await.batch_execute(statements).await.unwrap();
    }

    async fn count(&self) -> usize {
        let row = self.client().await.query_one("select count(*) from entry", &[]).await.unwrap();
        usize::try_from(row.get::<_, i64>(0)).unwrap()
    }
}
