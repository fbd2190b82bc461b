//! One attempt: the request is made, sent once, led on by redirects as far as allowed, and its answer
//! collected under the cap. This file decides the phase of a failure, and errs towards `maybe_sent`.

use std::error::Error as StdError;
use std::io::ErrorKind;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reach_core::adapter::KeyPlace;
use reach_core::{Answer, Attempt, Credential, Effect, Failure, FailureKind, Phase};
use secrecy::ExposeSecret;
use url::Url;

use super::answer::{self, Received};
use super::body::Encoded;
use super::client::{find, permitted};
use super::{HttpTool, headers, redirect};
use crate::shared::address::{Refused, ResolveError, Trust};

/// The most bytes of a failing answer that are read for its explanation.
const EXPLANATION: u64 = 64 * 1024;

/// How long the explanation of a failing answer is waited for: the status is the answer already.
const EXPLANATION_TIME: Duration = Duration::from_secs(2);

/// A request before it is sent to its first place or the next.
struct Outgoing {
    method: http::Method,
    url: Url,
    trust: Trust,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
}

pub(crate) async fn send(tool: &HttpTool, attempt: &Attempt) -> Result<Answer, Failure> {
    let mut outgoing = prepare(tool, attempt)?;
    let mut notes = Vec::new();
    let mut hops = 0;
    loop {
        let response = execute(tool, attempt, &outgoing, hops).await?;
        let status = response.status();
        if !redirect::is_redirect(status) {
            return receive(tool, attempt, &outgoing.method, response, notes).await;
        }
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        drop(response);
        let refuse = |reason: &str| {
            let target = location.as_deref().unwrap_or("nowhere");
            answer::redirected(status, target, reason, attempt.effect == Effect::Read)
        };
        let hop = redirect::next(
            status,
            location.as_deref(),
            &outgoing.url,
            &outgoing.method,
            attempt.effect,
            hops,
            tool.follow_redirects,
        )
        .map_err(refuse)?;
        let trust = redirect::trust(tool.place.origin(), &hop.url);
        permitted(&hop.url, trust).map_err(|reason| refuse(&format!("its address is not allowed: {reason}")))?;
        hops += 1;
        notes.push(format!("redirect {}: {}", status.as_u16(), without_query(&hop.url)));
        outgoing = lead_on(tool, attempt, outgoing, hop, trust)?;
    }
}

/// The first request of an attempt; everything that can be refused is refused here.
fn prepare(tool: &HttpTool, attempt: &Attempt) -> Result<Outgoing, Failure> {
    let extra = match attempt.credential.as_deref() {
        Some(Credential::ApiKey { place: KeyPlace::Query, name, key }) => Some((name.as_str(), key.expose_secret())),
        _ => None,
    };
    let url = tool.place.render(&attempt.arguments, extra)?;
    let encoded = tool.encoder.encode(&attempt.arguments)?;
    let mut map = headers::standard(tool.reading.expect, attempt);
    let body = encoded.map(|Encoded { media_type, bytes }| {
        map.insert(CONTENT_TYPE, media_type);
        bytes
    });
    map.extend(tool.headers.render(&attempt.arguments)?);
    if let Some(key) = &attempt.upstream_key {
        let value = HeaderValue::from_str(key)
            .map_err(|_| Failure::refused("the idempotency key holds what a header cannot carry"))?;
        map.insert(tool.idempotency_header.clone(), value);
    }
    headers::authorise(&mut map, attempt.credential.as_deref())?;
    Ok(Outgoing { method: tool.method.clone(), url, trust: Trust::Declared, headers: map, body })
}

/// The request for the next hop. What was declared for one origin stays with it: at another one only
/// the standard headers and, where the same request is sent on, its body remain.
fn lead_on(
    tool: &HttpTool,
    attempt: &Attempt,
    last: Outgoing,
    hop: redirect::Hop,
    trust: Trust,
) -> Result<Outgoing, Failure> {
    let home = |url: &Url| url.origin() == tool.place.origin().origin();
    let mut url = hop.url;
    let mut map = last.headers;
    if !home(&url) {
        let media_type = map.remove(CONTENT_TYPE);
        map = headers::standard(tool.reading.expect, attempt);
        map.extend(media_type.map(|media_type| (CONTENT_TYPE, media_type)));
    } else if home(&last.url)
        && let Some(Credential::ApiKey { place: KeyPlace::Query, name, key }) = attempt.credential.as_deref()
        && !url.query_pairs().any(|(known, _)| known == name.as_str())
    {
        url.query_pairs_mut().append_pair(name, key.expose_secret());
    }
    let (method, body) = if hop.same_request {
        (last.method, last.body)
    } else {
        map.remove(CONTENT_TYPE);
        (http::Method::GET, None)
    };
    Ok(Outgoing { method, url, trust, headers: map, body })
}

