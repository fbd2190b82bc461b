//! Which network addresses an upstream may have: pure rules, and one resolver that obeys them.
//!
//! Three classes: [`Class::Public`]; [`Class::Private`], open only to the host that an operator wrote
//! into a declaration; [`Class::Never`], open to nobody (link-local, cloud metadata, multicast and the
//! like). An IPv6 address that carries an IPv4 address inside is judged by both. The rules look at the
//! address a connection is about to be made to, never at a name alone, so that a name cannot change its
//! mind between the check and the connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What an address is, with the words for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Anybody's.
    Public,
    /// This machine, its networks, or a range that is not routed: only for a host written by the operator.
    Private(&'static str),
    /// Never contacted.
    Never(&'static str),
}

/// Where the name or address of an upstream came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trust {
    /// The operator wrote it, letter by letter, into a declaration.
    Declared,
    /// It came from outside, such as the target of a redirect.
    Found,
}

/// Why an address or a name is not contacted. Reads well after "refused: ".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(&'static str);

/// Why a name gave no address to connect to.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The resolver failed, or knows no address.
    #[error("its name could not be resolved")]
    Lookup(#[source] std::io::Error),
    /// Every address it has is refused.
    #[error("its address is not allowed: {0}")]
    Refused(#[from] Refused),
}

impl Trust {
    /// Whether a connection to `address` may be made.
    pub fn allows(self, address: IpAddr) -> Result<(), Refused> {
        match (classify(address), self) {
            (Class::Never(reason), _) => Err(Refused(reason)),
            (Class::Private(reason), Trust::Found) => Err(Refused(reason)),
            (Class::Private(_), Trust::Declared) | (Class::Public, _) => Ok(()),
        }
    }

    /// Whether a host name may be looked up at all. The addresses it resolves to are judged apart.
    pub fn allows_name(self, name: &str) -> Result<(), Refused> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if METADATA_NAMES.contains(&name.as_str()) {
            return Err(Refused("it is a cloud metadata service"));
        }
        if self == Trust::Found && (name == "localhost" || name.ends_with(".localhost")) {
            return Err(Refused("it is this machine"));
        }
        Ok(())
    }
}

/// Resolves a name and keeps the addresses that may be contacted; the error is about the last one
/// refused. Waits for the system's resolver without a deadline of its own: the caller has one.
pub async fn resolve(name: &str, port: u16, trust: Trust) -> Result<Vec<SocketAddr>, ResolveError> {
    trust.allows_name(name)?;
    let found = tokio::net::lookup_host((name, port)).await.map_err(ResolveError::Lookup)?;
    let mut allowed = Vec::new();
    let mut refused = None;
    for address in found {
        match trust.allows(address.ip()) {
            Ok(()) => allowed.push(address),
            Err(reason) => refused = Some(reason),
        }
    }
    match refused {
        Some(reason) if allowed.is_empty() => Err(reason.into()),
        None if allowed.is_empty() => Err(ResolveError::Lookup(std::io::Error::other("no address"))),
        _ => Ok(allowed),
    }
}

/// Names under which clouds hand out credentials. Their usual addresses are refused as well; a name may
/// resolve to another one inside a private network.
const METADATA_NAMES: &[&str] = &[
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.azure.internal",
    "metadata.azure.com",
    "metadata.tencentyun.com",
    "metadata.packet.net",
    "metadata.platformequinix.com",
    "rancher-metadata",
];

