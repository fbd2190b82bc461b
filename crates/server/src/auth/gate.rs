//! Keeps web pages away.
//!
//! A page in a browser on this machine can send requests to a loopback gateway, and with DNS rebinding it
//! can even read the answers under a name of its own. Three headers tell: Host says under which name we
//! were addressed, Origin which page is asking, Sec-Fetch-Site that a page is asking at all. Requests
//! that no browser sent carry neither of the last two and pass.

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri};

use super::callers::is_loopback;
use crate::Settings;

/// The rules of one listener.
#[derive(Debug)]
pub(crate) struct Gate {
    hosts: Option<Vec<Host>>,
    origins: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    name: String,
    port: Option<u16>,
}

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// Not a host.
    #[error("allowed_hosts: {0:?} is not a host; write `reach.example.com` or `reach.example.com:8443`")]
    Host(String),
    /// Not an origin.
    #[error("allowed_origins: {0:?} is not an origin; write `https://app.example.com`, without a path")]
    Origin(String),
}

/// A request that the gate let through.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// No page is asking.
    Program,
    /// A page that the operator allowed; the answer has to name it.
    Page(HeaderValue),
}

/// Why a request was turned away. The text is for whoever looks at the network panel of a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Intruder {
    /// There is no Host, or more than one.
    #[error("the request names no host, or more than one")]
    NoHost,
    /// The Host is not ours.
    #[error("the gateway is not served under this host name; add it to allowed_hosts if it should be")]
    Host,
    /// The Origin is not allowed.
    #[error("web pages of this origin may not call the gateway; add it to allowed_origins if they should")]
    Origin,
    /// A page of another site is asking without an Origin.
    #[error("a web page of another site may not call the gateway")]
    CrossSite,
}

impl Gate {
    /// The rules for a listener bound to `local`.
    pub(crate) fn new(settings: &Settings, local: SocketAddr) -> Result<Self, GateError> {
        let mut hosts = Vec::new();
        for text in &settings.allowed_hosts {
            hosts.push(Host::parse(text).ok_or_else(|| GateError::Host(text.clone()))?);
        }
        let hosts = if is_loopback(local.ip()) {
            let own = match local.ip() {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            };
            let port = Some(local.port());
            let names = ["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned(), own];
            hosts.extend(names.map(|name| Host { name, port }));
            Some(hosts)
        } else {
            (!hosts.is_empty()).then_some(hosts)
        };
        let origins = settings.allowed_origins.iter();
        let origins = origins.map(|text| origin(text).ok_or_else(|| GateError::Origin(text.clone())));
        Ok(Self { hosts, origins: origins.collect::<Result<_, _>>()? })
    }

    /// Lets a request through or says why not.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<Passage, Intruder> {
        self.check_host(uri, headers)?;
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => self.check_site(headers),
            (Some(value), None) => {
                let asking = value.to_str().ok().and_then(origin).ok_or(Intruder::Origin)?;
                if self.origins.contains(&asking) { Ok(Passage::Page(value.clone())) } else { Err(Intruder::Origin) }
            }
            (Some(_), Some(_)) => Err(Intruder::Origin),
        }
    }

    /// Both the request line's authority (HTTP/2, absolute form) and the Host header have to be ours,
    /// whichever are there; one has to be.
    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Intruder> {
        let mut lines = headers.get_all(HOST).iter();
        let header = match (lines.next(), lines.next()) {
            (None, _) => None,
            (Some(value), None) => Some(value.to_str().ok().and_then(Host::parse).ok_or(Intruder::Host)?),
            (Some(_), Some(_)) => return Err(Intruder::NoHost),
        };
        let line = match uri.authority() {
            None => None,
            Some(authority) => Some(Host::of(authority).ok_or(Intruder::Host)?),
        };
        if header.is_none() && line.is_none() {
            return Err(Intruder::NoHost);
        }
        let Some(hosts) = &self.hosts else { return Ok(()) };
        let ours = |asked: &Host| hosts.iter().any(|host| host.admits(asked));
        if header.iter().chain(line.iter()).all(ours) { Ok(()) } else { Err(Intruder::Host) }
    }

    fn check_site(&self, headers: &HeaderMap) -> Result<Passage, Intruder> {
        match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
            None | Some(b"none" | b"same-origin") => Ok(Passage::Program),
            Some(_) => Err(Intruder::CrossSite),
        }
    }
}

