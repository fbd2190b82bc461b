//! The declared callers and their keys.
//!
//! Keys are held as SHA-256 digests, and every digest is compared in constant time on every request, so
//! that neither the key nor its place in the list can be learnt from timing. The table is replaced whole
//! when the configuration is read again; a request sees either the old one or the new one.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use reach_core::Caller;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// The declared callers. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Callers(Arc<ArcSwap<Vec<Entry>>>);

struct Entry {
    digest: [u8; 32],
    caller: Caller,
}

impl std::fmt::Debug for Callers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.load().iter().map(|entry| entry.caller.id.as_str())).finish()
    }
}

impl Callers {
    /// Callers with their keys.
    pub fn new(declared: impl IntoIterator<Item = (Caller, SecretString)>) -> Self {
        let callers = Self::default();
        callers.replace(declared);
        callers
    }

    /// Replaces all callers: requests that arrive from now on are checked against these.
    pub fn replace(&self, declared: impl IntoIterator<Item = (Caller, SecretString)>) {
        let entries = declared
            .into_iter()
            .map(|(caller, key)| Entry { digest: Sha256::digest(key.expose_secret()).into(), caller })
            .collect();
        self.0.store(Arc::new(entries));
    }

    /// Whether nobody is declared.
    pub fn is_empty(&self) -> bool {
        self.0.load().is_empty()
    }

    /// The caller of a request. While nobody is declared, everyone on a loopback listener is the local
    /// caller, and nobody on any other.
    pub(crate) fn identify(&self, headers: &HeaderMap, loopback: bool) -> Result<Identity, Unknown> {
        let entries = self.0.load();
        if entries.is_empty() && loopback {
            return Ok(Identity(Caller::local()));
        }
        let key = bearer(headers)?;
        let digest: [u8; 32] = Sha256::digest(key).into();
        let mut found = u32::MAX;
        for (index, entry) in (0u32..).zip(entries.iter()) {
            let same: Choice = digest.ct_eq(&entry.digest);
            found.conditional_assign(&index, same);
        }
        match entries.get(found as usize) {
            Some(entry) => Ok(Identity(entry.caller.clone())),
            None => Err(Unknown::Key),
        }
    }
}

/// A caller that has proved who it is; travels in the extensions of a request.
#[derive(Clone)]
pub(crate) struct Identity(pub(crate) Caller);

/// Why nobody was recognised.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// No key was shown, or not as a Bearer key.
    NoKey,
    /// The key is nobody's.
    Key,
}

fn bearer(headers: &HeaderMap) -> Result<&[u8], Unknown> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Err(Unknown::NoKey) };
    let bytes = value.as_bytes();
    match bytes.split_at_checked(7) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"Bearer ") && !key.trim_ascii().is_empty() => {
            Ok(key.trim_ascii())
        }
        _ => Err(Unknown::NoKey),
    }
}

/// The gateway would be open to everybody who can reach this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "refusing to listen on {address} without callers: everybody who can reach it could call every tool; \
     declare callers with keys in reach.yaml, or listen on 127.0.0.1"
)]
pub struct ExposureError {
    /// The address that is not loopback.
    pub address: IpAddr,
}

/// Refuses a public address while no caller is declared.
pub fn check_exposure(address: IpAddr, callers: &Callers) -> Result<(), ExposureError> {
    if is_loopback(address) || !callers.is_empty() { Ok(()) } else { Err(ExposureError { address }) }
}

/// Whether only this machine can reach the address; `::ffff:127.0.0.1` counts.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use reach_core::CallerId;
    use reach_core::scope::Scopes;

    use super::*;

    fn caller(name: &str) -> Caller {
        Caller { id: CallerId::new(name), scopes: Scopes::default(), rate: None }
    }

    fn two() -> Callers {
        Callers::new([(caller("one"), "key-1".into()), (caller("two"), "key-2".into())])
    }

    fn asking(authorization: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(authorization))])
    }

    fn who(callers: &Callers, headers: &HeaderMap, loopback: bool) -> Result<String, Unknown> {
        callers.identify(headers, loopback).map(|identity| identity.0.id.to_string())
    }

    #[test]
    fn each_key_finds_its_caller_and_a_near_miss_finds_nobody() {
        assert_eq!(who(&two(), &asking("Bearer key-1"), true), Ok("one".into()));
        assert_eq!(who(&two(), &asking("bearer key-2"), false), Ok("two".into()));
        for wrong in ["Bearer key-3", "Bearer key-11", "Bearer key-", "Bearer KEY-1"] {
            assert_eq!(who(&two(), &asking(wrong), true), Err(Unknown::Key), "{wrong}");
        }
        for none in ["key-1", "Basic key-1", "Bearer", "Bearer ", "Bearerkey-1"] {
            assert_eq!(who(&two(), &asking(none), true), Err(Unknown::NoKey), "{none}");
        }
    }

    #[test]
    fn two_authorization_headers_are_nobody() {
        let mut headers = asking("Bearer key-1");
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer key-2"));
        assert_eq!(who(&two(), &headers, true), Err(Unknown::NoKey));
    }

    #[test]
    fn without_callers_only_loopback_is_the_local_caller() {
        assert_eq!(who(&Callers::default(), &HeaderMap::new(), true), Ok("local".into()));
        assert_eq!(who(&Callers::default(), &HeaderMap::new(), false), Err(Unknown::NoKey));
        assert_eq!(who(&Callers::default(), &asking("Bearer x"), false), Err(Unknown::Key));
    }

    #[test]
    fn replaced_callers_hold_at_once_and_removing_all_does_not_open_a_public_listener() {
        let callers = two();
        callers.replace([(caller("three"), "key-3".into())]);
        assert_eq!(who(&callers, &asking("Bearer key-1"), false), Err(Unknown::Key));
        assert_eq!(who(&callers, &asking("Bearer key-3"), false), Ok("three".into()));
        callers.replace([]);
        assert_eq!(who(&callers, &HeaderMap::new(), false), Err(Unknown::NoKey));
    }

    #[test]
    fn a_public_address_without_callers_is_refused() {
        let check = |address: &str, callers: &Callers| check_exposure(address.parse().unwrap(), callers).is_ok();
        for loopback in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert!(check(loopback, &Callers::default()), "{loopback}");
        }
        for public in ["0.0.0.0", "::", "192.168.1.4", "2001:db8::1", "::ffff:10.0.0.1"] {
            assert!(!check(public, &Callers::default()), "{public}");
            assert!(check(public, &two()), "{public}");
        }
    }

    #[test]
    fn keys_are_not_printed() {
        assert_eq!(format!("{:?}", two()), r#"["one", "two"]"#);
    }
}
