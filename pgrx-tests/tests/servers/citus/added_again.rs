//! A node that is removed and added again has another group, and rows that are as old as its removal. It serves nothing
//! until it is told how the others number a sequence by now.

use hilo_tests::{Client, ClientExt, LONG, assert_unique, wait_until};

use super::{
    FOLLOWS, NOTHING, Nodes, all_serve, by_hand, create, findings, finish, join, join_as, renumber,
    server, summary, three_nodes,
};

/// As `citus_remove_node` of the last of three and `citus_add_node` leave it, with `meanwhile` on the two that stay.
fn add_again(nodes: &mut Nodes, meanwhile: &str) {
    join_as(&mut nodes[..2], &[0, 1]);
    for (_, client) in &mut nodes[..2] {
        by_hand(client);
        client.run(meanwhile);
    }
    join_as(&mut nodes[..3], &[0, 1, 3]);
}

/// Promise 1: the numbers that it would serve by its old rows are those of others, who renumbered the sequence while it was
/// away. hilo_check says so on every node, before it has drawn.
#[test]
fn it_serves_nothing_by_its_old_numbering() {
    let (mut nodes, mut seen) = three_nodes(3_000);
    // The first stripe here is one that group 3 would come to, from base 1 on.
    let restart = "SELECT hilo_alter('s', restart_with => 44033)";
    add_again(&mut nodes, restart);
    let mut fresh = nodes[2].0.connect("postgres");
    for session in [&mut nodes[2].1, &mut fresh] {
        session
            .refusal("SELECT hilo_nextval('s')")
            .is("55000")
            .says("not numbered for node 3")
            .details("renumbered")
            .hints("hilo_create_on_all_nodes('s')");
        for change in ["SELECT hilo_alter('s', increment => 2)", "SELECT hilo_setval('s', 99)"] {
            session.refusal(change).is("55000").says("not numbered");
        }
    }
    for (at, (_, client)) in nodes.iter_mut().enumerate() {
        let complaints = findings(client);
        let unserved = |found: &String| found.starts_with("warning") && found.contains("\"s\"");
        assert!(complaints.iter().any(unserved), "{at}: {complaints:?}");
    }
    assert_eq!(create(&mut nodes[0].1), ["exists", "exists", "number"]);
    assert_eq!(create(&mut nodes[2].1), ["exists"; 3]);
    for (_, client) in &mut nodes {
        seen.extend(client.draw("s", 7_000));
        assert_eq!(findings(client), NOTHING);
    }
    seen.extend(fresh.draw("s", 1_000));
    assert_unique("s", &seen);
    finish(nodes);
}

/// With nothing changed meanwhile it takes the same call, which is not refused because of it. That
/// holds for a node that joins at the same time, and for a repeated call.
#[test]
fn another_node_joins_before_it_has_drawn() {
    let (mut nodes, seen) = three_nodes(1_500);
    add_again(&mut nodes, "SELECT 1");
    nodes.push(server(&FOLLOWS));
    join_as(&mut nodes, &[0, 1, 3, 4]);
    assert_eq!(create(&mut nodes[0].1), ["create", "exists", "exists", "number"]);
    assert_eq!(create(&mut nodes[3].1), ["exists"; 4]);
    all_serve(nodes, seen);
}

/// Promise 1: it gets no numbering whose numbers it has served, or leased out, while it was alone.
#[test]
fn it_has_served_beyond_their_base() {
    let (mut nodes, mut seen) = three_nodes(100);
    join_as(&mut nodes[..2], &[0, 1]);
    seen.extend(nodes[2].1.draw("s", 9_000));
    nodes[2].1.run("SELECT * FROM hilo_lease('s', 500)");
    add_again(&mut nodes, "SELECT hilo_alter('s', restart_with => 44033)");
    nodes[0]
        .1
        .refusal("SELECT * FROM hilo_create_on_all_nodes('s')")
        .is("55000")
        .details("node 2 has reserved up to");
    nodes[2].1.refusal("SELECT hilo_nextval('s')").is("55000").says("not numbered for node 3");
    renumber(&mut nodes, &mut seen);
    for (_, client) in &mut nodes {
        assert_eq!(findings(client), NOTHING);
    }
    assert_unique("s", &seen);
    finish(nodes);
}

