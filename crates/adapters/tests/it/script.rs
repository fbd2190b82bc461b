//! The `script` adapter in the shared suite, and what is its own: what a program sees, what its end
//! means, and that nothing of it is left behind. Attacks on its arguments are in `attack`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "everything here is a test or serves one; what fails here is a finding"
)]

mod attack;
mod declaration;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reach_adapters::script::{self, Config};
use reach_adapters::shared::Declared;
use reach_core::{Adapter, Answer, Attempt, BoxFuture, Effect, Failure, FailureKind, Payload, Phase, Problem, ToolId};
use serde_json::{Value, json};

use crate::suite::{self, Fault, Scene, Stage};

/// The folder of the programs under test, as if `reach.yaml` stood in it.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suites/script").canonicalize().unwrap()
}

fn try_build(config: Value, schema: &Value) -> Result<Arc<dyn Adapter>, Vec<Problem>> {
    let config: Config = serde_json::from_value(config).unwrap();
    let tool_id = ToolId::parse("tool").unwrap();
    script::build(
        config,
        &Declared {
            tool_id: &tool_id,
            input_schema: schema,
            effect: Effect::Write,
            timeout: Duration::from_secs(10),
            base: &folder(),
        },
    )
}

/// An adapter whose tool takes `a` and `b`, both required.
fn adapter(config: Value) -> Arc<dyn Adapter> {
    let schema = json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]});
    try_build(config, &schema).unwrap()
}

fn attempt(arguments: Value) -> Attempt {
    Attempt::new(ToolId::parse("tool").unwrap(), arguments.as_object().unwrap().clone(), Effect::Write)
}

async fn call(config: Value, arguments: Value) -> Result<Answer, Failure> {
    adapter(config).call(&attempt(arguments)).await
}

async fn act(words: &[&str]) -> Result<Answer, Failure> {
    let mut command = vec!["./act.sh"];
    command.extend(words);
    call(json!({"command": command}), json!({})).await
}

fn text(answer: Result<Answer, Failure>) -> String {
    match answer.unwrap().payload {
        Payload::Text(text) => text,
        other => panic!("not text: {other:?}"),
    }
}

/// The process numbers that a script left in `file`, once there are `count`.
async fn numbers(file: &Path, count: usize) -> Vec<u32> {
    until(|| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let found: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
        (found.len() == count && text.ends_with('\n')).then_some(found)
    })
    .await
}

/// Waits until no process has this number; one that only waits for a foreign parent to notice counts as gone.
async fn gone(number: u32) {
    until(|| {
        let status = std::fs::read_to_string(format!("/proc/{number}/stat"));
        let Ok(status) = status else { return Some(()) };
        let mut after_name = status.rsplit(')').next().unwrap().split_whitespace();
        let (state, parent) = (after_name.next().unwrap(), after_name.next().unwrap());
        (state == "Z" && parent != std::process::id().to_string()).then_some(())
    })
    .await;
}

async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let look = async {
        loop {
            match look() {
                Some(found) => return found,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), look).await.expect("happens within ten seconds")
}

struct Scripts;

impl Stage for Scripts {
    fn scene(&self, fault: Fault) -> BoxFuture<'_, Result<Scene, &'static str>> {
        Box::pin(async move {
            let room = tempfile::tempdir().unwrap();
            let left = room.path().join("numbers");
            let config = match fault {
                Fault::None => json!({"command": ["./act.sh", "answer"]}),
                Fault::Refused => json!({"command": ["./no-such-program"]}),
                Fault::Stall | Fault::Cancelled => json!({"command": ["./act.sh", "stall", left]}),
                Fault::Reset => json!({"command": ["./act.sh", "die"]}),
                Fault::HalfAnswer => json!({"command": ["./act.sh", "half"]}),
                Fault::Oversize => json!({"command": ["yes"], "max_output_bytes": 10_000}),
                Fault::Malformed => json!({"command": ["./act.sh", "say", "<html>"], "expect": "json"}),
                Fault::ExpiredCredential => {
                    json!({"command": ["./act.sh", "login"], "exit_codes": {"77": "unauthorised"}})
                }
            };
            Ok(Scene {
                adapter: adapter(config),
                attempt: attempt(json!({})),
                gone: Box::pin(async move {
                    for number in numbers(&left, 2).await {
                        gone(number).await;
                    }
                }),
                keep: Box::new(room),
            })
        })
    }
}

#[tokio::test]
async fn the_script_adapter_keeps_the_promise_of_every_adapter() {
    suite::run(&Scripts).await;
}

#[tokio::test]
async fn json_output_is_the_result_with_the_scripts_own_status_field() {
    let answer = act(&["answer"]).await.unwrap();
    assert_eq!(
        answer.payload,
        Payload::Json(json!({"status": "success", "data": {"count": 42, "items": ["a"]}})),
        "case H007"
    );
}

