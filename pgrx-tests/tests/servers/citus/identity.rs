//! Who a node is: its group in Citus, and nothing else.

use hilo_tests::{ClientExt, Cluster, LONG, assert_unique, wait_until};

use super::{FOLLOWS, NOTHING, by_hand, findings, join, server, summary, tell, three};

/// Promise 1: each node serves the stripes of its group, with no setting that differs between the nodes.
#[test]
fn follows_the_group() {
    let mut nodes = three();
    let mut seen = Vec::new();
    for (group, (_, client)) in nodes.iter_mut().enumerate() {
        by_hand(client);
        client.run("SELECT hilo_create('s')");
        assert_eq!(client.draw("s", 1), [group as i64 * 1024 + 1]);
        seen.extend(client.draw("s", 3_000));
        assert_eq!(client.one::<i32>("SELECT hilo.node_id()"), group as i32);
    }
    assert_unique("s", &seen);
    for (_, client) in &mut nodes {
        assert_eq!(findings(client), NOTHING);
    }
    nodes.into_iter().for_each(|(cluster, _)| cluster.finish());
}

/// Promise 1: when the group changes, nothing of the old one is served any more, from the next
/// statement on. No session's slice, no pool and no new session serves it, nor does the node once
/// it is told how the sequence is numbered. A crash and a restart change nothing of that.
#[test]
fn what_is_in_memory_belongs_to_the_old_group() {
    let (cluster, mut client) = server(&FOLLOWS);
    join(&mut client, 1, &[(0, &cluster), (1, &cluster)]);
    by_hand(&mut client);
    client.run("SELECT hilo_create('s'), hilo_create('ordered', ordered => true)");
    let mut other = cluster.connect("postgres");
    let mut seen = client.draw("s", 50);
    seen.extend(other.draw("s", 7));
    let mut ordered = client.draw("ordered", 5);
    let of_node = |values: &[i64], node| values.iter().all(|value| (value - 1) / 1024 % 8 == node);
    assert!(of_node(&seen, 1) && of_node(&ordered, 1), "{seen:?} {ordered:?}");
    let numbered = summary(&mut client);
    for group in [2, 5, 6] {
        join(&mut client, group, &[(0, &cluster), (group, &cluster)]);
        for session in [&mut other, &mut client] {
            session.refusal("SELECT hilo_nextval('s')").is("55000").says("not numbered for node");
        }
        tell(&mut client, &numbered);
        for session in [&mut other, &mut client, &mut cluster.connect("postgres")] {
            for (name, seen) in [("s", &mut seen), ("ordered", &mut ordered)] {
                let drawn = session.draw(name, 40);
                assert!(of_node(&drawn, group.into()), "group {group}: {drawn:?}");
                seen.extend(drawn);
            }
        }
        match group {
            2 => cluster.restart(),
            5 => {
                cluster.expect_crash();
                cluster.stop(hilo_tests::Mode::Immediate);
                cluster.start();
            }
            _ => continue,
        }
        client = cluster.connect("postgres");
        other = cluster.connect("postgres");
    }
    assert_unique("s", &seen);
    assert_unique("ordered", &ordered);
    cluster.finish();
}

/// A server that has not joined, or has left, is nobody: it serves nothing, not as node 0 either. Views and hilo_check
/// work, and say so.
#[test]
fn without_a_group_nothing_is_served() {
    let (cluster, mut client) = server(&FOLLOWS);
    let refused = |client: &mut hilo_tests::Client, sql: &str, detail: &str| {
        client.refusal(sql).is("55000").says("not known which node").details(detail).helps();
    };
    refused(&mut client, "SELECT hilo_create('s')", "has not joined");
    join(&mut client, 1, &[(0, &cluster), (1, &cluster)]);
    by_hand(&mut client);
    client.run("SELECT hilo_create('s')");
    let mut seen = client.draw("s", 10);
    let numbered = summary(&mut client);
    // As citus_remove_node leaves it.
    join(&mut client, 0, &[]);
    let mut fresh = cluster.connect("postgres");
    for session in [&mut client, &mut fresh] {
        for sql in
            ["SELECT hilo_nextval('s')", "SELECT hilo_setval('s', 9)", "SELECT hilo_create('t')"]
        {
            refused(session, sql, "has left it");
        }
        assert_eq!(session.one::<Option<i32>>("SELECT hilo.node_id()"), None);
        session.run("SELECT * FROM hilo_sequences; SELECT * FROM hilo_stat_sequences; SELECT * FROM hilo_gaps");
        let complaints = findings(session);
        assert!(
            complaints.iter().any(|found| found.contains("not known which node")),
            "{complaints:?}"
        );
    }
    client.run("DELETE FROM pg_catalog.pg_dist_local_group");
    refused(&mut client, "SELECT hilo_nextval('s')", "is empty");
    client.run("INSERT INTO pg_catalog.pg_dist_local_group VALUES (0)");
    client.run("CREATE DATABASE plain");
    let mut plain = cluster.connect("plain");
    plain.run("CREATE EXTENSION hilo");
    refused(&mut plain, "SELECT hilo_create('s')", "no Citus");
    drop(plain);
    // It joins again, as Citus does it: under another group.
    join(&mut client, 4, &[(0, &cluster), (4, &cluster)]);
    tell(&mut client, &numbered);
    seen.extend(client.draw("s", 10));
    seen.extend(fresh.draw("s", 10));
    assert_unique("s", &seen);
    assert!(seen[10..].iter().all(|value| (value - 1) / 1024 == 4), "{seen:?}");
    cluster.finish();
}

