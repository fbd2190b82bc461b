//! Where a database is: its URL taken apart once.
//!
//! The login is kept apart from the address, so that nothing that prints an address can print it. The
//! parameters understood are few and the same for both kinds of server; an unknown one is refused, because
//! a misspelt `sslmode` must not quietly mean none.

use std::path::{Path, PathBuf};

use reach_core::{Problem, nearest};
use secrecy::SecretString;
use url::Url;

use super::statement::Dialect;

/// A parsed database URL.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A file.
    Sqlite {
        /// As written: what people are shown.
        shown: String,
        /// Where it is.
        file: PathBuf,
    },
    /// A PostgreSQL server.
    Postgres(Server),
    /// A MySQL or MariaDB server.
    MySql(Server),
}

/// A database on a server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    /// A folder (PostgreSQL) or file (MySQL) of a Unix socket, instead of host and port.
    pub(super) socket: Option<String>,
    pub(super) database: Option<String>,
    pub(super) login: Login,
    pub(super) encryption: Encryption,
    /// More certificate authorities to trust.
    pub(super) roots: Option<PathBuf>,
}

/// Who we say we are.
#[derive(Clone, Debug, Default)]
pub(super) struct Login {
    pub(super) username: Option<String>,
    pub(super) password: Option<SecretString>,
}

/// How the connection is encrypted, in the words of `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    /// Never.
    Disable,
    /// Where the server offers it; its certificate is not checked. The default.
    Prefer,
    /// Always; its certificate is checked only against an `sslrootcert`.
    Require,
    /// Always, with certificate and name checked.
    VerifyFull,
}

impl Place {
    /// Takes a URL apart. Problems never repeat the URL: it may hold a password.
    pub(super) fn parse(text: &str, base: &Path) -> Result<Self, Vec<Problem>> {
        let problem = |message: &str, fix: &str| vec![Problem::new("/database", message, fix)];
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(problem("this is no database URL", "write `sqlite://stock.db` or `postgres://host/db`"));
        };
        match scheme {
            "sqlite" => sqlite(rest.strip_prefix("//").unwrap_or(rest), base),
            "postgres" | "postgresql" => server(text, 5432, base).map(Place::Postgres),
            "mysql" | "mariadb" => server(text, 3306, base).map(Place::MySql),
            other => {
                let known = ["sqlite", "postgres", "postgresql", "mysql", "mariadb"];
                let fix = match nearest::nearest(other, known, 1).first() {
                    Some(near) => format!("did you mean `{near}://`?"),
                    None => "use sqlite://, postgres://, mysql:// or mariadb://".to_owned(),
                };
                Err(problem("no database is known by the scheme of this URL", &fix))
            }
        }
    }

    /// How its SQL is written.
    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Place::Sqlite { .. } => Dialect::Sqlite,
            Place::Postgres(_) => Dialect::Postgres,
            Place::MySql(_) => Dialect::MySql,
        }
    }

    /// The upstream as breakers and people name it.
    pub(super) fn target(&self) -> String {
        match self {
            Place::Sqlite { shown, .. } => format!("sqlite:{shown}"),
            Place::Postgres(server) => format!("postgres://{}", server.address()),
            Place::MySql(server) => format!("mysql://{}", server.address()),
        }
    }
}

impl Server {
    fn address(&self) -> String {
        let database = self.database.as_deref().unwrap_or_default();
        match &self.socket {
            Some(_) => format!("socket/{database}"),
            None => format!("{}:{}/{database}", self.host, self.port),
        }
    }
}

fn sqlite(path: &str, base: &Path) -> Result<Place, Vec<Problem>> {
    let problem = |message: &str, fix: &str| Err(vec![Problem::new("/database", message, fix)]);
    if path.is_empty() || path.contains(":memory:") {
        return problem("a SQLite tool needs a file: what is in memory is gone with its connection", "name a file");
    }
    if path.contains(['?', '#', '\0']) {
        return problem("a SQLite URL is a path and nothing else", "remove everything from `?` on");
    }
    Ok(Place::Sqlite { shown: path.to_owned(), file: base.join(path) })
}

