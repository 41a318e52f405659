//! What the documents print runs as printed. docs/install.md, which begins before the extension and ends after it, is in
//! `install.rs`.
//!
//! Blocks marked ```sql are run in order, in one session per file, on the file's own database; blocks marked
//! ```sh of docs/operations.md run in a shell that finds the server. Blocks of any other kind (```text) are not
//! run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hilo_tests::{ClientExt, Cluster, blocks};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// README.md and all of docs/ but the page that installs.
fn documents() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).expect("cannot read docs");
    let mut files: Vec<PathBuf> =
        docs.map(|entry| entry.expect("cannot read docs").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
    files.retain(|file| !file.ends_with("install.md"));
    files.push(root().join("README.md"));
    files.sort();
    files
}

/// Every SQL block of every document runs.
#[test]
fn sql_runs_as_printed() {
    let cluster = Cluster::builder().preload(true).start();
    let mut run = 0;
    for (number, file) in documents().into_iter().enumerate() {
        let text = fs::read_to_string(&file).expect("cannot read a document");
        let script = blocks(&text, "sql").join("\n");
        if script.is_empty() {
            continue;
        }
        run += 1;
        println!("{}", file.display());
        let database = format!("docs_{number}");
        cluster.connect("postgres").run(&format!("CREATE DATABASE {database}"));
        if !script.contains("CREATE EXTENSION hilo") {
            cluster.connect(&database).run("CREATE EXTENSION hilo");
        }
        cluster.restore(&database, &script);
    }
    assert!(run >= 2, "only {run} documents hold SQL");
    cluster.finish();
}

/// Every shell command of the operator's guide runs.
#[test]
fn the_operators_commands_run() {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('orders'), hilo_nextval('orders')");
    let text =
        fs::read_to_string(root().join("docs/operations.md")).expect("cannot read the guide");
    let commands = blocks(&text, "sh");
    assert!(!commands.is_empty());
    let psql = cluster.tool("psql", "postgres");
    let bin = Path::new(psql.get_program()).parent().expect("it is in a directory").display();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    for command in commands {
        let mut run = Command::new("sh");
        run.envs(psql.get_envs().filter_map(|(name, value)| Some((name, value?))));
        run.env("PATH", &path).args(["-euc", &command]);
        let output = run.output().expect("cannot run sh");
        assert!(
            output.status.success(),
            "{command}\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    cluster.finish();
}
