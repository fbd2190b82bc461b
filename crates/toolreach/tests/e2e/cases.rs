//! Cases that people reported in public and that want more than a tool and its answers: several calls at
//! once, a breaker over time, a store that is gone, the same call on every surface. Each test is named by the
//! id of its case; `suites/cases/index.jsonl` lists them all.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use reach_core::breaker::StateName;
use reach_core::{ErrorCode, SessionId, Status, TraceId};
use reach_kit::http::{Behaviour, Reply, Server};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::support::{Gateway, House, Mcp, PATIENCE, configure, eventually, files, run};

async fn upstream() -> Server {
    Server::start().await.unwrap()
}

/// E016: a handler that answers after the timeout.
#[tokio::test]
async fn e016_a_late_answer_is_no_second_result_and_nothing_waits_for_it() {
    let upstream = upstream().await;
    upstream.always(Behaviour::Slow {
        reply: Reply::json(200, r#"{"booked":true}"#),
        piece: 100,
        pause: Duration::from_millis(3_000),
    });
    let house = House::open(&format!(
        r#"{{version: 1, tools: [{{tool_id: book, description: Books., effect: idempotent, timeout_ms: 500,
            http: {{method: POST, url: "{}"}}}}]}}"#,
        upstream.url("/book")
    ))
    .await;
    let mut plan = House::plan("book", &json!({}));
    plan.trace_id = TraceId::new("late");
    let began = Instant::now();
    let envelope = house.walk(plan).await;
    assert_eq!(envelope.code(), Some(ErrorCode::Timeout), "{envelope:?}");
    assert!(began.elapsed() < Duration::from_millis(1_500), "{:?}", began.elapsed());
    timeout(PATIENCE, upstream.gone()).await.expect("the connection is given up with the call");
    let ledger = house.engine.ledger();
    ledger.flush().await.unwrap();
    let rows = ledger.trace(TraceId::new("late")).await.unwrap();
    let text = serde_json::to_string(&rows).unwrap();
    assert_eq!(text.matches(r#""kind":"finished""#).count(), 1, "one result: {text}");
}

/// E018: three reads at once, the first fails.
#[tokio::test]
async fn e018_one_failing_call_cancels_no_other_and_the_order_stays() {
    let upstream = upstream().await;
    upstream.choose(|request| match request.target.as_str() {
        "/c1" => Reply::json(422, r#"{"error":"no"}"#).into(),
        _ => Behaviour::Slow {
            reply: Reply::json(200, r#"{"fine":true}"#),
            piece: 100,
            pause: Duration::from_millis(200),
        },
    });
    let tools = ["c1", "c2", "c3"].map(|id| {
        format!("{{tool_id: {id}, description: Reads., http: {{url: \"{}\"}}}}", upstream.url(&format!("/{id}")))
    });
    let house = House::open(&format!("{{version: 1, tools: [{}]}}", tools.join(","))).await;
    let envelopes = join_all(["c1", "c2", "c3"].map(|tool| house.call(tool, json!({})))).await;
    let seen: Vec<_> = envelopes.iter().map(|envelope| (envelope.tool.as_str(), envelope.status)).collect();
    assert_eq!(seen, [("c1", Status::Error), ("c2", Status::Ok), ("c3", Status::Ok)]);
}

/// E019: a failure without a word.
#[tokio::test]
async fn e019_a_failure_without_words_still_has_a_message_and_its_tool() {
    let house = House::open(
        "{version: 1, tools: [
            {tool_id: a, description: Works., effect: read, script: {command: [echo, fine]}},
            {tool_id: b, description: Fails., effect: read, script: {command: ['false']}}]}",
    )
    .await;
    let (a, b) = tokio::join!(house.call("a", json!({})), house.call("b", json!({})));
    assert!(a.is_ok());
    assert_eq!((b.tool.as_str(), b.status), ("b", Status::Error));
    assert!(!b.error.unwrap().message.trim().is_empty());
}

/// E022: opens, a probe fails, opens again, a probe works, closes.
#[tokio::test]
async fn e022_a_failed_probe_opens_again_and_a_good_one_closes() {
    let upstream = upstream().await;
    upstream.always(Reply::json(500, "{}"));
    let house = House::open(&format!(
        r#"{{version: 1,
            upstreams: {{"{0}": {{breaker: {{failures: 3, open_ms: 300, successes: 1}}}}}},
            tools: [{{tool_id: look, description: Reads., http: {{url: "{0}/"}}}}]}}"#,
        upstream.url("")
    ))
    .await;
    let state = async || house.engine.health().await.breakers[0].state;
    // One call makes three attempts, and each is a failure.
    assert_eq!(house.call("look", json!({})).await.code(), Some(ErrorCode::UpstreamError));
    assert_eq!((state().await, upstream.requests().len()), (StateName::Open, 3));

    let call = || async { house.call("look", json!({})).await };
    eventually("a failing probe", || async { (call().await.code() == Some(ErrorCode::UpstreamError)).then_some(()) })
        .await;
    assert_eq!((state().await, upstream.requests().len()), (StateName::Open, 4), "one probe, and open again");
    let refused = call().await;
    assert_eq!((refused.code(), refused.meta.attempts), (Some(ErrorCode::Unreachable), 0));
    assert_eq!(upstream.requests().len(), 4, "nothing is sent while it is open");

    upstream.always(Reply::json(200, "{}"));
    eventually("a good probe", || async { call().await.is_ok().then_some(()) }).await;
    assert_eq!(state().await, StateName::Closed);
    assert!(call().await.is_ok());
}

