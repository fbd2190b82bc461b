//! The `script` adapter: a program on this machine, started with arguments and nothing else.
//!
//! There is no shell anywhere: each item of `command` becomes exactly one argv item (an array argument
//! becomes several), whatever characters a value holds. The program gets a fixed environment, a process
//! group of its own, and is killed with all its children when the attempt ends, however it ends. What it
//! prints is the result; what it complains about on standard error is for the journal, except one cleaned
//! line when it fails.
//!
//! Read on in [`command`] (arguments to argv), [`process`] (start, drain, end), [`output`] (bytes to
//! result), [`complaint`] (standard error to one line).

mod command;
mod complaint;
mod output;
mod process;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reach_core::{Adapter, Answer, Attempt, BoxFuture, Effect, Failure, FailureKind, Phase, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::Declared;
use crate::shared::secret::SecretText;
use command::CommandLine;
use process::{Ended, Finished, Launch};

/// Bytes of standard output taken when a tool does not say.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// What the key `script:` of a tool may hold.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The program and its arguments, never a shell line. The program comes first and holds no
    /// placeholder: a bare name is looked up in `/usr/local/bin:/usr/bin:/bin`, a path with a slash starts
    /// from the folder of `reach.yaml`. Each further item becomes one argument; `{name}` stands for a value.
    /// An item that is exactly one placeholder of an array becomes one argument per element. An item whose
    /// argument was not given is left out; a list of items (`["--limit", "{limit}"]`) is left out as a whole.
    /// Before an item `--`, a value in front of an item may not begin with `-`.
    pub command: Vec<Item>,
    /// What the program reads on standard input: nothing, or all arguments as one JSON object.
    #[serde(default)]
    pub stdin: Stdin,
    /// Environment variables with fixed values. Beside them the program sees `PATH`, `LANG`, `TZ`,
    /// `REACH_REQUEST_ID`, `REACH_TRACE_ID` and, for `effect: keyed`, `REACH_UPSTREAM_KEY`: nothing else.
    #[serde(default)]
    pub environment: BTreeMap<String, SecretText>,
    /// Names of environment variables of the gateway that are passed on.
    #[serde(default)]
    pub pass_environment: Vec<String>,
    /// The folder the program starts in; relative to the folder of `reach.yaml`, which is also the default.
    #[serde(default)]
    pub working_directory: Option<PathBuf>,
    /// What the program prints.
    #[serde(default)]
    pub expect: Expect,
    /// The most bytes of standard output; a program that prints more is killed. Default 1 MiB.
    #[serde(default = "max_output_bytes")]
    pub max_output_bytes: usize,
    /// What exit codes mean. 0 is `ok` and every other one `server_error` unless listed here.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ExitMeaning>")]
    pub exit_codes: BTreeMap<ExitCode, ExitMeaning>,
    /// Let the program gain privileges that the gateway does not have (`sudo`, setuid programs).
    #[serde(default)]
    pub allow_new_privileges: bool,
}

fn max_output_bytes() -> usize {
    MAX_OUTPUT_BYTES
}

/// One item of `command`, or several that are left out together.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Item {
    /// One argument.
    One(String),
    /// Arguments that are left out together when a value for one of them was not given.
    Group(Vec<String>),
}

/// What a program reads on standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// Nothing: standard input is empty.
    #[default]
    None,
    /// All arguments as one JSON object, then the end.
    Json,
}

/// What a program prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// JSON if the whole output is JSON, else text.
    #[default]
    Auto,
    /// JSON; anything else is a fault of the script.
    Json,
    /// Text in UTF-8, even where it looks like JSON.
    Text,
}

/// What an exit code means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitMeaning {
    /// Success, like 0: `grep` says 1 for "no line matches".
    Ok,
    /// The program understood the arguments and refuses them; it did nothing.
    Rejected,
    /// The thing asked for does not exist.
    NotFound,
    /// Not now; it did nothing.
    Unavailable,
    /// It failed; what it had done by then is not known.
    ServerError,
    /// The system behind it refused its credential.
    Unauthorised,
}

/// A number from 1 to 255, written as a number or as text (keys of JSON are text).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ExitCode(u8);

