//! Citus drops extensions and tables on its workers, and gives tables away, with PREPARE TRANSACTION and COMMIT PREPARED.

use hilo_tests::{Client, ClientExt, Cluster, assert_unique};

fn cluster() -> Cluster {
    Cluster::builder().config("max_prepared_transactions", "5").start_with_hilo()
}

/// Promise 1: nothing that memory has of the dropped sequences is served under the same name by the
/// extension that is created after it. A session that remembers the name does not serve it either.
#[test]
fn a_drop_is_committed() {
    for commit_elsewhere in [false, true] {
        let cluster = cluster();
        let mut client = cluster.connect("postgres");
        let mut other = cluster.connect("postgres");
        client.run("SELECT hilo_create('s', block_size => 500)");
        client.draw("s", 10);
        other.draw("s", 3);
        client.run("BEGIN; DROP EXTENSION hilo; PREPARE TRANSACTION 'drop'");
        other.run("SET lock_timeout = 10");
        other.refusal("SELECT hilo_nextval('s')").is("55P03");
        other.run("RESET lock_timeout");
        if commit_elsewhere {
            drop(client);
            cluster.restart();
            client = cluster.connect("postgres");
            other = cluster.connect("postgres");
        }
        client.run("COMMIT PREPARED 'drop'");
        other.refusal("SELECT hilo_nextval('s')").is("42883");
        client.run("CREATE EXTENSION hilo; SELECT hilo_create('s')");
        let mut seen = client.draw("s", 2);
        assert_eq!(seen, [1, 2]);
        for mut session in [other, cluster.connect("postgres"), cluster.connect("postgres")] {
            seen.extend(session.draw("s", 300));
        }
        assert_unique("s", &seen);
        // The worker leaves, and with it what memory still has of the old one.
        drop(client);
        cluster.restart();
        let mut client = cluster.connect("postgres");
        seen.extend(client.draw("s", 1));
        assert_unique("s", &seen);
        drop(client);
        cluster.finish();
    }
}

/// A drop that is rolled back loses and repeats nothing, and what came before it in the transaction goes with it.
#[test]
fn a_drop_is_rolled_back() {
    let cluster = cluster();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let mut seen = client.draw("s", 10);
    client.run("BEGIN; SELECT hilo_create('never')");
    client.draw("never", 3);
    seen.extend(client.draw("s", 3));
    client.run("DROP EXTENSION hilo CASCADE; PREPARE TRANSACTION 'drop'");
    client.run("ROLLBACK PREPARED 'drop'");
    client.refusal("SELECT hilo_nextval('never')").is("42704");
    seen.extend(client.draw("s", 10));
    seen.extend(cluster.connect("postgres").draw("s", 10));
    assert_unique("s", &seen);
    cluster.finish();
}

/// This session's memory has the definitions that the new extension has made in the transaction. So
/// that is refused, as after a drop that a savepoint has taken back.
#[test]
fn definitions_are_not_prepared() {
    let cluster = cluster();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    for sql in [
        "DROP EXTENSION hilo; CREATE EXTENSION hilo; SELECT hilo_create('new')",
        "SELECT hilo_create('new'); SAVEPOINT a; DROP EXTENSION hilo; ROLLBACK TO a",
    ] {
        client.run(&format!("BEGIN; {sql}"));
        client.refusal("PREPARE TRANSACTION 'refused'").is("0A000").helps();
        client.run("ROLLBACK");
    }
    assert_eq!(client.draw("s", 1), [1]);
    cluster.finish();
}

/// A table whose column owns a sequence that two sessions have drawn from.
fn create_owned(cluster: &Cluster) -> (Vec<Client>, Vec<i64>) {
    let mut clients = vec![cluster.connect("postgres"), cluster.connect("postgres")];
    clients[0].run(
        "SELECT hilo_create('s', block_size => 500); CREATE SCHEMA z;
         CREATE TABLE z.t (id bigint DEFAULT hilo_nextval('s')); SELECT hilo_alter('s', owned_by => 'z.t.id')",
    );
    let seen = clients.iter_mut().flat_map(|client| client.draw("s", 40)).collect();
    (clients, seen)
}

const DROPS: [&str; 3] =
    ["DROP TABLE z.t", "DROP SCHEMA z CASCADE", "ALTER TABLE z.t DROP COLUMN id"];

/// Promise 1: nobody serves what memory has of a sequence that was dropped with its table, under the same name or not. Who
/// asks before the outcome is known waits for it.
#[test]
fn a_drop_of_the_owner_is_committed() {
    for (at, drop_it) in DROPS.into_iter().enumerate() {
        let cluster = cluster();
        let (mut clients, _) = create_owned(&cluster);
        clients[0].run(&format!("BEGIN; {drop_it}; PREPARE TRANSACTION 'drop'"));
        for client in &mut clients {
            client.run("SET lock_timeout = 10");
            client.refusal("SELECT hilo_nextval('s')").is("55P03");
            client.run("RESET lock_timeout");
        }
        if at == 0 {
            cluster.restart();
            clients = vec![cluster.connect("postgres"), cluster.connect("postgres")];
            clients[1].run("SET lock_timeout = 10");
            clients[1].refusal("SELECT hilo_nextval('s')").is("55P03");
            clients[1].run("RESET lock_timeout");
        }
        clients[0].run("COMMIT PREPARED 'drop'");
        for client in &mut clients {
            client.refusal("SELECT hilo_nextval('s')").is("42704");
        }
        clients[0].run("SELECT hilo_create('s')");
        clients.push(cluster.connect("postgres"));
        let seen: Vec<i64> = clients.iter_mut().flat_map(|client| client.draw("s", 600)).collect();
        assert_eq!(seen[0], 1);
        assert_unique("s", &seen);
        drop(clients);
        cluster.finish();
    }
}