/// E025: the ledger cannot be written.
#[tokio::test]
async fn e025_without_the_ledger_reads_go_on_and_writes_are_refused_before_they_are_sent() {
    let upstream = upstream().await;
    let house = House::open(&format!(
        r#"{{version: 1, tools: [
            {{tool_id: look, description: Reads., http: {{url: "{0}/look"}}}},
            {{tool_id: pay, description: Pays., timeout_ms: 60000, http: {{method: POST, url: "{0}/pay"}}}}]}}"#,
        upstream.url("")
    ))
    .await;
    // Another process that holds the database and does not let go.
    let ledger = house.folder.path().join(".reach/ledger.db");
    let blocker = rusqlite::Connection::open(&ledger).unwrap();
    blocker.execute_batch("begin immediate").unwrap();

    let read = house.call("look", json!({})).await;
    assert!(read.is_ok(), "{read:?}");
    let write = house.walk(House::plan("pay", &json!({})).with_key("p-1")).await;
    let error = write.error.as_ref().unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::StoreUnavailable, true), "{write:?}");
    assert_eq!(upstream.requests().len(), 1, "the write was not sent");
    let degraded = house.engine.health().await.degraded;
    assert!(degraded.iter().any(|words| words.contains("ledger")), "{degraded:?}");

    blocker.execute_batch("rollback").unwrap();
    let again = eventually("the ledger is back", || async {
        let again = house.walk(House::plan("pay", &json!({})).with_key("p-1")).await;
        again.is_ok().then_some(again)
    })
    .await;
    assert_eq!((again.meta.replayed, upstream.requests().len()), (false, 2), "sent once, now");
}

/// E026: A stands in for B and B for A; a tool that names itself.
#[tokio::test]
async fn e026_a_cycle_of_stand_ins_is_refused_when_it_is_declared() {
    let folder = tempfile::tempdir().unwrap();
    for (a, b) in [("B", "A"), ("A", "A")] {
        let text = format!(
            r#"{{version: 1, tools: [
                {{tool_id: A, description: A., fallback: {a}, http: {{url: "http://127.0.0.1:9/a"}}}},
                {{tool_id: B, description: B., fallback: {b}, http: {{url: "http://127.0.0.1:9/b"}}}}]}}"#
        );
        let report = configure(folder.path(), &text).map(|_| ()).unwrap_err();
        assert!(
            report.problems.iter().all(|problem| problem.pointer.ends_with("/fallback")),
            "{}",
            report.render(false)
        );
        assert!(!report.problems.is_empty());
    }
}

/// E028: one primary that takes its time to fail, one stand-in, many calls.
#[tokio::test]
async fn e028_a_dead_primary_is_not_tried_for_every_call() {
    let (primary, standby) = (upstream().await, upstream().await);
    primary.always(Behaviour::Stall);
    let house = House::open(&format!(
        r#"{{version: 1,
            upstreams: {{"{0}": {{breaker: {{failures: 3, open_ms: 30000}}}}}},
            tools: [
            {{tool_id: look, description: Reads., timeout_ms: 6000, attempt_timeout_ms: 400, fallback: look_2,
              http: {{url: "{0}/"}}}},
            {{tool_id: look_2, description: Reads., http: {{url: "{1}/"}}}}]}}"#,
        primary.url(""),
        standby.url("")
    ))
    .await;
    for number in 0..11 {
        let began = Instant::now();
        let envelope = house.call("look", json!({})).await;
        assert!(envelope.is_ok(), "{envelope:?}");
        assert_eq!(envelope.meta.served_by.unwrap().as_str(), "look_2");
        assert!(number == 0 || began.elapsed() < Duration::from_millis(2_000), "{number}: {:?}", began.elapsed());
    }
    let tried = primary.requests().len();
    assert!((1..=6).contains(&tried), "{tried}");
    assert_eq!(standby.requests().len(), 11);
}

