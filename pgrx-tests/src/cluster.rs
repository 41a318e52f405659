//! A cluster that belongs to one test: configuration, start and stop.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use postgres::{Client, Config, Error, NoTls};

use crate::client::Heard;
use crate::clock::Clock;
use crate::counted;
use crate::extension::{create_extension, is_lite};
use crate::files::{self, initialise, new_data_directory, new_directory};
use crate::log::Log;
use crate::process::{exit_of, signal};
use crate::refusals::Refusals;
use crate::server::{SERVER, Server};
use crate::wait::{LONG, wait_until};

/// How to stop a server, as in `pg_ctl stop --mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Waits until the clients have disconnected.
    Smart,
    /// Disconnects the clients, and shuts down cleanly.
    Fast,
    /// Leaves everything to crash recovery.
    Immediate,
}

/// One data directory and the server on it, reached through a Unix socket only.
///
/// All methods take `&self`, so that some threads can use it while another restarts it.
pub struct Cluster {
    pub(crate) name: String,
    pub(crate) server: &'static Server,
    directory: PathBuf,
    settings: Mutex<BTreeMap<String, String>>,
    postmaster: Mutex<Option<Child>>,
    pub(crate) log: Log,
    /// The server's own wall clock, if it has one.
    clock: OnceLock<Clock>,
    /// Variables of the server's environment.
    environment: OnceLock<Vec<(String, String)>>,
    /// Whether the server counts its instructions.
    counted: OnceLock<bool>,
    /// Refuses memory to the server, if the test may do that.
    pub(crate) refusals: OnceLock<Refusals>,
}

/// A cluster with hilo, which is stopped. Most others are copies of it, because to create the extension takes longer.
static WITH_HILO: LazyLock<Cluster> = LazyLock::new(|| {
    let cluster = Cluster::builder().preload(true).start_and_create();
    cluster.stop(Mode::Fast);
    // The copies count from zero.
    let counters = cluster.data_directory().join("pg_stat");
    fs::remove_dir_all(&counters)
        .and_then(|()| fs::create_dir(&counters))
        .expect("pg_stat is replaced");
    SERVER.own(&counters);
    cluster
});

/// The options of a new cluster.
pub struct Builder {
    settings: BTreeMap<String, String>,
    own_identity: bool,
    clock: Option<PathBuf>,
    environment: Vec<(String, String)>,
    counted: bool,
    refusing: bool,
}

