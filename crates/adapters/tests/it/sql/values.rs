//! Values come back as they are: every digit, every byte, every null.

use reach_core::Effect;
use serde_json::{Value, json};

use super::world::{KINDS, Kind, World, call};

async fn row(world: &World, statement: &str) -> Value {
    let tool = world.tool(Effect::Read, statement, &[]);
    call(&tool, json!({})).await.unwrap()["rows"][0].clone()
}

/// Field case H008: an exact decimal, a timestamp, a UUID and bytes in one row.
#[tokio::test]
async fn the_row_that_drivers_lose_comes_back_whole() {
    let wanted = json!({
        "amount": "12.30", "at": "2026-09-08T10:00:00", "id": "6f1c1c9e-0000-4000-8000-000000000001",
        "raw": {"encoding": "base64", "data": "3q0="},
    });
    for kind in KINDS {
        let world = World::new(kind).await;
        let (uuid, time, bytes) = match kind {
            Kind::Postgres => ("uuid", "timestamp", "bytea"),
            Kind::MariaDb => ("uuid", "datetime", "blob"),
            Kind::Sqlite => ("text", "text", "blob"),
        };
        world.sql(&format!("create table r (amount decimal(10,2), at {time}, id {uuid}, raw {bytes})")).await;
        let insert =
            world.tool(Effect::Write, "insert into r values (:amount, :at, :id, :raw)", &["amount", "at", "id", "raw"]);
        assert_eq!(call(&insert, wanted.clone()).await.unwrap(), json!({"affected": 1}), "the same form goes in");
        assert_eq!(row(&world, "select * from r").await, wanted, "{kind:?}");
    }
}

#[tokio::test]
async fn integers_of_64_bits_nulls_and_text_of_every_script_are_exact() {
    for kind in KINDS {
        let world = World::new(kind).await;
        world.sql("create table t (low bigint, high bigint, empty int, words text)").await;
        let wanted =
            json!({"low": i64::MIN, "high": i64::MAX, "empty": null, "words": "杭州 🦀 e\u{301} \u{202e}\t\n'\"\\ "});
        let insert = world.tool(
            Effect::Write,
            "insert into t values (:low, :high, :empty, :words)",
            &["low", "high", "empty", "words"],
        );
        call(&insert, wanted.clone()).await.unwrap();
        assert_eq!(row(&world, "select * from t").await, wanted, "{kind:?}");
    }
}

#[tokio::test]
async fn postgres_types_come_back_without_loss() {
    let world = World::new(Kind::Postgres).await;
    world.sql("create type mood as enum ('sad', 'glad'); create domain amount as numeric(12,3); create type pair as (a int, b text)").await;
    world.sql("create extension citext").await;
    for (expression, wanted) in [
        ("12345678901234567890123.4500::numeric", json!("12345678901234567890123.4500")),
        ("'-0.00000000000000000001'::numeric", json!("-0.00000000000000000001")),
        ("'NaN'::numeric", json!("NaN")),
        ("'-Infinity'::numeric", json!("-Infinity")),
        ("10000::numeric", json!("10000")),
        ("1.50::amount", json!("1.500")),
        ("array[1.10, null, 2]::numeric[]", json!(["1.10", null, "2"])),
        ("array[[1,2],[3,4]]::int8[]", json!([[1, 2], [3, 4]])),
        ("array[]::text[]", json!([])),
        ("32767::int2", json!(32767)),
        ("(-2147483648)::int4", json!(-2147483648i64)),
        ("0.1::float4", json!(0.1)),
        ("0.1::float8", json!(0.1)),
        ("'NaN'::float8", json!("NaN")),
        ("'infinity'::float4", json!("Infinity")),
        ("true", json!(true)),
        (
            "'{\"a\": 12345678901234567890, \"b\": [1.5, null]}'::json",
            json!({"a": 12345678901234567890_u64, "b": [1.5, null]}),
        ),
        ("'{\"a\": 1}'::jsonb", json!({"a": 1})),
        ("'2026-09-08T10:00:00.123456'::timestamp", json!("2026-09-08T10:00:00.123456")),
        ("'2026-09-08T10:00:00+02'::timestamptz", json!("2026-09-08T08:00:00+00:00")),
        ("'infinity'::timestamp", json!("infinity")),
        ("'2026-02-28'::date", json!("2026-02-28")),
        ("'1969-12-31'::date", json!("1969-12-31")),
        ("'23:59:59.5'::time", json!("23:59:59.500")),
        ("'10:00+05:30'::timetz", json!("10:00:00+05:30")),
        ("'1 year 2 mons -3 days 01:02:03.5'::interval", json!("P1Y2M-3DT1H2M3.5S")),
        ("'\\xdead'::bytea", json!({"encoding": "base64", "data": "3q0="})),
        ("'6f1c1c9e-0000-4000-8000-000000000001'::uuid", json!("6f1c1c9e-0000-4000-8000-000000000001")),
        ("'10.0.0.1'::inet", json!("10.0.0.1")),
        ("'10.0.0.0/8'::cidr", json!("10.0.0.0/8")),
        ("'::1/64'::inet", json!("::1/64")),
        ("'08:00:2b:01:02:03'::macaddr", json!("08:00:2b:01:02:03")),
        ("b'0110'", json!("0110")),
        ("'glad'::mood", json!("glad")),
        ("row(1, 'x')::pair", json!({"a": 1, "b": "x"})),
        ("array[row(1, null)::pair]", json!([{"a": 1, "b": null}])),
        ("'Text'::citext", json!("Text")),
        ("'a'::\"char\"", json!("a")),
        ("'ab'::char(4)", json!("ab  ")),
        ("pg_sleep(0)", json!(null)),
        ("null", json!(null)),
    ] {
        assert_eq!(row(&world, &format!("select {expression} as v")).await["v"], wanted, "{expression}");
    }
    let tool = world.tool(Effect::Read, "select to_tsvector('a b') as words", &[]);
    let failure = call(&tool, json!({})).await.unwrap_err();
    assert!(failure.message.contains("`words`") && failure.message.contains("tsvector"), "{failure:?}");
    let failure = tool.check(std::time::Duration::from_secs(5)).await.unwrap_err();
    assert!(failure.message.contains("cast it to text"), "{failure:?}");
}