/// E030: a tool that the caller may not use, by name, on every surface.
#[tokio::test]
async fn e030_a_hidden_tool_is_no_tool_on_every_surface() {
    let upstream = upstream().await;
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        r#"{{version: 1,
            callers: {{reader: {{key: reader-key-0123456789, scopes: ["order:read"]}}}},
            tools: [
            {{tool_id: order_status, description: Reads., auth: {{scope: "order:read"}}, http: {{url: "{0}/"}}}},
            {{tool_id: delete_order, description: Deletes., auth: {{scope: "order:write"}},
              input_schema: {{type: object, properties: {{order_id: {{type: string}}}}}},
              http: {{method: DELETE, url: "{0}/"}}}}]}}"#,
        upstream.url("")
    );
    std::fs::write(folder.path().join("reach.yaml"), text).unwrap();
    let arguments = json!({"order_id": "OD1"});

    // In one word for both names, so that what is compared is everything else.
    let told = |envelope: &Value, name: &str| {
        let error = &envelope["error"];
        assert_eq!((&error["code"], &error["retryable"]), (&json!("TOOL_NOT_FOUND"), &json!(false)), "{envelope}");
        let mut error = error.clone();
        // How near a name is to others depends on the name alone.
        error["hint"] = Value::Null;
        error["details"] = Value::Null;
        error.to_string().replace(name, "NAME")
    };
    let mut answers = Vec::new();
    let gateway = Gateway::start(folder.path(), &[]).await;
    let mut mcp = Mcp::start(folder.path(), &["--caller", "reader"]);
    mcp.shake_hands("2025-11-25").await;
    let mut refusals = Vec::new();
    for name in ["delete_order", "zzzzzz_nothing"] {
        let said = gateway.request(name, &arguments).bearer_auth("reader-key-0123456789").send().await.unwrap();
        assert_eq!(said.status(), 404);
        answers.push(told(&said.json().await.unwrap(), name));
        let text = arguments.to_string();
        let ran = run(folder.path(), &["call", name, &text, "--caller", "reader", "--json"]).await.exits(1);
        answers.push(told(&ran.json(), name));
        let said = mcp.ask("tools/call", json!({"name": name, "arguments": arguments})).await;
        refusals.push(said["error"]["message"].as_str().unwrap_or_else(|| panic!("{said}")).replace(name, "NAME"));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    refusals.dedup();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    let listed = mcp.ask("tools/list", json!({})).await;
    assert!(!listed.to_string().contains("delete_order"), "{listed}");
    assert_eq!(upstream.requests().len(), 0);
}

/// H008: a row of a real database whose values drivers like to lose.
#[tokio::test]
async fn h008_a_row_keeps_every_digit_byte_and_second() {
    let database = reach_kit::databases::postgres().url("postgres");
    let house = House::open(&format!(
        r#"{{version: 1, tools: [{{tool_id: row, description: Reads., timeout_ms: 30000, sql: {{database: "{database}", statement:
            "select 12.30::numeric as amount, '2026-09-08T10:00:00'::timestamp as at, '6f1c1c9e-0000-4000-8000-000000000001'::uuid as id, decode('dead', 'hex') as raw"}}}}]}}"#
    ))
    .await;
    let envelope = house.call("row", json!({})).await;
    assert!(envelope.is_ok(), "{envelope:?}");
    assert_eq!(
        envelope.data.unwrap()["rows"][0],
        json!({
            "amount": "12.30", "at": "2026-09-08T10:00:00", "id": "6f1c1c9e-0000-4000-8000-000000000001",
            "raw": {"encoding": "base64", "data": "3q0="},
        })
    );
}

/// A tool that answers with `body`, shown in at most `limit` characters.
async fn large(upstream: &Server, limit: usize, reply: Reply) -> House {
    upstream.always(reply);
    House::open(&format!(
        r#"{{version: 1, tools: [{{tool_id: large, description: Reads., max_result_length: {limit},
            http: {{url: "{}", expect: any}}}}]}}"#,
        upstream.url("/")
    ))
    .await
}

