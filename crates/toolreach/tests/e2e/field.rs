//! The cases of `suites/cases/road.jsonl`: each a tool or two as declared, an upstream that behaves as people
//! reported, calls, and what has to come out. One test for each id; the whole road is walked, from the text
//! of a configuration to the envelope.
//!
//! A step's `expect` names only what is compared: `status`, `code`, `retryable`, `attempts`, `phase`,
//! `replayed`, `data` (equal), `data_holds`, `mentions` (in the error's words), `not` (nowhere in the
//! envelope), `requests` (so far, counted at the upstream), `sent` and `target` (of the last request),
//! `longest` (characters of data), `truncated`.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use base64::Engine as _;
use reach_kit::http::{Behaviour, Reply, Server};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::support::{House, root};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    claim: String,
    tools: Value,
    #[serde(default)]
    upstream: Vec<Value>,
    #[serde(default)]
    upstreams: Value,
    #[serde(default)]
    files: Map<String, Value>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    call: String,
    arguments: Value,
    key: Option<String>,
    expect: Map<String, Value>,
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(root().join("suites/cases/road.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// One test a case, and the list of them.
macro_rules! cases {
    ($($name:ident $id:literal)*) => {
        $(#[tokio::test]
        async fn $name() {
            check($id).await;
        })*

        const IDS: &[&str] = &[$($id),*];
    };
}

cases! {
    e001 "E001"
    e003 "E003"
    e004 "E004"
    e005 "E005"
    e007 "E007"
    e008 "E008"
    e009 "E009"
    s003 "S003"
    s008 "S008"
    s016 "S016"
    e011 "E011"
    e012 "E012"
    e014 "E014"
    e020 "E020"
    h001 "H001"
    h002 "H002"
    h004 "H004"
    h005 "H005"
    h007 "H007"
    h010 "H010"
    h012 "H012"
    s019 "S019"
    c001 "C001"
}

#[test]
fn every_case_of_the_file_has_its_test() {
    let ids: Vec<String> = cases().into_iter().map(|case| case.id).collect();
    assert_eq!(ids, IDS);
}

async fn check(id: &str) {
    let case = cases().into_iter().find(|case| case.id == id).expect("the case is in the file");
    let upstream = Server::start().await.unwrap();
    for told in &case.upstream {
        upstream.next(behaviour(told));
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in &case.files {
        let path = folder.path().join(name);
        std::fs::write(&path, text.as_str().unwrap()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    // JSON is YAML: the declaration of the case is the text that is read.
    let mut text = json!({"version": 1, "tools": case.tools});
    if !case.upstreams.is_null() {
        text["upstreams"] = case.upstreams;
    }
    let text = text.to_string().replace("{upstream}", &upstream.url(""));
    let house = House::open_in(folder, &text).await;
    for (index, step) in case.steps.iter().enumerate() {
        let mut plan = House::plan(&step.call, &step.arguments);
        if let Some(key) = &step.key {
            plan = plan.with_key(key);
        }
        let envelope = serde_json::to_value(house.walk(plan).await).unwrap();
        let about = format!("{} {} step {index}: {envelope}", case.id, case.claim);
        for (what, wanted) in &step.expect {
            compare(what, wanted, &envelope, &upstream, &about);
        }
    }
}

fn behaviour(told: &Value) -> Behaviour {
    if told == "reset" {
        return Behaviour::Reset;
    }
    let body = match (told["body"].as_str(), told["body_base64"].as_str(), told["repeat"].as_array()) {
        (Some(text), ..) => text.as_bytes().to_vec(),
        (_, Some(text), _) => base64::engine::general_purpose::STANDARD.decode(text).unwrap(),
        (.., Some(repeat)) => {
            repeat[0].as_str().unwrap().repeat(usize::try_from(repeat[1].as_u64().unwrap()).unwrap()).into_bytes()
        }
        _ => panic!("an answer without a body: {told}"),
    };
    let mut reply = Reply::new(u16::try_from(told["status"].as_u64().unwrap_or(200)).unwrap(), body);
    // `type: null` is an answer that declares none.
    match told.get("type") {
        None => reply = reply.header("content-type", "application/json"),
        Some(Value::String(kind)) => reply = reply.header("content-type", kind),
        Some(_) => {}
    }
    match told["after_ms"].as_u64() {
        Some(pause) => Behaviour::Slow { piece: reply.body.len(), reply, pause: Duration::from_millis(pause) },
        None => reply.into(),
    }
}

fn compare(what: &str, wanted: &Value, envelope: &Value, upstream: &Server, about: &str) {
    let requests = upstream.requests();
    let texts = || wanted.as_array().unwrap().iter().map(|text| text.as_str().unwrap());
    match what {
        "status" | "data" => assert_eq!(&envelope[what], wanted, "{what}: {about}"),
        "code" | "retryable" => assert_eq!(&envelope["error"][what], wanted, "{what}: {about}"),
        "attempts" | "phase" | "replayed" => assert_eq!(&envelope["meta"][what], wanted, "{what}: {about}"),
        "requests" => assert_eq!(json!(requests.len()), *wanted, "{what}: {about}"),
        "mentions" => {
            let error = &envelope["error"];
            let words = format!("{} {}", error["message"].as_str().unwrap_or(""), error["hint"].as_str().unwrap_or(""));
            texts().for_each(|text| assert!(words.contains(text), "{text}: {about}"));
        }
        "not" => texts().for_each(|text| assert!(!envelope.to_string().contains(text), "{text}: {about}")),
        "data_holds" => {
            let data = envelope["data"].to_string();
            texts().for_each(|text| assert!(data.contains(text), "{text}: {about}"));
        }
        "longest" => {
            let shown = envelope["data"].to_string().chars().count() as u64;
            assert!(shown <= wanted.as_u64().unwrap(), "{shown}: {about}");
        }
        "truncated" => {
            let truncated = &envelope["meta"]["truncated"];
            for (key, value) in wanted.as_object().unwrap() {
                assert_eq!(&truncated[key], value, "{key}: {about}");
            }
        }
        "sent" => {
            let body = &requests.last().expect("something was sent").body;
            assert_eq!(&serde_json::from_slice::<Value>(body).unwrap(), wanted, "{about}");
        }
        "target" => {
            assert_eq!(requests.last().expect("something was sent").target, wanted.as_str().unwrap(), "{about}")
        }
        other => panic!("{other} is no expectation"),
    }
}