impl Host {
    fn parse(text: &str) -> Option<Self> {
        Self::of(&text.trim().parse().ok()?)
    }

    fn of(authority: &Authority) -> Option<Self> {
        // A user name before the host is a way to make a foreign name look like ours.
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return None;
        }
        // `name:` and `name:99999` parse as an authority and have no port.
        if authority.as_str().len() != authority.host().len() && authority.port_u16().is_none() {
            return None;
        }
        Some(Self { name: authority.host().to_ascii_lowercase(), port: authority.port_u16() })
    }

    /// A rule without a port admits every port; a request without a port means the default one.
    fn admits(&self, asked: &Host) -> bool {
        let port_fits = match self.port {
            None => true,
            Some(port) => asked.port.map_or(port == 80 || port == 443, |asked| asked == port),
        };
        self.name == asked.name && port_fits
    }
}

/// `scheme://host[:port]` in one spelling: lower case, the scheme's own port left out. `null` is nobody.
fn origin(text: &str) -> Option<String> {
    let uri: Uri = text.trim().parse().ok()?;
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let host = Host::of(uri.authority()?)?;
    if !matches!(scheme.as_str(), "http" | "https") || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return None;
    }
    let usual = if scheme == "http" { 80 } else { 443 };
    Some(match host.port {
        Some(port) if port != usual => format!("{scheme}://{}:{port}", host.name),
        _ => format!("{scheme}://{}", host.name),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gate(listen: &str, hosts: &[&str], origins: &[&str]) -> Gate {
        let settings = Settings {
            allowed_hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            allowed_origins: origins.iter().map(|&origin| origin.to_owned()).collect(),
            ..Settings::default()
        };
        Gate::new(&settings, listen.parse().unwrap()).unwrap()
    }

    fn check(gate: &Gate, headers: &[(&'static str, &str)]) -> Result<Passage, Intruder> {
        let headers = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect();
        gate.check(&Uri::from_static("/v1/tools"), &headers)
    }

    #[test]
    fn a_loopback_gateway_answers_to_its_own_names_with_its_own_port_only() {
        let gate = gate("127.0.0.1:7878", &["reach.lan"], &[]);
        for own in ["127.0.0.1:7878", "localhost:7878", "LOCALHOST:7878", "[::1]:7878", "reach.lan", "reach.lan:1"] {
            assert_eq!(check(&gate, &[("host", own)]), Ok(Passage::Program), "{own}");
        }
        for foreign in [
            "evil.example:7878",
            "evil.example",
            "localhost:80",
            "localhost",
            "localhost.:7878",
            "localhost.evil.example:7878",
            "127.0.0.1.evil.example:7878",
            "0.0.0.0:7878",
            "127.0.0.2:7878",
            "127.1:7878",
            "2130706433:7878",
            "localhost:7878@evil.example",
            "evil@localhost:7878",
            "localhost:",
            "localhost:99999",
        ] {
            assert_eq!(check(&gate, &[("host", foreign)]), Err(Intruder::Host), "{foreign}");
        }
        assert_eq!(check(&gate, &[]), Err(Intruder::NoHost));
        assert_eq!(check(&gate, &[("host", "localhost:7878"), ("host", "evil.example")]), Err(Intruder::NoHost));
    }

    #[test]
    fn the_name_in_the_request_line_counts_as_much_as_the_header() {
        let gate = gate("127.0.0.1:7878", &[], &[]);
        let header = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost:7878"))]);
        let evil = Uri::from_static("http://evil.example:7878/v1/tools");
        assert_eq!(gate.check(&evil, &header), Err(Intruder::Host));
        assert_eq!(gate.check(&evil, &HeaderMap::new()), Err(Intruder::Host));
        let own = Uri::from_static("http://localhost:7878/v1/tools");
        assert_eq!(gate.check(&own, &HeaderMap::new()), Ok(Passage::Program));
    }

    #[test]
    fn a_public_gateway_takes_every_name_until_names_are_listed() {
        assert_eq!(check(&gate("0.0.0.0:80", &[], &[]), &[("host", "any.example")]), Ok(Passage::Program));
        let listed = gate("0.0.0.0:443", &["reach.example:443"], &[]);
        assert_eq!(check(&listed, &[("host", "reach.example")]), Ok(Passage::Program));
        assert_eq!(check(&listed, &[("host", "reach.example:443")]), Ok(Passage::Program));
        assert_eq!(check(&listed, &[("host", "other.example")]), Err(Intruder::Host));
        assert_eq!(check(&listed, &[("host", "reach.example:8080")]), Err(Intruder::Host));
    }

    #[test]
    fn a_page_is_refused_unless_its_origin_is_listed() {
        let gate = gate("127.0.0.1:7878", &[], &["https://App.example.com:443", "http://localhost:3000"]);
        let ask = |origin: &str| check(&gate, &[("host", "localhost:7878"), ("origin", origin)]);
        for page in ["https://app.example.com", "http://localhost:3000"] {
            assert_eq!(ask(page), Ok(Passage::Page(HeaderValue::from_str(page).unwrap())), "{page}");
        }
        for page in [
            "null",
            "https://evil.example",
            "http://app.example.com",
            "http://localhost:3001",
            "http://localhost:7878",
            "https://app.example.com.evil.example",
            "https://app.example.com@evil.example",
            "file://",
            "",
        ] {
            assert_eq!(ask(page), Err(Intruder::Origin), "{page}");
        }
    }

    #[test]
    fn a_page_that_hides_its_origin_is_known_by_sec_fetch_site() {
        let gate = gate("127.0.0.1:7878", &[], &[]);
        let ask = |site: &str| check(&gate, &[("host", "localhost:7878"), ("sec-fetch-site", site)]);
        assert_eq!(ask("none"), Ok(Passage::Program));
        assert_eq!(ask("same-origin"), Ok(Passage::Program));
        assert_eq!(ask("cross-site"), Err(Intruder::CrossSite));
        assert_eq!(ask("same-site"), Err(Intruder::CrossSite));
    }

    proptest! {
        #[test]
        fn no_spelling_of_a_foreign_name_passes(text in "[ -~]{0,40}") {
            let gate = gate("127.0.0.1:7878", &[], &[]);
            let own = ["localhost:7878", "127.0.0.1:7878", "[::1]:7878"];
            prop_assume!(!own.contains(&text.trim().to_ascii_lowercase().as_str()));
            if let Ok(value) = HeaderValue::from_str(&text) {
                let headers = HeaderMap::from_iter([(HOST, value)]);
                prop_assert_ne!(gate.check(&Uri::from_static("/"), &headers), Ok(Passage::Program));
            }
        }

        #[test]
        fn no_ornament_makes_a_foreign_name_ours(before in "[a-z0-9@:/.\\-]{0,8}", after in "[a-z0-9@:/.\\-]{1,8}") {
            let gate = gate("127.0.0.1:7878", &[], &[]);
            for text in [format!("{before}x.localhost:7878{after}"), format!("localhost{after}.evil.example:7878")] {
                let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_str(&text).unwrap())]);
                prop_assert_ne!(gate.check(&Uri::from_static("/"), &headers), Ok(Passage::Program), "{}", text);
            }
        }
    }

    #[test]
    fn a_rule_that_cannot_be_read_is_named() {
        let with = |hosts: &[&str], origins: &[&str]| {
            let own = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
            let settings = Settings { allowed_hosts: own(hosts), allowed_origins: own(origins), ..Settings::default() };
            Gate::new(&settings, "127.0.0.1:1".parse().unwrap()).unwrap_err().to_string()
        };
        assert!(with(&["http://x"], &[]).contains("http://x"));
        assert!(with(&[], &["app.example.com"]).contains("app.example.com"));
        assert!(with(&[], &["*"]).contains('*'));
        assert!(with(&[], &["null"]).contains("null"));
    }
}