/// The class of an address.
pub fn classify(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

fn classify_v4(address: Ipv4Addr) -> Class {
    match address.octets() {
        [169, 254, 169, 254] | [100, 100, 100, 200] | [168, 63, 129, 16] => {
            Class::Never("it is a cloud metadata service")
        }
        [169, 254, ..] => Class::Never("it is link-local"),
        [192, 0, 0, _] => Class::Never("it is reserved for protocol assignments"),
        [0, ..] => Class::Never("it is unspecified"),
        [255, 255, 255, 255] => Class::Never("it is a broadcast address"),
        [224..=239, ..] => Class::Never("it is a multicast address"),
        [240..=255, ..] => Class::Never("it is reserved"),
        [127, ..] => Class::Private("it is this machine"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Class::Private("it is in a private network"),
        [100, 64..=127, ..] => Class::Private("it is in a carrier's private network"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Class::Private("it is for documentation"),
        [198, 18..=19, ..] => Class::Private("it is for benchmarks"),
        [192, 88, 99, _] => Class::Private("it is a relay for IPv6"),
        _ => Class::Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> Class {
    let s = address.segments();
    let own = match s {
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Never("it is unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Private("it is this machine"),
        [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254] | [0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254] => {
            Class::Never("it is a cloud metadata service")
        }
        [0xfe80..=0xfebf, ..] => Class::Never("it is link-local"),
        [0xff00..=0xffff, ..] => Class::Never("it is a multicast address"),
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Class::Private("it is in a private network"),
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Class::Private("it is for documentation"),
        [0x2001, 0, ..] => Class::Never("it is a tunnel"),
        [0x2001, 1..=0x01ff, ..] => Class::Never("it is reserved for protocol assignments"),
        // These three carry an IPv4 address, which decides below.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x0064, 0xff9b, 0, 0, 0, 0, ..] => Class::Public,
        [0x0064, 0xff9b, 1, ..] => Class::Private("it is a local translation to IPv4"),
        [0x2000..=0x3fff, ..] => Class::Public,
        _ => Class::Never("it is not a unicast address of the internet"),
    };
    match embedded(address).map(classify_v4) {
        Some(inner) => stricter(own, inner),
        None => own,
    }
}

fn stricter(one: Class, other: Class) -> Class {
    match (one, other) {
        (Class::Never(_), _) | (Class::Private(_), Class::Public | Class::Private(_)) => one,
        (Class::Public | Class::Private(_), _) => other,
    }
}

/// The IPv4 address inside an IPv6 one, for every form that some router or kernel follows.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        // Loopback and unspecified look like IPv4-compatible addresses and are not.
        [0, 0, 0, 0, 0, 0, 0, 0..=1] => None,
        // IPv4-compatible, IPv4-mapped, IPv4-translated, NAT64 (well-known and local prefix).
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x0064, 0xff9b, 0 | 1, _, _, _, high, low] => v4(high, low),
        // 6to4.
        [0x2002, high, low, ..] => v4(high, low),
        // ISATAP.
        [_, _, _, _, 0 | 0x0200, 0x5efe, high, low] => v4(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_names_are_refused_in_any_spelling_and_by_anybody() {
        for name in ["metadata.google.internal", "METADATA.google.INTERNAL.", "instance-data", "metadata"] {
            assert!(Trust::Declared.allows_name(name).is_err(), "{name}");
        }
        assert!(Trust::Declared.allows_name("localhost").is_ok());
        assert!(Trust::Found.allows_name("a.localhost.").is_err());
        assert!(Trust::Found.allows_name("example.com").is_ok());
    }

    #[test]
    fn the_stricter_of_the_outer_and_the_inner_address_counts() {
        let class = |text: &str| classify(text.parse().unwrap());
        assert_eq!(class("2002:0808:0808::1"), Class::Public);
        assert!(matches!(class("2002:7f00:0001::1"), Class::Private(_)));
        assert!(matches!(class("2002:a9fe:a9fe::"), Class::Never(_)));
        assert!(matches!(class("fe80::5efe:8.8.8.8"), Class::Never(_)));
        assert_eq!(class("64:ff9b::8.8.8.8"), Class::Public);
        assert_eq!(class("::ffff:8.8.8.8"), Class::Public);
    }

    #[tokio::test]
    async fn a_name_that_only_has_private_addresses_is_resolved_for_the_operator_alone() {
        assert!(resolve("localhost", 80, Trust::Declared).await.is_ok());
        assert!(matches!(resolve("localhost", 80, Trust::Found).await, Err(ResolveError::Refused(_))));
    }
}
