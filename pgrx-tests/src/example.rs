//! The programs in examples/, run with what scripts/clients has installed.
//!
//! An example runs in a copy of its folder, as an application that owns its database, while another connection
//! draws from the same sequence. Whatever the client believes, no value may come twice.

use std::collections::{BTreeMap, HashSet};
use std::env::{join_paths, split_paths, var, var_os, vars};
use std::iter::once;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::client::ClientExt;
use crate::cluster::Cluster;
use crate::extension::create_extension;
use crate::files::new_directory;
use crate::server::run;
use crate::wait::{LONG, wait_until, while_another};

/// The database of the examples, and the role that owns it.
pub const DATABASE: &str = "shop";
pub const OWNER: &str = "app";
/// The schemas that the examples run with hilo in: the one that docs/install.md recommends, and that of a first try.
pub const LAYOUTS: [&str; 2] = ["hilo", "public"];

/// A folder of examples/ whose program can run here.
pub struct Example {
    name: &'static str,
    /// Where scripts/clients has put what the example needs, as it says.
    places: BTreeMap<String, PathBuf>,
}

impl Example {
    /// The example in folder `name`. If something that it needs is missing, that is printed, and
    /// fails the test where the environment says `CI`.
    #[track_caller]
    pub fn find(name: &'static str) -> Option<Example> {
        if var_os("HILO_CLIENTS").is_some_and(|choice| choice == "no") {
            println!("skipped: HILO_CLIENTS is no");
            return None;
        }
        let answer = Command::new(root().join("scripts/clients")).arg(name).output();
        let answer = answer.expect("cannot run scripts/clients");
        if !answer.status.success() {
            let said = String::from_utf8_lossy(&answer.stderr);
            let said = format!("{}; run scripts/clients", said.trim());
            assert!(var_os("CI").is_none(), "{said}");
            println!("skipped: {said}");
            return None;
        }
        let said = String::from_utf8(answer.stdout).expect("it says paths");
        let places = said.lines().filter_map(|line| line.split_once(' '));
        let places = places.map(|(what, place)| (what.to_owned(), PathBuf::from(place))).collect();
        Some(Example { name, places })
    }

    /// A file of the folder.
    pub fn source(&self, file: &str) -> PathBuf {
        let folder = if self.is_package() { "clients" } else { "examples" };
        root().join(folder).join(self.name).join(file)
    }

    /// Whether it is a package with its tests, which run with the wheel that is made of it.
    fn is_package(&self) -> bool {
        root().join("clients").join(self.name).exists()
    }

    /// Where the wheel of the package is installed, and nothing else.
    fn wheel(&self) -> &'static Path {
        static PLACE: OnceLock<PathBuf> = OnceLock::new();
        PLACE.get_or_init(|| {
            let place = new_directory().1;
            let (source, site) = (place.join("source"), place.join("site"));
            run(Command::new("cp").arg("-R").arg(self.source("")).arg(&source));
            let pip = |arguments: &[&str]| {
                let mut python = self.program("python3");
                python.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
                run(python.args(arguments).current_dir(&place));
            };
            pip(&["wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", "dist", "./source"]);
            let wheels = std::fs::read_dir(place.join("dist")).expect("a wheel").flatten();
            let wheel = wheels.map(|file| file.path()).next().expect("a wheel");
            let (wheel, target) = (wheel.display().to_string(), site.display().to_string());
            pip(&["install", "--no-index", "--no-deps", "--target", &target, &wheel]);
            site
        })
    }

    /// The program of a pooler.
    pub fn pooler(&self) -> &Path {
        &self.places["pooler"]
    }

    /// Django's own tests.
    pub fn suite(&self) -> &Path {
        &self.places["suite"]
    }

    /// The settings that let PHP find a later version of the packages.
    pub fn later(&self) -> String {
        format!(":{}", self.places["later"].display())
    }

    /// Runs `commands` in turn, each a program with its arguments, in a copy of the folder. `environment` says more
    /// than where `cluster` is, or something else.
    #[track_caller]
    pub fn run(&self, cluster: &Cluster, environment: &[(&str, &str)], commands: &[&[&str]]) {
        for words in commands {
            let mut command = self.command(cluster, words);
            command.envs(environment.iter().copied());
            print!("{}", run(&mut command));
        }
    }

    /// A program with its arguments, to be run in a copy of the folder, as an application of `cluster`.
    #[track_caller]
    pub fn command(&self, cluster: &Cluster, words: &[&str]) -> Command {
        let folder = cluster.file(self.name);
        if !folder.exists() {
            run(Command::new("cp").arg("-R").arg(self.source("")).arg(&folder));
            if let Some(packages) = self.places.get("packages") {
                let link = folder.join("node_modules");
                run(Command::new("rm").arg("-rf").arg(&link));
                symlink(packages.join("node_modules"), link).expect("cannot link the packages");
            }
        }
        let mut command = self.program(words[0]);
        at(cluster, &mut command);
        command.args(&words[1..]).current_dir(&folder);
        if self.is_package() {
            command.env("PYTHONPATH", self.wheel());
        }
        // Where scripts/clients has found Node.js, this finds it too.
        if let Some(programs) = self.places.get("programs") {
            let path = var_os("PATH").unwrap_or_default();
            let path = once(programs.clone()).chain(split_paths(&path));
            command.env("PATH", join_paths(path).expect("they have no colons"));
        }
        command
    }

    /// Python is that which has the example's packages.
    fn program(&self, name: &str) -> Command {
        match self.places.get("packages") {
            Some(packages) if name == "python3" => Command::new(packages.join("bin/python")),
            _ => Command::new(name),
        }
    }
}

