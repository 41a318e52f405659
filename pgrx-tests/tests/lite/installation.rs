//! hilo_lite is installed as an extension, or by psql alone, by whoever may create schemas; a dump brings it back.

use std::path::Path;

use hilo_tests::{ClientExt, Cluster};

use super::{cluster, lease};

fn script(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lite");
    std::fs::read_to_string(folder.join(file)).expect("it is there")
}

/// A role that is no superuser runs the script by psql, in a schema of its choice; and everybody's calls are its own
/// afterwards.
#[test]
fn psql_is_enough() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect("postgres");
    client.run("CREATE ROLE tenant LOGIN; CREATE ROLE app LOGIN");
    client.run("CREATE DATABASE shop OWNER tenant");
    let mut shop = cluster.connect_as("tenant", "shop");
    shop.run("CREATE SCHEMA ids; GRANT USAGE ON SCHEMA ids TO app; SET search_path = ids");
    shop.run(&script("hilo_lite--0.4.0.sql"));
    shop.run("SELECT hilo_create('s'), hilo_grant('s', 'app', 'USAGE')");
    shop.run(
        "CREATE TABLE t (id bigint DEFAULT hilo_nextval('s')); GRANT INSERT, SELECT ON t TO app",
    );
    let mut app = cluster.connect_as("app", "shop");
    app.run("INSERT INTO ids.t VALUES (DEFAULT), (DEFAULT)");
    assert_eq!(app.all::<i64>("SELECT id FROM ids.t"), [1, 2]);
    cluster.finish();
}

/// A dump holds positions and leases, whichever way it was installed.
#[test]
fn a_dump_brings_back_positions_and_leases() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('s', increment => 5)");
    for database in ["extension", "plain", "source"] {
        client.run(&format!("CREATE DATABASE {database}"));
    }
    let mut source = cluster.connect("source");
    source.run(&script("hilo_lite--0.4.0.sql"));
    source.run("SELECT hilo_create('s', increment => 5)");
    for (from, to, mut client) in [("postgres", "extension", client), ("source", "plain", source)] {
        client.draw("s", 3);
        let (name, first, last) = lease(&mut client, "'s', 10");
        client.run("DROP FUNCTION IF EXISTS hilo_find_gaps");
        client.run("ALTER TABLE _hilo.lease DROP COLUMN IF EXISTS ended");
        let dump = cluster.pg_dump(from, &[]);
        cluster.restore(to, &dump);
        let mut copy = cluster.connect(to);
        assert_eq!(copy.draw("s", 1), [last + 5]);
        assert_eq!(
            copy.one::<i64>(&format!("SELECT hilo_lease_return('{name}', {first} + 15)")),
            7
        );
        assert_eq!(copy.one::<String>("SELECT hilo_create('t')"), "t");
    }
    cluster.finish();
}
