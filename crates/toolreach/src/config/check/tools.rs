//! Tools: ids, schemas, and the adapter behind each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reach_adapters::shared::Declared;
use reach_adapters::{email, file, http, script, sql};
use reach_core::arguments::{ArgumentCheck, Schema};
use reach_core::ids::ToolIdError;
use reach_core::tool::Shape;
use reach_core::{Adapter, Credential, Effect, Problem, ToolId, ToolSpec, scope};
use serde_json::{Value, json};

use super::callers::rate;
use super::upstreams::breaker_order;
use super::{Draft, Finding, nearest_or_all, quoted};
use crate::config::schema::ADAPTERS;
use crate::config::sections;
use crate::config::tree::Data;

/// Tools that are always there; nobody may declare one of this name.
const BUILT_IN: [&str; 1] = ["read_result"];

/// Adapters that log in, and can use nothing but a user name with a password.
const LOGINS: [&str; 2] = ["sql", "email"];

/// Every id that is declared and may be referred to, in the form under which ids collide, and its tool.
pub(super) type Ids = BTreeMap<String, Declaration>;

/// A declared id, whether or not its tool is sound.
#[derive(Clone, Debug)]
pub(super) struct Declaration {
    /// The id as written.
    pub(super) id: String,
    /// `/tools/3`.
    pub(super) pointer: String,
}

/// A tool that is sound by itself; its adapter may not be.
pub(super) struct Checked {
    /// `/tools/3`.
    pub(super) pointer: String,
    /// What the road knows of it; fallback and verify still to be added.
    pub(super) spec: ToolSpec,
    /// The tool, if its adapter could be built as well.
    pub(super) declared: Option<reach_engine::Declared>,
    /// The fallback as written.
    pub(super) fallback: Option<sections::Fallback>,
    /// The verification as written.
    pub(super) verify: Option<sections::Verify>,
}

/// Collects the ids, of unsound tools too; reports bad, reserved and colliding ones.
pub(super) fn ids(draft: &mut Draft<'_>) -> Ids {
    let mut ids = Ids::new();
    let Some(Data::List(items)) = draft.root.entry("tools").map(|entry| &entry.node.data) else { return ids };
    for (index, item) in items.iter().enumerate() {
        let pointer = format!("/tools/{index}");
        let Some(id) = item.entry("tool_id").and_then(|entry| entry.node.text()) else { continue };
        let id_pointer = format!("{pointer}/tool_id");
        let folded = match ToolId::parse(id) {
            Ok(tool_id) => tool_id.folded(),
            Err(error) => {
                let fix = match error {
                    ToolIdError::TooLong => "shorten it".to_owned(),
                    ToolIdError::Empty | ToolIdError::Character(_) => format!("write {} instead", quoted(&mended(id))),
                };
                draft.add(id_pointer, error.to_string(), fix);
                continue;
            }
        };
        if BUILT_IN.contains(&folded.as_str()) {
            draft.add(id_pointer, format!("{} is a built-in tool", quoted(id)), "give this tool another id");
            continue;
        }
        if let Some(first) = ids.get(&folded) {
            let place = draft.line(&format!("{}/tool_id", first.pointer));
            let message = if first.id == id {
                format!("the tool {} is declared twice, first on {place}", quoted(id))
            } else {
                format!("the tool id {} differs from {} on {place} only in case", quoted(id), quoted(&first.id))
            };
            draft.add(id_pointer, message, "give one of them another id");
            continue;
        }
        ids.insert(folded, Declaration { id: id.to_owned(), pointer });
    }
    ids
}

/// An id like the one that was written, in the alphabet of ids.
fn mended(id: &str) -> String {
    let mended: String = id
        .trim()
        .chars()
        .take(reach_core::ids::TOOL_ID_MAX)
        .map(|c| if c.is_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '_' })
        .collect();
    if mended.is_empty() { "my_tool".to_owned() } else { mended }
}

/// Every tool that is sound by itself, adapters built where they can be.
pub(super) fn check(
    draft: &mut Draft<'_>,
    ids: &Ids,
    credentials: &BTreeMap<String, Option<Arc<Credential>>>,
) -> Vec<Checked> {
    let count = match draft.root.entry("tools").map(|entry| &entry.node.data) {
        Some(Data::List(items)) => items.len(),
        _ => 0,
    };
    (0..count)
        .filter_map(|index| {
            let pointer = format!("/tools/{index}");
            adapters_named(draft, &pointer);
            let credential = credential(draft, &pointer, credentials);
            // A wrong id is no reason not to check the rest of its tool.
            let part = draft.part::<sections::Tool>(&pointer).or_else(|| read_past_id(draft, &pointer))?;
            let is_known = ids.values().any(|declaration| declaration.pointer == pointer);
            let tool_id = if is_known { ToolId::asked(&part.tool_id) } else { ToolId::asked(mended(&part.tool_id)) };
            let mut checked = one(draft, pointer, part, tool_id, credential);
            if !is_known {
                checked.declared = None;
            }
            Some(checked)
        })
        .collect()
}