/// Lets a program connect to `cluster` as an application, by the variables that Postgres's clients read.
pub fn at(cluster: &Cluster, command: &mut Command) {
    vars().filter(|(name, _)| name.starts_with("PG")).for_each(|(name, _)| {
        command.env_remove(name);
    });
    command
        .env("PGHOST", cluster.socket_directory())
        .env("PGPORT", "5432")
        .env("PGUSER", OWNER)
        .env("PGDATABASE", DATABASE);
}

/// The connection of a program that runs as [`at`] says.
pub fn config() -> tokio_postgres::Config {
    let variable = |name: &str| var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let mut config = tokio_postgres::Config::new();
    config
        .host(variable("PGHOST"))
        .port(variable("PGPORT").parse().expect("PGPORT is a number"))
        .user(variable("PGUSER"))
        .dbname(variable("PGDATABASE"));
    config
}

/// Creates the database of the examples anew, with hilo in `schema`, as docs/install.md does. `public` is the first
/// schema that a plain CREATE EXTENSION finds.
pub fn prepare(cluster: &Cluster, schema: &str) {
    let mut client = cluster.connect("postgres");
    if client.one::<i64>(&format!("SELECT count(*) FROM pg_roles WHERE rolname = '{OWNER}'")) == 0 {
        client.run(&format!("CREATE ROLE {OWNER} LOGIN"));
    }
    client.run(&format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"));
    client.run(&format!("CREATE DATABASE {DATABASE} OWNER {OWNER}"));
    let mut client = cluster.connect(DATABASE);
    if schema == "public" {
        return create_extension(&mut client, schema);
    }
    client.run(&format!("CREATE SCHEMA {schema}; GRANT USAGE ON SCHEMA {schema} TO PUBLIC"));
    create_extension(&mut client, schema);
    client.run(&format!("ALTER DATABASE {DATABASE} SET search_path = \"$user\", public, {schema}"));
}

/// Does `work` while others draw from sequence `orders`. Then checks that neither they nor the
/// table `orders`, which the work has filled, have a value twice.
#[track_caller]
pub fn while_others_draw(cluster: &Cluster, work: impl FnOnce()) {
    let mut client = cluster.connect_as(OWNER, DATABASE);
    client.run("SELECT hilo_create('orders')");
    let begun = AtomicBool::new(false);
    let mut drawn = Vec::new();
    // Each time in a new session, which takes a slice and returns the rest.
    let draw = || {
        drawn.extend(cluster.connect_as(OWNER, DATABASE).draw("orders", 20));
        begun.store(true, Relaxed);
    };
    while_another(draw, || {
        wait_until("others draw", LONG, || begun.load(Relaxed));
        work();
    });
    let ids: Vec<i64> = client.all("SELECT id::bigint FROM orders");
    assert!(ids.len() >= 1000, "only {} rows", ids.len());
    let mut seen = HashSet::new();
    for id in drawn.iter().chain(&ids) {
        assert!(seen.insert(id), "{id} came twice");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