/// Reads a stored result to its end; the text and how many reads it took.
async fn read_back(house: &House, blob: &str) -> (String, usize) {
    let (mut whole, mut offset, mut reads) = (String::new(), 0, 0);
    loop {
        let piece = house.call("read_result", json!({"blob": blob, "offset": offset, "length": 65_536})).await;
        let data = piece.data.unwrap_or_else(|| panic!("{:?}", piece.error));
        assert_eq!(piece.meta.truncated, None, "a read is never answered with a reference");
        whole.push_str(data["text"].as_str().unwrap());
        reads += 1;
        assert!(reads < 1_000, "reading comes to an end");
        match data["next_offset"].as_u64() {
            Some(next) => {
                assert!(next > offset, "{next} after {offset}");
                offset = next;
            }
            None => return (whole, reads),
        }
    }
}

/// C002: a thousand records of JSON.
#[tokio::test]
async fn c002_a_large_answer_stays_json_and_the_whole_can_be_read_back() {
    let upstream = upstream().await;
    let rows: Vec<Value> = (0..1_000).map(|n| json!({"n": n, "text": format!("{n:x<390}")})).collect();
    let whole = json!({"count": 1_000, "rows": rows});
    let house = large(&upstream, 4_096, Reply::json(200, whole.to_string())).await;
    let envelope = house.call("large", json!({})).await;
    let shown = serde_json::to_string(envelope.data.as_ref().unwrap()).unwrap();
    assert!(shown.len() <= 4_200 && shown.chars().count() <= 4_096, "{}", shown.len());
    assert_eq!(envelope.data.as_ref().unwrap()["count"], 1_000, "small fields stay whole");
    let truncated = envelope.meta.truncated.unwrap();
    assert_eq!(truncated.total, whole.to_string().chars().count() as u64);
    let (text, _) = read_back(&house, truncated.blob.as_deref().unwrap()).await;
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), whole);
}

/// C004: reading back 200 KB, of which one line is 100 KB.
#[tokio::test]
async fn c004_reading_back_ends_and_stores_nothing_new() {
    let upstream = upstream().await;
    let text = format!("{}\n{}", "x".repeat(102_400), "a line\n".repeat(14_000));
    let house = large(&upstream, 1_000, Reply::new(200, text.clone()).header("content-type", "text/plain")).await;
    let envelope = house.call("large", json!({})).await;
    let stored = house.blobs();
    let (back, reads) = read_back(&house, envelope.meta.truncated.unwrap().blob.as_deref().unwrap()).await;
    assert!(back == text, "every byte comes back");
    assert!(reads < 300, "{reads}");
    assert_eq!(house.blobs(), stored, "no read stored another result");
}

/// C006: bytes that are no text.
#[tokio::test]
async fn c006_bytes_are_stored_once_and_shown_as_type_size_and_reference() {
    let upstream = upstream().await;
    let png = [b"\x89PNG\r\n\x1a\n\0\0\0".as_slice(), &[0xff; 200_000]].concat();
    for (kind, bytes) in [("image/png", png), ("application/pdf", b"%PDF-1.7\n\xe2\xe3\xcf\xd3".to_vec())] {
        let size = bytes.len();
        let house = large(&upstream, 2_000, Reply::new(200, bytes).header("content-type", kind)).await;
        let before = house.blobs();
        let envelope = house.call("large", json!({})).await;
        let data = serde_json::to_value(envelope.data.unwrap()).unwrap();
        assert_eq!((&data["binary"]["media_type"], &data["binary"]["bytes"]), (&json!(kind), &json!(size)));
        assert!(data["binary"]["blob"].is_string() && data.to_string().len() < 2_048);
        assert!(envelope.meta.tokens.tool_result < 200, "{:?}", envelope.meta.tokens);
        assert!(house.blobs() > before);
        let read = house.call("read_result", json!({"blob": data["binary"]["blob"]})).await;
        assert_eq!(read.data.unwrap()["binary"], true, "and not dumped when it is read back");
    }
}

/// C011: one step calls three tools at once, and another run is active.
#[tokio::test]
async fn c011_parallel_calls_of_two_runs_keep_their_traces() {
    let upstream = upstream().await;
    let house = Arc::new(
        House::open(&format!(
            r#"{{version: 1, tools: [{{tool_id: look, description: Reads., http: {{url: "{}"}}}}]}}"#,
            upstream.url("/")
        ))
        .await,
    );
    let calls = ["t-1", "t-2"].iter().flat_map(|trace| (0..3).map(move |_| *trace)).map(|trace| {
        let mut plan = House::plan("look", &json!({}));
        plan.trace_id = TraceId::new(trace);
        plan.session_id = SessionId::new(format!("session-of-{trace}"));
        plan.step = 4;
        house.walk(plan)
    });
    assert!(join_all(calls).await.iter().all(reach_core::Envelope::is_ok));
    let ledger = house.engine.ledger();
    ledger.flush().await.unwrap();
    for trace in ["t-1", "t-2"] {
        let rows = ledger.trace(TraceId::new(trace)).await.unwrap();
        assert_eq!(rows.len(), 3, "{rows:?}");
        for row in rows {
            assert_eq!((row.tool_id.as_str(), row.step), ("look", 4));
            assert_eq!(row.session_id.as_str(), format!("session-of-{trace}"));
        }
    }
    assert_eq!(ledger.since(0, 1_000).await.unwrap().len(), 6);
}

