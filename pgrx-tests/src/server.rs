//! The Postgres installation that the tests run, and the account that runs it.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use nix::unistd::{Gid, Uid, User};

/// The installation that `PG_CONFIG` points to, or that of the major version in `PG` (15).
pub static SERVER: LazyLock<Server> = LazyLock::new(Server::find);

/// The older installation that `HILO_OLD_PG_CONFIG` points to, from which pg_upgrade upgrades.
pub static OLDER: LazyLock<Option<Server>> = LazyLock::new(|| {
    let pg_config = std::env::var_os("HILO_OLD_PG_CONFIG").filter(|path| !path.is_empty())?;
    Some(Server::at(PathBuf::from(pg_config)))
});

pub struct Server {
    pg_config: PathBuf,
    bindir: PathBuf,
    /// Postgres refuses to run as root: if the tests do, this account runs it and owns its files.
    account: Option<(Uid, Gid)>,
}

impl Server {
    fn find() -> Server {
        let pg_config = match std::env::var_os("PG_CONFIG") {
            Some(path) => PathBuf::from(path),
            None => {
                let major = std::env::var("PG").unwrap_or_else(|_| "15".to_owned());
                PathBuf::from(format!("/usr/lib/postgresql/{major}/bin/pg_config"))
            }
        };
        Server::at(pg_config)
    }

    fn at(pg_config: PathBuf) -> Server {
        let bindir = PathBuf::from(ask(&pg_config, "--bindir"));
        let account = Uid::effective().is_root().then(|| {
            ["postgres", "nobody"]
                .into_iter()
                .find_map(|name| User::from_name(name).ok().flatten())
                .map(|user| (user.uid, user.gid))
                .expect("root runs the tests, so the servers need the account postgres or nobody")
        });
        Server { pg_config, bindir, account }
    }

    /// A program of PGXS, which has the regression test runners. It runs as the tests' own account: it
    /// reads the checkout, which the account of the servers may not be allowed to read.
    pub fn test_runner(&self, path: &str) -> Command {
        let makefile = PathBuf::from(ask(&self.pg_config, "--pgxs"));
        let source = makefile.parent().and_then(Path::parent).expect("PGXS is in src/makefiles");
        let mut command = bare(&source.join(path));
        command.arg("--bindir").arg(&self.bindir);
        command
    }

    /// Whether initdb makes clusters with checksums, as it does from PostgreSQL 18 on.
    pub fn has_checksums(&self) -> bool {
        self.version() >= 18
    }

    /// The major version.
    pub fn version(&self) -> u32 {
        let version = ask(&self.pg_config, "--version");
        let mut numbers = version.split(|c: char| !c.is_ascii_digit());
        let major = numbers.find_map(|number| number.parse().ok());
        major.expect("it has a version")
    }

    pub fn bindir(&self) -> &Path {
        &self.bindir
    }

    /// The installation's directory for files that do not depend on the machine.
    pub fn share_directory(&self) -> PathBuf {
        PathBuf::from(ask(&self.pg_config, "--sharedir"))
    }

    /// The installation's directory for libraries.
    pub fn library_directory(&self) -> PathBuf {
        PathBuf::from(ask(&self.pg_config, "--pkglibdir"))
    }

    /// One of the installation's programs, run by the account that may run a server.
    pub fn command(&self, program: &str) -> Command {
        self.command_at(&self.bindir.join(program))
    }

    /// Any program, run by that account.
    pub fn command_at(&self, program: &Path) -> Command {
        let mut command = bare(program);
        if let Some((uid, gid)) = self.account {
            command.uid(uid.as_raw()).gid(gid.as_raw());
        }
        command
    }

    /// Gives `path` to the account of the servers.
    pub fn own(&self, path: &Path) {
        if let Some((uid, gid)) = self.account {
            chown(path, Some(uid.as_raw()), Some(gid.as_raw()))
                .unwrap_or_else(|error| panic!("cannot give away {}: {error}", path.display()));
        }
    }
}

/// Whether the installation under test has a library of core's contrib. Where it is missing, that is printed, and fails
/// the test if the environment says `CI`.
#[track_caller]
pub fn has_library(name: &str) -> bool {
    let there = SERVER.library_directory().join(name).with_extension("so").exists();
    if !there {
        assert!(std::env::var_os("CI").is_none(), "the server has no {name}");
        println!("skipped: the server has no {name}");
    }
    there
}

/// Makes a command independent of the caller's PG… variables and of its working directory, which the
/// account may not be able to enter.
fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("LC_ALL", "C").env("TZ", "UTC").current_dir("/").stdin(Stdio::null());
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

fn ask(pg_config: &Path, question: &str) -> String {
    let output = Command::new(pg_config).arg(question).output().unwrap_or_else(|error| {
        panic!("cannot run {}: {error}; set PG_CONFIG, or run make test", pg_config.display())
    });
    String::from_utf8(output.stdout).expect("pg_config answers in UTF-8").trim().to_owned()
}

/// Runs `command` to its end and returns its output; if it fails, fails the test with what it
/// printed.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("cannot run {:?}: {error}", command.get_program()));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{stdout}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    stdout.into_owned()
}
