//! The programs in examples/, which docs/clients.md explains, do what they say with the real client libraries, and no
//! value comes twice while others draw from the same sequence.

use hilo_tests::Cluster;
use hilo_tests::example::{Example, prepare};

/// Runs an example by the commands that its reader would use.
#[track_caller]
fn run(name: &'static str, needs: &[&str], commands: &[&[&str]]) {
    let Some(example) = Example::find(name, needs) else { return };
    let cluster = Cluster::builder().preload(true).start();
    prepare(&cluster);
    example.run(&cluster, commands);
    cluster.finish();
}

#[test]
fn psycopg() {
    run("psycopg", &["python3"], &[&["python3", "example.py"]]);
}

#[test]
fn sqlalchemy() {
    run("sqlalchemy", &["python3"], &[&["python3", "example.py"]]);
}
