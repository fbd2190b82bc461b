//! What comes out of a right file, and what never comes out of any.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use reach_core::Effect;
use reach_core::tool::{Shape, TIMEOUT};
use secrecy::ExposeSecret;
use toolreach::config::{self, Config};

const NAMES: [(&str, &str); 2] = [("ORDERS_TOKEN", "canary-orders-token"), ("BOT_KEY", "canary-bot-key-0123")];

fn environment() -> BTreeMap<String, String> {
    NAMES.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn right() -> Config {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suites/config/right.yaml");
    config::load(&path, &environment()).unwrap_or_else(|report| panic!("{report}"))
}

#[test]
fn a_right_file_becomes_the_values_that_the_engine_takes() {
    let config = right();
    let ids: Vec<&str> = config.tools.iter().map(|tool| tool.spec.tool_id.as_str()).collect();
    assert_eq!(ids, ["order_status_query", "order_status_query_v2", "old_status", "order_cancel", "天气"]);
    let query = &config.tools[0];
    assert_eq!(query.spec.effect, Effect::Read, "GET reads");
    assert_eq!(query.spec.timeout, Duration::from_secs(3));
    assert_eq!(query.spec.scope.as_deref(), Some("order:read"));
    assert_eq!(query.spec.fallback.as_ref().unwrap().tool_id.as_str(), "order_status_query_v2");
    assert_eq!(query.adapter.target(), "https://orders.internal:443");
    assert!(query.credential.is_some());

    let second = &config.tools[1];
    assert_eq!(second.spec.name, "Order status", "merged from the anchor");
    assert_eq!(second.spec.fallback.as_ref().unwrap().arguments["number"], "order_id");
    assert_eq!(config.tools[2].spec.shape, Shape::Extract);
    assert_eq!(config.tools[2].spec.timeout, TIMEOUT);

    let cancel = &config.tools[3].spec;
    assert!(cancel.coerce && cancel.server_error_means_not_done);
    assert_eq!(cancel.verify.as_ref().unwrap().done_when, "status == 'cancelled'");
    assert_eq!(cancel.rate.map(|rate| (rate.per_minute, rate.burst)), Some((10, 10)));
    assert_eq!(
        cancel.breaker.map(|breaker| (breaker.failures, breaker.open_ms, breaker.successes)),
        Some((1, 1_000, 2))
    );

    let caller = &config.callers[0];
    assert_eq!(caller.caller.id.as_str(), "support-bot");
    assert!(caller.caller.scopes.allow(Some("order:write")) && !caller.caller.scopes.allow(Some("stock:read")));
    assert_eq!(caller.caller.rate.map(|rate| rate.burst), Some(20));
    assert_eq!(config.upstreams["https://orders.internal:443"].max_concurrency, 8);
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:7878");
    assert_eq!(config.server.allowed_hosts, ["reach.internal"]);
    assert_eq!(config.state.board, "memory:");
    let days = |days: u64| Duration::from_secs(days * 86_400);
    assert_eq!((config.keep.journal, config.keep.records), (days(30), days(7)), "when nothing is said");
}

#[test]
fn the_engine_takes_what_was_checked() {
    let config = right();
    let scrubber = config.scrubber();
    assert!(reach_engine::Registry::build(config.tools, &config.upstreams, scrubber).is_ok());
}

#[test]
fn every_secret_of_the_file_is_known_to_the_scrubber_and_printed_nowhere() {
    let config = right();
    let mut secrets: Vec<&str> = config.secrets.iter().map(ExposeSecret::expose_secret).collect();
    secrets.sort_unstable();
    secrets.dedup();
    // The first is what the header of the basic credential holds.
    assert_eq!(
        secrets,
        ["Ym90OnBhc3Mgd29yZCDlr4Y=", "canary-bot-key-0123", "canary-orders-token", "pass word 密", "weather-key-0"]
    );
    let printed = format!("{config:?} {config:#?}");
    for secret in secrets {
        assert!(!printed.contains(secret), "{printed}");
    }
    assert_eq!(config.scrubber().text("echo canary-orders-token"), "echo [secret]");
}

#[test]
fn a_file_that_is_not_there_is_empty_or_no_text_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reach.yaml");
    let said = |content: Option<&[u8]>| {
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let report = config::load(&path, &environment()).unwrap_err();
        (report.problems[0].line, report.problems[0].message.clone())
    };
    assert_eq!(said(None), (0, "the file cannot be read: no such file or directory".to_owned()));
    assert_eq!(said(Some(b"")), (0, "the file is empty".to_owned()));
    assert_eq!(said(Some(b"# nothing\n\n")), (0, "the file is empty".to_owned()));
    assert_eq!(said(Some(b"version: 1\nserver: \xff")), (0, "line 2 is not UTF-8".to_owned()));
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_move_no_place_and_no_mask() {
    let text = "\u{feff}version: 1\r\ncallers:\r\n  bot: {key: canary-key, scops: [canary-scope]}\r\n";
    let report = config::parse("reach.yaml", text, Path::new("."), &environment()).unwrap_err();
    let shown = &report.problems[0];
    assert_eq!((shown.line, shown.column), (3, 26));
    let source = shown.source.as_ref().unwrap();
    assert_eq!(source.text, "  bot: {key: ***, scops: [***]}");
    assert_eq!(&source.text[source.caret..source.caret + source.width], "scops");
}

#[test]
fn a_mistake_behind_an_anchor_is_told_once_and_no_control_character_is_printed() {
    let text = "version: 1\ntools:\n  - {tool_id: a, description: x, http: &h {url: \"https://h/\", \"bad\\e[31m\": 1}}\n  - {tool_id: b, description: x, http: *h}\n";
    let report = config::parse("reach.yaml", text, Path::new("."), &environment()).unwrap_err();
    let messages: Vec<&str> = report.problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(messages, ["unknown key `bad [31m` in `http`"]);
    assert!(!report.render(false).contains('\u{1b}'));
}

#[test]
fn relative_paths_start_at_the_folder_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reach.yaml");
    std::fs::write(&path, "version: 1\n").unwrap();
    assert_eq!(config::load(&path, &environment()).unwrap().base, folder.path());
}

