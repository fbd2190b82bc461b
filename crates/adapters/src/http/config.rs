//! What the key `http:` of a tool may hold. Shape only: meaning is checked by [`super::build`], which
//! reports every problem of a declaration at once.

use std::collections::BTreeMap;

use reach_core::{Effect, Object};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the key `http:` of a tool may hold.
///
/// Every text below is a template: `{argument}` stands for the value of that argument, `{{` and `}}` for
/// literal braces. Arguments that no template uses go into the JSON body of POST, PUT and PATCH, and
/// into the query of the other methods.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The method of the request.
    #[serde(default)]
    pub method: Method,

    /// Where the request goes, such as `https://orders.internal/v1/orders/{order_id}`. Placeholders may
    /// stand in path segments and in query values only; each value is encoded for its place.
    pub url: String,

    /// Query parameters, added to those of `url`. A parameter whose argument is absent or null is left
    /// out; a list becomes one parameter per item.
    #[serde(default)]
    pub query: BTreeMap<String, Scalar>,

    /// Request headers. A header whose argument is absent or null is left out. A value with a line
    /// break, a control character or anything beyond ASCII is refused.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,

    /// How arguments become the body. Default: for POST, PUT and PATCH a JSON object of all arguments
    /// that are not used elsewhere; for the other methods none.
    #[serde(default)]
    pub body: Option<Body>,

    /// What the answer has to be. Default: JSON, except that an answer that declares a binary type
    /// (`application/pdf`, `image/png`) is handed on as what it is.
    #[serde(default)]
    pub expect: Option<Expect>,

    /// Keeps parts of a JSON answer: the name in the result -> a JSON pointer into the answer, such as
    /// `status: /shipment/status`. A part that the answer does not have is left out.
    #[serde(default)]
    pub pick: BTreeMap<String, String>,

    /// Reshapes a JSON answer by a JMESPath expression, such as `items[].{id: id, price: price.amount}`.
    #[serde(default)]
    pub select: Option<String>,

    /// A JMESPath expression that is `true` for a 2xx answer that really is a success, such as
    /// `errcode == 0`. For any other the call fails with `UPSTREAM_REJECTED` and the answer's own words.
    #[serde(default)]
    pub success_when: Option<String>,

    /// How many redirects may be followed: 0 to 5. Each hop is checked again; credentials and declared
    /// headers stay with the origin they were meant for.
    #[serde(default)]
    #[schemars(range(max = 5))]
    pub follow_redirects: u8,

    /// The most bytes an answer may have, as sent and again once decompressed. Default 4 MiB.
    #[serde(default = "max_response_bytes")]
    #[schemars(range(min = 1, max = 268_435_456))]
    pub max_response_bytes: u64,

    /// The name of the credential to send, one of `credentials`.
    #[serde(default)]
    pub credential: Option<String>,

    /// The header that carries the idempotency key of a tool with `effect: keyed`. Default
    /// `Idempotency-Key`.
    #[serde(default)]
    pub idempotency_header: Option<String>,

    /// How long resolving, connecting and the TLS handshake may take together. Default 5000; never more
    /// than half of the tool's `timeout_ms`, so that a dead host is known as not sent.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub connect_timeout_ms: Option<u64>,
}

fn max_response_bytes() -> u64 {
    4 * 1024 * 1024
}

impl Config {
    /// The effect of a tool that does not declare one: HTTP's safe methods read, the others write.
    pub fn default_effect(&self) -> Effect {
        match self.method {
            Method::Get | Method::Head => Effect::Read,
            Method::Post | Method::Put | Method::Patch | Method::Delete | Method::Options => Effect::Write,
        }
    }
}

/// A request method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the names are HTTP's own")]
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

impl Method {
    /// Whether arguments that no template uses travel in a JSON body.
    pub(crate) fn has_body(self) -> bool {
        matches!(self, Method::Post | Method::Put | Method::Patch)
    }

    pub(crate) fn to_http(self) -> http::Method {
        match self {
            Method::Get => http::Method::GET,
            Method::Head => http::Method::HEAD,
            Method::Post => http::Method::POST,
            Method::Put => http::Method::PUT,
            Method::Patch => http::Method::PATCH,
            Method::Delete => http::Method::DELETE,
            Method::Options => http::Method::OPTIONS,
        }
    }
}

/// The value of a query parameter.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "expected text (a template), a number, true or false")]
pub enum Scalar {
    /// A template.
    Text(String),
    /// A fixed number.
    Number(serde_json::Number),
    /// A fixed truth value.
    Flag(bool),
}

/// How arguments become the body of the request.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// The encoding. Default `json`.
    #[serde(default)]
    pub kind: BodyKind,

    /// For `json`, `form` and `multipart`: the names in the body -> their values. Text is a template; one
    /// that is a single placeholder keeps the argument's type (and null), and a field whose argument is
    /// absent is left out. In JSON, objects and lists may be nested, and any other value is sent as
    /// written. In multipart, `{content: ..., filename: ..., media_type: ...}` makes a file part.
    #[serde(default)]
    pub fields: Option<Object>,

    /// For `json`: the one argument that is the whole body.
    #[serde(default)]
    pub argument: Option<String>,

    /// For `text`: the body.
    #[serde(default)]
    pub template: Option<String>,
}

/// The encoding of a request body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BodyKind {
    /// `application/json`.
    #[default]
    Json,
    /// `application/x-www-form-urlencoded`.
    Form,
    /// `multipart/form-data`.
    Multipart,
    /// `text/plain; charset=utf-8`, unless `headers` names another type.
    Text,
    /// No body.
    None,
}

impl BodyKind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            BodyKind::Json => "json",
            BodyKind::Form => "form",
            BodyKind::Multipart => "multipart",
            BodyKind::Text => "text",
            BodyKind::None => "none",
        }
    }
}

/// What an answer has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// JSON, whatever type it declares. Anything else is a fault of the upstream.
    Json,
    /// Text, handed on as it is.
    Text,
    /// JSON where it says or shows that it is JSON, else text, else bytes.
    Any,
}