async fn execute(
    tool: &HttpTool,
    attempt: &Attempt,
    outgoing: &Outgoing,
    hops: u8,
) -> Result<reqwest::Response, Failure> {
    let client = tool.clients.of(outgoing.trust)?;
    let mut request = client.request(outgoing.method.clone(), outgoing.url.clone()).headers(outgoing.headers.clone());
    if let Some(body) = &outgoing.body {
        request = request.body(body.clone());
    } else if matches!(outgoing.method, http::Method::POST | http::Method::PUT | http::Method::PATCH) {
        // These announce the length of their body even where there is none.
        request = request.header(CONTENT_LENGTH, "0");
    }
    let request = request.build().map_err(|error| {
        Failure::new(FailureKind::Internal, Phase::Rejected, "the request could not be built")
            .with_detail(chain(&error))
    })?;
    attempt.sent.set();
    client.execute(request).await.map_err(|error| {
        let failure = unanswered(&error, tool.clients.connect_timeout());
        // A later hop that cannot be reached says nothing about the request that was sent before it.
        if hops > 0 && attempt.effect != Effect::Read {
            return Failure { kind: FailureKind::Interrupted, phase: Phase::MaybeSent, ..failure };
        }
        failure
    })
}

/// An answer that has begun, as a result or a failure.
async fn receive(
    tool: &HttpTool,
    attempt: &Attempt,
    method: &http::Method,
    response: reqwest::Response,
    notes: Vec<String>,
) -> Result<Answer, Failure> {
    let (status, map) = (response.status(), response.headers().clone());
    if !status.is_success() {
        let patience = EXPLANATION_TIME.min(attempt.timeout / 4);
        let collecting = tokio::time::timeout(patience, collect(response, EXPLANATION, true));
        let bytes = collecting.await.ok().and_then(Result::ok).unwrap_or_default();
        return Err(answer::failure(Received { status, headers: map, bytes }, EXPLANATION));
    }
    let cap = tool.reading.cap;
    // The length that an answer to HEAD declares is that of a body it does not have.
    if method != http::Method::HEAD && response.content_length().is_some_and(|length| length > cap) {
        return Err(answer::oversize(cap, ""));
    }
    let bytes = collect(response, cap, false).await?;
    answer::success(Received { status, headers: map, bytes }, &tool.reading, notes)
}

/// The body, up to `cap` bytes; `clip` keeps what there is instead of failing.
async fn collect(mut response: reqwest::Response, cap: u64, clip: bool) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(bytes),
            Ok(Some(chunk)) => {
                bytes.extend_from_slice(&chunk);
                if bytes.len() as u64 > cap {
                    return if clip { Ok(bytes) } else { Err(answer::oversize(cap, "")) };
                }
            }
            Err(_) if clip => return Ok(bytes),
            Err(error) => {
                let message = "the upstream broke off in the middle of its answer";
                return Err(
                    Failure::new(FailureKind::Interrupted, Phase::MaybeSent, message).with_detail(chain(&error))
                );
            }
        }
    }
}

/// A request without an answer. Only what failed before the connection stood is certainly not sent.
pub(crate) fn unanswered(error: &reqwest::Error, connect_timeout: Duration) -> Failure {
    let detail = chain(error);
    if error.is_connect() {
        let message = format!("the upstream could not be reached: {}", why_not_connected(error, connect_timeout));
        return Failure::new(FailureKind::Unreachable, Phase::NotSent, message).with_detail(detail);
    }
    if find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse) {
        let message = "the upstream answered something that is not HTTP";
        return Failure::new(FailureKind::Malformed, Phase::Answered, message).with_detail(detail);
    }
    let message = "the upstream broke the connection before it answered";
    Failure::new(FailureKind::Interrupted, Phase::MaybeSent, message).with_detail(detail)
}

