//! What a declaration may say, and how it is told what is wrong with it.

use reach_adapters::script::Config;
use serde_json::{Value, json};

use super::{attempt, try_build};

/// `a` is required, `b` may be left out.
fn schema() -> Value {
    json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]})
}

fn problems(config: Value) -> Vec<(String, String)> {
    match try_build(config.clone(), &schema()) {
        Ok(_) => Vec::new(),
        Err(found) => found.into_iter().map(|problem| (problem.pointer, problem.message)).collect(),
    }
}

async fn printed(command: Value, arguments: Value) -> String {
    let adapter = try_build(json!({"command": command, "expect": "text"}), &schema()).unwrap();
    super::text(adapter.call(&attempt(arguments)).await)
}

#[tokio::test]
async fn an_item_or_a_group_whose_argument_was_not_given_is_left_out_whole() {
    let command = json!(["printf", "[%s]", "{a}", "--b={b}", ["-b", "{b}"], "end"]);
    assert_eq!(printed(command.clone(), json!({"a": 1})).await, "[1][end]");
    assert_eq!(printed(command.clone(), json!({"a": 1, "b": null})).await, "[1][end]");
    assert_eq!(printed(command.clone(), json!({"a": "", "b": true})).await, "[][--b=true][-b][true][end]");
    assert_eq!(printed(command, json!({"a": [], "b": [1, "x"]})).await, "[--b=[1,\"x\"]][-b][1][x][end]");
}

#[test]
fn every_way_a_value_could_become_code_is_a_problem_of_the_declaration() {
    for command in [
        json!(["{a}"]),
        json!(["./{a}.sh"]),
        json!([["sh", "x"]]),
        json!(["sh", "-c", "{a}"]),
        json!(["/bin/bash", "-euc", "echo {a}"]),
        json!(["python3.12", "-c", "print({a})"]),
        json!(["bash", "{a}"]),
        json!(["env", "-i", "X=1", "sh", "-c", "{a}"]),
        json!(["sudo", "-u", "shop", "/usr/bin/perl", "-e", "{a}"]),
        json!(["busybox", "sh", "-c", "{a}"]),
        json!(["ssh", "host", "ls", "--", "{a}"]),
        json!(["node", ["--eval", "{a}"]]),
    ] {
        assert_eq!(problems(json!({"command": command})).len(), 1, "{command}");
    }
    for command in [
        json!(["sh", "./script.sh", "{a}"]),
        json!(["sh", "-c", "echo \"$1\"", "sh", "{a}"]),
        json!(["python3", "-m", "json.tool", "{a}"]),
        json!(["python3", "script.py", "-c", "{a}"]),
        json!(["env", "X=1", "./script.sh", "{a}"]),
        json!(["grep", "-e", "{a}", "notes.md"]),
        json!(["busybox", "du", "--", "{a}"]),
    ] {
        assert_eq!(problems(json!({"command": command})), [], "{command}");
    }
}

#[test]
fn an_option_that_could_lose_its_value_is_a_problem() {
    let found = problems(json!({"command": ["head", "-n", "{b}", "--", "{a}"]}));
    assert_eq!(
        found,
        [("/command/2".to_owned(), "`-n` would stand without its value when `b` is not given".to_owned())]
    );
    for command in [
        json!(["head", "-n", "{a}"]),
        json!(["head", ["-n", "{b}"], "--", "{a}"]),
        json!(["head", "-n={b}"]),
        json!(["ls", "-l", "--", "{b}"]),
    ] {
        assert_eq!(problems(json!({"command": command})), [], "{command}");
    }
}

#[test]
fn all_problems_are_reported_at_once_and_secrets_are_not_printed() {
    let found = problems(json!({
        "command": ["./{a}", "{aa}", "}"], "max_output_bytes": 0, "environment": {"A=B": "x", "C": "y\0"},
        "pass_environment": ["$HOME="]
    }));
    let pointers: Vec<&str> = found.iter().map(|(pointer, _)| pointer.as_str()).collect();
    assert_eq!(
        pointers,
        [
            "/environment",
            "/environment/C",
            "/pass_environment/0",
            "/max_output_bytes",
            "/command/0",
            "/command/1",
            "/command/2"
        ]
    );
    assert_eq!(problems(json!({"command": []})).len(), 1);
    let config: Config =
        serde_json::from_value(json!({"command": ["x"], "environment": {"TOKEN": "canary-1"}})).unwrap();
    assert!(!format!("{config:?}{}", serde_json::to_string(&config).unwrap()).contains("canary-1"));
}

#[test]
fn unknown_keys_and_impossible_exit_codes_are_refused() {
    for config in [
        json!({"command": ["x"], "shell": true}),
        json!({"command": "x"}),
        json!({"command": ["x"], "exit_codes": {"0": "ok"}}),
        json!({"command": ["x"], "exit_codes": {"256": "ok"}}),
        json!({"command": ["x"], "exit_codes": {"3": "missing"}}),
    ] {
        assert!(serde_json::from_value::<Config>(config.clone()).is_err(), "{config}");
    }
}

#[test]
fn two_tools_that_run_one_program_are_two_upstreams() {
    let adapter = try_build(json!({"command": ["./bin/du", "{a}"]}), &schema()).unwrap();
    assert_eq!((adapter.kind(), adapter.target()), ("script", "script:tool"));
}
