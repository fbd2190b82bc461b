//! From checked arguments to argv items.
//!
//! The command is compiled once, when the tool is declared, and everything that would let a value become
//! more than data is reported then: a placeholder in the program's place, a placeholder inside code for
//! an interpreter, an option that would swallow the next item. A value is never quoted, escaped or
//! cut: it is one argv item, or the call is refused.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use reach_core::{Failure, FailureKind, Object, Phase, Problem};
use serde_json::Value;

use super::Item;
use crate::shared::Declared;
use crate::shared::template::{Part, Template, plain};

/// Where a program without a slash is looked for, and the `PATH` it sees itself.
pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The longest argv item that Linux takes, its terminating NUL included (`MAX_ARG_STRLEN`).
const ITEM_MAX: usize = 128 * 1024;

/// Programs that run a file or text as code, without the version at the end of their name.
const INTERPRETERS: &[&str] = &[
    "sh",
    "ash",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "mksh",
    "fish",
    "csh",
    "tcsh",
    "busybox",
    "python",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "osascript",
    "pwsh",
];

/// Programs that hand all their arguments to a shell.
const REMOTE: &[&str] = &["ssh", "su"];

/// Programs that start another program.
const WRAPPERS: &[&str] =
    &["env", "sudo", "doas", "nice", "ionice", "nohup", "setsid", "stdbuf", "timeout", "xargs", "chroot", "find"];

/// A compiled command.
pub(super) struct CommandLine {
    pub(super) program: Program,
    items: Vec<Compiled>,
}

/// Items that stand or fall together.
struct Compiled {
    templates: Vec<Template>,
    /// An item `--` stands before: what begins with `-` is no option any more.
    after_dashes: bool,
}

/// What is started.
pub(super) enum Program {
    /// Looked up in [`PATH`] at every call.
    Name(String),
    /// A file, with the name shown to people.
    File { path: PathBuf, name: String },
}

impl CommandLine {
    /// Compiles `command:`; every problem at once.
    pub(super) fn compile(items: &[Item], declared: &Declared<'_>) -> Result<Self, Vec<Problem>> {
        let Some((first, rest)) = items.split_first() else {
            return Err(vec![Problem::new("/command", "there is no program", "write the program as the first item")]);
        };
        let mut problems = Vec::new();
        let program = match Program::compile(first, declared.base) {
            Ok(program) => Some(program),
            Err(problem) => {
                problems.push(problem);
                None
            }
        };
        let names: Vec<&str> = declared.arguments().collect();
        let mut compiled = Vec::new();
        let mut after_dashes = false;
        for (at, item) in rest.iter().enumerate() {
            let pointer = format!("/command/{}", at + 1);
            let (sources, grouped) = match item {
                Item::One(source) => (std::slice::from_ref(source), false),
                Item::Group(sources) => (sources.as_slice(), true),
            };
            let mut templates = Vec::new();
            for (inner, source) in sources.iter().enumerate() {
                let pointer = if grouped { format!("{pointer}/{inner}") } else { pointer.clone() };
                if source.contains('\0') {
                    problems.push(Problem::new(&pointer, "an argument cannot hold a NUL character", "take it out"));
                }
                match Template::parse(source, names.iter().copied(), &pointer) {
                    Ok(template) => templates.push(template),
                    Err(found) => problems.extend(found),
                }
            }
            let constant = templates.iter().all(|template| template.arguments().next().is_none());
            let ends_options = constant && sources.iter().any(|source| source == "--");
            compiled.push(Compiled { templates, after_dashes });
            after_dashes |= ends_options;
        }
        if let Some(program) = program
            && problems.is_empty()
        {
            problems.extend(code_from_values(items, &compiled));
            problems.extend(dangling_options(rest, &compiled, declared.input_schema));
            if problems.is_empty() {
                return Ok(Self { program, items: compiled });
            }
        }
        Err(problems)
    }

    /// The argv items after the program, or a refusal that names the argument.
    pub(super) fn render(&self, arguments: &Object) -> Result<Vec<String>, Failure> {
        let mut argv = Vec::new();
        for item in &self.items {
            let missing = |name: &str| arguments.get(name).is_none_or(Value::is_null);
            if item.templates.iter().flat_map(Template::arguments).any(missing) {
                continue;
            }
            for template in &item.templates {
                render(template, arguments, item.after_dashes, &mut argv)?;
            }
        }
        Ok(argv)
    }
}

fn render(template: &Template, arguments: &Object, after_dashes: bool, argv: &mut Vec<String>) -> Result<(), Failure> {
    let before = argv.len();
    match template.sole_argument().and_then(|name| arguments.get(name)) {
        Some(Value::Array(elements)) => argv.extend(elements.iter().filter_map(plain)),
        _ => argv.extend(template.render(arguments)),
    }
    let Some(Part::Argument(leading)) = template.parts().first() else {
        return argv[before..].iter().try_for_each(|item| carried(item, template));
    };
    for item in &argv[before..] {
        carried(item, template)?;
        if item.starts_with('-') && !after_dashes {
            return Err(Failure::refused(format!(
                "`{leading}` may not begin with `-` here: the program would read it as an option"
            ))
            .with_detail(format!(
                "to allow it, put an item `--` before it in command, or write `--option={{{leading}}}` as one item"
            )));
        }
    }
    Ok(())
}

