//! Nodes that have numbered a sequence by themselves, each in its own stripes, become nodes of Citus. They serve none of its
//! numbers twice, and are led to sequences that have branches.

use hilo_tests::{ClientExt, assert_unique};

use super::{NOTHING, Nodes, create, findings, finish, join, join_all, server};

/// Servers that have each drawn as a node of their own.
fn striped() -> (Nodes, Vec<i64>) {
    let mut nodes: Nodes = Vec::new();
    let mut seen = Vec::new();
    for group in ["0", "1", "2"] {
        let (cluster, mut client) = server(&[("hilo.node_id", group), ("hilo.node_count", "8")]);
        client.run("SET hilo.on_every_node = on; SELECT hilo_create('s')");
        client.run("CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'))");
        seen.extend(client.draw("s", 1_500));
        nodes.push((cluster, client));
    }
    (nodes, seen)
}

fn configure(nodes: &mut Nodes, settings: [(&str, &str); 2]) {
    for (cluster, client) in nodes {
        settings.iter().for_each(|(name, value)| cluster.configure(name, value));
        cluster.restart();
        *client = cluster.connect("postgres");
    }
}

/// Promise 1: workers serve nothing, and the coordinator continues with its own stripe. New sequences follow the old ones.
#[test]
fn nodes_with_stripes_join_citus() {
    let (mut nodes, mut seen) = striped();
    join_all(&mut nodes);
    configure(&mut nodes, [("hilo.node_id", ""), ("hilo.node_count", "1")]);
    for (_, client) in &mut nodes[1..] {
        let refusal = client.refusal("SELECT hilo_nextval('s')").is("55000");
        refusal.says("a worker of Citus").hints("on the coordinator");
    }
    seen.extend(nodes[0].1.draw("s", 1_500));
    let refusal = nodes[0].1.refusal("SELECT * FROM hilo_create_on_all_nodes('s')");
    refusal.is("55000").details("no branch of the coordinator: docs/multi-node.md");
    let complaints = findings(&mut nodes[0].1);
    let words = "does not serve 1 sequences";
    assert!(complaints.iter().any(|found| found.contains(words)), "{complaints:?}");
    let beyond = seen.iter().max().expect("they have drawn") + 100_000;
    let options = format!("'new', '{{\"start_value\": {beyond}}}'");
    assert_eq!(create(&mut nodes[0].1, &options), ["create"; 3]);
    for (_, client) in &mut nodes {
        client.run("ALTER TABLE t ALTER id SET DEFAULT hilo_nextval('new'); SELECT hilo_drop('s')");
        let new: Vec<i64> =
            client.all("INSERT INTO t SELECT FROM generate_series(1, 3000) RETURNING id");
        assert!(new.iter().all(|value| *value >= beyond), "{new:?}");
        seen.extend(new);
    }
    for (_, client) in &mut nodes {
        assert_eq!(findings(client), NOTHING);
    }
    assert_unique("s", &seen);
    finish(nodes);
}

/// Promise 1: a node that has left Citus, or whose database came from one, does not become node 0.
#[test]
fn a_node_that_is_alone() {
    let (mut nodes, _) = striped();
    let (cluster, _) = nodes.pop().expect("three nodes");
    finish(nodes);
    cluster.configure("hilo.node_id", "");
    cluster.restart();
    let mut client = cluster.connect("postgres");
    client.refusal("SELECT hilo_nextval('s')").is("F0000").hints("docs/multi-node.md");
    client.run("DROP EXTENSION citus");
    client.refusal("SELECT hilo_nextval('s')").is("F0000").says("hilo.node_id is not set").helps();
    cluster.finish();
}

/// Promise 1: a server that becomes a worker serves nothing of its own any more, from memory or not. The coordinator goes on.
#[test]
fn a_server_becomes_a_worker() {
    let (cluster, mut client) = server(&[]);
    client.run("SELECT hilo_create('before')");
    assert_eq!(client.draw("before", 3), [1, 2, 3]);
    let mut other = cluster.connect("postgres");
    other.draw("before", 3);
    join(&mut client, 0, &[(0, &cluster), (1, &cluster)]);
    client.run("SELECT hilo_create('alone')");
    client.draw("alone", 1);
    join(&mut client, 1, &[(0, &cluster), (1, &cluster)]);
    let mut fresh = cluster.connect("postgres");
    for session in [&mut client, &mut other, &mut fresh] {
        for sql in [
            "SELECT hilo_nextval('before')",
            "SELECT hilo_create('after')",
            "SELECT hilo_setval('before', 7)",
        ] {
            session.refusal(sql).is("55000").says("a worker of Citus").hints("on the coordinator");
        }
        session
            .refusal("SELECT hilo_nextval('zzzz')")
            .is("42704")
            .hints("hilo_create_on_all_nodes");
    }
    cluster.finish();
}
