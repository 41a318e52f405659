//! A prepared transaction keeps the sequence locked until it is resolved, also across a restart.

use hilo_tests::{Client, ClientExt, Cluster, Mode};

use super::{INSERT, INVOICES, assert_gapless};

fn two_phase_cluster() -> Cluster {
    let cluster = Cluster::builder().config("max_prepared_transactions", "5").start_with_hilo();
    cluster.connect("postgres").run(INVOICES);
    cluster
}

fn is_locked(client: &mut Client) {
    client.run("SET lock_timeout = '100ms'");
    client.refusal(INSERT).is("55P03");
    client.run("RESET lock_timeout");
}

#[test]
fn either_way_of_resolving_leaves_no_hole() {
    let cluster = two_phase_cluster();
    let mut client = cluster.connect("postgres");
    let mut other = cluster.connect("postgres");
    for (resolve, count) in [("COMMIT", 3), ("ROLLBACK", 3), ("COMMIT", 6)] {
        client.run(&format!(
            "BEGIN; {INSERT}; SAVEPOINT a; {INSERT}; ROLLBACK TO a; {INSERT}; {INSERT}; PREPARE TRANSACTION 'p'"
        ));
        // This session is a stranger to it now as well.
        is_locked(&mut client);
        is_locked(&mut other);
        other.run(&format!("{resolve} PREPARED 'p'"));
        assert_gapless(&mut other, count);
    }
    client.run(INSERT);
    assert_gapless(&mut client, 7);
    // A transaction that has changed the definition cannot be prepared, as with other sequences.
    client.run("BEGIN; SELECT hilo_setval('invoices', 7)");
    client.refusal("PREPARE TRANSACTION 'p'").is("0A000");
    client.run(INSERT);
    assert_gapless(&mut client, 8);
    cluster.finish();
}

#[test]
fn it_stays_locked_across_restarts_and_crashes() {
    let cluster = two_phase_cluster();
    for (mode, resolve, count) in [
        (Mode::Fast, "COMMIT", 2),
        (Mode::Immediate, "ROLLBACK", 2),
        (Mode::Immediate, "COMMIT", 4),
        (Mode::Fast, "ROLLBACK", 4),
    ] {
        let mut client = cluster.connect_when_up("postgres");
        client.run(&format!("BEGIN; {INSERT}; {INSERT}; PREPARE TRANSACTION 'p'"));
        cluster.stop(mode);
        cluster.start();
        let mut client = cluster.connect_when_up("postgres");
        is_locked(&mut client);
        client.run(&format!("{resolve} PREPARED 'p'"));
        assert_gapless(&mut client, count);
    }
    let mut client = cluster.connect("postgres");
    client.run(INSERT);
    assert_gapless(&mut client, 5);
    cluster.finish();
}

/// A deferred trigger may draw while the transaction is being prepared.
#[test]
fn a_deferred_trigger_draws_before_the_preparation() {
    let cluster = two_phase_cluster();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE TABLE orders (n int);
         CREATE FUNCTION bill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO invoices DEFAULT VALUES; RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER bill AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION bill();
         BEGIN; INSERT INTO orders VALUES (1), (2); PREPARE TRANSACTION 'p'",
    );
    client.run("COMMIT PREPARED 'p'");
    client.run(INSERT);
    assert_gapless(&mut client, 3);
    cluster.finish();
}
