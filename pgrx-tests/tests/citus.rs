//! On Citus every node calls `hilo_nextval`, so what is right for a single server serves numbers twice. Debian
//! has no Citus: an extension of that name, with the two tables that hilo reads, replaces it here.

use hilo_tests::extension::install_script;
use hilo_tests::{Client, ClientExt, Cluster};

const STAND_IN: &str = "
    SET LOCAL allow_system_table_mods = on;
    CREATE TABLE pg_catalog.pg_dist_local_group (groupid integer);
    CREATE TABLE pg_catalog.pg_dist_node (nodeid integer, groupid integer);
    INSERT INTO pg_catalog.pg_dist_node VALUES (1, 0), (2, 1), (3, 2);";

/// A node of a Citus of three.
fn node(group: i32, settings: &[(&str, &str)]) -> (Cluster, Client) {
    install_script("citus.control", "default_version = '0'\n");
    install_script("citus--0.sql", STAND_IN);
    let builder = Cluster::builder();
    let cluster = settings
        .iter()
        .fold(builder, |builder, (name, value)| builder.config(name, value))
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE EXTENSION citus SCHEMA public");
    client.run(&format!("INSERT INTO pg_catalog.pg_dist_local_group VALUES ({group})"));
    (cluster, client)
}

fn found(client: &mut Client) -> Vec<String> {
    client.all("SELECT object || ': ' || what FROM hilo_check() WHERE object NOT LIKE 'setting f%' AND severity <> 'note'")
}

/// Sequences that each node serves as if it were alone are found; those in ranges of each node's own, and their
/// columns with the rows of all nodes, are not.
#[test]
fn sequences_that_every_node_serves_alike_are_found() {
    let (cluster, mut client) = node(1, &[("hilo.node_id", "0")]);
    client.refusal("SELECT hilo_nextval('none')").is("42704").hints("on every node of Citus");
    client.run(
        "SELECT hilo_create('own', start_value => (groupid::bigint << 48) + 1,
                            min_value => (groupid::bigint << 48) + 1, max_value => (groupid + 1::bigint) << 48)
           FROM pg_dist_local_group",
    );
    client.run("CREATE TABLE own (id bigint PRIMARY KEY DEFAULT hilo_nextval('own'))");
    client.run("INSERT INTO own VALUES (DEFAULT), ((2::bigint << 48) + 7), (5)");
    let complaints = found(&mut client);
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].starts_with("setting hilo.node_id: "), "{complaints:?}");
    client.run("SELECT hilo_create('alike'), hilo_nextval('alike')");
    let complaints = found(&mut client);
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    assert!(complaints[0].starts_with("group 1 of Citus: 1 sequences, such as \"alike\""));
    client.run("INSERT INTO own VALUES ((1::bigint << 48) + 1000000)");
    let complaints = found(&mut client);
    assert!(complaints.iter().any(|found| found.contains("is yet to be served")), "{complaints:?}");
    cluster.finish();
}

/// With stripes there is nothing to find, nor on a Citus of one node.
#[test]
fn stripes_are_as_they_should_be() {
    let (cluster, mut client) = node(2, &[("hilo.node_id", "2"), ("hilo.node_count", "8")]);
    client.run("SELECT hilo_create('striped'), hilo_nextval('striped')");
    assert_eq!(found(&mut client), Vec::<String>::new());
    cluster.finish();
    let (cluster, mut client) = node(0, &[]);
    client.run("DELETE FROM pg_catalog.pg_dist_node WHERE groupid > 0");
    client.run("SELECT hilo_create('alone'), hilo_nextval('alone')");
    assert_eq!(found(&mut client), Vec::<String>::new());
    cluster.finish();
}

/// With several servers, no hint leads to `hilo.auto_create`.
#[test]
fn the_hint_knows_of_other_nodes() {
    let cluster = Cluster::builder().node(0, 2).start_with_hilo();
    let mut client = cluster.connect("postgres");
    let refusal =
        client.refusal("SELECT hilo_nextval('none')").is("42704").hints("on every server");
    assert!(!refusal.report().hint().unwrap_or_default().contains("auto_create"));
    cluster.finish();
}