impl Builder {
    /// Sets a line of the configuration file.
    pub fn config(mut self, name: &str, value: &str) -> Builder {
        self.settings.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Whether the server loads hilo: at its start or, with HILO_LOAD=session in the environment (PostgreSQL 17 and later),
    /// in each session.
    pub fn preload(self, yes: bool) -> Builder {
        let libraries = if yes && !is_lite() { "hilo" } else { "" };
        match std::env::var("HILO_LOAD").as_deref() {
            Ok("session") => self.config("session_preload_libraries", libraries),
            _ => self.config("shared_preload_libraries", libraries),
        }
    }

    pub(crate) fn into_settings(self) -> BTreeMap<String, String> {
        self.settings
    }

    /// Gives the cluster its own system identifier, which costs an initdb; the others are copies of one cluster.
    pub fn own_identity(self) -> Builder {
        Builder { own_identity: true, ..self }
    }

    /// Gives the server its own wall clock, with the library that [`clock_library`](crate::clock_library) finds.
    pub fn clock(self, library: PathBuf) -> Builder {
        Builder { clock: Some(library), ..self }
    }

    /// Sets a variable of the server's environment.
    pub fn environment(mut self, name: &str, value: &str) -> Builder {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes the server count its instructions: see [`Cluster::instructions`].
    pub fn counted(self) -> Builder {
        Builder { counted: true, ..self }
    }

    /// Lets the test refuse memory to the server's processes: see [`Cluster::refuse_memory`].
    pub fn refusing(self) -> Builder {
        Builder { refusing: true, ..self }
    }

    /// Creates the cluster and starts its server.
    #[track_caller]
    pub fn start(self) -> Cluster {
        let make = if self.own_identity { initialise } else { new_data_directory };
        self.start_on(make)
    }

    /// Starts the cluster on the data directory that `make` makes.
    #[track_caller]
    fn start_on(self, make: impl FnOnce(&Path)) -> Cluster {
        let (number, directory) = new_directory();
        let cluster = Cluster::at(number, directory, self.settings);
        make(&cluster.data_directory());
        if let Some(library) = self.clock {
            let clock = Clock::new(library, cluster.file("clock"));
            assert!(cluster.clock.set(clock).is_ok(), "it has none yet");
        }
        cluster.environment.set(self.environment).expect("it has none yet");
        if self.counted {
            counted::make_directory(cluster.server, &cluster.counts());
        }
        cluster.counted.set(self.counted).expect("it is not said yet");
        if self.refusing {
            let refusals = Refusals::new(&cluster.directory);
            assert!(cluster.refusals.set(refusals).is_ok(), "it has none yet");
        }
        cluster.start();
        cluster
    }

    /// Starts the cluster with hilo preloaded, and created in the database `postgres`.
    #[track_caller]
    pub fn start_with_hilo(self) -> Cluster {
        match self.own_identity {
            true => self.preload(true).start_and_create(),
            false => {
                self.preload(true).start_on(|data| files::copy(&WITH_HILO.data_directory(), data))
            }
        }
    }

    #[track_caller]
    fn start_and_create(self) -> Cluster {
        let cluster = self.start();
        create_extension(&mut cluster.connect("postgres"), "public");
        cluster
    }
}

impl Cluster {
    pub fn builder() -> Builder {
        // Small, because several run at once, and fast: a killed process does not need fsync to
        // survive, only a killed machine does.
        let settings = [
            ("fsync", "off"),
            ("full_page_writes", "off"),
            ("shared_buffers", "16MB"),
            ("max_connections", "40"),
            ("max_worker_processes", "16"),
            // A standby begins to stream only after its copy is made.
            ("wal_keep_size", "64MB"),
            ("listen_addresses", ""),
            ("log_line_prefix", "%m [%p] %b %e %q%u@%d "),
            ("timezone", "UTC"),
        ];
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Builder {
            settings: settings.into_iter().map(own).collect(),
            own_identity: false,
            clock: None,
            environment: Vec::new(),
            counted: false,
            refusing: false,
        }
    }

    /// The cluster that most tests need: hilo preloaded, and created in the database `postgres`.
    #[track_caller]
    pub fn with_hilo() -> Cluster {
        Cluster::builder().start_with_hilo()
    }

    /// A cluster whose data directory is still empty.
    pub(crate) fn at(
        number: usize,
        directory: PathBuf,
        settings: BTreeMap<String, String>,
    ) -> Cluster {
        let name = format!("hilo_{number}");
        let mut settings = settings;
        settings.insert("cluster_name".to_owned(), name.clone());
        let log = Log::at(directory.join("log"));
        let socket = directory.to_str().expect("the path is ASCII").to_owned();
        settings.insert("unix_socket_directories".to_owned(), socket);
        Cluster {
            name,
            server: &SERVER,
            directory,
            settings: Mutex::new(settings),
            postmaster: Mutex::new(None),
            log,
            clock: OnceLock::new(),
            environment: OnceLock::new(),
            counted: OnceLock::new(),
            refusals: OnceLock::new(),
        }
    }

    /// Where the server's socket is.
    pub fn socket_directory(&self) -> &Path {
        &self.directory
    }

    pub fn data_directory(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// A file for the test, beside the data directory; it is removed with the cluster.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn counts(&self) -> PathBuf {
        self.file("instructions")
    }

    /// How many instructions a process has run, once it has ended.
    pub fn instructions(&self, pid: i32) -> f64 {
        counted::of_process(&self.counts(), pid)
    }

    /// All that the servers on this cluster have logged so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// How often the log contains `text`.
    pub fn log_count(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    /// From now on a process that ends by signal 9 does not fail the test, which does that itself.
    pub fn expect_crash(&self) {
        self.log.tolerate_crash();
    }

    /// From now on log lines with `text` do not fail the test.
    pub fn expect_in_log(&self, text: &str) {
        self.log.tolerate(text);
    }

    /// Sets the server's own wall clock to the real time plus `offset`, such as `-1h`. Its monotonic clock is
    /// not changed.
    pub fn set_clock(&self, offset: &str) {
        self.clock.get().expect("the server has its own clock").set(offset);
    }

    pub(crate) fn settings(&self) -> BTreeMap<String, String> {
        self.settings.lock().unwrap().clone()
    }

    /// Changes a setting; a running server applies it at [`Cluster::reload`] or at its next start.
    pub fn configure(&self, name: &str, value: &str) {
        self.settings.lock().unwrap().insert(name.to_owned(), value.to_owned());
        self.write_settings();
    }

    fn write_settings(&self) {
        let quoted = |(name, value): (&String, &String)| {
            format!("{name} = '{}'\n", value.replace('\\', "\\\\").replace('\'', "''"))
        };
        let text: String = self.settings.lock().unwrap().iter().map(quoted).collect();
        // postgresql.auto.conf still comes after this, so that ALTER SYSTEM works in a test.
        let file = self.data_directory().join("postgresql.conf");
        fs::write(&file, text).expect("cannot write postgresql.conf");
    }

    /// Makes the server read its configuration again.
    pub fn reload(&self) {
        signal(self.postmaster_pid(), Signal::SIGHUP);
    }

    /// Makes one session read its configuration again, before it reads the next message of its client.
    pub fn reload_session(&self, pid: i32) {
        signal(pid, Signal::SIGHUP);
    }

    /// Starts the server and waits until it accepts connections.
    #[track_caller]
    pub fn start(&self) {
        self.write_settings();
        let mut postmaster = self.postmaster();
        assert!(postmaster.is_none(), "{} is running", self.name);
        let log_before = self.log().len();
        let child = postmaster.insert(self.spawn());
        wait_until(&format!("{} has started", self.name), LONG, || {
            match child.try_wait().expect("cannot wait for the postmaster") {
                None => self.is_ready(child.id()),
                // Children of a killed postmaster that have not noticed its end yet.
                Some(_) if self.log()[log_before..].contains("is still in use") => {
                    *child = self.spawn();
                    false
                }
                Some(status) => panic!("{} did not start: {status}", self.name),
            }
        });
    }

    fn spawn(&self) -> Child {
        let log = self.log.open();
        let mut postgres = match self.counted.get() {
            Some(true) => counted::postgres(self.server, &self.counts()),
            _ => self.server.command("postgres"),
        };
        if let Some(clock) = self.clock.get() {
            clock.give_to(&mut postgres);
        }
        if let Some(refusals) = self.refusals.get() {
            refusals.give_to(&mut postgres);
        }
        postgres.envs(self.environment.get().into_iter().flatten().cloned());
        postgres
            .arg("-D")
            .arg(self.data_directory())
            .stdout(log.try_clone().expect("cannot use the log twice"))
            .stderr(log)
            // An interrupt from the terminal must reach only the tests: their guardian stops the server.
            .process_group(0)
            .spawn()
            .expect("cannot start postgres")
    }

    /// Whether the pid file says that the postmaster `pid` accepts connections.
    fn is_ready(&self, pid: u32) -> bool {
        let text = fs::read_to_string(self.data_directory().join("postmaster.pid"));
        let text = text.unwrap_or_default();
        let mut lines = text.lines();
        lines.next() == Some(&pid.to_string())
            && lines.nth(6).is_some_and(|status| status.trim_end() == "ready")
    }

    /// Stops the server and waits until it has ended. A smart or fast stop that is not clean fails
    /// the test.
    #[track_caller]
    pub fn stop(&self, mode: Mode) {
        let how = match mode {
            Mode::Smart => Signal::SIGTERM,
            Mode::Fast => Signal::SIGINT,
            Mode::Immediate => Signal::SIGQUIT,
        };
        let mut child = self.postmaster().take().expect("the server is not running");
        signal(child.id() as i32, how);
        let status = exit_of(&mut child);
        let clean = status.is_some_and(|status| mode == Mode::Immediate || status.success());
        if !clean {
            *self.postmaster() = Some(child);
            panic!("{} did not stop cleanly ({mode:?}): {status:?}", self.name);
        }
    }

    /// A fast stop, and a start.
    #[track_caller]
    pub fn restart(&self) {
        self.stop(Mode::Fast);
        self.start();
    }

    pub fn is_running(&self) -> bool {
        self.postmaster().is_some()
    }

    #[track_caller]
    pub fn postmaster_pid(&self) -> i32 {
        self.postmaster().as_ref().expect("the server is not running").id() as i32
    }

    /// The postmaster's process; the caller that kills it must remove it here and reap it.
    pub(crate) fn postmaster(&self) -> MutexGuard<'_, Option<Child>> {
        // A test that failed while it started or stopped the server still has to clean up.
        self.postmaster.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Connects, or returns the error.
    pub fn try_connect(&self, role: &str, database: &str) -> Result<Client, Error> {
        self.connection(role, database).connect(NoTls)
    }

    fn connection(&self, role: &str, database: &str) -> Config {
        let mut config = Config::new();
        config
            .host_path(self.socket_directory())
            .user(role)
            .dbname(database)
            .application_name("hilo-tests")
            .connect_timeout(Duration::from_secs(30));
        config
    }

    /// Connects as `role`, and keeps the warnings and notices that arrive.
    #[track_caller]
    pub fn connect_listening(&self, role: &str, database: &str) -> (Client, Heard) {
        let heard = Heard::default();
        let kept = heard.clone();
        let client = self
            .connection(role, database)
            .notice_callback(move |report| kept.add(report))
            .connect(NoTls)
            .unwrap_or_else(|error| panic!("cannot connect to {database} as {role}: {error:?}"));
        (client, heard)
    }

    /// Connects as superuser.
    #[track_caller]
    pub fn connect(&self, database: &str) -> Client {
        self.connect_as("postgres", database)
    }

    /// Connects as `role`, which needs no password.
    #[track_caller]
    pub fn connect_as(&self, role: &str, database: &str) -> Client {
        self.try_connect(role, database)
            .unwrap_or_else(|error| panic!("cannot connect to {database} as {role}: {error:?}"))
    }

    /// Stops the server if it is still running, and checks the log, as leaving the scope does. A test
    /// calls this to check that a clean stop succeeds.
    #[track_caller]
    pub fn finish(self) {
        if self.is_running() {
            self.stop(Mode::Fast);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let failed = thread::panicking();
        if let Some(mut child) = self.postmaster().take() {
            let gone = matches!(child.try_wait(), Ok(Some(_)));
            if !gone {
                signal(child.id() as i32, Signal::SIGQUIT);
            }
            if exit_of(&mut child).is_none() {
                let _ = child.kill();
            }
        }
        if failed {
            eprintln!("the end of the log of {}:\n{}", self.name, self.log.tail());
        }
        let complaints = self.log.complaints();
        let _ = fs::remove_dir_all(&self.directory);
        assert!(failed || complaints.is_empty(), "the log of {} holds\n{complaints}", self.name);
    }
}
