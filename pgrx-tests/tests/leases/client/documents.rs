//! The examples that the documents print run, in a project of their own with the crates as they are published.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hilo_tests::{ClientExt, Cluster, blocks};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

const EXAMPLES: [&str; 2] = ["quickstart", "stored"];

#[track_caller]
fn run(program: &str, arguments: &[&str], directory: &Path, database: &str) -> String {
    let mut command = Command::new(program);
    command.current_dir(directory).args(arguments).env("HILO_DATABASE", database);
    // Other crates are as the workspace has built them.
    command.env("CARGO_TARGET_DIR", Path::new(ROOT).join("target")).env_remove("RUSTFLAGS");
    let output = command.output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// A project outside of the workspace, which takes the client's crate from its package.
fn project() -> PathBuf {
    let here = nix::unistd::mkdtemp("/tmp/hilo-project-XXXXXX").expect("a directory");
    let version = env!("CARGO_PKG_VERSION");
    let package =
        ["package", "--quiet", "--allow-dirty", "--no-verify", "--offline", "--target-dir"];
    let crates =
        [here.to_str().expect("text"), "--package", "hilo-core", "--package", "hilo-client"];
    run("cargo", &[&package[..], &crates].concat(), Path::new(ROOT), "");
    let mut patch = String::new();
    for name in ["hilo-core", "hilo-client"] {
        run("tar", &["-xzf", &format!("package/{name}-{version}.crate")], &here, "");
        patch += &format!("{name} = {{ path = \"{name}-{version}\" }}\n");
    }
    let readme = read("client/README.md");
    let manifest = format!(
        "[package]\nname = \"shop\"\nedition = \"2024\"\n\n{}\n[patch.crates-io]\n{patch}\n{}",
        blocks(&readme, "toml")[0],
        // That of the workspace.
        "[profile.dev]\ndebug = \"line-tables-only\"\n[profile.dev.package.\"*\"]\ndebug = false\n",
    );
    fs::write(here.join("Cargo.toml"), manifest).expect("a file");
    fs::write(here.join("Cargo.lock"), read("Cargo.lock")).expect("a file");
    fs::create_dir(here.join("src")).expect("a directory");
    fs::create_dir(here.join("src/bin")).expect("a directory");
    for program in EXAMPLES {
        let path = here.join(format!("src/bin/{program}.rs"));
        fs::write(path, read(&format!("client/examples/{program}.rs"))).expect("a file");
    }
    here
}

/// The code that README.md and docs/leases.md print is a part of an example. It runs where the crate is added as its
/// README says.
#[test]
fn the_example_is_what_the_documents_print() {
    let programs = EXAMPLES.map(|program| read(&format!("client/examples/{program}.rs")));
    for document in ["README.md", "docs/leases.md"] {
        let text = read(document);
        let printed = blocks(&text, "rust");
        assert!(!printed.is_empty(), "{document}");
        for block in printed {
            let is_in = |program: &String| program.contains(block.trim());
            assert!(programs.iter().any(is_in), "{document} prints\n{block}");
        }
    }
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('orders')");
    let database =
        format!("host={} user=postgres dbname=postgres", cluster.socket_directory().display());
    let project = project();
    let state = project.join("ids").display().to_string();
    let example = |program: &str| {
        let words = ["run", "--quiet", "--offline", "--bin", program, "--", &database, &state];
        run("cargo", &words, &project, &database)
    };
    let printed = example("quickstart");
    assert!(printed.starts_with("1 orders/2 "), "{printed}");
    assert_eq!(example("stored").lines().count(), 10);
    fs::remove_dir_all(project).expect("it is ours");
    // So does the example of the crate's own documentation.
    let documentation = ["test", "--quiet", "--doc", "--package", "hilo-client"];
    run("cargo", &documentation, Path::new(ROOT), &database);
    assert_eq!(connection.one::<i64>("SELECT count(*) FROM hilo_leases"), 0);
    cluster.finish();
}