#[tokio::test]
async fn a_traceback_becomes_its_last_line_without_stack_or_folder() {
    let failure = act(&["traceback"]).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::ServerError);
    assert_eq!(failure.phase, Phase::Answered);
    assert!(failure.message.contains("FileNotFoundError: notes.md"), "case H010: {}", failure.message);
    assert!(!failure.message.contains("/srv") && !failure.message.contains("Traceback"), "{}", failure.message);
    assert!(failure.detail.unwrap().contains("/srv/app/t.py"), "the journal has the whole trace");
}

#[tokio::test]
async fn a_number_that_json_does_not_have_is_a_fault_of_the_script() {
    let failure = act(&["say", r#"{{"count": 0, "mean": NaN}}"#]).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Malformed);
    assert!(failure.message.contains("NaN"), "case H012: {}", failure.message);
}

#[tokio::test]
async fn exit_codes_mean_what_the_declaration_says() {
    let codes = json!({
        "1": "ok", "3": "not_found", "4": "rejected", "5": "server_error", "75": "unavailable", "77": "unauthorised"
    });
    let wanted = [
        ("2", Some(FailureKind::ServerError)),
        ("1", None),
        ("3", Some(FailureKind::NotFound)),
        ("4", Some(FailureKind::Rejected)),
        ("5", Some(FailureKind::ServerError)),
        ("75", Some(FailureKind::Unavailable)),
        ("77", Some(FailureKind::Unauthorised)),
        ("127", Some(FailureKind::ServerError)),
    ];
    for (code, kind) in wanted {
        let config = json!({"command": ["./act.sh", "fail", code, "order is closed"], "exit_codes": codes});
        match (call(config, json!({})).await, kind) {
            (Ok(answer), None) => assert_eq!(answer.notes, ["order is closed\n"]),
            (Err(failure), Some(kind)) => {
                assert_eq!((failure.kind, failure.phase), (kind, Phase::Answered), "exit code {code}");
                assert!(failure.message.ends_with(&format!("exit code {code}: order is closed")), "{failure:?}");
            }
            (outcome, _) => panic!("exit code {code}: {outcome:?}"),
        }
    }
}

#[tokio::test]
async fn the_program_sees_the_fixed_environment_and_nothing_of_ours() {
    let secret_of_ours = std::env::vars_os().count();
    assert!(secret_of_ours > 5 && std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "there is something to leak");
    let config = json!({
        "command": ["./act.sh", "environment"],
        "environment": {"SHOP_REGION": "eu west; $HOME"},
        "pass_environment": ["CARGO_PKG_NAME", "NO_SUCH_VARIABLE_HERE"],
    });
    let printed = text(call(config, json!({})).await);
    let mut seen: Vec<(&str, &str)> =
        printed.split_terminator('\0').map(|line| line.split_once('=').unwrap()).collect();
    // What the shell of the test program sets for itself.
    seen.retain(|(name, _)| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    seen.sort_unstable();
    let names: Vec<&str> = seen.iter().map(|(name, _)| *name).filter(|name| *name != "TZ").collect();
    assert_eq!(names, ["CARGO_PKG_NAME", "LANG", "PATH", "REACH_REQUEST_ID", "REACH_TRACE_ID", "SHOP_REGION"]);
    assert!(seen.contains(&("SHOP_REGION", "eu west; $HOME")));
    assert!(seen.contains(&("PATH", "/usr/local/bin:/usr/bin:/bin")));
    assert!(seen.contains(&("CARGO_PKG_NAME", "reach-adapters")));
}

#[tokio::test]
async fn a_keyed_tool_gets_the_key_it_is_to_honour() {
    let adapter = adapter(json!({"command": ["./act.sh", "environment"]}));
    let mut attempt = attempt(json!({}));
    attempt.upstream_key = Some("key-1".to_owned());
    assert!(text(adapter.call(&attempt).await).contains("REACH_UPSTREAM_KEY=key-1\0"));
}

#[tokio::test]
async fn arguments_travel_as_json_on_standard_input() {
    let arguments = json!({"a": "订单 \"1\"\n", "b": [1, {"c": null}]});
    let config = json!({"command": ["./act.sh", "input"], "stdin": "json", "expect": "json"});
    assert_eq!(call(config, arguments.clone()).await.unwrap().payload, Payload::Json(arguments));
    let config = json!({"command": ["./act.sh", "input"]});
    assert_eq!(call(config, json!({"a": 1, "b": 2})).await.unwrap().payload, Payload::Empty, "stdin is closed");
}

#[tokio::test]
async fn a_program_that_ignores_a_large_input_or_fills_both_pipes_does_not_block_us() {
    let large = json!({"a": "x".repeat(1_000_000), "b": ""});
    let config = json!({"command": ["./act.sh", "ignore_input"], "stdin": "json"});
    assert_eq!(text(call(config, large.clone()).await), "done");
    let config = json!({"command": ["./act.sh", "both"], "stdin": "json"});
    let answer = call(config, large).await.unwrap();
    assert_eq!(answer.payload, Payload::Text("o".repeat(400_000)));
    assert!(answer.notes[0].len() < 9_000, "standard error is clipped");
    assert!(answer.notes[0].starts_with("[391808 bytes of standard error left out] eee"), "and says so");
}

#[tokio::test]
async fn it_starts_in_the_declared_folder() {
    assert_eq!(text(act(&["folder"]).await), folder().to_str().unwrap());
    let config = json!({"command": ["./act.sh", "folder"], "working_directory": ".."});
    assert_eq!(text(call(config, json!({})).await), folder().parent().unwrap().to_str().unwrap());
    let config = json!({"command": ["./act.sh", "folder"], "working_directory": "nowhere"});
    let failure = call(config.clone(), json!({})).await.unwrap_err();
    assert_eq!((failure.kind, failure.phase), (FailureKind::Unreachable, Phase::NotSent));
    assert!(failure.message.contains("working_directory"), "{}", failure.message);
    assert!(adapter(config).check(Duration::from_secs(1)).await.is_err());
}

#[tokio::test]
async fn it_dumps_no_core_and_gains_no_privileges_unless_allowed() {
    assert_eq!(act(&["limits"]).await.unwrap().payload, Payload::Json(json!(0)));
    assert_eq!(text(act(&["privileges"]).await), "NoNewPrivs:\t1");
    let config = json!({"command": ["./act.sh", "privileges"], "allow_new_privileges": true});
    assert_eq!(text(call(config, json!({})).await), "NoNewPrivs:\t0");
}

#[tokio::test]
async fn the_whole_group_is_killed_and_reaped_when_the_attempt_is_dropped() {
    let room = tempfile::tempdir().unwrap();
    let left = room.path().join("numbers");
    let adapter = adapter(json!({"command": ["./act.sh", "stall", left]}));
    let attempt = attempt(json!({}));
    let found = {
        let call = adapter.call(&attempt);
        tokio::select! {
            outcome = call => panic!("a stalled program does not answer: {outcome:?}"),
            found = numbers(&left, 2) => found,
        }
    };
    assert_eq!(attempt.sent.phase(), Phase::MaybeSent);
    for number in found {
        gone(number).await;
    }
}

#[tokio::test]
async fn a_child_that_holds_the_pipes_neither_delays_the_answer_nor_survives_it() {
    let room = tempfile::tempdir().unwrap();
    let left = room.path().join("numbers");
    let answer = act(&["leave", left.to_str().unwrap()]).await;
    assert_eq!(text(answer), "left");
    for number in numbers(&left, 1).await {
        gone(number).await;
    }
}

#[tokio::test]
async fn a_child_that_left_the_group_delays_the_answer_for_a_moment_only() {
    let room = tempfile::tempdir().unwrap();
    let left = room.path().join("numbers");
    let begun = tokio::time::Instant::now();
    let answer = act(&["escape", left.to_str().unwrap()]).await;
    let took = begun.elapsed();
    let [child] = numbers(&left, 1).await[..] else { panic!("one child") };
    let child = rustix::process::Pid::from_raw(child.try_into().unwrap()).unwrap();
    rustix::process::kill_process(child, rustix::process::Signal::KILL).expect("it did leave the group");
    assert_eq!(text(answer), "left");
    assert!(took < Duration::from_secs(5), "took {took:?}");
}

#[tokio::test]
async fn a_hundred_programs_at_once_leave_no_zombie() {
    let calls = (0..100).map(|n| async move { text(act(&["say", &format!("no {n}")]).await) == format!("no {n}") });
    assert!(futures_util::future::join_all(calls).await.into_iter().all(|same| same));
    let own = std::process::id().to_string();
    let children = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let status = std::fs::read_to_string(entry.unwrap().path().join("stat")).ok()?;
        let parent = status.rsplit(')').next()?.split_whitespace().nth(1)?.to_owned();
        (parent == own).then_some(status)
    });
    assert_eq!(children.collect::<Vec<_>>(), Vec::<String>::new());
}

#[tokio::test]
async fn a_check_looks_and_starts_nothing() {
    let found = adapter(json!({"command": ["./act.sh", "stall", "/dev/null"]})).check(Duration::from_secs(1)).await;
    assert_eq!(found.unwrap(), "`act.sh` exists and may be run");
    for program in ["no-such-program-anywhere", "./nothing-here", "./argv-payloads.json", "./no-interpreter.sh"] {
        let adapter = adapter(json!({"command": [program, "PWNED"]}));
        for failure in [
            adapter.check(Duration::from_secs(1)).await.unwrap_err(),
            adapter.call(&attempt(json!({}))).await.unwrap_err(),
        ] {
            assert_eq!((failure.kind, failure.phase), (FailureKind::Unreachable, Phase::NotSent));
            assert!(!failure.message.contains('/'), "no folder of ours: {}", failure.message);
        }
    }
}
