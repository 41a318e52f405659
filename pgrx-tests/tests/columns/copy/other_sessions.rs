//! COPY on other paths: replication, other servers' tables, and databases of another version.

use hilo_tests::extension::install_older;
use hilo_tests::{LONG, wait_until};

use super::*;

/// Logical replication copies and applies as ever: each row gets a number in a column that the publisher lacks.
#[test]
fn logical_replication() {
    let builder = || Cluster::builder().logical().own_identity().config("track_functions", "all");
    let (publisher, subscriber) = (builder().start_with_hilo(), builder().start_with_hilo());
    let mut there = publisher.connect("postgres");
    there.run(
        "CREATE TABLE loaded (v integer PRIMARY KEY);
         INSERT INTO loaded SELECT v FROM generate_series(1, 3000) v;
         CREATE PUBLICATION rows FOR TABLE loaded",
    );
    let mut here = subscriber.connect("postgres");
    here.run(
        "SELECT hilo_create('s');
         CREATE TABLE loaded (v integer PRIMARY KEY, id bigint DEFAULT hilo_nextval('s'))",
    );
    subscriber.subscribe("rows", &publisher, "rows", "");
    there.run("INSERT INTO loaded SELECT v FROM generate_series(3001, 4000) v");
    wait_until("the rows have arrived", LONG, || {
        here.one::<i64>("SELECT count(*) FROM loaded") == 4000
    });
    assert_eq!(here.one::<i64>("SELECT count(DISTINCT id) FROM loaded"), 4000);
    here.run("DROP SUBSCRIPTION rows");
    const ALL: &str = "'hilo_nextval', 'hilo_copy_nextval'";
    wait_until("the workers have reported", LONG, || calls(&mut here, ALL) == 4000);
    assert_eq!(twins(&mut here), 0);
    subscriber.finish();
}

/// Rows that COPY routes to a table on another server have numbers of the table that is loaded.
#[test]
fn foreign_partitions() {
    let cluster = cluster();
    let mut client = cluster.connect("postgres");
    if client.one::<i64>("SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'")
        == 0
    {
        return; // An installation without contrib.
    }
    let socket = cluster.socket_directory().display();
    client.run(&format!(
        "CREATE EXTENSION postgres_fdw;
         CREATE SERVER itself FOREIGN DATA WRAPPER postgres_fdw
             OPTIONS (host '{socket}', dbname 'postgres', batch_size '100');
         CREATE USER MAPPING FOR PUBLIC SERVER itself OPTIONS (user 'postgres');
         SELECT hilo_create('s'), hilo_create('far');
         CREATE TABLE far (id bigint DEFAULT hilo_nextval('far'), v integer);
         CREATE TABLE loaded (id bigint DEFAULT hilo_nextval('s'), v integer) PARTITION BY RANGE (v);
         CREATE TABLE near PARTITION OF loaded FOR VALUES FROM (0) TO (1001);
         CREATE FOREIGN TABLE away PARTITION OF loaded (id DEFAULT hilo_nextval('far'))
             FOR VALUES FROM (1001) TO (5000) SERVER itself OPTIONS (table_name 'far')"
    ));
    copy(&mut client, "loaded (v)", 1..=3000);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM loaded WHERE id = v"), 3000);
    assert_eq!((calls(&mut client, "'hilo_nextval'"), twins(&mut client)), (0, 3000));
    copy(&mut client, "away (v)", 3001..=4000);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM far WHERE id = v - 3000"), 1000);
    cluster.finish();
}

/// With the objects of an older version, COPY is refused as every draw is; from the update on it is fast, in the same
/// session. After DROP EXTENSION and CREATE EXTENSION it is fast again.
#[test]
fn versions() {
    let builder = Cluster::builder().preload(true).config("track_functions", "all");
    let cluster = builder.start();
    install_older();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE EXTENSION hilo VERSION '0.9.0';
         CREATE TABLE loaded (id bigint DEFAULT hilo_nextval('s'), v integer)",
    );
    let mut open = client.copy_in("COPY loaded (v) FROM STDIN").unwrap();
    writeln!(open, "1").unwrap();
    assert_eq!(open.finish().unwrap_err().code().unwrap().code(), "55000");
    client.run("ALTER EXTENSION hilo UPDATE; SELECT hilo_create('s')");
    copy(&mut client, "loaded (v)", 1..=10);
    assert_eq!(twins(&mut client), 10);
    client.run("DROP EXTENSION hilo CASCADE");
    copy(&mut client, "loaded (v)", 1..=10);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM loaded WHERE id IS NULL"), 10);
    client.run(
        "CREATE SCHEMA own; CREATE EXTENSION hilo SCHEMA own; SELECT own.hilo_create('s');
         ALTER TABLE loaded ALTER COLUMN id SET DEFAULT own.hilo_nextval('s'); TRUNCATE loaded",
    );
    copy(&mut client, "loaded (v)", 1..=10);
    assert_rise(&mut client, "loaded");
    assert_eq!(twins(&mut client), 10);
    cluster.finish();
}
