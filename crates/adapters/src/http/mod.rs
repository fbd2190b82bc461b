//! The `http` adapter: one declared request of one upstream.
//!
//! Arguments reach the request encoded for their place and can never choose where it goes; addresses
//! are judged before every connection; a request is sent once, and what is known of it afterwards is
//! told as a phase. Read [`config`] for what may be declared, `send` for one attempt, `answer` for what
//! a status and a body mean. Retries, deadlines of a whole call and credentials' renewal are not here.

mod answer;
mod body;
mod client;
pub mod config;
mod decode;
mod explain;
mod headers;
mod place;
mod redirect;
mod select;
mod send;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName};
use reach_core::redact::Scrubber;
use reach_core::{Adapter, Answer, Attempt, BoxFuture, Credential, Effect, Failure, FailureKind, Phase, Problem};
use secrecy::{ExposeSecret, SecretString};

use self::answer::Reading;
use self::body::Encoder;
use self::client::Clients;
pub use self::config::Config;
use self::headers::Headers;
use self::place::{Parameter, Place};
use self::select::Selection;
use crate::shared::Declared;
use crate::shared::address::Trust;

/// How long a connection may take where a declaration does not say.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The header of an idempotency key where a declaration does not say.
const IDEMPOTENCY_HEADER: &str = "idempotency-key";

/// The most redirects a declaration may allow.
const MOST_REDIRECTS: u8 = 5;

/// The largest cap a declaration may set: an answer is held in memory.
const LARGEST_CAP: u64 = 256 * 1024 * 1024;

/// One declared tool, ready to be called.
#[derive(Debug)]
pub(crate) struct HttpTool {
    method: http::Method,
    place: Place,
    headers: Headers,
    encoder: Encoder,
    reading: Reading,
    follow_redirects: u8,
    idempotency_header: HeaderName,
    clients: Arc<Clients>,
    target: String,
}

/// Builds the adapter of one declared tool, or says everything that is wrong with the declaration.
pub fn build(config: Config, declared: &Declared<'_>) -> Result<Arc<dyn Adapter>, Vec<Problem>> {
    Ok(Arc::new(build_tool(config, declared)?))
}

fn build_tool(config: Config, declared: &Declared<'_>) -> Result<HttpTool, Vec<Problem>> {
    let mut problems = Vec::new();
    let names: Vec<&str> = declared.arguments().collect();
    let arguments = || names.iter().copied();

    let mut place = Place::parse(&config.url, arguments()).map_err(|found| problems.extend(found)).ok();
    for (name, value) in &config.query {
        match Parameter::parse(name, value, arguments()) {
            Ok(parameter) => problems.extend(place.as_mut().and_then(|place| place.add(parameter).err())),
            Err(found) => problems.extend(found),
        }
    }
    if let Some(place) = &place
        && let Err(reason) = client::permitted(place.origin(), Trust::Declared)
    {
        let message = format!("this host is never contacted: {reason}");
        problems.push(Problem::new("/url", message, "use the address of the system itself"));
    }
    let headers = Headers::parse(&config.headers, arguments(), &mut problems);
    let in_url = place.iter().flat_map(Place::arguments);
    let mut used: BTreeSet<String> = in_url.chain(headers.arguments()).map(str::to_owned).collect();
    if place.is_none() {
        // Which arguments a url uses that cannot be read is not known: none is called unused.
        used.extend(names.iter().map(|name| (*name).to_owned()));
    } else if config.body.is_none() && !config.method.has_body() {
        for name in names.iter().filter(|name| !used.contains(**name)) {
            place.iter_mut().for_each(|place| place.add_argument(name));
        }
        used.extend(names.iter().map(|name| (*name).to_owned()));
    }
    let encoder = Encoder::parse(config.body.as_ref(), config.method, &used, arguments(), &mut problems);
    if headers.contains(&CONTENT_TYPE) && !encoder.media_type_is_free() {
        let fix = if encoder.is_none() { "remove it: there is no body" } else { "remove it: the body sets its own" };
        problems.push(Problem::new("/headers/Content-Type", "this body's type cannot be declared", fix));
    }
    let selection = Selection::parse(&config, &mut problems);
    let idempotency_header = idempotency_header(&config, &headers, declared.effect, &mut problems);
    check_limits(&config, &mut problems);

    let asked = config.connect_timeout_ms.map_or(CONNECT_TIMEOUT, Duration::from_millis);
    let connect_timeout = asked.min(declared.timeout / 2).max(Duration::from_millis(1));
    match (place, problems.is_empty()) {
        (Some(place), true) => Ok(HttpTool {
            method: config.method.to_http(),
            target: target(&place),
            place,
            headers,
            encoder,
            reading: Reading { expect: config.expect, selection, cap: config.max_response_bytes },
            follow_redirects: config.follow_redirects,
            idempotency_header,
            clients: Clients::shared(connect_timeout),
        }),
        _ => Err(problems),
    }
}

