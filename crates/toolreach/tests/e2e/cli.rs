//! The commands of the real binary: exit codes, what goes to which stream, and what each of them says.
//!
//! 0 done, 1 the call failed, 2 wrong use or configuration, 3 a check found something.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use reach_kit::http::{Behaviour, Reply, Server};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::support::{Mcp, PATIENCE, Ran, Running, assert_shape, finish, reach, root, run};

const ESCAPE: char = '\u{1b}';

/// A folder with this configuration.
fn folder(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("reach.yaml"), text).unwrap();
    folder
}

/// A folder as `reach init` leaves it.
async fn started() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &["init"]).await.exits(0);
    folder
}

/// The same command for people and for machines: both end alike, and machines get one JSON document.
async fn both(folder: &Path, arguments: &[&str], code: i32) -> (Ran, Value) {
    let people = run(folder, arguments).await.exits(code);
    let machines = run(folder, &[arguments, &["--json"]].concat()).await.exits(code);
    assert!(!people.out.contains(ESCAPE) && !people.err.contains(ESCAPE), "a pipe is no terminal: {people:?}");
    assert_eq!(machines.out.lines().count(), 1, "{machines:?}");
    let json = machines.json();
    (people, json)
}

#[tokio::test]
async fn init_writes_a_configuration_that_works_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["init"]).await.exits(0);
    assert!(ran.out.contains("reach.yaml") && ran.err.is_empty(), "{ran:?}");
    let (people, json) = both(folder.path(), &["tools"], 0).await;
    assert!(people.out.contains("search_notes") && people.err.is_empty(), "{people:?}");
    let ids: Vec<&str> =
        json["tools"].as_array().unwrap().iter().map(|tool| tool["tool_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["search_notes", "read_note", "disk_usage"]);
    let ran = run(folder.path(), &["call", "search_notes", r#"{"query": "first call"}"#]).await.exits(0);
    assert!(ran.err.starts_with("ok") && ran.out.contains("welcome.md"), "{ran:?}");
    assert_eq!(ran.json()["status"], "ok", "what can be piped on is the envelope alone");
    run(folder.path(), &["call", "disk_usage"]).await.exits(0);
}

#[tokio::test]
async fn init_touches_nothing_that_is_there() {
    let folder = folder("mine");
    let ran = run(folder.path(), &["init"]).await.exits(2);
    assert!(ran.out.is_empty() && ran.err.contains("was not touched") && ran.err.contains("fix:"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(folder.path().join("reach.yaml")).unwrap(), "mine");
    assert!(!folder.path().join("notes").exists(), "nothing at all was written");
    let json = run(folder.path(), &["init", "other", "--json"]).await.exits(0).json();
    assert_eq!(json["written"], json!(["other/reach.yaml", "other/notes/welcome.md"]));
}

#[tokio::test]
async fn a_bad_configuration_is_told_whole_with_place_and_fix() {
    let folder = folder(
        "version: 1\ntools:\n  - tool_id: a b\n    description: x\n    http: {url: \"http://h/{nope}\"}\n  - tool_id: c\n    description: y\n    timout_ms: 5\n    http: {url: \"http://h/\"}\n  - tool_id: d\n    description: y\n    http: {url: \"ftp://h/\"}\n",
    );
    for command in [&["tools"][..], &["call", "x"], &["serve"], &["doctor"], &["health"], &["mcp"], &["settle"]] {
        let ran = run(folder.path(), command).await.exits(2);
        assert!(ran.out.is_empty(), "{ran:?}");
        for place in ["reach.yaml:3:14", "reach.yaml:5:", "reach.yaml:8:5", "reach.yaml:12:"] {
            assert!(ran.err.contains(place), "{place}: {}", ran.err);
        }
        assert!(ran.err.contains("`timeout_ms`"), "the nearest key is named: {}", ran.err);
        assert!(ran.err.matches("fix:").count() >= 4, "{}", ran.err);
    }
    let ran = run(folder.path(), &["tools", "--json"]).await.exits(2);
    let report: Value = serde_json::from_str(&ran.err).unwrap();
    assert!(report["problems"].as_array().unwrap().len() >= 4, "{report}");
    let problem = &report["problems"][0];
    assert!(problem["line"].is_u64() && problem["column"].is_u64() && problem["fix"].is_string(), "{problem}");
}

#[tokio::test]
async fn wrong_use_ends_with_two_and_says_how_it_is_used() {
    let folder = started().await;
    for (arguments, words) in [
        (&["nonsense"][..], "Usage"),
        (&["call"], "Usage"),
        (&["call", "search_notes", "{}", "--priority", "urgent"], "possible values"),
        (&["call", "search_notes", "{}", "--timeout-ms", "0"], "1.."),
        (&["call", "search_notes", "not json"], "fix:"),
        (&["call", "search_notes", "[1]"], "fix:"),
        (&["call", "search_notes", "{}", "--caller", "nobody"], "no caller `nobody`"),
        (&["tools", "--caller", "nobody"], "no caller `nobody`"),
        (&["mcp", "--caller", "nobody"], "no caller `nobody`"),
        (&["serve", "--listen", "here"], "invalid"),
        (&["schema", "nonsense"], "possible values"),
        (&["sessions", "--limit", "0"], "1.."),
        (&["settle", "done", "nothing"], "no write with this request id"),
        (&["tools", "--config", "elsewhere.yaml"], "reach init"),
    ] {
        let ran = run(folder.path(), arguments).await.exits(2);
        assert!(ran.out.is_empty() && ran.err.contains(words), "{arguments:?}: {ran:?}");
    }
    let ran = run(folder.path(), &["--help"]).await.exits(0);
    assert!(ran.out.contains("Usage") && ran.err.is_empty());
}

#[tokio::test]
async fn a_call_prints_one_envelope_and_its_exit_code_says_how_it_went() {
    let folder = started().await;
    let (_, envelope) = both(folder.path(), &["call", "search_notes", r#"{"query": "first call"}"#], 0).await;
    assert_shape(&envelope);
    let (people, envelope) = both(folder.path(), &["call", "search_nodes", r#"{"query": "x"}"#], 1).await;
    assert_shape(&envelope);
    assert_eq!(envelope["error"]["code"], "TOOL_NOT_FOUND");
    assert!(people.out.contains("search_notes"), "the nearest name is offered: {people:?}");
    let (_, envelope) = both(folder.path(), &["call", "search_notes"], 1).await;
    assert_eq!(envelope["error"]["code"], "INVALID_ARGUMENTS");

    let given =
        ["--session", "s-1", "--trace", "t-1", "--step", "3", "--key", "k-1", "--timeout-ms", "20000", "--json"];
    let ran = run(folder.path(), &[&["call", "search_notes", r#"{"query": "x"}"#], &given[..]].concat()).await.exits(0);
    let meta = &ran.json()["meta"];
    assert_eq!(
        (&meta["session_id"], &meta["trace_id"], &meta["step"], &meta["request_id"]),
        (&json!("s-1"), &json!("t-1"), &json!(3), &json!("k-1"))
    );
}

#[tokio::test]
async fn a_call_may_do_without_the_stand_in_and_as_a_declared_caller() {
    let (primary, standby) = (Server::start().await.unwrap(), Server::start().await.unwrap());
    primary.always(Reply::json(500, "{}"));
    let folder = folder(&format!(
        r#"{{version: 1,
            callers: {{bot: {{key: bot-key-0123456789abcdef, scopes: []}}}},
            upstreams: {{"{0}": {{breaker: {{failures: 100, window_calls: 1000}}}}}},
            tools: [
            {{tool_id: look, description: Reads., fallback: look_2, http: {{url: "{0}/"}}}},
            {{tool_id: look_2, description: Reads., auth: {{scope: "a:b"}}, http: {{url: "{1}/"}}}}]}}"#,
        primary.url(""),
        standby.url("")
    ));
    let (people, envelope) = both(folder.path(), &["call", "look"], 0).await;
    assert!(people.err.contains("served by look_2"), "{people:?}");
    assert_eq!(envelope["meta"]["served_by"], "look_2");
    let ran = run(folder.path(), &["call", "look", "--no-fallback", "--json"]).await.exits(1);
    assert_eq!(ran.json()["error"]["code"], "UPSTREAM_ERROR");
    // A stand-in that the caller may not use does not stand in for it.
    let ran = run(folder.path(), &["call", "look", "--caller", "bot", "--json"]).await.exits(1);
    assert_eq!(ran.json()["error"]["code"], "UPSTREAM_ERROR");
    assert_eq!(standby.requests().len(), 2);
    let listed = run(folder.path(), &["tools", "--caller", "bot", "--json"]).await.exits(0).json();
    assert_eq!(listed["tools"].as_array().unwrap().len(), 1, "{listed}");
}

#[tokio::test]
async fn a_write_that_is_interrupted_is_finished_and_recorded() {
    let upstream = Server::start().await.unwrap();
    upstream.next(Behaviour::Slow {
        reply: Reply::json(200, r#"{"paid":true}"#),
        piece: 100,
        pause: Duration::from_millis(1_500),
    });
    let folder = folder(&format!(
        "{{version: 1, tools: [{{tool_id: pay, description: Pays., http: {{method: POST, url: \"{}\"}}}}]}}",
        upstream.url("/")
    ));
    let call = ["call", "pay", "{}", "--key", "p-1", "--json"];
    let mut process = Running::start(reach(folder.path()).args(call));
    timeout(PATIENCE, upstream.received(1)).await.unwrap();
    process.signal(rustix::process::Signal::INT);
    assert_eq!((process.end().await, process.out()), (130, String::new()));
    let envelope = run(folder.path(), &call).await.exits(0).json();
    assert_eq!((&envelope["data"]["paid"], &envelope["meta"]["replayed"]), (&json!(true), &json!(true)), "{envelope}");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn arguments_come_from_standard_input_where_a_dash_stands() {
    let folder = started().await;
    let mut child =
        reach(folder.path()).args(["call", "search_notes", "-", "--json"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"{\"query\": \"first call\"}").await.unwrap();
    drop(input);
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_shape(&serde_json::from_slice(&output.stdout).unwrap());
}

#[tokio::test]
async fn colour_is_for_terminals_and_for_whoever_insists() {
    let folder = started().await;
    let call = ["call", "search_notes", r#"{"query": "x"}"#];
    let plain = run(folder.path(), &call).await.exits(0);
    assert!(!plain.out.contains(ESCAPE), "{plain:?}");
    let forced = run(folder.path(), &[&call[..], &["--color", "always"]].concat()).await.exits(0);
    assert!(forced.err.contains(ESCAPE), "{forced:?}");
    let never = run(folder.path(), &[&call[..], &["--color", "never"]].concat()).await.exits(0);
    assert!(!never.out.contains(ESCAPE));
    let quiet = finish(reach(folder.path()).args(call).env("NO_COLOR", "1")).await.exits(0);
    assert!(!quiet.out.contains(ESCAPE));
    let bad = finish(reach(folder.path()).args(["tools", "--config", "none.yaml"]).env("NO_COLOR", "1")).await.exits(2);
    assert!(!bad.err.contains(ESCAPE), "{bad:?}");
    let bad = run(folder.path(), &["tools", "--config", "none.yaml", "--color", "always"]).await.exits(2);
    assert!(bad.err.contains(ESCAPE), "{bad:?}");
    let json = run(folder.path(), &["tools", "--json", "--color", "always"]).await.exits(0);
    assert!(!json.out.contains(ESCAPE), "JSON is for machines");
}

#[tokio::test]
async fn doctor_tells_the_reachable_from_the_broken() {
    let upstream = Server::start().await.unwrap();
    let good = folder(&format!(
        "{{version: 1, tools: [{{tool_id: look, description: Reads., http: {{url: \"{}\"}}}}]}}",
        upstream.url("/")
    ));
    let (people, json) = both(good.path(), &["doctor"], 0).await;
    assert!(people.out.contains("everything can be reached"), "{people:?}");
    assert_eq!((&json["broken"], json["checks"].as_array().unwrap().len()), (&json!(0), 2));
    assert_eq!(upstream.requests().iter().filter(|request| request.method != "HEAD").count(), 0, "no side effect");

    let gone = upstream.stop().await;
    let (people, json) = both(good.path(), &["doctor", "--timeout-ms", "2000"], 3).await;
    assert!(people.out.contains("BROKEN") && people.out.contains("fix:"), "{people:?}");
    assert_eq!(json["broken"], 1, "{json}");
    assert!(json["checks"][1]["target"].as_str().unwrap().contains(&gone.port().to_string()));

    let unwritable = folder("{version: 1, state: {ledger: \"sqlite:///proc/none/ledger.db\"}}");
    let ran = run(unwritable.path(), &["doctor"]).await.exits(1);
    assert!(ran.out.is_empty() && ran.err.contains("error:"), "{ran:?}");
}

#[tokio::test]
async fn the_schemas_are_the_checked_in_files() {
    let folder = tempfile::tempdir().unwrap();
    for (what, file) in [("config", "schemas/reach.schema.json"), ("openapi", "schemas/openapi.json")] {
        let ran = run(folder.path(), &["schema", what]).await.exits(0);
        let kept: Value = serde_json::from_str(&std::fs::read_to_string(root().join(file)).unwrap()).unwrap();
        assert_eq!(ran.json(), kept, "{file}");
    }
    let ran = run(folder.path(), &["schema", "errors"]).await.exits(0);
    assert!(ran.out.contains("OUTCOME_UNKNOWN"));
    let json = run(folder.path(), &["schema", "errors", "--json"]).await.exits(0).json();
    assert_eq!(json["errors"].as_array().unwrap().len(), reach_core::error::TABLE.len());
}

/// A folder in which a read worked, a read failed and the outcome of a write is unknown.
async fn lived(upstream: &Server) -> TempDir {
    let folder = folder(&format!(
        r#"{{version: 1, tools: [
            {{tool_id: look, description: Reads., http: {{url: "{0}/look"}}}},
            {{tool_id: pay, description: Pays., input_schema: {{type: object, properties: {{amount: {{type: integer}}}}}},
              http: {{method: POST, url: "{0}/pay"}}}}]}}"#,
        upstream.url("")
    ));
    let tagged = ["--session", "s-1", "--trace", "t-1", "--step"];
    let call =
        async |rest: &[&str], step: &str| run(folder.path(), &[&["call"], rest, &tagged[..], &[step]].concat()).await;
    call(&["look"], "1").await.exits(0);
    upstream.next(Reply::json(404, r#"{"error":"none"}"#));
    call(&["look"], "2").await.exits(1);
    upstream.next(Behaviour::Reset);
    let ran = call(&["pay", r#"{"amount": 5}"#, "--key", "p-1"], "3").await.exits(1);
    assert!(ran.out.contains("OUTCOME_UNKNOWN"), "{ran:?}");
    folder
}

#[tokio::test]
async fn what_happened_is_read_by_trace_session_and_health() {
    let upstream = Server::start().await.unwrap();
    let folder = lived(&upstream).await;
    let (people, json) = both(folder.path(), &["trace", "t-1"], 0).await;
    for words in ["look", "pay", "attempt_started", "finished", "NOT_FOUND", "OUTCOME_UNKNOWN", "intended"] {
        assert!(people.out.contains(words), "{words}: {}", people.out);
    }
    assert_eq!(json["trace_id"], "t-1");
    assert!(json["rows"].as_array().unwrap().len() >= 3, "{json}");

    let (people, json) = both(folder.path(), &["sessions"], 0).await;
    assert!(people.out.contains("s-1"), "{people:?}");
    assert_eq!(
        (&json["sessions"][0]["session_id"], &json["sessions"][0]["totals"]["calls"]),
        (&json!("s-1"), &json!(3))
    );
    let (people, json) = both(folder.path(), &["sessions", "show", "s-1"], 0).await;
    assert!(people.out.contains("look") && people.out.contains("pay"), "{people:?}");
    assert_eq!(json["totals"]["errors"], 2, "{json}");
    for nothing in [&["trace", "t-9"][..], &["sessions", "show", "s-9"]] {
        let ran = run(folder.path(), nothing).await.exits(1);
        assert!(ran.out.is_empty() && ran.err.contains("recorded under"), "{ran:?}");
    }

    let (people, json) = both(folder.path(), &["health"], 0).await;
    assert!(people.out.contains("look") && people.out.contains("NOT_FOUND"), "{people:?}");
    assert!(json.to_string().contains("OUTCOME_UNKNOWN"), "{json}");
}

#[tokio::test]
async fn before_the_first_call_every_reader_says_so() {
    let folder = folder("{version: 1, tools: []}");
    for (arguments, words) in [(&["health"][..], "no call"), (&["sessions"], "no session"), (&["settle"], "no write")] {
        let (people, _) = both(folder.path(), arguments, 0).await;
        assert!(people.out.contains(words) && people.err.is_empty(), "{people:?}");
    }
}

#[tokio::test]
async fn a_person_settles_what_nobody_knows_and_the_key_answers_accordingly() {
    let upstream = Server::start().await.unwrap();
    for (word, wanted_code) in [("done", 0), ("not-done", 0)] {
        let folder = lived(&upstream).await;
        let (people, json) = both(folder.path(), &["settle"], 0).await;
        assert!(people.out.contains("p-1") && people.out.contains("pay"), "{people:?}");
        assert_eq!(
            (&json["unsettled"][0]["request_id"], json["unsettled"].as_array().unwrap().len()),
            (&json!("p-1"), 1)
        );
        let again = ["call", "pay", r#"{"amount": 5}"#, "--key", "p-1", "--json"];
        let before = upstream.requests().len();
        let unknown = run(folder.path(), &again).await.exits(1).json();
        assert_eq!(
            (&unknown["error"]["code"], &unknown["meta"]["replayed"]),
            (&json!("OUTCOME_UNKNOWN"), &json!(true))
        );
        assert_eq!(upstream.requests().len(), before, "an unknown write is not repeated");

        run(folder.path(), &["settle", word, "p-1", "--tool", "look"]).await.exits(2);
        let said = run(folder.path(), &["settle", word, "p-1", "--json"]).await.exits(0).json();
        assert_eq!(said, json!({"request_id": "p-1", "tool": "pay", "done": word == "done"}));
        let ran = run(folder.path(), &["settle", word, "p-1"]).await.exits(2);
        assert!(ran.err.contains("no write with this request id"), "{ran:?}");

        let answer = run(folder.path(), &again).await.exits(wanted_code).json();
        assert_shape(&answer);
        assert_eq!(answer["meta"]["replayed"], word == "done", "{answer}");
        assert_eq!(upstream.requests().len() - before, usize::from(word == "not-done"));
        let trace = run(folder.path(), &["trace", "t-1", "--json"]).await.exits(0).out;
        assert_eq!(trace.matches(r#""kind":"settled""#).count(), 1, "told once: {trace}");
    }
}

#[tokio::test]
async fn mcp_over_stdio_speaks_both_eras_and_nothing_else() {
    let folder = started().await;
    for version in ["2025-06-18", "2025-11-25"] {
        let mut mcp = Mcp::start(folder.path(), &[]);
        let hello = mcp.shake_hands(version).await;
        assert_eq!(hello["result"]["protocolVersion"], version, "{hello}");
        assert_eq!(hello["result"]["serverInfo"]["name"], "reach");
        let listed = mcp.ask("tools/list", json!({})).await;
        assert_eq!(listed["result"]["tools"][0]["name"], "search_notes", "{listed}");
        let call = json!({"name": "search_notes", "arguments": {"query": "first call"}});
        let said = mcp.ask("tools/call", call).await;
        assert_eq!(said["result"]["isError"], false, "{said}");
        assert!(said["result"]["structuredContent"].is_object(), "{said}");
        let said = mcp.ask("tools/call", json!({"name": "search_notes", "arguments": {"wrong": 1}})).await;
        assert_eq!(said["result"]["isError"], true, "{said}");
        assert!(said.to_string().contains("INVALID_ARGUMENTS"), "{said}");
        assert_eq!(mcp.end().await, 0);
    }
    let mut mcp = Mcp::start(folder.path(), &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let listed = mcp.ask("tools/list", json!({"_meta": meta})).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "search_notes", "{listed}");
    let call = json!({"name": "search_notes", "arguments": {"query": "first call"}, "_meta": meta});
    let said = mcp.ask("tools/call", call).await;
    assert_eq!(
        (&said["result"]["isError"], &said["result"]["resultType"]),
        (&json!(false), &json!("complete")),
        "{said}"
    );
    assert_eq!(mcp.end().await, 0);
    let recorded = run(folder.path(), &["sessions", "--json"]).await.exits(0).json();
    assert!(!recorded["sessions"].as_array().unwrap().is_empty(), "what came over MCP is in the journal as well");
}

#[tokio::test]
async fn an_id_that_no_surface_would_take_is_wrong_use() {
    let upstream = Server::start().await.unwrap();
    let folder = folder(&format!(
        r#"{{version: 1, tools: [{{tool_id: look, description: Reads., http: {{url: "{}/look"}}}}]}}"#,
        upstream.url("")
    ));
    let long = "k".repeat(256);
    for (flag, bad) in [
        ("--key", ""),
        ("--key", "a b"),
        ("--key", "schlüssel"),
        ("--key", &long),
        ("--session", ""),
        ("--session", "a\nb"),
        ("--trace", "\u{1b}[2J"),
        ("--trace", &long),
    ] {
        let ran = run(folder.path(), &["call", "look", flag, bad]).await.exits(2);
        assert!(ran.err.contains(flag) && ran.out.is_empty(), "{ran:?}");
    }
    assert_eq!(upstream.requests().len(), 0);
    run(folder.path(), &["call", "look", "--key", "k-1", "--session", "会话 1", "--trace", "t"]).await.exits(0);
}
