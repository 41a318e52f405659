//! The programs in examples/, run with the packages that scripts/clients has installed.
//!
//! An example runs in a copy of its folder, as an application that owns its database, while another connection
//! draws from the same sequence. Whatever the client believes, no value may come twice.

use std::collections::HashSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use crate::client::ClientExt;
use crate::cluster::Cluster;
use crate::server::run;
use crate::wait::{LONG, wait_until};

/// The database of an example, and the role that owns it.
const DATABASE: &str = "shop";
const OWNER: &str = "app";

pub struct Example {
    name: &'static str,
    packages: Option<PathBuf>,
}

impl Example {
    /// The example in folder `name` that needs `programs`, each a command or a file; none if it cannot run here, which
    /// is said, and fails the test where `CI` is set.
    #[track_caller]
    pub fn find(name: &'static str, programs: &[&str]) -> Option<Example> {
        if std::env::var_os("HILO_CLIENTS").is_some_and(|choice| choice == "no") {
            println!("skipped: HILO_CLIENTS is no");
            return None;
        }
        let has = |program: &&&str| program_file(program).is_none();
        if let Some(program) = programs.iter().find(has) {
            return missing(&format!("{program} is missing"));
        }
        let mut example = Example { name, packages: None };
        if ["requirements.txt", "package.json"]
            .iter()
            .any(|list| example.source().join(list).exists())
        {
            let place = Command::new(root().join("scripts/clients")).arg(name).output();
            let place = place.expect("cannot run scripts/clients");
            if !place.status.success() {
                return missing(&format!("the packages of examples/{name} are missing"));
            }
            let place = String::from_utf8(place.stdout).expect("a path");
            example.packages = Some(PathBuf::from(place.trim()));
        }
        Some(example)
    }

    /// Where the example is in the checkout.
    pub fn source(&self) -> PathBuf {
        root().join("examples").join(self.name)
    }

    /// Python with the example's packages, or any other program.
    pub fn command(&self, program: &str) -> Command {
        match &self.packages {
            Some(packages) if program == "python3" => Command::new(packages.join("bin/python")),
            _ => Command::new(program_file(program).expect("it was found")),
        }
    }

    /// Runs `commands`, each a program and its arguments, for the database of `cluster` that [`prepare`] has made.
    #[track_caller]
    pub fn run(&self, cluster: &Cluster, commands: &[&[&str]]) {
        let folder = self.copy(cluster);
        meanwhile(cluster, || {
            for words in commands {
                let mut command = self.command(words[0]);
                command.args(&words[1..]).current_dir(&folder);
                print!("{}", run(point(&mut command, cluster)));
            }
        });
    }

    /// A copy of the folder, which disappears with the cluster: some examples write files.
    fn copy(&self, cluster: &Cluster) -> PathBuf {
        let folder = cluster.file(self.name);
        run(Command::new("cp").arg("-R").arg(self.source()).arg(&folder));
        if let Some(packages) = &self.packages {
            symlink(packages.join("node_modules"), folder.join("node_modules"))
                .expect("cannot link the packages");
        }
        folder
    }
}

/// Creates the database of the examples, with hilo in it.
pub fn prepare(cluster: &Cluster) {
    let mut client = cluster.connect("postgres");
    client.run(&format!("CREATE ROLE {OWNER} LOGIN"));
    client.run(&format!("CREATE DATABASE {DATABASE} OWNER {OWNER}"));
    cluster.connect(DATABASE).run("CREATE EXTENSION hilo");
}

/// Points a client at the database of the examples.
pub fn point<'a>(command: &'a mut Command, cluster: &Cluster) -> &'a mut Command {
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG"))
    {
        command.env_remove(name);
    }
    command
        .env("PGHOST", cluster.socket_directory())
        .env("PGPORT", "5432")
        .env("PGUSER", OWNER)
        .env("PGDATABASE", DATABASE)
}

/// Does `work` while others draw from sequence `orders`, which the work may create again; then checks that neither
/// they nor the table `orders` have a value twice.
#[track_caller]
pub fn meanwhile(cluster: &Cluster, work: impl FnOnce()) {
    let mut client = cluster.connect_as(OWNER, DATABASE);
    client.run("SELECT hilo_create('orders')");
    let done = AtomicBool::new(false);
    let begun = AtomicBool::new(false);
    let drawn = thread::scope(|scope| {
        let others = scope.spawn(|| {
            let mut drawn = Vec::new();
            while !done.load(Relaxed) {
                // Each in a session of its own, which takes a slice and returns the rest.
                drawn.extend(cluster.connect_as(OWNER, DATABASE).draw("orders", 20));
                begun.store(true, Relaxed);
            }
            drawn
        });
        let _stop = Stop(&done);
        wait_until("others draw", LONG, || begun.load(Relaxed));
        work();
        done.store(true, Relaxed);
        others.join().expect("the others failed")
    });
    let ids: Vec<i64> = client.all("SELECT id::bigint FROM orders");
    assert!(ids.len() > 1000, "only {} rows", ids.len());
    let mut seen = HashSet::new();
    for id in drawn.iter().chain(&ids) {
        assert!(seen.insert(id), "{id} came twice");
    }
    println!("{} values drawn meanwhile", drawn.len());
}

/// Ends the others if the work fails; otherwise its test would not end.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A command on the PATH, or a file.
fn program_file(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}

#[track_caller]
fn missing<T>(what: &str) -> Option<T> {
    let said = format!("{what}: scripts/clients installs it, or says why it cannot");
    assert!(std::env::var_os("CI").is_none(), "{said}");
    println!("skipped: {said}");
    None
}
