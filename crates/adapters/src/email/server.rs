//! The mail server, from the URL of the declaration.
//!
//! Everything that would send a password or a mail in the clear over a network is a problem here, before
//! anything is connected. The URL itself never appears in a problem: it may hold the password.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use reach_core::{Problem, nearest};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use secrecy::SecretString;
use url::{Host, Url};

/// Where mails are handed over, and how.
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: Tls,
    pub(super) login: Option<Login>,
}

/// How the connection is protected.
pub(super) enum Tls {
    /// Not at all; the host is this machine.
    Plain,
    /// From the first byte.
    Implicit(Trust),
    /// After `STARTTLS`, without which nothing is said.
    Upgrade(Trust),
}

/// Whom we take the server to be, and whose word we take for it.
pub(super) struct Trust {
    pub(super) name: ServerName<'static>,
    pub(super) config: Arc<ClientConfig>,
}

/// The login of the URL.
pub(super) struct Login {
    pub(super) username: String,
    /// Absent where the URL names a user only, whose token a `bearer` credential brings.
    pub(super) password: Option<SecretString>,
}

impl Server {
    /// Reads the URL; every problem at once, all at `/smtp`.
    pub(super) fn parse(text: &str, base: &Path) -> Result<Self, Vec<Problem>> {
        let problem = |message: &str, fix: &str| Problem::new("/smtp", message, fix);
        let example = "write smtps://user:password@host or smtp://user:password@host, with characters such as `@` \
                       or `/` of the password percent-encoded";
        let url = match Url::parse(text) {
            Ok(url) if matches!(url.scheme(), "smtp" | "smtps") => url,
            _ => return Err(vec![problem("this is no URL of a mail server", example)]),
        };
        let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
            return Err(vec![problem("the URL names no host", example)]);
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let mut problems = Vec::new();
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            problems.push(problem("the URL has a path", example));
        }
        let implicit = url.scheme() == "smtps";
        let (mut tls, mut ca) = (None, None);
        for (key, value) in url.query_pairs() {
            match key.as_ref() {
                "tls" => tls = Some(value.into_owned()),
                "ca" => ca = Some(value.into_owned()),
                other => problems.push(problem(
                    &format!("the URL has an unknown parameter `{other}`"),
                    &match nearest::nearest(other, ["tls", "ca"], 1).first() {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => "use `tls` and `ca` only".to_owned(),
                    },
                )),
            }
        }
        let loopback = is_loopback(&host);
        let default = match (implicit, loopback) {
            (true, _) => "implicit",
            (false, true) => "none",
            (false, false) => "starttls",
        };
        let wanted = tls.as_deref().unwrap_or(default);
        match (wanted, implicit, loopback) {
            ("implicit" | "starttls", false, _) | ("implicit", true, _) | ("none", false, true) => {}
            ("starttls" | "none", true, _) => problems.push(problem(
                &format!("smtps:// and tls={wanted} contradict each other"),
                "write smtp:// for STARTTLS, or leave tls out",
            )),
            ("none", false, false) => problems.push(problem(
                "without TLS everybody on the way could read the mails and the password",
                "leave tls=none out; it is for 127.0.0.1, ::1 and localhost only",
            )),
            _ => problems.push(problem("the URL has an unknown value of tls", "use starttls, implicit or none")),
        }
        let trust = match trust(&host, ca.as_deref(), base) {
            Ok(trust) => Some(trust),
            Err(found) => {
                problems.push(found);
                None
            }
        };
        let login = match login(&url) {
            Ok(login) => login,
            Err(found) => {
                problems.push(found);
                None
            }
        };
        let Some(trust) = trust.filter(|_| problems.is_empty()) else { return Err(problems) };
        let tls = match wanted {
            "implicit" => Tls::Implicit(trust),
            "starttls" => Tls::Upgrade(trust),
            _ => Tls::Plain,
        };
        Ok(Self { host, port: url.port().unwrap_or(if implicit { 465 } else { 587 }), tls, login })
    }

    /// The upstream's name, without secrets.
    pub(super) fn target(&self) -> String {
        if self.host.contains(':') {
            format!("smtp://[{}]:{}", self.host, self.port)
        } else {
            format!("smtp://{}:{}", self.host, self.port)
        }
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn login(url: &Url) -> Result<Option<Login>, Problem> {
    let decode = |text: &str| {
        let bytes: Vec<u8> = percent_encoding::percent_decode_str(text).collect();
        String::from_utf8(bytes).ok().filter(|text| !text.contains(['\0', '\r', '\n'])).ok_or_else(|| {
            Problem::new("/smtp", "the login in the URL is not plain text", "percent-encode its characters as UTF-8")
        })
    };
    if url.username().is_empty() {
        return match url.password() {
            None => Ok(None),
            Some(_) => Err(Problem::new("/smtp", "the URL has a password without a user name", "write user:password@")),
        };
    }
    let password = url.password().map(decode).transpose()?.map(SecretString::from);
    Ok(Some(Login { username: decode(url.username())?, password }))
}

fn trust(host: &str, ca: Option<&str>, base: &Path) -> Result<Trust, Problem> {
    let problem = |message: String, fix: &str| Problem::new("/smtp", message, fix);
    let mut roots = RootCertStore::empty();
    match ca {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            let path = base.join(file);
            let pem = std::fs::read(&path).map_err(|error| {
                problem(format!("the file of ca= cannot be read: {}", error.kind()), "correct the path")
            })?;
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let added = certificate.ok().and_then(|certificate| roots.add(certificate).ok());
                added.ok_or_else(|| {
                    problem(
                        "the file of ca= holds a broken certificate".to_owned(),
                        "use a PEM file of CA certificates",
                    )
                })?;
            }
            if roots.is_empty() {
                let message = "the file of ca= holds no certificate".to_owned();
                return Err(problem(message, "use a PEM file of CA certificates"));
            }
        }
    }
    let name = match Host::parse(host) {
        Ok(Host::Domain(name)) => ServerName::try_from(name).ok(),
        Ok(Host::Ipv4(address)) => Some(ServerName::from(IpAddr::V4(address))),
        Ok(Host::Ipv6(_)) | Err(_) => host.parse::<IpAddr>().ok().map(ServerName::from),
    };
    let name = name.ok_or_else(|| problem("the host of the URL is no usable name".to_owned(), "correct the host"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| problem(format!("TLS cannot be set up: {error}"), "report this as a defect"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Trust { name, config: Arc::new(config) })
}
