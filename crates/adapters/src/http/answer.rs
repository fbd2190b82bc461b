//! What an answer means: the table of statuses, and how a body becomes a result.
//!
//! Everything here is decided from a status, headers and bytes that have already arrived. Whether a
//! failure is repeated is not decided here.

use std::time::Duration;

use chrono::{DateTime, Utc};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, DATE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use reach_core::{Answer, Failure, FailureKind, Payload, Phase, exact};
use serde_json::Value;

use super::config::Expect;
use super::decode::{self, MediaType, Unpack};
use super::explain;
use super::select::Selection;

/// How a tool reads its answers.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) expect: Option<Expect>,
    pub(crate) selection: Selection,
    pub(crate) cap: u64,
}

/// A whole answer.
pub(crate) struct Received {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

/// The longest wait an upstream may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// A 2xx answer as a result.
pub(crate) fn success(received: Received, reading: &Reading, mut notes: Vec<String>) -> Result<Answer, Failure> {
    let Received { status, headers, bytes } = received;
    let bytes = decode::unpack(bytes, text_of(&headers, &CONTENT_ENCODING), reading.cap).map_err(|why| match why {
        Unpack::TooLarge => oversize(reading.cap, " once decompressed"),
        Unpack::Broken(reason) => malformed(format!("the answer of the upstream is broken: {reason}")),
    })?;
    let media_type = MediaType::parse(text_of(&headers, &CONTENT_TYPE));
    let payload = payload(&bytes, &media_type, reading)?;
    let value = match payload {
        Payload::Empty => {
            // Nothing said is no proof of success where the declaration asks for one.
            return match reading.selection.succeeded(&Value::Null) {
                Ok(true) => Ok(Answer { payload: Payload::Empty, notes }),
                _ => Err(malformed(format!(
                    "the upstream answered {} without the body that success_when needs",
                    status.as_u16()
                ))),
            };
        }
        Payload::Json(value) => value,
        Payload::Text(_) | Payload::Binary { .. } => return Ok(Answer { payload, notes }),
    };
    match reading.selection.succeeded(&value) {
        Ok(true) => {}
        Ok(false) => {
            let words = explain::json(&value).unwrap_or_else(|| "it gives no reason".into());
            let message =
                format!("the upstream answered {} and reports a failure: {}", status.as_u16(), explain::clean(&words));
            return Err(Failure::new(FailureKind::Rejected, Phase::Answered, message)
                .with_detail(format!("success_when is not true for {}", excerpt(&value.to_string()))));
        }
        Err(reason) => return Err(malformed(reason).with_detail(excerpt(&value.to_string()))),
    }
    let value = reading.selection.shape(value, &mut notes).map_err(malformed)?;
    Ok(Answer { payload: Payload::Json(value), notes })
}

fn payload(bytes: &[u8], media_type: &MediaType, reading: &Reading) -> Result<Payload, Failure> {
    if bytes.is_empty() {
        return Ok(Payload::Empty);
    }
    let wants_json = reading.expect == Some(Expect::Json) || reading.selection.needs_json();
    let binary = if media_type.is_binary() { Some(media_type.essence.as_str()) } else { decode::recognise(bytes) };
    if let Some(found) = binary {
        // Some servers send JSON as octet-stream.
        if found == "application/octet-stream"
            && reading.expect != Some(Expect::Text)
            && let Some(value) = as_json(bytes, media_type)
        {
            return Ok(Payload::Json(value));
        }
        return match (wants_json, reading.expect) {
            (false, None | Some(Expect::Any)) => {
                let media_type = media_type_to_tell(media_type, found);
                Ok(Payload::Binary { media_type, bytes: bytes.to_vec() })
            }
            _ => Err(malformed(format!(
                "the upstream answered {} bytes of {found} where {} was expected",
                bytes.len(),
                if wants_json { "JSON" } else { "text" }
            ))),
        };
    }
    let text = match decode::text(bytes, media_type) {
        Ok(text) => text,
        // Bytes of unknown meaning can still be kept as they are.
        Err(_) if !wants_json && reading.expect == Some(Expect::Any) && media_type.charset.is_none() => {
            let media_type = media_type_to_tell(media_type, "application/octet-stream");
            return Ok(Payload::Binary { media_type, bytes: bytes.to_vec() });
        }
        Err(reason) => return Err(malformed(format!("the answer of the upstream cannot be read: {reason}"))),
    };
    match reading.expect {
        Some(Expect::Text) => Ok(Payload::Text(text)),
        Some(Expect::Any) if !wants_json && !media_type.is_json() => {
            let looks_like_json = media_type.essence.is_empty() && text.trim_start().starts_with(['{', '[']);
            match looks_like_json.then(|| exact::parse_result(&text)) {
                Some(Ok(value)) => Ok(Payload::Json(value)),
                _ => Ok(Payload::Text(text)),
            }
        }
        None | Some(Expect::Json | Expect::Any) => json(&text, bytes.len()),
    }
}

fn as_json(bytes: &[u8], media_type: &MediaType) -> Option<Value> {
    exact::parse_result(&decode::text(bytes, media_type).ok()?).ok()
}

fn media_type_to_tell(declared: &MediaType, found: &str) -> String {
    if declared.essence.is_empty() { found.to_owned() } else { declared.essence.clone() }
}

fn json(text: &str, length: usize) -> Result<Payload, Failure> {
    if text.trim().is_empty() {
        return Ok(Payload::Empty);
    }
    exact::parse_result(text).map(Payload::Json).map_err(|error| {
        let message = if explain::looks_like_html(text) {
            let title = explain::title(text).map(|title| format!(" titled {title:?}")).unwrap_or_default();
            format!("the upstream answered an HTML page{title} where JSON was expected")
        } else {
            // The first words tell a reader what came instead: a banner, a list of errors, half an object.
            let start = explain::clean(&text.chars().take(60).collect::<String>());
            format!("the answer of the upstream cannot be used: {error}; it has {length} bytes and begins {start:?}")
        };
        malformed(message).with_detail(format!("{error}; {}", excerpt(text)))
    })
}

/// Any other answer as a failure. `bytes` are what could be read of the body: it only explains.
pub(crate) fn failure(received: Received, cap: u64) -> Failure {
    let Received { status, headers, bytes } = received;
    let media_type = MediaType::parse(text_of(&headers, &CONTENT_TYPE));
    let unpacked = decode::unpack(bytes, text_of(&headers, &CONTENT_ENCODING), cap).unwrap_or_default();
    let text = match media_type.is_binary() || decode::recognise(&unpacked).is_some() {
        true => String::new(),
        false => decode::lossy(&unpacked, &media_type),
    };
    let wait = retry_after(&headers, Utc::now());
    let kind = kind(status, wait.is_some());
    let code = status.as_u16();
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    let words = explain::explanation(&text).map(|words| format!(": {words}")).unwrap_or_default();
    Failure::new(kind, Phase::Answered, format!("the upstream answered {code}{reason}{words}"))
        .with_detail(format!("status {code}; {}", excerpt(&text)))
        .with_retry_after(wait)
}

fn kind(status: StatusCode, says_when: bool) -> FailureKind {
    match status.as_u16() {
        401 | 403 => FailureKind::Unauthorised,
        404 | 410 => FailureKind::NotFound,
        429 => FailureKind::Throttled,
        400..=499 => FailureKind::Rejected,
        503 if says_when => FailureKind::Unavailable,
        500..=599 => FailureKind::ServerError,
        // 1xx as a last word, 304 without a condition, 6xx: no server that keeps to HTTP sends these.
        _ => FailureKind::Malformed,
    }
}

/// A redirect that is not followed. For a request that only reads it is a refusal. For one that changes
/// something, 301, 307 and 308 mean that it was not done here; after 302 and 303, which servers also send
/// once a form was accepted, nobody can tell.
pub(crate) fn redirected(status: StatusCode, target: &str, reason: &str, reads: bool) -> Failure {
    let code = status.as_u16();
    let untold = !reads && matches!(code, 302 | 303);
    let kind = if untold { FailureKind::Malformed } else { FailureKind::Rejected };
    let ending = if untold { "; whether the request was carried out cannot be told" } else { "" };
    Failure::new(
        kind,
        Phase::Answered,
        format!("the upstream answered {code} and points elsewhere, which was not followed: {reason}{ending}"),
    )
    .with_detail(format!("redirect to {target}"))
}

/// `Retry-After` as a wait: seconds, or a date seen from the upstream's own clock where it tells it.
fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let text = text_of(headers, &RETRY_AFTER)?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds).min(LONGEST_WAIT));
    }
    let until = DateTime::parse_from_rfc2822(text).ok()?;
    let now = text_of(headers, &DATE).and_then(|date| DateTime::parse_from_rfc2822(date).ok()).map_or(now, Into::into);
    Some((until.to_utc() - now).to_std().unwrap_or_default().min(LONGEST_WAIT))
}

