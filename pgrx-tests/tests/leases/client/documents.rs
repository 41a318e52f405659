//! The examples that the documents print run.

use std::fs;
use std::path::Path;
use std::process::Command;

use hilo_tests::{ClientExt, Cluster, blocks};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn cargo(arguments: &[&str], database: &str) -> String {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(ROOT).args(arguments).env("HILO_DATABASE", database).env_remove("RUSTFLAGS");
    let output = cargo.output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// The code that README.md and docs/clients-rust.md print is a part of an example, which runs as
/// printed.
#[test]
fn the_example_is_what_the_documents_print() {
    let program = fs::read_to_string(Path::new(ROOT).join("client/examples/quickstart.rs"));
    let program = program.expect("the example");
    for document in ["README.md", "docs/clients-rust.md"] {
        let text = fs::read_to_string(Path::new(ROOT).join(document)).expect("the document");
        let printed = blocks(&text, "rust");
        assert!(!printed.is_empty(), "{document}");
        for block in printed {
            assert!(program.contains(block.trim()), "{document} prints\n{block}");
        }
    }
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('orders')");
    let database =
        format!("host={} user=postgres dbname=postgres", cluster.socket_directory().display());
    let run = ["run", "--quiet", "--package", "hilo-client", "--example", "quickstart", "--"];
    let printed = cargo(&[&run[..], &[&database]].concat(), &database);
    assert!(printed.starts_with("1 orders/2 "), "{printed}");
    // So does the example of the crate's own documentation.
    cargo(&["test", "--quiet", "--doc", "--package", "hilo-client"], &database);
    assert_eq!(connection.one::<i64>("SELECT count(*) FROM hilo_leases"), 0);
    cluster.finish();
}