/// The name of the idempotency header; one that could have no effect is a problem.
fn idempotency_header(config: &Config, headers: &Headers, effect: Effect, problems: &mut Vec<Problem>) -> HeaderName {
    let fallback = HeaderName::from_static(IDEMPOTENCY_HEADER);
    let pointer = "/idempotency_header";
    let name = match config.idempotency_header.as_deref().map(|name| headers::parse_name(name, pointer)) {
        None => fallback,
        Some(Ok(name)) => {
            if effect != Effect::Keyed {
                problems.push(Problem::new(
                    pointer,
                    format!("no key is sent for a tool of effect `{}`", effect.as_str()),
                    "declare `effect: keyed` if the upstream honours the key, else remove this",
                ));
            }
            name
        }
        Some(Err(found)) => {
            problems.extend(found);
            fallback
        }
    };
    if effect == Effect::Keyed && headers.contains(&name) {
        problems.push(Problem::new(
            format!("/headers/{name}"),
            "the idempotency key is sent in this header",
            "remove the header, or name another one as `idempotency_header`",
        ));
    }
    name
}

fn check_limits(config: &Config, problems: &mut Vec<Problem>) {
    if config.follow_redirects > MOST_REDIRECTS {
        let fix = format!("write a number from 0 to {MOST_REDIRECTS}");
        problems.push(Problem::new("/follow_redirects", "too many redirects", fix));
    }
    if config.max_response_bytes == 0 || config.max_response_bytes > LARGEST_CAP {
        let fix = format!("write a number of bytes from 1 to {LARGEST_CAP}");
        problems.push(Problem::new("/max_response_bytes", "not a size that an answer can have", fix));
    }
    if config.connect_timeout_ms == Some(0) {
        let fix = "write milliseconds, such as 5000";
        problems.push(Problem::new("/connect_timeout_ms", "no connection is made in no time", fix));
    }
}

/// `scheme://host:port`, the port always written out.
fn target(place: &Place) -> String {
    let origin = place.origin();
    let port = origin.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", origin.scheme(), origin.host_str().unwrap_or_default())
}

impl Adapter for HttpTool {
    fn kind(&self) -> &'static str {
        "http"
    }

    fn target(&self) -> &str {
        &self.target
    }

    fn call<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let outcome = match tokio::time::timeout(attempt.timeout, send::send(self, attempt)).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    let message = format!("no answer within {} ms", attempt.timeout.as_millis());
                    Err(Failure::new(FailureKind::Timeout, attempt.sent.phase(), message))
                }
            };
            outcome.map_err(|failure| scrubbed(failure, attempt.credential.as_deref()))
        })
    }

    fn check<'a>(&'a self, timeout: Duration) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(async move {
            let began = tokio::time::Instant::now();
            let handshake = if self.place.origin().scheme() == "https" { " and TLS handshake" } else { "" };
            match tokio::time::timeout(timeout, self.clients.probe(self.place.origin())).await {
                Ok(Ok(None)) => {
                    let took = began.elapsed().as_millis();
                    Ok(format!("{}: connection{handshake} in {took} ms; no request was sent", self.target))
                }
                Ok(Ok(Some(error))) => Err(send::unanswered(&error, timeout)),
                Ok(Err(failure)) => Err(failure),
                Err(_) => {
                    let message =
                        format!("the upstream could not be reached: no connection within {} ms", timeout.as_millis());
                    Err(Failure::new(FailureKind::Unreachable, Phase::NotSent, message))
                }
            }
        })
    }
}

/// An upstream that repeats our credential in its error must not carry it to a model or the journal.
fn scrubbed(failure: Failure, credential: Option<&Credential>) -> Failure {
    let secrets: Vec<SecretString> = match credential {
        None => return failure,
        Some(Credential::Bearer(token)) => vec![token.clone()],
        Some(Credential::Basic { username, password }) => {
            let header = headers::basic(username, password.expose_secret());
            vec![password.clone(), SecretString::from(header.trim_start_matches("Basic ").to_owned())]
        }
        Some(Credential::ApiKey { key, .. }) => {
            vec![key.clone(), SecretString::from(place::encode(key.expose_secret()))]
        }
    };
    let scrubber = Scrubber::new(secrets);
    Failure {
        message: scrubber.text(&failure.message),
        detail: failure.detail.map(|detail| scrubber.text(&detail)),
        ..failure
    }
}
