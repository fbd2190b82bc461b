//! How the gateway listens: an address that parses, hosts and origins that can occur.

use std::net::SocketAddr;
use std::time::Duration;

use super::Draft;
use crate::config::sections;

/// The settings, if they are sound.
pub(super) fn check(draft: &mut Draft<'_>) -> Option<reach_server::Settings> {
    let part = match draft.root.entry("server") {
        Some(_) => draft.part::<sections::Server>("/server")?,
        None => sections::Server::default(),
    };
    let listen = listen(draft, &part.listen);
    for (index, host) in part.allowed_hosts.iter().enumerate() {
        if !is_host(host) {
            draft.add(
                format!("/server/allowed_hosts/{index}"),
                "this is no host name",
                "write `host` or `host:port`, without scheme, path or `*`",
            );
        }
    }
    for (index, origin) in part.allowed_origins.iter().enumerate() {
        if !is_origin(origin) {
            draft.add(
                format!("/server/allowed_origins/{index}"),
                "this is no web origin",
                "write `https://host` or `https://host:port`, without a path or `*`",
            );
        }
    }
    Some(reach_server::Settings {
        listen: listen?,
        allowed_hosts: part.allowed_hosts.iter().map(|host| host.to_lowercase()).collect(),
        allowed_origins: part.allowed_origins.iter().map(|origin| origin.to_lowercase()).collect(),
        max_body_bytes: usize::try_from(part.max_body_bytes).unwrap_or(usize::MAX),
        max_connections: usize::try_from(part.max_connections).unwrap_or(usize::MAX),
        header_timeout: Duration::from_millis(part.header_timeout_ms),
        body_timeout: Duration::from_millis(part.body_timeout_ms),
        idle_timeout: Duration::from_millis(part.idle_timeout_ms),
        write_timeout: Duration::from_millis(part.write_timeout_ms),
        drain_patience: Duration::from_millis(part.drain_patience_ms),
    })
}

fn listen(draft: &mut Draft<'_>, text: &str) -> Option<SocketAddr> {
    let pointer = "/server/listen";
    let numeric = text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    let Ok(address) = numeric.parse::<SocketAddr>() else {
        draft.add(
            pointer,
            "`listen` is no address with a port",
            "write a numeric address and a port: `127.0.0.1:7878`, `0.0.0.0:7878` or `[::1]:7878`",
        );
        return None;
    };
    if !address.ip().is_loopback() && draft.keys("/callers").is_empty() {
        draft.add(
            pointer,
            "this address can be reached from other machines, and no callers are declared: anybody could call",
            "declare `callers` with keys, or listen on `127.0.0.1`",
        );
        return None;
    }
    Some(address)
}

/// `host` or `host:port`; the host a name, an IPv4 address or an IPv6 address in brackets.
fn is_host(text: &str) -> bool {
    let Ok(url) = url::Url::parse(&format!("http://{text}/")) else { return false };
    !text.contains(['/', '@', '?', '#', '*', '\\', ' ']) && url.host_str().is_some() && url.path() == "/"
}

fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(is_host)
}