fn server(text: &str, default_port: u16, base: &Path) -> Result<Server, Vec<Problem>> {
    let Ok(url) = Url::parse(text) else {
        return Err(vec![Problem::new(
            "/database",
            "this URL cannot be read",
            "write scheme://user:password@host:port/database, with `@`, `/` and `:` inside a password as %40, %2F, %3A",
        )]);
    };
    let mut problems = Vec::new();
    let mut found = Server {
        host: url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned(),
        port: url.port().unwrap_or(default_port),
        socket: None,
        database: Some(decode(url.path().trim_start_matches('/'))).filter(|name| !name.is_empty()),
        login: Login {
            username: Some(decode(url.username())).filter(|name| !name.is_empty()),
            password: url.password().map(|password| decode(password).into()),
        },
        encryption: Encryption::Prefer,
        roots: None,
    };
    for (name, value) in url.query_pairs() {
        match name.as_ref() {
            "sslmode" | "ssl-mode" => match value.to_lowercase().replace('_', "-").as_str() {
                "disable" | "disabled" => found.encryption = Encryption::Disable,
                "prefer" | "preferred" | "allow" => found.encryption = Encryption::Prefer,
                "require" | "required" => found.encryption = Encryption::Require,
                "verify-full" | "verify-ca" | "verify-identity" => found.encryption = Encryption::VerifyFull,
                _ => problems.push(Problem::new(
                    "/database",
                    "this sslmode is not known",
                    "use disable, prefer, require or verify-full",
                )),
            },
            "sslrootcert" | "ssl-ca" => found.roots = Some(base.join(value.as_ref())),
            "host" | "socket" if value.starts_with('/') => found.socket = Some(value.into_owned()),
            unknown => {
                let fix = match nearest::nearest(unknown, ["sslmode", "sslrootcert", "host", "socket"], 1).first() {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "remove it: sslmode, sslrootcert and socket are known".to_owned(),
                };
                problems.push(Problem::new("/database", "a parameter of this URL is not known", fix));
            }
        }
    }
    if found.host.is_empty() && found.socket.is_none() {
        problems.push(Problem::new("/database", "this URL names no host", "write the host after `//`"));
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// Percent-decodes; what is no UTF-8 afterwards stays as written.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        match hex.and_then(|pair| std::str::from_utf8(pair).ok()).and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

/// A URL as it may be shown: no user, no password, no parameters.
pub(super) fn without_login(text: &str) -> String {
    match Place::parse(text, Path::new("")) {
        Ok(place) => place.target(),
        Err(_) => "(a database URL that cannot be read)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn target(url: &str) -> String {
        Place::parse(url, Path::new("/etc/reach")).unwrap().target()
    }

    #[test]
    fn targets_name_the_database_and_never_the_login() {
        assert_eq!(target("sqlite://stock.db"), "sqlite:stock.db");
        assert_eq!(
            target("postgresql://bob:hunter2@db.internal/shop?sslmode=require"),
            "postgres://db.internal:5432/shop"
        );
        assert_eq!(target("mariadb://bob:hunter2@[::1]:3307/shop"), "mysql://::1:3307/shop");
        assert_eq!(target("postgres:///shop?host=/run/postgresql"), "postgres://socket/shop");
    }

    #[test]
    fn a_login_is_decoded_and_the_modes_of_encryption_are_understood() {
        let Ok(Place::Postgres(server)) =
            Place::parse("postgres://b%40b:p%2Fw@h/d?sslmode=verify-full&sslrootcert=ca.pem", Path::new("/base"))
        else {
            panic!("a PostgreSQL place");
        };
        assert_eq!(server.login.username.as_deref(), Some("b@b"));
        assert_eq!(server.login.password.unwrap().expose_secret(), "p/w");
        assert_eq!(server.encryption, Encryption::VerifyFull);
        assert_eq!(server.roots.unwrap(), Path::new("/base/ca.pem"));
    }

    #[test]
    fn a_bad_url_is_explained_without_repeating_it() {
        for url in
            ["oracle://u:hunter2@h/d", "postgres://u:hunter2@h/d?sslmod=require", "mysql://u:hunter2@:x/", "hunter2"]
        {
            let problems = Place::parse(url, Path::new("")).unwrap_err();
            assert!(!problems.is_empty());
            assert!(problems.iter().all(|problem| !format!("{problem:?}").contains("hunter2")), "{problems:?}");
        }
        let problems = Place::parse("postgres://h/d?sslmod=require", Path::new("")).unwrap_err();
        assert_eq!(problems[0].fix, "did you mean `sslmode`?");
    }
}