fn why_not_connected(error: &reqwest::Error, connect_timeout: Duration) -> String {
    if let Some(refused) = find::<ResolveError>(error) {
        return refused.to_string();
    }
    if let Some(refused) = find::<Refused>(error) {
        return format!("its address is not allowed: {refused}");
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        return match tls {
            rustls::Error::InvalidCertificate(reason) => format!("its certificate is not accepted: {reason:?}"),
            _ => "the TLS handshake failed".into(),
        };
    }
    if error.is_timeout() {
        return format!("no connection within {} ms", connect_timeout.as_millis());
    }
    match find::<std::io::Error>(error).map(std::io::Error::kind) {
        Some(ErrorKind::ConnectionRefused) => "connection refused".into(),
        Some(ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe) => {
            "the connection was closed while it was being set up".into()
        }
        Some(ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable) => "no route to it".into(),
        _ => "the connection failed".into(),
    }
}

/// The whole chain of an error for the journal, without the URL and what its query may hold.
fn chain(error: &reqwest::Error) -> String {
    let mut text = match error.url() {
        Some(url) => without_query(url),
        None => String::from("no url"),
    };
    let mut next: Option<&dyn StdError> = error.source();
    while let Some(error) = next {
        text.push_str(&format!(": {error}"));
        next = error.source();
    }
    text
}

fn without_query(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use reach_core::ToolId;
    use serde_json::json;

    use super::*;
    use crate::shared::Declared;

    fn tool() -> HttpTool {
        let config =
            json!({"url": "https://api.example.com/a", "headers": {"X-Shop-Key": "k-1"}, "credential": "shop"});
        let schema = json!({"type": "object"});
        let tool_id = ToolId::asked("tool");
        let timeout = Duration::from_secs(10);
        let declared =
            Declared { tool_id: &tool_id, input_schema: &schema, effect: Effect::Read, timeout, base: Path::new(".") };
        super::super::build_tool(serde_json::from_value(config).unwrap(), &declared).unwrap()
    }

    fn attempt(credential: Credential) -> Attempt {
        let mut attempt = Attempt::new(ToolId::asked("tool"), reach_core::Object::new(), Effect::Read);
        attempt.credential = Some(Arc::new(credential));
        attempt.upstream_key = Some("once-1".into());
        attempt
    }

    fn led(tool: &HttpTool, attempt: &Attempt, from: Outgoing, to: &str) -> Outgoing {
        let url = Url::parse(to).unwrap();
        let trust = redirect::trust(tool.place.origin(), &url);
        lead_on(tool, attempt, from, redirect::Hop { url, same_request: true }, trust).unwrap()
    }

    #[test]
    fn another_origin_gets_neither_credential_nor_declared_headers_and_gets_none_back() {
        let tool = tool();
        let attempt = attempt(Credential::Bearer("s3cr3t".into()));
        let first = prepare(&tool, &attempt).unwrap();
        for name in ["authorization", "x-shop-key", "idempotency-key"] {
            assert!(first.headers.contains_key(name), "{name}");
        }
        let stayed = led(&tool, &attempt, first, "https://api.example.com/b");
        assert!(stayed.headers.contains_key("authorization"));
        let mut outgoing = stayed;
        for to in ["https://api.example.com:8443/", "https://evil.example/", "https://api.example.com/back"] {
            outgoing = led(&tool, &attempt, outgoing, to);
            for name in ["authorization", "x-shop-key", "idempotency-key"] {
                assert!(!outgoing.headers.contains_key(name), "{to} {name}");
            }
            assert!(outgoing.headers.contains_key("x-request-id"));
        }
    }

    #[test]
    fn a_key_in_the_query_is_not_carried_to_another_origin() {
        let tool = tool();
        let key = Credential::ApiKey { place: KeyPlace::Query, name: "key".into(), key: "s3cr3t".into() };
        let attempt = attempt(key);
        let first = prepare(&tool, &attempt).unwrap();
        assert_eq!(first.url.query(), Some("key=s3cr3t"));
        let away = led(&tool, &attempt, first, "https://evil.example/?x=1");
        assert_eq!((away.url.query(), away.trust), (Some("x=1"), Trust::Found));
    }
}
