//! A client with a state file goes on with the leases of the process before it.

use std::time::Duration;

use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

use super::{builder, draw, open_leases, runtime, wait_until_filed};

/// Leases that expire are renewed, locked ones are asked for again, and those of a sequence that was renamed go back.
#[test]
fn nothing_that_a_process_has_left_is_lost() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    let state = cluster.file("state");
    let stored = || builder(&cluster).state(&state);
    // Each client is dropped without a shutdown, as if its process were killed.
    let runtime_of_first = runtime();
    let client = runtime_of_first
        .block_on(stored().ttl(Duration::from_secs(600)).connect())
        .expect("a client");
    let mut seen = runtime_of_first.block_on(draw(&client.sequence("s"), 60));
    wait_until("the next lease has come", LONG, || client.stats().refills >= 2);
    drop((client, runtime_of_first));

    let start = || {
        let runtime = runtime();
        (runtime.block_on(stored().connect()).expect("a client"), runtime)
    };
    let (client, runtime) = start();
    seen.extend(runtime.block_on(draw(&client.sequence("s"), 10)));
    assert_eq!(seen, (1..=70).collect::<Vec<_>>());
    let expiring = "SELECT count(*) FROM hilo_leases WHERE expires_at IS NOT NULL";
    wait_until("no lease expires", LONG, || connection.one::<i64>(expiring) == 0);
    drop((client, runtime));

    let mut other = cluster.connect("postgres");
    other.run("BEGIN; LOCK TABLE _hilo.hilo_lease");
    let (client, runtime) = start();
    wait_until("the leases are locked", LONG, || client.stats().errors >= 1);
    other.run("ROLLBACK");
    wait_until("all have come", LONG, || {
        client.stats().leases as i64 == open_leases(&mut connection)
    });
    drop((client, runtime));

    connection.run("SELECT hilo_rename('s', 't')");
    let (client, runtime) = start();
    let error = runtime.block_on(client.sequence("s").next()).expect_err("it has another name");
    assert_eq!(error.code().map(|code| code.code()), Some("42704"));
    wait_until("all leases are back", LONG, || open_leases(&mut connection) == 0);
    runtime.block_on(client.shutdown()).expect("nothing is left");
    wait_until_filed(&mut connection);
    assert_eq!(connection.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}
