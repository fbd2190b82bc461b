//! One child process: started, fed, drained and ended.
//!
//! The child leads a process group of its own. Whatever happens (it ends, it floods, the attempt is
//! dropped), the whole group is killed before the leader is reaped: as long as the leader is not reaped
//! its number cannot belong to anybody else, so the kill can never hit a stranger. A child of the child that
//! moved itself into another session is beyond reach; nothing else is.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use reach_core::{Attempt, Failure, FailureKind, Phase};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, kill_process_group, setrlimit, waitid};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{Signal as Notices, SignalKind, signal};

use super::Config;
use super::command::PATH;

/// How much of standard error is kept: its end, since the reason comes last.
const STDERR_KEPT: usize = 8 * 1024;

/// How long pipes may stay open after the program has ended: its own children may hold them.
const DRAIN: Duration = Duration::from_millis(250);

/// Everything the program sees of the environment, decided when the tool is declared.
pub(super) type Environment = Vec<(OsString, OsString)>;

/// The fixed allow-list, what the operator passes on, what the operator sets: later wins.
pub(super) fn environment(config: &Config) -> Environment {
    let mut all: Environment = vec![("PATH".into(), PATH.into()), ("LANG".into(), "C.UTF-8".into())];
    let passed = config.pass_environment.iter().map(String::as_str);
    all.extend(["TZ"].into_iter().chain(passed).filter_map(|name| Some((name.into(), std::env::var_os(name)?))));
    all.extend(config.environment.iter().map(|(name, value)| (name.into(), value.expose().into())));
    all
}

/// What to start, and how.
pub(super) struct Launch<'a> {
    pub(super) program: PathBuf,
    pub(super) name: &'a str,
    pub(super) arguments: Vec<String>,
    pub(super) working_directory: &'a Path,
    pub(super) environment: &'a Environment,
    pub(super) stdin: Option<Vec<u8>>,
    pub(super) max_output_bytes: usize,
    pub(super) allow_new_privileges: bool,
}

/// A program that is gone, with its whole group.
pub(super) struct Finished {
    pub(super) ended: Ended,
    pub(super) stdout: Vec<u8>,
    /// The end of standard error.
    pub(super) stderr: String,
}

/// How it ended.
pub(super) enum Ended {
    /// By itself.
    Exit(i32),
    /// By a signal that was not ours.
    Signal(i32),
    /// By us: it printed more than allowed.
    Flooded,
}

/// Starts the program and waits until it is gone. Marks the attempt as sent as soon as the program runs.
/// Dropping the future kills the group and reaps it in the background.
pub(super) async fn run(launch: Launch<'_>, attempt: &Attempt) -> Result<Finished, Failure> {
    // Listening starts before the child does, so that its end cannot be missed.
    let mut notices = signal(SignalKind::child()).map_err(|error| not_started(&launch, &error))?;
    let mut child = start(&launch, attempt).map_err(|error| not_started(&launch, &error))?;
    attempt.sent.set();
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let group = Group::led_by(child)?;

    let (mut stdout, mut stderr) = (Vec::new(), Tail::default());
    let flooded = {
        let drain = async {
            tokio::try_join!(
                feed(pipes.0, launch.stdin.as_deref()),
                take(pipes.1, &mut stdout, launch.max_output_bytes),
                stderr.read(pipes.2),
            )
        };
        tokio::pin!(drain);
        let drained = tokio::select! {
            drained = &mut drain => Some(drained),
            () = exited(group.leader, &mut notices) => {
                // Unconstrained: a task that is out of budget must not take a full pipe for a silent one.
                match tokio::time::timeout(DRAIN, tokio::task::unconstrained(&mut drain)).await {
                    Ok(drained) => Some(drained),
                    Err(_) => {
                        // Once nobody is left who could write, the pipes end; unless somebody left the group.
                        group.kill();
                        tokio::time::timeout(DRAIN, tokio::task::unconstrained(&mut drain)).await.ok()
                    }
                }
            }
        };
        matches!(drained, Some(Err(Flooded)))
    };
    if !flooded {
        exited(group.leader, &mut notices).await;
    }
    let status = group.end().await.map_err(|error| {
        Failure::new(FailureKind::Interrupted, Phase::MaybeSent, format!("`{}` ended, nobody knows how", launch.name))
            .with_detail(error.to_string())
    })?;
    let ended = match (flooded, status.code(), status.signal()) {
        (true, _, _) => Ended::Flooded,
        (false, Some(code), _) => Ended::Exit(code),
        (false, None, signal) => Ended::Signal(signal.unwrap_or_default()),
    };
    Ok(Finished { ended, stdout, stderr: stderr.into_text() })
}

