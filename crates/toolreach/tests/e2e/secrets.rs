//! Canaries: every secret that a configuration or a call can hold, through every way a system can throw it
//! back, and then a look into every place that something could have been written to. Neither a canary nor its
//! first twenty characters may be there, in any of the forms in which it travels.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reach_kit::http::{Behaviour, Recorded, Reply, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Gateway, Mcp, files, finish, reach, run};

const BEARER: &str = "canary-bearer-7Qm2Zt9vXw41-0123456789";
const BASIC_USER: &str = "shop-bot";
const BASIC: &str = "canary-basic-p@ss/w+rd%41-0123456789";
const HEADER_KEY: &str = "key-REAL-3-canary-header-8Hd0Lq5c";
const QUERY_KEY: &str = "canary-query/key+&=%41-4Rf6Jk1m-0123456789";
const CALLER_KEY: &str = "canary-caller-5Bn3Wy8u-0123456789";
const DATABASE_PASSWORD: &str = "canary-database-2Xc7Vb6n-0123456789";
const SMTP_PASSWORD: &str = "canary-smtp-9Gh4Tf3r-0123456789";
const SCRIPT_SECRET: &str = "canary-script-6Yt1Mn0b-0123456789";
const API_TOKEN: &str = "sk-REAL-1-canary-argument-3Er5Df7g";
const PASSWORD: &str = "pw-REAL-2-canary-argument-0Oi9Uj8h";

/// Every canary, and every other form in which it is as good as the secret.
fn canaries() -> Vec<(&'static str, String)> {
    let percent = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let mut forms = vec![("basic as sent", STANDARD.encode(format!("{BASIC_USER}:{BASIC}")))];
    for (name, secret) in [
        ("bearer", BEARER),
        ("basic", BASIC),
        ("header key", HEADER_KEY),
        ("query key", QUERY_KEY),
        ("caller key", CALLER_KEY),
        ("database password", DATABASE_PASSWORD),
        ("smtp password", SMTP_PASSWORD),
        ("script environment", SCRIPT_SECRET),
        ("api_token", API_TOKEN),
        ("Password", PASSWORD),
    ] {
        forms.push((name, secret.to_owned()));
        forms.push((name, percent(secret)));
        forms.push((name, percent(secret).replace('+', "%20")));
    }
    forms
}

/// Looks for every canary, and for its first twenty characters.
fn assert_clean(place: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for (name, secret) in canaries() {
        let beginning: String = secret.chars().take(20).collect();
        if let Some(at) = text.find(&beginning) {
            let from = text[..at].char_indices().rev().nth(160).map_or(0, |(at, _)| at);
            let around: String = text[from..].chars().take(400).collect();
            panic!("the canary of {name} is in {place}: …{around}…");
        }
    }
}

/// An upstream that throws back everything it was sent.
fn echo(request: &Recorded) -> Behaviour {
    let everything = format!("{} {}\n{}", request.method, request.target, request.everything());
    let headers: Value = request
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    // What an upstream says in a header has to be one line.
    let in_a_header = everything.replace(['\r', '\n'], " ").chars().filter(char::is_ascii).collect::<String>();
    let body = json!({"url": request.target, "headers": headers, "everything": everything});
    let reply = match request.target.split(['?', '/']).find(|part| !part.is_empty()).unwrap_or("") {
        "fine" => Reply::json(200, body.to_string()),
        "long" => {
            let mut body = body;
            body["padding"] = "x".repeat(20_000).into();
            Reply::json(200, body.to_string())
        }
        "bytes" => Reply::new(200, everything).header("content-type", "application/octet-stream"),
        "rejected" => Reply::json(422, json!({"error": format!("request had {everything}"), "sent": body}).to_string()),
        "broken" => Reply::new(500, everything).header("content-type", "text/plain"),
        "denied" => Reply::json(401, json!({"message": everything}).to_string()),
        "garbage" => Reply::json(200, format!("<{everything}")),
        "moved" => {
            return Reply::new(302, "").header("location", format!("/fine?{}", in_a_header.replace(' ', "_"))).into();
        }
        other => panic!("no such place: {other}"),
    };
    reply.header("x-echo", in_a_header).into()
}

const PLACES: [&str; 8] = ["fine", "long", "bytes", "rejected", "broken", "denied", "garbage", "moved"];
const CREDENTIALS: [&str; 4] = ["bearer", "basic", "header", "query"];