/// Promise 1: what restarts or moves a sequence does not decide how the node begins. Only its owner does, who says with
/// which value.
#[test]
fn nothing_but_its_owner_lets_it_begin() {
    let (mut nodes, mut seen) = three_nodes(3_000);
    for (_, client) in &mut nodes {
        client.run(
            "CREATE TABLE t (id bigint PRIMARY KEY DEFAULT hilo_nextval('s'));
             SELECT hilo_alter('s', owned_by => 't.id')",
        );
    }
    add_again(&mut nodes, "SELECT hilo_alter('s', restart_with => 1000000)");
    nodes[2].1.run("INSERT INTO t VALUES (3 * 1024 + 50)");
    for change in [
        "TRUNCATE t RESTART IDENTITY",
        "SELECT hilo_setval('s', 1)",
        "SELECT hilo_sync('s', 't', 'id')",
        "SELECT hilo_advance('s', 4000)",
    ] {
        nodes[2].1.refusal(change).is("55000");
        by_hand(&mut nodes[2].1);
        nodes[2].1.refusal(change).is("55000").says("not numbered for node 3");
        nodes[2].1.run("RESET hilo.on_every_node");
    }
    assert_eq!(create(&mut nodes[0].1), ["exists", "exists", "number"]);
    for (_, client) in &mut nodes {
        seen.extend(client.draw("s", 7_000));
    }
    assert_unique("s", &seen);
    finish(nodes);
}

/// Promise 1: where its standby has taken its place, the old row may lack what it has served while it was alone.
#[test]
fn its_standby_comes_back() {
    let (mut nodes, mut seen) = three_nodes(100);
    join_as(&mut nodes[..2], &[0, 1]);
    let standby = nodes[2].0.clone_by_base_backup();
    nodes[2].0.wait_for_replay(&standby);
    let mut lagging = standby.connect("postgres");
    lagging.run("ALTER SYSTEM SET primary_conninfo = 'host=/nowhere'");
    lagging.run("SELECT pg_reload_conf()");
    let (primary, mut client) = nodes.pop().expect("the third");
    wait_until("the standby has lost its primary", LONG, || {
        client.one::<i64>("SELECT count(*) FROM pg_stat_replication") == 0
    });
    seen.extend(client.draw("s", 9_000));
    primary.kill9_postmaster();
    standby.promote();
    let client = standby.connect("postgres");
    nodes.push((standby, client));
    // Beyond what the standby knows of, and not beyond what was served.
    add_again(&mut nodes, "SELECT hilo_alter('s', restart_with => 30000)");
    nodes[0]
        .1
        .refusal("SELECT * FROM hilo_create_on_all_nodes('s')")
        .is("55000")
        .details("node 2 has reserved up to");
    nodes[2].1.refusal("SELECT hilo_nextval('s')").is("55000").says("not numbered for node 3");
    renumber(&mut nodes, &mut seen);
    assert_unique("s", &seen);
    finish(nodes);
}

