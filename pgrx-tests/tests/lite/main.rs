//! hilo_lite keeps hilo's promises where no library is loaded: each value comes once, and each is served, free, leased or a
//! gap.

mod attacks;
mod changes;
mod conversion;
mod hostile_owner;
mod installation;
mod locks;
mod page;
mod planted;
mod rights;
mod uniqueness;

use std::path::Path;

use hilo_tests::extension::create_lite;
use hilo_tests::{Client, ClientExt, Cluster};

/// A server without hilo, and hilo_lite in its database `postgres`.
fn cluster() -> (Cluster, Client) {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect("postgres");
    create_lite(&mut client, "public");
    (cluster, client)
}

/// The text of a file of `lite/`.
fn script(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lite");
    std::fs::read_to_string(folder.join(file)).expect("it is there")
}

/// Drops what tests added to hilo_lite.
fn drop_additions(client: &mut Client) {
    client.run("DROP FUNCTION hilo_find_gaps; ALTER TABLE _hilo.hilo_lease DROP COLUMN ended");
}

/// The name, the first and the last value of a lease.
fn lease(client: &mut Client, arguments: &str) -> (String, i64, i64) {
    let sql = format!("SELECT lease::text, first, last FROM hilo_lease({arguments})");
    let row = client.query_one(&sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    (row.get(0), row.get(1), row.get(2))
}

/// The ranges that a sequence `s` has lost, each with its reason.
fn gaps(client: &mut Client) -> Vec<String> {
    client.all(
        "SELECT concat_ws(' ', first, last, reason) FROM hilo_gaps WHERE name = 's' ORDER BY first",
    )
}