/// Reads a tool whose only trouble is its id.
fn read_past_id(draft: &mut Draft<'_>, pointer: &str) -> Option<sections::Tool> {
    let id = format!("{pointer}/tool_id");
    let aside: Vec<Finding>;
    (aside, draft.findings) =
        std::mem::take(&mut draft.findings).into_iter().partition(|finding| finding.problem.pointer == id);
    let part = if aside.is_empty() || draft.root.at(&id)?.text().is_none() { None } else { draft.part(pointer) };
    draft.findings.extend(aside);
    part
}

/// Exactly one adapter a tool.
fn adapters_named(draft: &mut Draft<'_>, pointer: &str) {
    let Some(node) = draft.root.at(pointer) else { return };
    let Data::Map(entries) = &node.data else { return };
    let named: Vec<&str> =
        entries.iter().map(|entry| entry.key.as_str()).filter(|key| ADAPTERS.contains(key)).collect();
    let list = ADAPTERS.map(|adapter| format!("`{adapter}`")).join(", ");
    match named.as_slice() {
        [_] => {}
        [] => {
            let near = entries.iter().any(|entry| {
                !draft.is_sound(&format!("{pointer}/{}", crate::config::tree::escape(&entry.key)))
                    && (reach_core::nearest::nearest(&entry.key, ADAPTERS, 1).len() == 1
                        || ["mcp", "openapi"].contains(&entry.key.as_str()))
            });
            // A misspelt adapter was already named.
            if !near {
                draft.add(pointer, "this tool does not say what stands behind it", format!("add one of {list}"));
            }
        }
        [first, second, ..] => draft.add(
            format!("{pointer}/{second}"),
            format!("this tool has both `{first}` and `{second}`"),
            format!("keep one of {list}; declare a second tool for the other, as its `fallback` perhaps"),
        ),
    }
}

/// Whether an adapter that logs in can do so with this credential: a database by name and password, a mail
/// server by a token, too.
fn can_log_in(adapter: &str, credential: &Credential) -> bool {
    match credential {
        Credential::Basic { .. } => true,
        Credential::Bearer(_) => adapter != "sql",
        Credential::ApiKey { .. } => !LOGINS.contains(&adapter),
    }
}

/// The credential that the adapter's part names; `None` if it names none or a wrong one.
fn credential(
    draft: &mut Draft<'_>,
    pointer: &str,
    credentials: &BTreeMap<String, Option<Arc<Credential>>>,
) -> Option<Arc<Credential>> {
    let mut found = None;
    for adapter in ADAPTERS {
        let pointer = format!("{pointer}/{adapter}/credential");
        let Some(name) = draft.root.at(&pointer).and_then(|node| node.text()) else { continue };
        match credentials.get(name) {
            Some(Some(credential)) if !can_log_in(adapter, credential) => {
                let message =
                    format!("the credential {} is no login: `{adapter}` needs a name and a password", quoted(name));
                draft.add(pointer, message, "declare one of kind `basic`");
            }
            Some(credential) => found = credential.clone(),
            None => {
                let nothing = "declare it under `credentials`";
                let fix = nearest_or_all(name, credentials.keys().map(String::as_str), nothing);
                draft.add(pointer, format!("no credential is called {}", quoted(name)), fix);
            }
        }
    }
    found
}