impl<'de> Deserialize<'de> for ExitCode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl serde::de::Visitor<'_> for Visitor {
            type Value = ExitCode;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an exit code from 1 to 255")
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<ExitCode, E> {
                match u8::try_from(number) {
                    Ok(code) if code > 0 => Ok(ExitCode(code)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Unsigned(number), &self)),
                }
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<ExitCode, E> {
                match u64::try_from(number) {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(serde::de::Unexpected::Signed(number), &self)),
                }
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ExitCode, E> {
                match text.parse::<u64>() {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl Config {
    /// The effect of a tool that does not declare one.
    pub fn default_effect(&self) -> Effect {
        Effect::Write
    }
}

/// Builds the adapter of one declared tool, or says everything that is wrong with the declaration.
pub fn build(config: Config, declared: &Declared<'_>) -> Result<Arc<dyn Adapter>, Vec<Problem>> {
    let mut problems = Vec::new();
    for name in config.environment.keys() {
        if name.is_empty() || name.contains(['=', '\0']) {
            problems.push(Problem::new(
                "/environment",
                format!("{name:?} cannot be the name of an environment variable"),
                "use letters, digits and `_`",
            ));
        }
    }
    for (name, value) in &config.environment {
        if value.expose().contains('\0') {
            problems.push(Problem::new(
                format!("/environment/{name}"),
                "an environment value cannot hold a NUL character",
                "take the NUL character out",
            ));
        }
    }
    for (at, name) in config.pass_environment.iter().enumerate() {
        if name.is_empty() || name.contains(['=', '\0']) {
            problems.push(Problem::new(
                format!("/pass_environment/{at}"),
                format!("{name:?} cannot be the name of an environment variable"),
                "write the bare name of a variable, without `$` and `=`",
            ));
        }
    }
    if config.max_output_bytes == 0 {
        problems.push(Problem::new(
            "/max_output_bytes",
            "no output at all is allowed",
            "leave it out for 1 MiB, or write a number of bytes",
        ));
    }
    let command = match CommandLine::compile(&config.command, declared) {
        Ok(command) => Some(command),
        Err(found) => {
            problems.extend(found);
            None
        }
    };
    let Some(command) = command.filter(|_| problems.is_empty()) else { return Err(problems) };
    let working_directory = match &config.working_directory {
        Some(folder) => declared.base.join(folder),
        None => declared.base.to_path_buf(),
    };
    // By tool, not by program: two tools that run `sh` fail for reasons of their own.
    let target = format!("script:{}", declared.tool_id);
    Ok(Arc::new(Script { environment: process::environment(&config), config, command, working_directory, target }))
}

/// The adapter of one declared script.
struct Script {
    config: Config,
    command: CommandLine,
    working_directory: PathBuf,
    environment: process::Environment,
    target: String,
}

impl Adapter for Script {
    fn kind(&self) -> &'static str {
        "script"
    }

    fn target(&self) -> &str {
        &self.target
    }

    fn call<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let arguments = self.command.render(&attempt.arguments)?;
            let stdin = match self.config.stdin {
                Stdin::None => None,
                Stdin::Json => Some(serde_json::to_vec(&attempt.arguments).map_err(|error| {
                    Failure::new(FailureKind::Internal, Phase::NotSent, "the arguments could not be written as JSON")
                        .with_detail(error.to_string())
                })?),
            };
            let launch = Launch {
                program: self.command.program.locate()?,
                name: self.command.program.name(),
                arguments,
                working_directory: &self.working_directory,
                environment: &self.environment,
                stdin,
                max_output_bytes: self.config.max_output_bytes,
                allow_new_privileges: self.config.allow_new_privileges,
            };
            self.answer(process::run(launch, attempt).await?)
        })
    }

    fn check<'a>(&'a self, _timeout: Duration) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(async move {
            self.command.program.locate()?;
            if !self.working_directory.is_dir() {
                return Err(Failure::new(
                    FailureKind::Unreachable,
                    Phase::NotSent,
                    "the working_directory of this script does not exist",
                )
                .with_detail(self.working_directory.display().to_string()));
            }
            Ok(format!("`{}` exists and may be run", self.command.program.name()))
        })
    }
}

impl Script {
    /// What a program that has ended means.
    fn answer(&self, finished: Finished) -> Result<Answer, Failure> {
        let name = self.command.program.name();
        let code = match finished.ended {
            Ended::Exit(code) => code,
            Ended::Signal(signal) => {
                let message = format!("`{name}` was killed by signal {signal} before it had finished");
                return Err(
                    Failure::new(FailureKind::Interrupted, Phase::MaybeSent, message).with_detail(finished.stderr)
                );
            }
            Ended::Flooded => {
                let message =
                    format!("`{name}` printed more than {} bytes and was stopped", self.config.max_output_bytes);
                return Err(Failure::new(FailureKind::Oversize, Phase::Answered, message).with_detail(finished.stderr));
            }
        };
        let kind = match self.meaning(code) {
            ExitMeaning::Ok => return self.result(finished),
            ExitMeaning::Rejected => FailureKind::Rejected,
            ExitMeaning::NotFound => FailureKind::NotFound,
            ExitMeaning::Unavailable => FailureKind::Unavailable,
            ExitMeaning::ServerError => FailureKind::ServerError,
            ExitMeaning::Unauthorised => FailureKind::Unauthorised,
        };
        let said = complaint::last_line(&finished.stderr)
            .or_else(|| complaint::last_line(&String::from_utf8_lossy(&finished.stdout)));
        let message = match said {
            Some(said) => format!("`{name}` failed with exit code {code}: {said}"),
            None => format!("`{name}` failed with exit code {code} and gave no reason"),
        };
        Err(Failure::new(kind, Phase::Answered, message).with_detail(finished.stderr))
    }

    fn meaning(&self, code: i32) -> ExitMeaning {
        let listed = u8::try_from(code).ok().and_then(|code| self.config.exit_codes.get(&ExitCode(code)));
        match (listed, code) {
            (Some(meaning), _) => *meaning,
            (None, 0) => ExitMeaning::Ok,
            (None, _) => ExitMeaning::ServerError,
        }
    }

    fn result(&self, finished: Finished) -> Result<Answer, Failure> {
        let payload = output::decode(finished.stdout, self.config.expect).map_err(|wrong| {
            Failure::new(
                FailureKind::Malformed,
                Phase::Answered,
                format!("`{}` {}", self.command.program.name(), wrong.message),
            )
            .with_detail(format!("{}\n{}", wrong.detail, finished.stderr))
        })?;
        let notes = if finished.stderr.is_empty() { Vec::new() } else { vec![finished.stderr] };
        Ok(Answer { payload, notes })
    }
}