/// Promise 1: a worker without the id of its group serves nothing of its own. That holds for
/// sequences that it creates and for earlier ones, from memory or not. The coordinator goes on.
#[test]
fn a_node_needs_its_own_id() {
    let (cluster, mut client) = server(&[]);
    client.run("SELECT hilo_create('before')");
    assert_eq!(client.draw("before", 3), [1, 2, 3]);
    join(&mut client, 0, &[(0, &cluster), (1, &cluster)]);
    client.run("SELECT hilo_create('alone')");
    client.draw("alone", 1);
    assert_eq!(findings(&mut client), NOTHING);
    join(&mut client, 1, &[(0, &cluster), (1, &cluster)]);
    let mut fresh = cluster.connect("postgres");
    for session in [&mut client, &mut fresh] {
        for sql in [
            "SELECT hilo_nextval('before')",
            "SELECT hilo_create('after')",
            "SELECT hilo_setval('before', 7)",
        ] {
            session.refusal(sql).is("55000").says("a worker of Citus").hints("on the coordinator");
        }
    }
    let complaints = findings(&mut client);
    assert!(
        complaints.iter().any(|found| found.contains("setting hilo.node_id")),
        "{complaints:?}"
    );
    cluster.configure("hilo.node_count", "8");
    cluster.configure("hilo.node_id", "1");
    cluster.reload();
    wait_until("the session knows its node", LONG, || {
        client.one::<String>("SHOW hilo.node_id") == "1"
    });
    by_hand(&mut client);
    client.run("SELECT hilo_create('after')");
    assert_eq!(client.draw("after", 1), [1025]);
    client
        .refusal("SELECT hilo_nextval('before')")
        .is("55000")
        .says("not numbered for node 1")
        .helps();
    cluster.finish();
}

/// Bounds that Citus would give a sequence of core's there are as good as an id; the rows of other nodes are no danger.
#[test]
fn bounds_of_a_nodes_own() {
    let (cluster, mut client) = server(&[]);
    join(&mut client, 1, &[(0, &cluster), (1, &cluster), (2, &cluster)]);
    client.run(
        "SELECT hilo_create('own', start_value => (groupid::bigint << 48) + 1,
                            min_value => (groupid::bigint << 48) + 1, max_value => (groupid + 1::bigint) << 48)
           FROM pg_dist_local_group",
    );
    client.run("CREATE TABLE own (id bigint PRIMARY KEY DEFAULT hilo_nextval('own'))");
    client.run("INSERT INTO own VALUES (DEFAULT), ((2::bigint << 48) + 7), (5)");
    assert_eq!(findings(&mut client), NOTHING);
    client.run("INSERT INTO own VALUES ((1::bigint << 48) + 1000000)");
    let complaints = findings(&mut client);
    assert!(complaints.iter().any(|found| found.contains("is yet to be served")), "{complaints:?}");
    client.refusal("SELECT hilo_create('wide', min_value => (1::bigint << 48) + 1)").is("55000");
    client.run("SELECT hilo_alter('own', max_value => 9223372036854775807)");
    let mut fresh = cluster.connect("postgres");
    fresh.refusal("SELECT hilo_nextval('own')").is("55000");
    cluster.finish();
}

/// No hint leads to `hilo.auto_create` where other nodes would create the sequence too.
#[test]
fn the_hint_knows_of_other_nodes() {
    let cluster = Cluster::builder().node(0, 2).start_with_hilo();
    let mut client = cluster.connect("postgres");
    let refusal = client.refusal("SELECT hilo_nextval('none')").is("42704").hints("hilo_apply");
    assert!(!refusal.report().hint().unwrap_or_default().contains("auto_create"));
    cluster.finish();
    let (cluster, mut client) = server(&FOLLOWS);
    join(&mut client, 1, &[(0, &cluster), (1, &cluster)]);
    client.refusal("SELECT hilo_nextval('none')").is("42704").hints("hilo_create_on_all_nodes");
    cluster.finish();
}

/// Where several servers share sequences, one without an id takes no place among them. One that serves already goes on.
#[test]
fn one_of_several_needs_an_id() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('before')");
    cluster.configure("hilo.node_count", "2");
    cluster.reload();
    wait_until("the session knows", LONG, || client.one::<String>("SHOW hilo.node_count") == "2");
    for sql in ["SELECT hilo_create('s')", "SELECT hilo_alter('before', restart_with => 100)"] {
        client.refusal(sql).is("F0000").says("hilo.node_id is not set").details("2 nodes").helps();
    }
    client.run("SET hilo.auto_create = on");
    client.refusal("SELECT hilo_nextval('s')").is("F0000").says("hilo.node_id is not set");
    client.run("RESET hilo.auto_create");
    assert_eq!(client.draw("before", 2), [1, 2]);
    assert!(findings(&mut client).iter().any(|found| found.contains("hilo.node_id is not set")));
    cluster.configure("hilo.node_id", "0");
    cluster.reload();
    wait_until("the session knows", LONG, || client.one::<String>("SHOW hilo.node_id") == "0");
    by_hand(&mut client);
    client.run("SELECT hilo_create('s'), hilo_alter('before', restart_with => 100)");
    for wrong in ["-1", "1024", "north"] {
        client
            .refusal(&format!("ALTER SYSTEM SET hilo.node_id = '{wrong}'"))
            .is("22023")
            .details("0 to 1023, or citus");
    }
    cluster.finish();
}