/// A drop that is rolled back repeats and loses nothing, and holds nobody up any more.
#[test]
fn a_drop_of_the_owner_is_rolled_back() {
    let cluster = cluster();
    let (mut clients, mut seen) = create_owned(&cluster);
    clients[0].run("BEGIN; DROP TABLE z.t; PREPARE TRANSACTION 'drop'");
    clients[0].run("ROLLBACK PREPARED 'drop'");
    for client in &mut clients {
        seen.extend(client.draw("s", 700));
    }
    drop(clients);
    cluster.restart();
    hilo_tests::assert_accounted(&mut cluster.connect("postgres"), "s", &seen);
    cluster.finish();
}

/// The new owner's rights are those that count from the commit on, and the old owner's until then.
#[test]
fn a_table_is_given_away() {
    let cluster = cluster();
    let (mut clients, mut seen) = create_owned(&cluster);
    clients[0].run("CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; GRANT ALL ON SCHEMA z TO ann, bob; ALTER TABLE z.t OWNER TO ann");
    clients[1].run("SET ROLE ann");
    seen.extend(clients[1].draw("s", 10));
    for end in ["ROLLBACK", "COMMIT"] {
        clients[0].run("BEGIN; ALTER TABLE z.t OWNER TO bob; PREPARE TRANSACTION 'give'");
        clients[0].run(&format!("{end} PREPARED 'give'"));
        if end == "ROLLBACK" {
            seen.extend(clients[1].draw("s", 10));
        }
    }
    clients[1].refusal("SELECT hilo_nextval('s')").is("42501").helps();
    clients[1].run("SET ROLE bob");
    seen.extend(clients[1].draw("s", 1_000));
    seen.extend(clients[0].draw("s", 1_000));
    assert_unique("s", &seen);
    drop(clients);
    cluster.finish();
}

/// A table that replaces another one in its transaction gets its sequence, as where Citus distributes a table in another way.
#[test]
fn a_table_is_replaced() {
    let cluster = cluster();
    let (mut clients, mut seen) = create_owned(&cluster);
    clients[0].run(
        "BEGIN; CREATE TABLE z.new (LIKE z.t INCLUDING ALL); DROP TABLE z.t CASCADE; ALTER TABLE z.new RENAME TO t;
         PREPARE TRANSACTION 'replace'",
    );
    clients[0].run("COMMIT PREPARED 'replace'");
    let owner: String = clients[1].one("SELECT owned_by::text FROM _hilo.hilo_definition");
    assert_eq!(owner, "z.t.id");
    seen.extend(clients[1].all::<i64>("INSERT INTO z.t VALUES (DEFAULT), (DEFAULT) RETURNING id"));
    assert_unique("s", &seen);
    clients[0].run("DROP TABLE z.t");
    clients[1].refusal("SELECT hilo_nextval('s')").is("42704");
    drop(clients);
    cluster.finish();
}

/// The sequence goes over to the new table, and not to one of its shards or partitions. These are
/// dropped before it, as where Citus moves a shard to another node.
#[test]
fn no_part_of_the_new_table_gets_it() {
    let (cluster, client) = super::server(&[]);
    drop(client);
    let (mut clients, mut seen) = create_owned(&cluster);
    clients[0].run(
        "BEGIN; CREATE TABLE z.t_102008 (LIKE z.t INCLUDING ALL); CREATE TABLE z.part (LIKE z.t INCLUDING ALL);
         CREATE TABLE z.t_1234567890 (LIKE z.t INCLUDING ALL) PARTITION BY RANGE (id);
         INSERT INTO pg_catalog.pg_dist_partition VALUES ('z.part'), ('z.t_1234567890');
         DROP TABLE z.t CASCADE; ALTER TABLE z.t_1234567890 RENAME TO t;
         ALTER TABLE z.t ATTACH PARTITION z.part FOR VALUES FROM (1) TO (1000000); COMMIT",
    );
    clients[0].run("DROP TABLE z.t_102008 CASCADE");
    let owner: String = clients[1].one("SELECT owned_by::text FROM _hilo.hilo_definition");
    assert_eq!(owner, "z.t.id");
    seen.extend(clients[1].all::<i64>("INSERT INTO z.t VALUES (DEFAULT), (DEFAULT) RETURNING id"));
    assert_unique("s", &seen);
    drop(clients);
    cluster.finish();
}
