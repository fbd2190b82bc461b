//! What the key `file:` may hold, and its check: every problem at once, each field where it has an effect
//! and nowhere else.

use std::path::PathBuf;

use encoding_rs::{Encoding, UTF_8};
use reach_core::{Effect, Object, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Error;
use super::glob::Globs;
use super::list::List;
use super::path::{self, PathTemplate};
use super::read::Read;
use super::search::Search;
use super::write::{Append, Content, Write};
use crate::shared::Declared;
use crate::shared::template::Template;

/// Bytes of a file that are read, or of a content that is written, when a tool does not say.
const MAX_BYTES: u64 = 1 << 20;
/// Entries listed when a tool does not say.
const MAX_ENTRIES: usize = 200;
/// Hits shown when a tool does not say.
const MAX_HITS: usize = 10;

/// What the key `file:` of a tool may hold.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The folder of this tool, relative to the folder of `reach.yaml`. Nothing outside it can be reached,
    /// whatever the arguments say and whatever links lie in it.
    pub root: String,
    /// The one thing this tool does there.
    pub operation: Operation,
    /// The file (or folder, for `list` and `search`) below `root`, with `{argument}` placeholders. A value
    /// may hold `/` only where it ends the path and begins a name (`{path}`, `docs/{path}`). Default:
    /// `{path}` if the tool has an argument `path`; for `list` and `search` else the whole root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `write`, `append`: the text, with placeholders. Default: `{content}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// `search`: the question, with placeholders. Default: `{query}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// `read`, `search`: larger files are refused or passed over. `write`, `append`: larger contents are
    /// refused. In bytes; default 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_bytes: Option<u64>,
    /// `list`: entries shown at most; all are counted. Default 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_entries: Option<usize>,
    /// `search`: hits shown at most; all are counted. Default 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_hits: Option<usize>,
    /// `list`, `search`: files of these patterns only. `*` within a name, `**` across folders, `?` for one
    /// character; a pattern without `/` is about the name alone. Default: every file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    /// `list`: also what lies in folders below. Links are shown and not followed. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// `write`, `append`: make the folders that are missing on the way. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_directories: Option<bool>,
    /// `write`: replace a file that is there. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<bool>,
    /// The encoding of the text, by its name on the web (`utf-8`, `gb18030`, `windows-1252`). Default:
    /// UTF-8; reading also recognises byte order marks and Chinese in GB18030, and announces what is no
    /// text. Once declared, a file that is not valid in it is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}

/// What a `file` tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// The text of one file. Arguments `start_line` and `end_line`, where declared, choose lines (from 1,
    /// both included).
    Read,
    /// What lies in a folder: names, types, sizes, times.
    List,
    /// The passages of the files in a folder that answer a question best. Files and folders whose names
    /// begin with a dot are passed over.
    Search,
    /// One file, whole: the old content or the new one, never a mixture.
    Write,
    /// Text at the end of a file, which is made if it is not there.
    Append,
}

impl Operation {
    fn word(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::List => "list",
            Operation::Search => "search",
            Operation::Write => "write",
            Operation::Append => "append",
        }
    }
}

impl Config {
    /// The effect of a tool that does not declare one.
    pub fn default_effect(&self) -> Effect {
        match self.operation {
            Operation::Read | Operation::List | Operation::Search => Effect::Read,
            Operation::Write | Operation::Append => Effect::Write,
        }
    }
}

/// A declaration that holds together.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) declared_root: String,
    pub(super) root: PathBuf,
    pub(super) target: String,
    pub(super) path: PathTemplate,
    pub(super) action: Action,
}

/// The operation with its settings.
#[derive(Debug)]
pub(super) enum Action {
    Read(Read),
    List(List),
    Search(Search),
    Write(Write),
    Append(Append),
}