fn one(
    draft: &mut Draft<'_>,
    pointer: String,
    part: sections::Tool,
    tool_id: ToolId,
    credential: Option<Arc<Credential>>,
) -> Checked {
    let input_schema = part.input_schema.map_or_else(|| json!({"type": "object", "properties": {}}), Value::Object);
    let output_schema = part.output_schema.map(Value::Object);
    let default_effect = [
        part.http.as_ref().map(http::Config::default_effect),
        part.sql.as_ref().map(sql::Config::default_effect),
        part.script.as_ref().map(script::Config::default_effect),
        part.email.as_ref().map(email::Config::default_effect),
        part.file.as_ref().map(file::Config::default_effect),
    ]
    .into_iter()
    .flatten()
    .next();
    let effect = part.effect.map(Effect::from).or(default_effect).unwrap_or(Effect::Write);
    let timeout = Duration::from_millis(part.timeout_ms);

    let check = schemas(draft, &pointer, &input_schema, output_schema.as_ref(), part.coerce);
    if let Some(auth) = &part.auth
        && (!scope::is_pattern(&auth.scope) || auth.scope.contains('*'))
    {
        draft.add(
            format!("{pointer}/auth/scope"),
            "this scope is not well-formed",
            "write parts between colons and no `*`: `order:read`",
        );
    }
    if part.attempt_timeout_ms.is_some_and(|attempt| attempt > part.timeout_ms) {
        draft.add(
            format!("{pointer}/attempt_timeout_ms"),
            format!("an attempt may take longer than the whole call ({})", part.timeout_ms),
            "lower `attempt_timeout_ms` or raise `timeout_ms`",
        );
    }
    if part.server_error.is_some() && effect != Effect::Write {
        draft.add(
            format!("{pointer}/server_error"),
            format!("`server_error` means nothing for a tool of effect `{}`", effect.as_str()),
            "take it out: it is for tools with `effect: write`",
        );
    }
    if part.verify.is_some() && effect.is_repeatable() {
        draft.add(
            format!("{pointer}/verify"),
            format!("`verify` means nothing for a tool of effect `{}`: its outcome is never unknown", effect.as_str()),
            "take it out: it is for tools with `effect: write` or `keyed`",
        );
    }
    if let Some(breaker) = part.breaker {
        breaker_order(draft, &format!("{pointer}/breaker"), breaker);
    }

    let spec = ToolSpec {
        name: part.name.unwrap_or_else(|| part.tool_id.clone()),
        tool_id: tool_id.clone(),
        description: part.description,
        use_when: part.use_when,
        input_schema,
        output_schema,
        scope: part.auth.map(|auth| auth.scope),
        effect,
        timeout,
        attempt_timeout: part.attempt_timeout_ms.map(Duration::from_millis),
        coerce: part.coerce,
        fallback: None,
        max_result_length: part.max_result_length,
        shape: part.shape.into(),
        rate: part.rate.map(rate),
        breaker: part.breaker.map(Into::into),
        server_error_means_not_done: part.server_error == Some(sections::ServerError::NotDone),
        verify: None,
    };
    let declared = Declared { tool_id: &tool_id, input_schema: &spec.input_schema, effect, timeout, base: draft.base };
    let mut adapter = None;
    let mut built = |key: &str, result: Option<Result<Arc<dyn Adapter>, Vec<Problem>>>| match result {
        None => {}
        Some(Ok(body)) => adapter = Some(body),
        Some(Err(problems)) if problems.is_empty() => draft.add(
            format!("{pointer}/{key}"),
            format!("the `{key}` adapter cannot be built from this, and does not say why"),
            "please report this as a defect",
        ),
        Some(Err(problems)) => draft.add_under(&format!("{pointer}/{key}"), problems),
    };
    built("http", part.http.map(|config| http::build(config, &declared)));
    built("sql", part.sql.map(|config| sql::build(config, &declared)));
    built("script", part.script.map(|config| script::build(config, &declared)));
    built("email", part.email.map(|config| email::build(config, &declared)));
    built("file", part.file.map(|config| file::build(config, &declared)));
    let declared = adapter.map(|adapter| reach_engine::Declared { spec: spec.clone(), adapter, credential, check });
    Checked { pointer, spec, declared, fallback: part.fallback, verify: part.verify }
}

/// Both schemas compile; that of the arguments is one of an object, and is handed on compiled.
fn schemas(
    draft: &mut Draft<'_>,
    pointer: &str,
    input: &Value,
    output: Option<&Value>,
    coerce: bool,
) -> Option<Arc<ArgumentCheck>> {
    let under = format!("{pointer}/input_schema");
    let check = match ArgumentCheck::compile(input, coerce) {
        Ok(check) => Some(Arc::new(check)),
        Err(problems) => {
            draft.add_under(&under, problems);
            None
        }
    };
    if check.is_some() && input.get("type") != Some(&json!("object")) {
        draft.add(under, "`input_schema` is no schema of an object", "write `type: object` in it");
    }
    if let Some(Err(problems)) = output.map(Schema::compile) {
        draft.add_under(&format!("{pointer}/output_schema"), problems);
    }
    check
}

impl From<sections::Effect> for Effect {
    fn from(part: sections::Effect) -> Self {
        match part {
            sections::Effect::Read => Effect::Read,
            sections::Effect::Idempotent => Effect::Idempotent,
            sections::Effect::Keyed => Effect::Keyed,
            sections::Effect::Write => Effect::Write,
        }
    }
}

impl From<sections::Shape> for Shape {
    fn from(part: sections::Shape) -> Self {
        match part {
            sections::Shape::Clip => Shape::Clip,
            sections::Shape::Extract => Shape::Extract,
        }
    }
}
