//! Where the `http` adapter may go: every spelling of an address that must not be reached, redirects,
//! and canaries that must never be touched.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use reach_adapters::shared::address::{Class, Trust, classify};
use reach_core::{Credential, Effect, FailureKind, Phase};
use reach_kit::http::{Recorded, Reply, Server};
use serde_json::{Value, json};
use url::{Host, Url};

use crate::http::{Tool, declare, declare_with, suite_file};

/// `{"spelling": "http://0x7f.1/", "class": "private" | "never" | "public" | "invalid"}`.
fn spellings() -> Vec<(String, String)> {
    let suite = suite_file("ssrf.json");
    let text = |case: &Value, key: &str| case[key].as_str().expect("text").to_owned();
    suite.as_array().unwrap().iter().map(|case| (text(case, "spelling"), text(case, "class"))).collect()
}

#[test]
fn every_spelling_of_an_address_has_its_class() {
    let all = spellings();
    assert!(all.iter().filter(|(_, class)| class != "public").count() >= 150, "{}", all.len());
    for (spelling, wanted) in all {
        let url = Url::parse(&spelling);
        let class = match url.as_ref().ok().and_then(Url::host) {
            None => "invalid",
            Some(Host::Ipv4(address)) => word(classify(address.into())),
            Some(Host::Ipv6(address)) => word(classify(address.into())),
            Some(Host::Domain(name)) => match (Trust::Declared.allows_name(name), Trust::Found.allows_name(name)) {
                (Err(_), _) => "never",
                (_, Err(_)) => "private",
                _ => "public",
            },
        };
        assert_eq!(class, wanted, "{spelling} -> {url:?}");
    }
}

fn word(class: Class) -> &'static str {
    match class {
        Class::Public => "public",
        Class::Private(_) => "private",
        Class::Never(_) => "never",
    }
}

#[test]
fn what_is_never_contacted_is_refused_when_it_is_declared() {
    for (spelling, _) in spellings().into_iter().filter(|(_, class)| class == "never" || class == "invalid") {
        assert!(declare(json!({"url": spelling}), json!({})).is_err(), "{spelling}");
    }
    for (spelling, _) in spellings().into_iter().filter(|(_, class)| class == "private") {
        // A user name, white space or missing slashes are refused for reasons of their own.
        let plain = spelling.split_once("://").is_some_and(|(_, rest)| !rest.starts_with('/'));
        if !plain || spelling.contains(['@', '\\', '#']) || spelling.contains(char::is_whitespace) {
            continue;
        }
        assert!(declare(json!({"url": spelling}), json!({})).is_ok(), "{spelling}");
    }
}

/// A server that redirects everything to `location`, and a tool that follows.
async fn redirecting(location: &str) -> (Server, Tool) {
    let server = Server::start().await.expect("a free port");
    server.always(Reply::new(302, "").header("location", location));
    let tool = declare(json!({"url": server.url("/"), "follow_redirects": 5}), json!({})).unwrap();
    (server, tool)
}

#[tokio::test]
async fn no_redirect_ever_touches_a_canary() {
    let first = Server::start().await.expect("a free port");
    let port = first.address().port();
    let second = Server::start_on(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), port).await.expect("the same port");
    let server = Server::start().await.expect("a free port");
    let tool = declare(json!({"url": server.url("/"), "follow_redirects": 5}), json!({})).unwrap();
    let mut tried = 0;
    for (spelling, _) in spellings().into_iter().filter(|(_, class)| class != "public") {
        let Some((scheme, rest)) = spelling.split_once("://") else { continue };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let location = format!("{scheme}://{authority}:{port}{path}");
        // Only what a header can carry can be a target.
        if location.chars().any(char::is_control) {
            continue;
        }
        server.always(Reply::new(302, "").header("location", location.as_str()));
        let told = tool.failure(json!({})).await;
        assert_eq!((told.kind, told.phase), (FailureKind::Rejected, Phase::Answered), "{location}: {told:?}");
        tried += 1;
    }
    assert!(tried >= 150, "{tried}");
    assert_eq!((first.accepted(), second.accepted()), (0, 0), "a canary was touched");
}

#[tokio::test]
async fn a_name_is_judged_by_what_it_resolves_to_when_it_is_contacted() {
    let canary = Server::start().await.expect("a free port");
    // This name passes every check of names; the system resolves it to this machine.
    let port = canary.address().port();
    let name = hostname_of_this_machine();
    let (_server, tool) = redirecting(&format!("http://{name}:{port}/")).await;
    let told = tool.failure(json!({})).await;
    assert!(matches!(told.kind, FailureKind::Rejected | FailureKind::Unreachable), "{told:?}");
    assert_eq!(canary.accepted(), 0);
}