/// What the operating system can carry as one argument.
fn carried(item: &str, template: &Template) -> Result<(), Failure> {
    let names = || template.arguments().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if item.contains('\0') {
        return Err(Failure::refused(format!("{} may not hold a NUL character", names())));
    }
    if item.len() >= ITEM_MAX {
        return Err(Failure::refused(format!("{} may not be longer than {} bytes", names(), ITEM_MAX - 1)));
    }
    Ok(())
}

/// A placeholder where an interpreter expects code or the name of a script: the value would run. Values
/// after the script are its arguments, and data.
fn code_from_values(items: &[Item], compiled: &[Compiled]) -> Vec<Problem> {
    let Some(Item::One(program)) = items.first() else { return Vec::new() };
    let wraps = WRAPPERS.contains(&base_name(program));
    let mut runs = Some(base_name(program)).filter(|name| is_interpreter(name) || REMOTE.contains(name));
    let mut problems = Vec::new();
    for (at, item) in compiled.iter().enumerate() {
        for template in &item.templates {
            let literal = match template.parts() {
                [] => "",
                [Part::Literal(text)] => text.as_str(),
                _ => {
                    if let Some(name) = runs {
                        problems.push(Problem::new(
                            format!("/command/{}", at + 1),
                            format!("`{name}` would run this value as code"),
                            "put the code into a script file, start that, and pass the value as an argument of it",
                        ));
                    }
                    continue;
                }
            };
            let name = base_name(literal);
            match runs {
                // What follows its script, or its literal code, is data; a remote shell reads everything.
                Some(interpreter) if !literal.starts_with('-') && !REMOTE.contains(&interpreter) => {
                    runs = Some(name).filter(|name| interpreter == "busybox" && is_interpreter(name));
                }
                Some(_) => {}
                None if wraps => runs = Some(name).filter(|name| is_interpreter(name) || REMOTE.contains(name)),
                None => {}
            }
        }
    }
    problems
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn is_interpreter(name: &str) -> bool {
    INTERPRETERS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
}

/// `["--limit", "{limit}"]` as two items, with an optional `limit`: the option would swallow what follows.
fn dangling_options(items: &[Item], compiled: &[Compiled], schema: &Value) -> Vec<Problem> {
    let required = |name: &str| {
        schema.get("required").and_then(Value::as_array).is_some_and(|all| all.iter().any(|one| one == name))
    };
    let mut problems = Vec::new();
    for at in 1..items.len() {
        let (Item::One(option), Item::One(source)) = (&items[at - 1], &items[at]) else { continue };
        let Some(name) = compiled[at].templates.first().and_then(Template::sole_argument) else { continue };
        if option.starts_with('-') && option != "--" && !option.contains('=') && !required(name) {
            problems.push(Problem::new(
                format!("/command/{}", at + 1),
                format!("`{option}` would stand without its value when `{name}` is not given"),
                format!(
                    "write both as one group, [{option:?}, {source:?}], or list `{name}` as required; if `{option}` \
                     takes no value, put an item \"--\" between them"
                ),
            ));
        }
    }
    problems
}

impl Program {
    fn compile(item: &Item, base: &Path) -> Result<Self, Problem> {
        let problem = |message: &str| {
            Problem::new(
                "/command/0",
                message,
                "write the program's name or its path as plain text, without placeholders",
            )
        };
        let Item::One(text) = item else { return Err(problem("the program is a list")) };
        if text.is_empty() || text.contains('\0') {
            return Err(problem("the program has no usable name"));
        }
        if text.contains(['{', '}']) {
            return Err(problem("arguments may not choose the program"));
        }
        if !text.contains('/') {
            return Ok(Program::Name(text.clone()));
        }
        let path = base.join(text);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        match name {
            Some(name) => Ok(Program::File { path, name }),
            None => Err(problem("the program is a folder")),
        }
    }

    /// The name without its folder, as shown to people and models.
    pub(super) fn name(&self) -> &str {
        match self {
            Program::Name(name) | Program::File { name, .. } => name,
        }
    }

    /// The file to start. Looks at the disk; fails when there is no such program or it may not be run.
    pub(super) fn locate(&self) -> Result<PathBuf, Failure> {
        let unreachable = |message: String, detail: String| {
            Failure::new(FailureKind::Unreachable, Phase::NotSent, message).with_detail(detail)
        };
        let path = match self {
            Program::Name(name) => {
                let candidates = PATH.split(':').map(|folder| Path::new(folder).join(name));
                candidates.into_iter().find(|path| is_executable(path)).ok_or_else(|| {
                    unreachable(
                        format!("the program `{name}` is not installed where the gateway runs"),
                        format!("looked for an executable file `{name}` in {PATH}"),
                    )
                })?
            }
            Program::File { path, .. } if is_executable(path) => path.clone(),
            Program::File { path, name } => {
                let (message, fix) = if path.is_file() {
                    (format!("the program `{name}` may not be run"), "chmod +x")
                } else {
                    (format!("the program `{name}` does not exist"), "create it, or correct command")
                };
                return Err(unreachable(message, format!("{}: {fix}", path.display())));
            }
        };
        if is_bare_text(&path) {
            return Err(unreachable(
                format!("the program `{}` does not say what runs it", self.name()),
                format!("{}: write `#!` and an interpreter as its first line", path.display()),
            ));
        }
        Ok(path)
    }
}

/// Text without `#!`: the C library would hand it to a shell, and there is no shell here.
fn is_bare_text(path: &Path) -> bool {
    let mut start = [0; 64];
    let Ok(read) = std::fs::File::open(path).and_then(|mut file| file.read(&mut start)) else { return false };
    let start = &start[..read];
    !start.starts_with(b"#!") && !start.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
