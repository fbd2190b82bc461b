//! What the key `sql:` of a tool may hold, as written.
//!
//! The URL of the database may carry a login; [`DatabaseUrl`] keeps it out of every print, error and
//! schema. Nothing here is checked beyond its type: [`super::build`] does that, with all problems at once.

use std::collections::BTreeMap;
use std::fmt;

use reach_core::Effect;
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use super::classify::{self, Access};
use super::place::{self, Place};
use super::statement::Statement;

/// One statement on one database.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where the database is: `sqlite://stock.db` (relative to the folder of reach.yaml, or absolute),
    /// `postgres://host/db`, `mysql://host/db`, `mariadb://host/db`. May hold a login and, for servers,
    /// `?sslmode=disable|prefer|require|verify-full` and `&sslrootcert=FILE`.
    pub database: DatabaseUrl,
    /// One `select`, `insert`, `update`, `delete`, `merge` or `call`. `:name` stands for the value of the
    /// argument `name`, always bound and never spliced; `{name}` for one of the `identifiers`.
    pub statement: String,
    /// For each `{name}` of the statement, the values its argument may have and the column, table or
    /// schema each stands for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub identifiers: BTreeMap<String, Choices>,
    /// The name of a `basic` credential to log in with, instead of a login in the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// Rows shown at most; a result that has more says so with `more: true`.
    #[serde(default = "max_rows")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_rows: usize,
    /// Bytes of result taken at most; a larger result is an error.
    #[serde(default = "max_bytes")]
    #[schemars(range(min = 1024))]
    pub max_bytes: usize,
    /// Connections of this tool at most.
    #[serde(default = "pool_size")]
    #[schemars(range(min = 1, max = 1000))]
    pub pool_size: usize,
}

fn max_rows() -> usize {
    200
}

fn max_bytes() -> usize {
    1024 * 1024
}

fn pool_size() -> usize {
    4
}

impl Config {
    /// The effect of a tool that does not declare one: `read` for a statement that only reads, else `write`.
    pub fn default_effect(&self) -> Effect {
        let Ok(place) = Place::parse(self.database.expose(), std::path::Path::new("")) else { return Effect::Write };
        let dialect = place.dialect();
        let scanned = Statement::parse(&self.statement, dialect, &self.identifiers);
        match classify::classify(&scanned.statement.render_first(&self.identifiers), dialect) {
            Ok(Access::Reads) => Effect::Read,
            Ok(Access::Writes) | Err(_) => Effect::Write,
        }
    }

    /// The name of the credential to resolve for each attempt.
    pub fn credential(&self) -> Option<&str> {
        self.credential.as_deref()
    }
}

/// The values an identifier's argument may have: a list where each stands for itself, or a map from value
/// to identifier. A dot in an identifier separates schema, table and column; each part is quoted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Choices {
    /// `[created_at, total]`
    List(Vec<String>),
    /// `{newest: orders.created_at, dearest: orders.total}`
    Map(BTreeMap<String, String>),
}

impl Choices {
    /// Value and identifier.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let (list, map) = match self {
            Choices::List(list) => (Some(list), None),
            Choices::Map(map) => (None, Some(map)),
        };
        list.into_iter()
            .flatten()
            .map(|name| (name.as_str(), name.as_str()))
            .chain(map.into_iter().flatten().map(|(value, name)| (value.as_str(), name.as_str())))
    }
}

/// The URL of a database. Prints, and serialises, without its login.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct DatabaseUrl(SecretString);

impl DatabaseUrl {
    pub(super) fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<String> for DatabaseUrl {
    fn from(url: String) -> Self {
        Self(url.into())
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&place::without_login(self.expose()))
    }
}

impl Serialize for DatabaseUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&place::without_login(self.expose()))
    }
}

impl JsonSchema for DatabaseUrl {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DatabaseUrl".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^(sqlite|postgres|postgresql|mysql|mariadb):"
        })
    }
}