/// A gateway that knows every kind of secret, and an upstream that keeps none.
struct Stage {
    upstream: Server,
    folder: TempDir,
}

impl Stage {
    async fn new() -> Self {
        let upstream = Server::start().await.unwrap();
        upstream.choose(echo);
        let folder = tempfile::tempdir().unwrap();
        let schema = json!({"type": "object", "properties": {
            "mode": {"type": "string"}, "api_token": {"type": "string"},
            "nested": {"type": "object", "properties": {"Password": {"type": "string"}}}}});
        let mut tools = Vec::new();
        for credential in CREDENTIALS {
            for place in PLACES {
                tools.push(json!({
                    "tool_id": format!("{place}_{credential}"), "description": "Calls.", "timeout_ms": 20_000,
                    "input_schema": schema, "effect": if place == "fine" { "write" } else { "read" },
                    "http": {"method": "POST", "url": upstream.url(&format!("/{place}")), "credential": credential,
                             "headers": {"x-fixed": "1"}, "follow_redirects": 1}}));
            }
        }
        // Nobody listens there: what is said about it must not hold the login.
        let dead = Server::start().await.unwrap().stop().await;
        tools.push(json!({"tool_id": "rows", "description": "Reads.", "timeout_ms": 3_000, "sql": {
            "database": format!("postgres://bot:{DATABASE_PASSWORD}@{dead}/stock"), "statement": "select 1"}}));
        tools.push(json!({"tool_id": "mail", "description": "Sends.", "timeout_ms": 3_000, "email": {
            "smtp": format!("smtp://bot:{SMTP_PASSWORD}@{dead}?tls=none"), "from": "a@example.org",
            "to": "b@example.org", "subject": "s", "body": "b"}}));
        tools.push(json!({"tool_id": "program", "description": "Runs.", "effect": "read", "script": {
            "command": ["./tell.sh"], "environment": {"PROGRAM_SECRET": SCRIPT_SECRET}}}));
        let config = json!({
            "version": 1,
            "callers": {"bot": {"key": CALLER_KEY, "scopes": ["*"]}},
            "credentials": {
                "bearer": {"kind": "bearer", "token": BEARER},
                "basic": {"kind": "basic", "username": BASIC_USER, "password": BASIC},
                "header": {"kind": "api_key", "in": "header", "name": "X-API-KEY", "key": HEADER_KEY},
                "query": {"kind": "api_key", "in": "query", "name": "appid", "key": QUERY_KEY}},
            // Nothing may become unreachable before it has thrown back what it was sent.
            "upstreams": {upstream.url(""): {"breaker": {"failures": 1_000, "window_calls": 100_000}}},
            "tools": tools,
        });
        std::fs::write(folder.path().join("reach.yaml"), config.to_string()).unwrap();
        std::fs::write(folder.path().join("tell.sh"), "#!/bin/sh\necho \"failed with $PROGRAM_SECRET\" >&2\nexit 1\n")
            .unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(folder.path().join("tell.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { upstream, folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn tools() -> impl Iterator<Item = String> {
        let echoing =
            CREDENTIALS.iter().flat_map(|credential| PLACES.iter().map(move |place| format!("{place}_{credential}")));
        echoing.chain(["rows", "mail", "program"].map(str::to_owned))
    }

    /// Everything that was written below the folder, but the configuration itself.
    fn assert_files_are_clean(&self) {
        let mut seen = Vec::new();
        for file in files(&self.path().join(".reach")) {
            let name = file.strip_prefix(self.path()).unwrap().display().to_string();
            assert_clean(&name, &std::fs::read(&file).unwrap());
            seen.push(name);
        }
        assert!(seen.iter().any(|name| name.ends_with("ledger.db")), "{seen:?}");
        assert!(seen.iter().any(|name| name.contains("blobs")), "{seen:?}");
    }
}

/// The upstream really had every secret: otherwise nothing is proved.
fn assert_canaries_travelled(upstream: &Server) {
    let everything: String = upstream.requests().iter().map(Recorded::everything).collect();
    let basic = STANDARD.encode(format!("{BASIC_USER}:{BASIC}"));
    for secret in [BEARER, &basic, HEADER_KEY, "canary-query"] {
        assert!(everything.contains(secret), "{secret} was never sent");
    }
}

/// Case A006, and every credential beside it, over the HTTP API with the log at its loudest.
#[tokio::test]
async fn a006_no_secret_gets_into_log_journal_blobs_or_answers_of_the_gateway() {
    let stage = Stage::new().await;
    let mut command = reach(stage.path());
    command.args(["serve", "--listen", "127.0.0.1:0", "-vvv"]);
    let mut gateway = Gateway::start_with(&mut command).await;
    let mut kept = 0;
    for (step, tool) in Stage::tools().enumerate() {
        // What the caller itself holds as a secret goes to the systems that fail or refuse.
        let own = tool.starts_with("rejected")
            || tool.starts_with("broken")
            || tool.starts_with("denied")
            || tool.starts_with("garbage");
        let arguments = match own {
            true => json!({"mode": "cloud", "api_token": API_TOKEN, "nested": {"Password": PASSWORD}}),
            false => json!({}),
        };
        let body = json!({"arguments": arguments, "session_id": "s-1", "trace_id": "t-1", "step": step});
        let url = gateway.url(&format!("/v1/tools/{tool}/calls"));
        let said = gateway.http.post(url).bearer_auth(CALLER_KEY).json(&body).send().await.unwrap();
        assert_clean(&format!("the headers of {tool}"), format!("{:?}", said.headers()).as_bytes());
        let text = said.text().await.unwrap();
        assert_clean(&format!("the answer of {tool}"), text.as_bytes());
        // The whole of what was clipped, and of what is no text, is read back as any caller would.
        let envelope: Value = serde_json::from_str(&text).unwrap();
        if let Some(blob) = envelope["meta"]["truncated"]["blob"].as_str() {
            kept += 1;
            let read = gateway.request("read_result", &json!({"blob": blob})).bearer_auth(CALLER_KEY);
            let text = read.send().await.unwrap().text().await.unwrap();
            assert!(text.contains("x-fixed") || text.contains("/long"), "the echo is there: {text}");
            assert_clean(&format!("what was kept of {tool}"), text.as_bytes());
        }
    }
    assert_canaries_travelled(&stage.upstream);
    assert!(kept >= 2 * CREDENTIALS.len(), "{kept} results were kept");
    // Refused before anything is sent: what is wrong is said without the value.
    for (tool, arguments) in [
        ("fine_bearer", json!({"api_token": [API_TOKEN], "nested": {"Password": [PASSWORD]}})),
        ("fine_bearer", json!({"api-token": API_TOKEN, "nested": {"password": PASSWORD}})),
        ("nothing_of_this_name", json!({"api_token": API_TOKEN, "nested": {"Password": PASSWORD}})),
    ] {
        let said = gateway.request(tool, &arguments).bearer_auth(CALLER_KEY).send().await.unwrap();
        assert!(said.status().is_client_error());
        assert_clean(&format!("the refusal of {arguments}"), said.text().await.unwrap().as_bytes());
    }
    for path in [
        "/v1/tools",
        "/v1/tools?format=mcp",
        "/v1/traces/t-1",
        "/v1/sessions",
        "/v1/sessions/s-1/timeline",
        "/v1/health",
        "/metrics",
        "/openapi.json",
        "/readyz",
    ] {
        for request in
            [gateway.http.get(gateway.url(path)).bearer_auth(CALLER_KEY), gateway.http.get(gateway.url(path))]
        {
            assert_clean(path, request.send().await.unwrap().text().await.unwrap().as_bytes());
        }
    }
    let wrong = gateway.request("fine_bearer", &json!({})).bearer_auth(format!("{CALLER_KEY}x"));
    assert_clean("the answer to a wrong key", wrong.send().await.unwrap().text().await.unwrap().as_bytes());
    assert_eq!(gateway.stop().await, 0);
    let log = gateway.process.err();
    assert!(log.lines().count() > 100, "the log is loud");
    assert_clean("the log", log.as_bytes());
    assert_clean("standard output", gateway.process.out().as_bytes());
    for wanted in ["rejected_bearer", "UPSTREAM_REJECTED", "duration_ms", "result_size", "api_token"] {
        assert!(log.contains(wanted), "still logged: {wanted}");
    }
    stage.assert_files_are_clean();
}

/// The same over the command line and MCP, and what the readers of the journal print.
#[tokio::test]
async fn no_secret_is_printed_by_a_command() {
    let stage = Stage::new().await;
    let folder = stage.path();
    let arguments = json!({"mode": "cloud", "api_token": API_TOKEN, "nested": {"Password": PASSWORD}}).to_string();
    for tool in ["fine_basic", "long_query", "rejected_header", "broken_query", "rows", "mail", "program"] {
        let given = match tool {
            "rejected_header" | "broken_query" => &arguments,
            _ => "{}",
        };
        for form in [&["-vv"][..], &["-vv", "--json"]] {
            let call = ["call", tool, given, "--session", "s-1", "--trace", "t-1"];
            let ran = run(folder, &[&call[..], form].concat()).await;
            assert_clean(&format!("{tool} {form:?}"), format!("{}{}", ran.out, ran.err).as_bytes());
        }
    }
    let mut mcp = Mcp::start(folder, &[]);
    mcp.shake_hands("2025-11-25").await;
    for tool in ["long_basic", "broken_bearer", "bytes_header"] {
        let said = mcp.ask("tools/call", json!({"name": tool, "arguments": {}})).await;
        assert_clean(&format!("{tool} over MCP"), said.to_string().as_bytes());
    }
    assert_clean("the list over MCP", mcp.ask("tools/list", json!({})).await.to_string().as_bytes());
    assert_eq!(mcp.end().await, 0);
    for arguments in [
        &["trace", "t-1"][..],
        &["sessions"],
        &["sessions", "show", "s-1"],
        &["health"],
        &["settle"],
        &["tools"],
        &["doctor", "-v"],
    ] {
        for form in [&[][..], &["--json"], &["-vvv"]] {
            let ran = run(folder, &[arguments, form].concat()).await;
            assert!(!ran.out.is_empty(), "{ran:?}");
            assert_clean(&format!("{arguments:?} {form:?}"), format!("{}{}", ran.out, ran.err).as_bytes());
        }
    }
    stage.assert_files_are_clean();
}

/// A report shows lines of the file; none of its secrets, wherever the mistake is.
#[tokio::test]
async fn no_report_about_a_configuration_holds_a_secret() {
    let stage = Stage::new().await;
    let path = stage.path().join("reach.yaml");
    let good: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    type Slip = (&'static str, fn(&mut Value));
    let slips: [Slip; 9] = [
        ("a secret of the wrong type", |config| config["credentials"]["bearer"]["token"] = json!([BEARER])),
        ("a misspelt key", |config| {
            let secret = config["credentials"]["basic"].as_object_mut().unwrap().remove("password").unwrap();
            config["credentials"]["basic"]["pasword"] = secret;
        }),
        ("a misspelt section", |config| {
            let callers = config.as_object_mut().unwrap().remove("callers").unwrap();
            config["calers"] = callers;
        }),
        ("a kind that is not known", |config| config["credentials"]["header"]["kind"] = json!("apikey")),
        ("a caller's key that is too short", |config| config["callers"]["bot"]["key"] = json!(&CALLER_KEY[..14])),
        ("a database that is not known", |config| {
            let tool =
                config["tools"].as_array_mut().unwrap().iter_mut().find(|tool| tool["tool_id"] == "rows").unwrap();
            tool["sql"]["database"] = json!(format!("oracle://bot:{DATABASE_PASSWORD}@h/x"));
        }),
        ("a mail server that is not one", |config| {
            let tool =
                config["tools"].as_array_mut().unwrap().iter_mut().find(|tool| tool["tool_id"] == "mail").unwrap();
            tool["email"]["smtp"] = json!(format!("imap://bot:{SMTP_PASSWORD}@h"));
        }),
        ("a header that holds a secret", |config| {
            config["tools"][0]["http"]["headers"] = json!({"Authorization": format!("Bearer {BEARER}")});
        }),
        ("a stand-in that is not there", |config| config["tools"][0]["fallback"] = json!("nobody")),
    ];
    for (about, slip) in slips {
        let mut config = good.clone();
        slip(&mut config);
        // One line, and many: what is shown of the file differs.
        for text in [config.to_string(), serde_json::to_string_pretty(&config).unwrap()] {
            std::fs::write(&path, &text).unwrap();
            for form in [&[][..], &["--json"], &["-vvv"]] {
                let ran = run(stage.path(), &[&["tools"], form].concat()).await.exits(2);
                assert!(!ran.err.is_empty());
                assert_clean(&format!("the report about {about}"), format!("{}{}", ran.out, ran.err).as_bytes());
            }
        }
    }
    // No YAML at all any more: cut off inside a secret.
    let text = good.to_string();
    std::fs::write(&path, &text[..text.find(CALLER_KEY).unwrap() + CALLER_KEY.len()]).unwrap();
    let ran = finish(reach(stage.path()).arg("tools")).await.exits(2);
    assert_clean("the report about a broken file", ran.err.as_bytes());
}