/// Promise 1: a clone that is promoted has the group of its original, which runs on, until Citus gives it one of its own.
#[test]
fn a_clone_serves_nothing_while_it_is_promoted() {
    let (mut nodes, mut seen) = three_nodes(100);
    join_as(&mut nodes, &[0, 1, 2]);
    let clone = nodes[2].0.clone_by_base_backup();
    for (_, client) in &mut nodes {
        client.run(
            "INSERT INTO pg_catalog.pg_dist_node (nodeid, groupid, nodename, nodeisclone, nodeprimarynodeid)
             SELECT 900, 900, 'clone', true, nodeid FROM pg_catalog.pg_dist_node WHERE groupid = 2",
        );
    }
    nodes[2].0.wait_for_replay(&clone);
    clone.promote();
    let mut client = clone.connect("postgres");
    let draw = "SELECT hilo_nextval('s')";
    client.refusal(draw).is("55000").says("this server may be a clone of node 2, which still runs");
    seen.extend(nodes[2].1.draw("s", 100));
    // Whoever replaces the node after all removes the clone.
    nodes[2].0.kill9_postmaster();
    client.run("DELETE FROM pg_catalog.pg_dist_node WHERE nodeisclone");
    seen.extend(client.draw("s", 100));
    assert_unique("s", &seen);
    let (_, _) = nodes.pop().expect("the third");
    nodes.push((clone, client));
    finish(nodes);
}

/// A number that was set by hand is no better than that of Citus.
#[test]
fn an_id_that_was_set_by_hand() {
    let (cluster, mut client) = server(&[("hilo.node_id", "2"), ("hilo.node_count", "8")]);
    join(&mut client, 2, &[(0, &cluster), (2, &cluster)]);
    by_hand(&mut client);
    client.run("SELECT hilo_create('s')");
    client.draw("s", 10);
    join(&mut client, 3, &[(0, &cluster), (3, &cluster)]);
    cluster.configure("hilo.node_id", "3");
    cluster.restart();
    let mut client = cluster.connect("postgres");
    client.refusal("SELECT hilo_nextval('s')").is("55000").says("not numbered for node 3");
    cluster.finish();
}

/// Promise 1: what tells the node takes effect at its commit. A value that a transaction drew
/// before would be served again after its rollback.
#[test]
fn it_is_told_in_a_transaction() {
    let (cluster, mut client) = server(&FOLLOWS);
    join(&mut client, 2, &[(0, &cluster), (2, &cluster)]);
    by_hand(&mut client);
    client.run("SELECT hilo_create('s', start_value => 50)");
    let mut seen = client.draw("s", 100);
    let summary = summary(&mut client);
    let apply = |client: &mut Client, options: &str| -> Vec<String> {
        client.all(&format!(
            "SELECT concat(action, ' ', name, ' ', detail) FROM hilo_apply('{summary}'{options})"
        ))
    };
    let number = [r#"number s {"base": 50, "nodes": 8, "stripe": 1024}"#];
    join(&mut client, 3, &[(0, &cluster), (3, &cluster)]);
    let mut other = cluster.connect("postgres");
    assert_eq!(apply(&mut client, ", dry_run => true"), number);
    client.refusal("SELECT hilo_nextval('s')").says("not numbered for node 3");
    // Nobody else begins by what this server says of it.
    let unknown = format!("SELECT hilo_apply('{}')", super::summary(&mut client));
    client.run("BEGIN; SELECT hilo_drop('s')");
    client.refusal(&unknown).is("55000").says("not known how").helps();
    client.run("ROLLBACK");
    for end in ["ROLLBACK", "COMMIT"] {
        client.run("BEGIN");
        assert_eq!(apply(&mut client, ""), number);
        client.run("SAVEPOINT a");
        client.refusal("SELECT hilo_nextval('s')").is("55000").hints("Commit");
        client.run(&format!("ROLLBACK TO a; {end}"));
        if end == "ROLLBACK" {
            other.refusal("SELECT hilo_nextval('s')").says("not numbered for node 3");
        }
    }
    assert_eq!(apply(&mut client, ""), NOTHING);
    seen.extend(client.draw("s", 2_000));
    seen.extend(other.draw("s", 2_000));
    assert_eq!(seen[100], 50 + 3 * 1024);
    assert_unique("s", &seen);
    let refusal = summary.replace("\"base\": 50", "\"base\": 51");
    other.refusal(&format!("SELECT hilo_apply('{refusal}')")).is("55000").says("differently");
    cluster.finish();
}
