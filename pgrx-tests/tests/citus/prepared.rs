//! Citus drops an extension on its workers with PREPARE TRANSACTION and COMMIT PREPARED.

use hilo_tests::{ClientExt, Cluster, assert_unique};

fn cluster() -> Cluster {
    Cluster::builder().config("max_prepared_transactions", "5").start_with_hilo()
}

/// Promise 1: nothing that memory has of the dropped sequences is served under the same name by the extension that is
/// created after it, nor by a session that remembers the name.
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

/// What the new extension has defined in the transaction is in the memory of this session, so that is refused, as after a
/// drop that a savepoint has taken back.
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