/// The name in `/etc/hostname` resolves to a private address or to none; both have to fail.
fn hostname_of_this_machine() -> String {
    let name = std::fs::read_to_string("/etc/hostname").unwrap_or_default().trim().to_owned();
    if name.is_empty() { "localhost.localdomain".into() } else { name }
}

#[tokio::test]
async fn redirects_are_followed_on_the_declared_host_as_often_as_allowed() {
    let server = Server::start().await.unwrap();
    server.choose(|request| match request.target.as_str() {
        "/1" => Reply::new(301, "").header("location", "/2").into(),
        "/2" => Reply::new(307, "").header("location", "3?x=1#y").into(),
        _ => Reply::json(200, r#"{"done":true}"#).into(),
    });
    let declared = |hops: u8| json!({"url": server.url("/1"), "follow_redirects": hops, "headers": {"X-A": "1"}});
    let tool = declare(declared(2), json!({})).unwrap();
    let answer = tool.call(json!({})).await.unwrap();
    assert_eq!(answer.notes.len(), 2, "{:?}", answer.notes);
    let targets: Vec<String> = server.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["/1", "/2", "/3?x=1"]);
    assert!(server.requests().iter().all(|request| request.header("x-a") == Some("1")));

    for hops in [0, 1] {
        let told = declare(declared(hops), json!({})).unwrap().failure(json!({})).await;
        assert_eq!((told.kind, told.phase), (FailureKind::Rejected, Phase::Answered));
        assert!(told.message.contains("redirect"), "{}", told.message);
    }
}

#[tokio::test]
async fn a_loop_ends() {
    let server = Server::start().await.unwrap();
    server.always(Reply::new(302, "").header("location", "/"));
    let tool = declare(json!({"url": server.url("/"), "follow_redirects": 5}), json!({})).unwrap();
    assert!(tool.failure(json!({})).await.message.contains("too many"));
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn a_write_is_sent_on_only_where_nothing_was_done_and_at_the_same_origin() {
    let server = Server::start().await.unwrap();
    let elsewhere = Server::start().await.unwrap();
    let away = elsewhere.url("/");
    let answer = move |status: u16, location: &str| Reply::new(status, "").header("location", location);
    let http = json!({"method": "POST", "url": server.url("/a"), "follow_redirects": 5});
    let tool = declare(http, json!({"n": {}})).unwrap();
    let call = || tool.call(json!({"n": 1}));

    server.next(answer(307, "/b"));
    call().await.unwrap();
    let sent: Vec<Recorded> = server.requests();
    assert_eq!((sent[1].method.as_str(), sent[1].target.as_str()), ("POST", "/b"));
    assert_eq!(sent[1].body, br#"{"n":1}"#);

    for (status, location, kind) in [
        (301, "/b", FailureKind::Rejected),
        // Servers send these once a form was accepted: whether it was done cannot be told.
        (302, "/b", FailureKind::Malformed),
        (303, "/b", FailureKind::Malformed),
        (307, away.as_str(), FailureKind::Rejected),
        (308, away.as_str(), FailureKind::Rejected),
    ] {
        let before = server.requests().len();
        server.next(answer(status, location));
        let told = call().await.unwrap_err();
        assert_eq!((told.kind, told.phase), (kind, Phase::Answered), "{status} {location}");
        assert_eq!(server.requests().len(), before + 1);
    }
    assert_eq!(elsewhere.accepted(), 0);
}

#[tokio::test]
async fn a_search_by_post_becomes_a_get_after_303() {
    let server = Server::start().await.unwrap();
    server.next(Reply::new(303, "").header("location", "/result"));
    let http = json!({"method": "POST", "url": server.url("/search"), "follow_redirects": 1});
    let timeout = std::time::Duration::from_secs(10);
    let tool = declare_with(http, json!({"q": {}}), Some(Effect::Read), timeout).unwrap();
    tool.call(json!({"q": "x"})).await.unwrap();
    let last = server.last().unwrap();
    assert_eq!((last.method.as_str(), last.target.as_str(), last.body.len()), ("GET", "/result", 0));
    assert_eq!(last.header("content-type"), None);
}

#[tokio::test]
async fn a_query_key_stays_with_its_origin_over_a_redirect() {
    let server = Server::start().await.unwrap();
    server.next(Reply::new(302, "").header("location", "/b?x=1"));
    let tool = declare(json!({"url": server.url("/a"), "follow_redirects": 1, "credential": "k"}), json!({})).unwrap();
    let mut attempt = tool.attempt(json!({}));
    let place = reach_core::adapter::KeyPlace::Query;
    attempt.credential = Some(Arc::new(Credential::ApiKey { place, name: "key".into(), key: "abcdef".into() }));
    tool.adapter.call(&attempt).await.unwrap();
    let targets: Vec<String> = server.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["/a?key=abcdef", "/b?x=1&key=abcdef"]);
}
