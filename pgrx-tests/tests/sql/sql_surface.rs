//! The results and refusals of each function and view, as an SQL client sees them.

use std::io::{Read, Write};
use std::path::Path;

use hilo_tests::{Cases, ClientExt, Cluster};

/// The cases in `regress/`, one session each.
#[test]
fn answers_as_expected() {
    let cluster = Cluster::builder().preload(true).start();
    cluster.run_cases(Cases::Regress, &Path::new(env!("CARGO_MANIFEST_DIR")).join("regress"));
    cluster.finish();
}

/// The cases in `isolation/`: sessions whose transactions overlap.
#[test]
fn transactions_see_and_wait_as_expected() {
    let cluster = Cluster::builder().preload(true).start();
    cluster.run_cases(Cases::Isolation, &Path::new(env!("CARGO_MANIFEST_DIR")).join("isolation"));
    cluster.finish();
}

/// The type's binary format is its text, and is checked as the text is.
#[test]
fn binary_names_go_round_and_are_checked() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE names (name hilo_sequence)");
    client.run("INSERT INTO names VALUES ('tenants/42/orders'), ('Größe')");
    let mut copy = Vec::new();
    let mut out = client.copy_out("COPY names TO STDOUT (FORMAT binary)").unwrap();
    out.read_to_end(&mut copy).unwrap();
    drop(out);
    let mut receive = |bytes: &[u8]| {
        let mut copy_in = client.copy_in("COPY names FROM STDIN (FORMAT binary)").unwrap();
        copy_in.write_all(bytes).unwrap();
        copy_in.finish()
    };
    assert_eq!(receive(&copy).unwrap(), 2);

    let replaced = |from: u8, to: u8| {
        copy.iter().map(|&byte| if byte == from { to } else { byte }).collect::<Vec<u8>>()
    };
    for (wrong, sqlstate) in [(replaced(b'/', b'\n'), "22023"), (replaced(b'/', 0xff), "22021")] {
        let error = receive(&wrong).unwrap_err();
        assert_eq!(error.code().unwrap().code(), sqlstate, "{error:?}");
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM names"), 4);
}