pub(crate) fn oversize(cap: u64, when: &str) -> Failure {
    Failure::new(
        FailureKind::Oversize,
        Phase::Answered,
        format!("the answer of the upstream is larger than {cap} bytes{when}; ask for less"),
    )
}

fn malformed(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Malformed, Phase::Answered, message)
}

fn text_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The start of a body, for the journal.
fn excerpt(text: &str) -> String {
    match text.char_indices().nth(2_000) {
        Some((at, _)) => format!("body ({} bytes): {}…", text.len(), &text[..at]),
        None => format!("body: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), value.parse().unwrap());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_wait_is_read_as_seconds_or_as_a_date_on_the_upstreams_clock() {
        let now = DateTime::parse_from_rfc3339("2026-01-01T00:00:00Z").unwrap().to_utc();
        let wait = |pairs: &[(&'static str, &str)]| retry_after(&headers(pairs), now).map(|wait| wait.as_secs());
        assert_eq!(wait(&[("retry-after", "7")]), Some(7));
        assert_eq!(wait(&[("retry-after", "Thu, 01 Jan 2026 00:00:30 GMT")]), Some(30));
        let skewed = [("retry-after", "Fri, 01 Jan 2027 00:00:30 GMT"), ("date", "Fri, 01 Jan 2027 00:00:00 GMT")];
        assert_eq!(wait(&skewed), Some(30));
        assert_eq!(wait(&[("retry-after", "Wed, 31 Dec 2025 00:00:30 GMT")]), Some(0));
        assert_eq!(wait(&[("retry-after", "99999999999999")]), Some(86_400));
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        assert_eq!(wait(&[]), None);
    }

    #[test]
    fn every_status_has_one_kind() {
        use FailureKind::*;
        for (status, says_when, wanted) in [
            (400, false, Rejected),
            (401, false, Unauthorised),
            (403, false, Unauthorised),
            (404, false, NotFound),
            (410, false, NotFound),
            (409, false, Rejected),
            (422, true, Rejected),
            (429, false, Throttled),
            (500, false, ServerError),
            (502, true, ServerError),
            (503, false, ServerError),
            (503, true, Unavailable),
            (504, false, ServerError),
            (304, false, Malformed),
            (700, false, Malformed),
        ] {
            assert_eq!(kind(StatusCode::from_u16(status).unwrap(), says_when), wanted, "{status}");
        }
    }

    #[test]
    fn what_is_no_json_is_told_by_its_beginning_or_its_title() {
        let message = |text: &str| json(text, text.len()).unwrap_err().message;
        assert!(message(r#"{"count": 0, "mean": NaN, "max": Infinity}"#).contains("NaN"));
        assert!(message("{\"a\": 1").contains("has 7 bytes"));
        assert!(message("杭州 is no JSON").contains("begins \"杭州"));
        assert!(message("<html><title>Sign in</title>").contains("Sign in"));
    }
}
