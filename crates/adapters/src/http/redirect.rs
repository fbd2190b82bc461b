//! Where a redirect may lead: a pure decision over one answer of 3xx.
//!
//! A tool that only reads may be led elsewhere, as often as its declaration allows; one that changes
//! something is only sent on where HTTP promises that nothing was done yet (307, 308) and the origin
//! stays the same. What may be contacted there is judged by the address rules, hop by hop.

use http::{Method, StatusCode};
use reach_core::Effect;
use url::Url;

use crate::shared::address::Trust;

/// The next request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) url: Url,
    /// Whether method and body are kept; else it is a GET without a body.
    pub(crate) same_request: bool,
}

/// Whether a status sends the client elsewhere.
pub(crate) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The next hop, or the reason why there is none. `hops` are those already made.
pub(crate) fn next(
    status: StatusCode,
    location: Option<&str>,
    current: &Url,
    method: &Method,
    effect: Effect,
    hops: u8,
    allowed: u8,
) -> Result<Hop, &'static str> {
    let location = location.ok_or("it names no target")?;
    if hops >= allowed {
        return Err(if allowed == 0 { "this tool follows no redirects" } else { "that is one redirect too many" });
    }
    let mut url = current.join(location).map_err(|_| "its target is no url")?;
    url.set_fragment(None);
    if !matches!(url.scheme(), "http" | "https") {
        return Err("its target is not HTTP");
    }
    if current.scheme() == "https" && url.scheme() == "http" {
        return Err("its target is not encrypted, unlike the address it came from");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("its target holds a user name or password");
    }
    let keeps = matches!(status.as_u16(), 307 | 308);
    if effect != Effect::Read && !(keeps && url.origin() == current.origin()) {
        return Err("a request that changes something is not sent on");
    }
    let safe = matches!(*method, Method::GET | Method::HEAD);
    Ok(Hop { url, same_request: keeps || safe })
}

/// How far a hop's host is trusted: as the declared one only where it is the same host and port, or the
/// same host on its way from plain to encrypted.
pub(crate) fn trust(declared: &Url, hop: &Url) -> Trust {
    let ports = (declared.port_or_known_default(), hop.port_or_known_default());
    let upgraded = (declared.scheme(), hop.scheme()) == ("http", "https") && ports == (Some(80), Some(443));
    let same_host = declared.host() == hop.host();
    if same_host && (ports.0 == ports.1 || upgraded) { Trust::Declared } else { Trust::Found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(status: u16, from: &str, to: &str, method: Method, effect: Effect) -> Result<Hop, &'static str> {
        next(StatusCode::from_u16(status).unwrap(), Some(to), &Url::parse(from).unwrap(), &method, effect, 0, 5)
    }

    #[test]
    fn a_write_is_only_sent_on_where_nothing_was_done_and_the_origin_stays() {
        let write = |status, to| decide(status, "https://h/a", to, Method::POST, Effect::Write);
        assert!(write(307, "/b").unwrap().same_request);
        assert!(write(308, "https://h:443/b").is_ok());
        for (status, to) in [(301, "/b"), (302, "/b"), (303, "/b"), (307, "https://other/b"), (307, "https://h:444/")] {
            assert!(write(status, to).is_err(), "{status} {to}");
        }
    }

    #[test]
    fn a_read_may_be_led_elsewhere_but_never_to_plain_text_or_out_of_http() {
        let read = |to| decide(302, "https://h/a", to, Method::GET, Effect::Read);
        assert_eq!(read("b#x").unwrap().url.as_str(), "https://h/b");
        assert_eq!(read("//other/b").unwrap().url.as_str(), "https://other/b");
        for to in
            ["http://h/b", "file:///etc/passwd", "javascript:alert(1)", "https://u:p@h/", "https://[", "gopher://h"]
        {
            assert!(read(to).is_err(), "{to}");
        }
        let search = decide(303, "https://h/a", "/b", Method::POST, Effect::Read).unwrap();
        assert!(!search.same_request);
    }

    #[test]
    fn only_the_declared_host_and_port_stay_trusted() {
        let trusted = |declared: &str, hop: &str| {
            trust(&Url::parse(declared).unwrap(), &Url::parse(hop).unwrap()) == Trust::Declared
        };
        assert!(trusted("http://orders.internal/a", "https://orders.internal/a"));
        assert!(trusted("http://10.0.0.1:8080/", "http://10.0.0.1:8080/b"));
        assert!(!trusted("http://10.0.0.1:8080/", "http://10.0.0.1:22/"));
        assert!(!trusted("http://10.0.0.1:8080/", "http://10.0.0.2:8080/"));
    }
}
