//! One call creates a sequence on all nodes, and completes those that lack it.

use hilo_tests::{Client, ClientExt, Cluster, assert_unique};

use super::{FOLLOWS, NOTHING, by_hand, findings, join_all, server, three};

fn create(client: &mut Client, arguments: &str) -> Vec<String> {
    client.all(&format!("SELECT action FROM hilo_create_on_all_nodes({arguments}) ORDER BY node"))
}

fn finish(nodes: Vec<(Cluster, Client)>) {
    nodes.into_iter().for_each(|(cluster, _)| cluster.finish());
}

/// Promise 1: the sequence is the same on all nodes, and each serves its own numbers. A second call
/// changes nothing. A node that joins later is refused before, and gets the numbering that the
/// others have by then, not that of a new sequence.
#[test]
fn on_all_nodes_and_on_a_later_one() {
    let mut nodes = three();
    let client = &mut nodes[1].1;
    assert_eq!(
        create(client, r#"'s', '{"block_size": 2048, "min_value": 0, "start_value": 7}'"#),
        ["create"; 3]
    );
    assert_eq!(create(client, "'s'"), ["exists"; 3]);
    let mut seen = Vec::new();
    for (_, client) in &mut nodes {
        seen.extend(client.draw("s", 3_000));
    }
    for (_, client) in &mut nodes {
        by_hand(client);
        client.run("SELECT hilo_alter('s', restart_with => 1000000)");
    }
    nodes.push(server(&FOLLOWS));
    nodes[3].1.refusal("SELECT hilo_create('s')").is("55000");
    join_all(&mut nodes);
    nodes[3].1.refusal("SELECT hilo_nextval('s')").is("42704").hints("hilo_create_on_all_nodes");
    let complaints = findings(&mut nodes[0].1);
    assert!(
        complaints.iter().any(|found| found.contains("lacks 1 sequences, such as \"s\"")),
        "{complaints:?}"
    );
    let mut actions = create(&mut nodes[3].1, "'s'");
    actions.sort();
    assert_eq!(actions, ["create", "exists", "exists", "exists"]);
    for (_, client) in &mut nodes {
        seen.extend(client.draw("s", 5_000));
        assert_eq!(findings(client), NOTHING);
        let sql = "SELECT count(DISTINCT (base, nodes, stripe)) FROM _hilo.position WHERE node = hilo.node_id()";
        assert_eq!(client.one::<i64>(sql), 1);
    }
    assert_unique("s", &seen);
    finish(nodes);
}

/// A step that cannot be done on every node is an error that names the node. Nothing is created
/// before all have answered.
#[test]
fn a_node_that_cannot() {
    let mut nodes = three();
    nodes[2].0.stop(hilo_tests::Mode::Fast);
    let refusal = nodes[0].1.refusal("SELECT * FROM hilo_create_on_all_nodes('s')");
    let host = nodes[2].0.socket_directory().display().to_string();
    refusal.is("55000").says("on all nodes").details(&host).hints("call it again");
    nodes[0].1.refusal("SELECT hilo_nextval('s')").is("42704");
    nodes[2].0.configure("hilo.node_id", "1");
    nodes[2].0.start();
    nodes[2].1 = nodes[2].0.connect("postgres");
    nodes[0]
        .1
        .refusal("SELECT * FROM hilo_create_on_all_nodes('s')")
        .details("its id is 1, as that of node");
    nodes[2].0.configure("hilo.node_id", "citus");
    nodes[2].0.configure("hilo.node_count", "9");
    nodes[2].0.restart();
    nodes[2].1 = nodes[2].0.connect("postgres");
    nodes[0]
        .1
        .refusal("SELECT * FROM hilo_create_on_all_nodes('t')")
        .details("hilo.node_count is 9");
    nodes[2].0.configure("hilo.node_count", "8");
    nodes[2].0.restart();
    nodes[2].1 = nodes[2].0.connect("postgres");
    assert_eq!(create(&mut nodes[0].1, "'s'").len(), 3);
    // One that differs is left as it is.
    nodes[1..].iter_mut().for_each(|(_, client)| by_hand(client));
    nodes[2].1.run("SELECT hilo_create('u', start_value => 5)");
    nodes[1].1.run("SELECT hilo_create('u')");
    nodes[0]
        .1
        .refusal("SELECT * FROM hilo_create_on_all_nodes('u')")
        .is("55000")
        .details("differs");
    nodes[0].1.refusal("SELECT hilo_nextval('u')").is("42704");
    finish(nodes);
}

/// A node that could read, and then waits for a lock, is named too.
#[test]
fn a_node_that_cannot_write() {
    let mut nodes = three();
    nodes[1].1.run("BEGIN; LOCK TABLE _hilo.sequence IN SHARE MODE");
    let host = nodes[1].0.socket_directory().display().to_string();
    nodes[0]
        .1
        .refusal("SELECT * FROM hilo_create_on_all_nodes('s')")
        .is("55000")
        .details(&host)
        .details("lock timeout");
    nodes[1].1.run("ROLLBACK");
    assert_eq!(create(&mut nodes[0].1, "'s'").len(), 3);
    finish(nodes);
}

/// Bad input: a clear error, and nothing is created.
#[test]
fn bad_calls() {
    let mut nodes = three();
    let client = &mut nodes[0].1;
    for options in ["[]", "7", r#"{"incremnt": 1}"#, r#"{"increment": 0}"#] {
        client
            .refusal(&format!("SELECT * FROM hilo_create_on_all_nodes('s', '{options}')"))
            .is("22023");
    }
    client.refusal("SELECT * FROM hilo_create_on_all_nodes(NULL)").is("22023");
    client.refusal("SELECT * FROM hilo_create_on_all_nodes('s', NULL)").is("22023");
    client.run("BEGIN");
    client.refusal("SELECT * FROM hilo_create_on_all_nodes('s')").is("25001");
    client.run("ROLLBACK");
    client.refusal("SELECT hilo_nextval('s')").is("42704");
    finish(nodes);
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client
        .refusal("SELECT * FROM hilo_create_on_all_nodes('s')")
        .is("0A000")
        .hints("hilo_node_summary");
    cluster.finish();
}