/// Starts the program. Returns once it has been executed, or with the reason why it was not.
fn start(launch: &Launch<'_>, attempt: &Attempt) -> io::Result<Child> {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
    let mut command = std::process::Command::new(&launch.program);
    command
        .args(&launch.arguments)
        .current_dir(launch.working_directory)
        .env_clear()
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .stdin(if launch.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let ids = [
        ("REACH_REQUEST_ID", Some(attempt.request_id.as_str())),
        ("REACH_TRACE_ID", Some(attempt.trace_id.as_str())),
        ("REACH_UPSTREAM_KEY", attempt.upstream_key.as_deref()),
    ];
    command.envs(ids.into_iter().filter_map(|(name, id)| Some((name, id.filter(|id| !id.contains('\0'))?))));
    command.process_group(0);
    let allow_new_privileges = launch.allow_new_privileges;
    #[expect(
        unsafe_code,
        reason = "the hook only makes system calls, which is all that is allowed between fork and exec"
    )]
    // SAFETY: no allocation, no lock, no destructor: two system calls and a comparison.
    unsafe {
        command.pre_exec(move || confine(allow_new_privileges));
    }
    let mut command = Command::from(command);
    command.kill_on_drop(true).spawn()
}

/// In the child, before it becomes the program: no core dump (it would hold our memory's secrets on disk),
/// and no way to gain privileges unless allowed.
fn confine(allow_new_privileges: bool) -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    #[cfg(target_os = "linux")]
    if !allow_new_privileges {
        #[expect(unsafe_code, reason = "prctl with constant arguments touches no memory of ours")]
        // SAFETY: PR_SET_NO_NEW_PRIVS takes plain numbers and changes a flag of this process only.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Why nothing was started, for each reader.
fn not_started(launch: &Launch<'_>, error: &io::Error) -> Failure {
    let name = launch.name;
    let detail = format!("{}: {error}", launch.program.display());
    if error.kind() == io::ErrorKind::ArgumentListTooLong {
        return Failure::refused("the arguments are longer than a command line can carry").with_detail(detail);
    }
    let reason = match error.kind() {
        io::ErrorKind::NotFound if !launch.working_directory.is_dir() => "its working_directory does not exist",
        io::ErrorKind::NotFound => "it, or the interpreter its first line names, does not exist",
        io::ErrorKind::PermissionDenied => "the gateway may not run it",
        _ if error.raw_os_error() == Some(libc::ENOEXEC) => "it is no program for this machine",
        _ => "the system refused to start it",
    };
    Failure::new(FailureKind::Unreachable, Phase::NotSent, format!("`{name}` could not be started: {reason}"))
        .with_detail(detail)
}

/// A process group and its leader, not reaped yet.
struct Group {
    leader: Pid,
    child: Option<Child>,
}

impl Group {
    fn led_by(child: Child) -> Result<Self, Failure> {
        match child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            Some(leader) => Ok(Self { leader, child: Some(child) }),
            None => Err(Failure::new(FailureKind::Internal, Phase::MaybeSent, "the program started without a number")),
        }
    }

    /// Kills what is left of the group and reaps the leader.
    async fn end(mut self) -> io::Result<ExitStatus> {
        self.kill();
        match &mut self.child {
            // Not taken out: if this wait is dropped, the group's own drop goes on with it.
            Some(child) => {
                let status = child.wait().await;
                self.child = None;
                status
            }
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Only while the leader is not reaped. A group that is gone already is no error.
    fn kill(&self) {
        if let Err(error) = kill_process_group(self.leader, Signal::KILL) {
            tracing::debug!(%error, "process group was already gone");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if child.id().is_none() {
            return;
        }
        self.kill();
        // Without a runtime, tokio's own `kill_on_drop` reaps it with the next child.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { child.wait().await });
        }
    }
}

/// Resolves when the child has ended, and leaves it to be reaped.
async fn exited(leader: Pid, notices: &mut Notices) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(leader), options) {
            Ok(None) => {
                notices.recv().await;
            }
            Err(Errno::INTR) => {}
            Ok(Some(_)) | Err(_) => return,
        }
    }
}

/// More output than allowed.
struct Flooded;

/// Writes standard input and closes it. A program that does not read it to the end is free not to.
async fn feed(stdin: Option<ChildStdin>, bytes: Option<&[u8]>) -> Result<(), Flooded> {
    if let (Some(mut stdin), Some(bytes)) = (stdin, bytes)
        && let Err(error) = stdin.write_all(bytes).await
    {
        tracing::debug!(%error, "the program did not read its whole input");
    }
    Ok(())
}

/// Reads to the end, or until there is more than `most`.
async fn take(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>, most: usize) -> Result<(), Flooded> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    // A pipe that breaks is a pipe that ended: what the program says about it is its exit code.
    while let Ok(1..) = pipe.read_buf(into).await {
        if into.len() > most {
            return Err(Flooded);
        }
    }
    Ok(())
}

/// The last bytes of a stream that may be endless.
#[derive(Default)]
struct Tail {
    kept: VecDeque<u8>,
    dropped: u64,
}

impl Tail {
    async fn read(&mut self, pipe: Option<impl AsyncRead + Unpin>) -> Result<(), Flooded> {
        let Some(mut pipe) = pipe else { return Ok(()) };
        let mut buffer = vec![0; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
            self.kept.extend(&buffer[..count]);
            let over = self.kept.len().saturating_sub(STDERR_KEPT);
            self.kept.drain(..over);
            self.dropped += over as u64;
        }
        Ok(())
    }

    fn into_text(self) -> String {
        let text = String::from_utf8_lossy(&Vec::from(self.kept)).into_owned();
        match self.dropped {
            0 => text,
            dropped => format!("[{dropped} bytes of standard error left out] {text}"),
        }
    }
}