/// Checks a declaration, and says everything that is wrong with it.
pub(super) fn check(config: Config, declared: &Declared<'_>) -> Result<Checked, Vec<Problem>> {
    let mut problems = Vec::new();
    misplaced(&config, &mut problems);
    if config.root.trim().is_empty() {
        problems.push(Problem::new("/root", "the root is empty", "name a folder, such as `./docs`"));
    }
    if config.default_effect() == Effect::Write && declared.effect == Effect::Read {
        problems.push(Problem::new(
            "/operation",
            format!("`{}` changes files, but the tool is declared `effect: read`", config.operation.word()),
            "leave `effect` out, or declare `write` or `idempotent`",
        ));
    }
    for (pointer, value) in [
        ("/max_bytes", config.max_bytes.map(|value| value as usize)),
        ("/max_entries", config.max_entries),
        ("/max_hits", config.max_hits),
    ] {
        if value == Some(0) {
            problems.push(Problem::new(pointer, "0 lets nothing through", "use 1 or more, or leave it out"));
        }
    }
    let path = path_template(&config, declared, &mut problems);
    let encoding = config.encoding.as_deref().and_then(|label| {
        let encoding = Encoding::for_label_no_replacement(label.as_bytes());
        if encoding.is_none() {
            problems.push(Problem::new(
                "/encoding",
                format!("`{label}` is no known encoding"),
                "use a name such as `utf-8`, `gb18030` or `windows-1252`",
            ));
        }
        encoding
    });
    let include = Globs::parse(config.include.as_deref().unwrap_or_default(), &mut problems);
    let max_bytes = config.max_bytes.unwrap_or(MAX_BYTES);
    let has = |name: &str| declared.arguments().any(|known| known == name);
    let action = match config.operation {
        Operation::Read => {
            Some(Action::Read(Read { max_bytes, encoding, takes_lines: has("start_line") || has("end_line") }))
        }
        Operation::List => Some(Action::List(List {
            max_entries: config.max_entries.unwrap_or(MAX_ENTRIES),
            recursive: config.recursive.unwrap_or(false),
            include,
        })),
        Operation::Search => text_template("query", config.query.as_deref(), declared, &mut problems).map(|query| {
            Action::Search(Search {
                query,
                max_hits: config.max_hits.unwrap_or(MAX_HITS),
                max_bytes,
                encoding,
                include,
            })
        }),
        Operation::Write | Operation::Append => {
            if encoding.is_some_and(|encoding| !super::decode::can_encode(encoding)) {
                problems.push(Problem::new(
                    "/encoding",
                    "text in this encoding can be read but not written",
                    "use `utf-8`, or another encoding that is not UTF-16",
                ));
            }
            text_template("content", config.content.as_deref(), declared, &mut problems).map(|template| {
                let content = Content { template, max_bytes, encoding: encoding.unwrap_or(UTF_8) };
                let create_directories = config.create_directories.unwrap_or(false);
                match config.operation {
                    Operation::Append => Action::Append(Append { content, create_directories }),
                    _ => Action::Write(Write {
                        content,
                        create_directories,
                        overwrite: config.overwrite.unwrap_or(true),
                    }),
                }
            })
        }
    };
    match (path, action) {
        (Some(path), Some(action)) if problems.is_empty() => Ok(Checked {
            root: declared.base.join(&config.root),
            target: format!("file:{}", config.root),
            declared_root: config.root,
            path,
            action,
        }),
        _ => Err(problems),
    }
}

/// A field that this operation never looks at is a mistake, not a default.
fn misplaced(config: &Config, problems: &mut Vec<Problem>) {
    use Operation::{Append, List, Read, Search, Write};
    let fields: [(&str, bool, &[Operation]); 9] = [
        ("content", config.content.is_some(), &[Write, Append]),
        ("query", config.query.is_some(), &[Search]),
        ("max_bytes", config.max_bytes.is_some(), &[Read, Search, Write, Append]),
        ("max_entries", config.max_entries.is_some(), &[List]),
        ("max_hits", config.max_hits.is_some(), &[Search]),
        ("include", config.include.is_some(), &[List, Search]),
        ("recursive", config.recursive.is_some(), &[List]),
        ("create_directories", config.create_directories.is_some(), &[Write, Append]),
        ("overwrite", config.overwrite.is_some(), &[Write]),
    ];
    let mut no_effect = |field: &str| {
        problems.push(Problem::new(
            format!("/{field}"),
            format!("`{field}` has no effect on `{}`", config.operation.word()),
            "leave it out",
        ));
    };
    for (field, is_set, operations) in fields {
        if is_set && !operations.contains(&config.operation) {
            no_effect(field);
        }
    }
    if config.encoding.is_some() && config.operation == List {
        no_effect("encoding");
    }
}

fn path_template(config: &Config, declared: &Declared<'_>, problems: &mut Vec<Problem>) -> Option<PathTemplate> {
    let has_path = declared.arguments().any(|name| name == "path");
    let source = match (config.path.as_deref(), has_path) {
        (Some(source), _) => source,
        (None, true) => "{path}",
        (None, false) if matches!(config.operation, Operation::List | Operation::Search) => {
            return Some(PathTemplate(None));
        }
        (None, false) => {
            problems.push(Problem::new(
                "/path",
                format!("nothing says which file to {}", config.operation.word()),
                "add an argument `path` to input_schema, or write `path:` here",
            ));
            return None;
        }
    };
    match Template::parse(source, declared_names(declared), "/path") {
        Ok(template) => {
            problems.extend(path::check(&template));
            Some(PathTemplate(Some(template)))
        }
        Err(found) => {
            problems.extend(found);
            None
        }
    }
}

/// The template of `content` or `query`: as declared, or the argument of that name.
fn text_template(
    field: &str,
    source: Option<&str>,
    declared: &Declared<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Template> {
    if source.is_none() && !declared.arguments().any(|name| name == field) {
        problems.push(Problem::new(
            format!("/{field}"),
            format!("nothing says what the {field} is"),
            format!("add an argument `{field}` to input_schema, or write `{field}:` here"),
        ));
        return None;
    }
    let by_name = format!("{{{field}}}");
    match Template::parse(source.unwrap_or(&by_name), declared_names(declared), &format!("/{field}")) {
        Ok(template) => Some(template),
        Err(found) => {
            problems.extend(found);
            None
        }
    }
}

fn declared_names<'a>(declared: &Declared<'a>) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
    let schema = declared.input_schema;
    schema
        .get("properties")
        .and_then(serde_json::Value::as_object)
        .into_iter()
        .flat_map(|properties| properties.keys().map(String::as_str))
}

/// The text of a template for one call.
pub(super) fn render(template: &Template, arguments: &Object) -> Result<String, Error> {
    template.render(arguments).ok_or_else(|| {
        let absent = template.arguments().find(|name| arguments.get(*name).is_none_or(serde_json::Value::is_null));
        Error::Refused(format!("`{}` is missing", absent.unwrap_or("an argument")))
    })
}