#[test]
fn five_hundred_tools_are_checked_in_a_moment() {
    let mut text = String::from("version: 1\ntools:\n");
    for index in 0..500 {
        text.push_str(&format!(
            "  - tool_id: tool_{index}\n    description: x\n    input_schema: {{type: object, properties: {{id: {{type: string, pattern: \"^[0-9]+$\"}}}}, required: [id]}}\n    http: {{url: \"https://host-{index}.internal/{{id}}\"}}\n"
        ));
    }
    let start = tokio::time::Instant::now();
    let config = config::parse("reach.yaml", &text, Path::new("."), &environment()).unwrap();
    let took = start.elapsed();
    assert_eq!(config.tools.len(), 500);
    println!("500 tools in {took:?}");
    // Twenty times what it takes here, unoptimised; it catches what grows with the square.
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// Lines that meet each other in odd ways.
fn fragments() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("version: 1\n"),
        Just("tools:\n"),
        Just("  - tool_id: a\n"),
        Just("    description: ${X} \"\n"),
        Just("    http: {url: \"https://u:canary-password@h/{a}\"}\n"),
        Just("    fallback: a\n"),
        Just("    input_schema: {type: object, properties: &p {a: {type: string}}}\n"),
        Just("    input_schema: *p\n"),
        Just("callers: {bot: {key: canary-0123456789, scopes: [x]}}\n"),
        Just("credentials: {c: {kind: bearer, token: canary-token}}\n"),
        Just("credentials: {c: {kind: bearer token: canary-token}}\n"),
        Just("  c: {kind: bearer, token: 'canary-token}\n"),
        Just("state: {ledger: \"postgres://u:canary-pw@h/d\"}\n"),
        Just("\t<<: *p\n"),
        Just("? [canary]\n: {}\n"),
        Just("---\n"),
        Just("北京: [\u{feff}, ~]\n"),
    ];
    proptest::collection::vec(line, 0..12).prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_loader_panic(text in "\\PC{0,200}|[\\[\\]{}:,&*!|>'\"%@`#\\-?\n \t0-9a-c$]{0,120}") {
        if let Err(report) = config::parse("reach.yaml", &text, Path::new("."), &environment()) {
            prop_assert!(!report.problems.is_empty());
            prop_assert!(!report.render(true).is_empty());
        }
    }

    #[test]
    fn no_mixture_of_lines_makes_a_report_hold_a_secret(text in fragments()) {
        if let Err(report) = config::parse("reach.yaml", &text, Path::new("."), &environment()) {
            prop_assert!(!report.problems.is_empty());
            let lines = text.lines().count() + 1;
            prop_assert!(report.problems.iter().all(|problem| problem.line <= lines), "{report:?}");
            let shown = format!("{} {} {report:?}", report.render(false), report.to_json());
            prop_assert!(!shown.contains("canary"), "{shown}");
        }
    }
}
