//! PostgreSQL and MariaDB for tests: real servers of our own, in a temporary folder, on free ports.
//!
//! The first test of a run that asks starts a server, the others share it, across processes: test runners
//! start one for each test. Whoever uses a server holds a lock on a file; a small supervisor stops the
//! servers when nobody has held it for fifteen seconds, however the tests ended. Nothing is installed
//! here: `scripts/install-test-servers.sh` does that.

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// The script that knows how each server is started and stopped.
const SCRIPT: &str = include_str!("databases.sh");

/// A running server, shared with other tests: work in databases of your own.
#[derive(Clone, Debug)]
pub struct Server {
    /// The word of its URL.
    pub scheme: &'static str,
    /// Always loopback.
    pub host: &'static str,
    /// Its port.
    pub port: u16,
    /// A user that may do everything.
    pub user: &'static str,
    /// Its password.
    pub password: String,
}

impl Server {
    /// The URL of one of its databases.
    pub fn url(&self, database: &str) -> String {
        self.url_through(self.port, database)
    }

    /// The same through another port of loopback, such as that of a [`crate::proxy`].
    pub fn url_through(&self, port: u16, database: &str) -> String {
        format!("{}://{}:{}@{}:{port}/{database}", self.scheme, self.user, self.password, self.host)
    }

    fn listens(&self) -> bool {
        let address = (std::net::Ipv4Addr::LOCALHOST, self.port).into();
        TcpStream::connect_timeout(&address, Duration::from_secs(2)).is_ok()
    }
}

/// The PostgreSQL of this run. Blocks for some seconds when it has to start; panics where it cannot.
pub fn postgres() -> Server {
    static STARTED: OnceLock<Server> = OnceLock::new();
    STARTED.get_or_init(|| server("postgres", "postgres")).clone()
}

/// The MariaDB of this run. Blocks for some seconds when it has to start; panics where it cannot.
pub fn mariadb() -> Server {
    static STARTED: OnceLock<Server> = OnceLock::new();
    STARTED.get_or_init(|| server("mariadb", "mysql")).clone()
}

/// A database name that no other test uses.
pub fn fresh_name() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("t{}_{}", std::process::id(), since.as_nanos())
}

#[expect(clippy::panic, reason = "a test without its server has failed; the message says how to get one")]
fn server(name: &'static str, scheme: &'static str) -> Server {
    match find_or_start(name, scheme) {
        Ok(server) => server,
        Err(error) => panic!("{name} cannot be started (scripts/install-test-servers.sh installs it): {error}"),
    }
}

fn find_or_start(name: &'static str, scheme: &'static str) -> std::io::Result<Server> {
    let folder = folder();
    let starting = open(&folder, "lock")?;
    starting.lock()?;
    hold(&folder)?;
    std::fs::create_dir_all(&folder)?;
    let note = folder.join(format!("{name}.started"));
    let known = std::fs::read_to_string(&note).ok().and_then(|text| {
        let (port, password) = text.split_once(' ')?;
        Some(Server {
            scheme,
            host: "127.0.0.1",
            port: port.parse().ok()?,
            user: "reach",
            password: password.to_owned(),
        })
    });
    if let Some(server) = known.filter(Server::listens) {
        return Ok(server);
    }
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let password = format!("hush-{:016x}", fingerprint(&(fresh_name(), port)));
    supervise(&folder)?;
    // Not a pipe: the server would hold it open, and we would wait for the server's end.
    let log = folder.join(format!("{name}.log"));
    let mut command = shell();
    command.args(["start", name]).arg(&folder).args([&port.to_string(), &password]);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?).status()?;
    if !status.success() {
        return Err(std::io::Error::other(std::fs::read_to_string(&log)?));
    }
    std::fs::write(&note, format!("{port} {password}"))?;
    Ok(Server { scheme, host: "127.0.0.1", port, user: "reach", password })
}

/// One folder for each checkout, so that two of them do not share servers.
fn folder() -> PathBuf {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::env::temp_dir().join(format!("reach-test-servers-{:016x}", fingerprint(checkout)))
}

fn fingerprint(of: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

fn open(folder: &Path, suffix: &str) -> std::io::Result<File> {
    let mut path = folder.as_os_str().to_owned();
    path.push(format!(".{suffix}"));
    OpenOptions::new().create(true).truncate(false).write(true).open(PathBuf::from(path))
}

/// Says that this process uses the servers, until it ends.
fn hold(folder: &Path) -> std::io::Result<()> {
    static HELD: OnceLock<File> = OnceLock::new();
    let users = open(folder, "users")?;
    users.set_modified(SystemTime::now())?;
    users.lock_shared()?;
    HELD.get_or_init(|| users);
    Ok(())
}

/// Starts the supervisor, unless the one of an earlier start still watches.
fn supervise(folder: &Path) -> std::io::Result<()> {
    let note = folder.join("supervisor.pid");
    let watching = std::fs::read_to_string(&note).is_ok_and(|pid| Path::new("/proc").join(pid).exists());
    if watching {
        return Ok(());
    }
    use std::os::unix::process::CommandExt as _;
    // In a group of its own: a test runner that ends a test ends its group.
    let mut command = shell();
    command.arg("supervise").arg(folder).process_group(0);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    std::fs::write(note, child.id().to_string())
}

#[expect(clippy::disallowed_methods, reason = "the servers of a test are no tools")]
fn shell() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "databases.sh"]);
    command
}