#[tokio::test]
async fn postgres_reads_arguments_as_the_type_of_their_place() {
    let world = World::new(Kind::Postgres).await;
    for (place, argument, wanted) in [
        ("cast(:v as int8) + 1", json!(41), json!(42)),
        ("cast(:v as int8) + 1", json!("41"), json!(42)),
        ("cast(:v as int8)", json!(12.0), json!(12)),
        ("cast(:v as numeric)", json!("12345678901234567890.10"), json!("12345678901234567890.10")),
        ("cast(:v as numeric)", json!(u64::MAX), json!("18446744073709551615")),
        (":v::timestamptz", json!("2026-09-08T10:00:00Z"), json!("2026-09-08T10:00:00+00:00")),
        (":v::bool", json!(true), json!(true)),
        (":v::jsonb", json!({"a": [1, {"b": null}]}), json!({"a": [1, {"b": null}]})),
        (":v::text[]", json!(["a", "b,\"\\{}", null, ""]), json!(["a", "b,\"\\{}", null, ""])),
        ("2 = any(:v::int[])", json!([1, 2]), json!(true)),
        (":v::bytea", json!("\\x41"), json!({"encoding": "base64", "data": "XHg0MQ=="})),
        (":v::bytea", json!({"encoding": "base64", "data": "AP8="}), json!({"encoding": "base64", "data": "AP8="})),
        (":v::text", json!(null), json!(null)),
        (":v::date", json!("2026-02-28"), json!("2026-02-28")),
    ] {
        let tool = world.tool(Effect::Read, &format!("select {place} as v"), &["v"]);
        assert_eq!(call(&tool, json!({"v": argument})).await.unwrap()["rows"][0]["v"], wanted, "{place}");
    }
}

#[tokio::test]
async fn mariadb_types_come_back_without_loss() {
    let world = World::new(Kind::MariaDb).await;
    world
        .sql(
            "create table t (d decimal(30,10), u bigint unsigned, tiny tinyint(1), f float, g double, dt datetime(6), day date, \
             clock time(3), y year, b blob, vb varbinary(4), txt text, e enum('a','b'), s set('x','y'), bits bit(10), j json, z datetime)",
        )
        .await;
    world
        .sql(
            "set sql_mode=''; insert into t values (12345678901234567890.1000000000, 18446744073709551615, 1, 0.1, 0.1, \
             '2026-09-08 10:00:00.123456', '2026-09-08', '-123:04:05.500', 2026, x'dead', x'00ff', 'text', 'b', 'x,y', b'1000000001', \
             '{\"a\": 1}', '0000-00-00')",
        )
        .await;
    assert_eq!(
        row(&world, "select * from t").await,
        json!({
            "d": "12345678901234567890.1000000000", "u": 18446744073709551615_u64, "tiny": 1, "f": 0.1, "g": 0.1,
            "dt": "2026-09-08T10:00:00.123456", "day": "2026-09-08", "clock": "-123:04:05.5", "y": 2026,
            "b": {"encoding": "base64", "data": "3q0="}, "vb": {"encoding": "base64", "data": "AP8="}, "txt": "text",
            "e": "b", "s": "x,y", "bits": 513, "j": "{\"a\": 1}", "z": "0000-00-00T00:00:00",
        })
    );
    assert_eq!(
        row(&world, "select count(*) as n, sum(u) as s, avg(u) as a, now() > '2020-01-01' as later from t").await["s"],
        "18446744073709551615"
    );
    let too_long = world.tool(Effect::Write, "insert into t (vb) values (:v)", &["v"]);
    let failure = call(&too_long, json!({"v": "five!"})).await.unwrap_err();
    assert_eq!(failure.kind, reach_core::FailureKind::Rejected, "a value is never cut silently: {failure:?}");
}

#[tokio::test]
async fn sqlite_values_come_back_as_stored() {
    let world = World::new(Kind::Sqlite).await;
    world.sql("create table t (d decimal(10,2), n numeric, r real, b boolean, j json, ts timestamp, big decimal(30,10), any)").await;
    world
        .sql("insert into t values (12.30, 5, 2.5, 1, '{\"a\": 12345678901234567890}', '2026-09-08 10:00:00', '12345678901234567890.1', x'00')")
        .await;
    let found = row(&world, "select * from t").await;
    assert_eq!(found["d"], "12.30");
    assert_eq!((&found["n"], &found["r"], &found["b"]), (&json!(5), &json!(2.5), &json!(1)));
    assert_eq!(found["j"], json!({"a": 12345678901234567890_u64}));
    assert_eq!(found["ts"], "2026-09-08 10:00:00");
    assert_eq!(found["any"], json!({"encoding": "base64", "data": "AA=="}));
    assert_eq!(
        row(&world, "select 9e999 as up, -9e999 as down, null as empty").await,
        json!({"up": "Infinity", "down": "-Infinity", "empty": null})
    );
}