/// A004: what a client sends to the gateway stays there.
#[tokio::test]
async fn a004_no_header_of_a_caller_reaches_an_upstream() {
    let upstream = upstream().await;
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "{{version: 1, callers: {{bot: {{key: gw-1-0123456789abcdef}}}}, tools: [{{tool_id: look, description: Reads., http: {{url: \"{}\"}}}}]}}",
        upstream.url("/")
    );
    std::fs::write(folder.path().join("reach.yaml"), text).unwrap();
    let gateway = Gateway::start(folder.path(), &[]).await;
    let said = gateway
        .request("look", &json!({}))
        .bearer_auth("gw-1-0123456789abcdef")
        .header("x-api-key", "gw-2")
        .header("x-mcp-auth", "gw-3")
        .header("cookie", "s=gw-4")
        .header("x-trace", "t1")
        .send()
        .await
        .unwrap();
    assert_eq!(said.status(), 200);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look", "arguments": {}}});
    let said = gateway
        .http
        .post(gateway.url("/mcp"))
        .bearer_auth("gw-1-0123456789abcdef")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25")
        .header("x-api-key", "gw-2")
        .header("x-mcp-auth", "gw-3")
        .header("cookie", "s=gw-4")
        .json(&call)
        .send()
        .await
        .unwrap();
    assert_eq!(said.status(), 200, "{}", said.text().await.unwrap());
    let requests = upstream.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        let everything = request.everything();
        for secret in ["gw-1", "gw-2", "gw-3", "gw-4"] {
            assert!(!everything.contains(secret), "{everything}");
        }
    }
}

/// S010, S011, S012: names of every kind, and what they are served under.
#[tokio::test]
async fn s010_s011_s012_every_served_name_can_be_called_and_reaches_its_own_tool() {
    let upstream = upstream().await;
    let long = "servicenow-catalog_post_api_sn_sc_servicecatalog_items_by_sys_id_versioning_checkout";
    let ids = [
        format!("{long}_a"),
        format!("{long}_b"),
        "ping".to_owned(),
        "e2e_probe_action_name_that_is_37_chars".to_owned(),
        "ann.x--song".to_owned(),
        "查询天气".to_owned(),
        "crm__get__user".to_owned(),
    ];
    let tools: Vec<Value> = ids
        .iter()
        .enumerate()
        .map(|(n, id)| json!({"tool_id": id, "description": "Reads.", "http": {"url": upstream.url(&format!("/{n}"))}}))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("reach.yaml"), json!({"version": 1, "tools": tools}).to_string()).unwrap();
    let mut served = Vec::new();
    // A restart changes no name.
    for _ in 0..2 {
        let mut mcp = Mcp::start(folder.path(), &[]);
        mcp.shake_hands("2025-11-25").await;
        let listed = mcp.ask("tools/list", json!({})).await;
        let names: Vec<String> = listed["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .filter(|name| name != "read_result")
            .collect();
        assert_eq!(names.len(), ids.len());
        for (n, name) in names.iter().enumerate() {
            assert!(
                name.len() <= 128 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b)),
                "{name}"
            );
            let said = mcp.ask("tools/call", json!({"name": name, "arguments": {}})).await;
            assert_eq!(said["result"]["isError"], false, "{name}: {said}");
            assert_eq!(upstream.last().unwrap().target, format!("/{n}"), "{name}");
        }
        assert_eq!(mcp.end().await, 0);
        served.push(names);
    }
    assert_eq!(served[0], served[1]);
    for bad in ["Google Search", "todo/write"] {
        let text = json!({"version": 1, "tools": [{"tool_id": bad, "description": "x", "http": {"url": "http://127.0.0.1:9/"}}]});
        let report = configure(folder.path(), &text.to_string()).map(|_| ()).unwrap_err();
        assert!(report.problems[0].message.contains("a tool id holds only"), "{}", report.render(false));
    }
    assert!(!files(folder.path()).is_empty());
}
