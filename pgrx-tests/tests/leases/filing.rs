//! The worker files leases that have ended, however many there are, and whatever is in the way of some of them. Callers do
//! not wait for that, and what comes back is served.

use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

use super::{assert_explained, gap, gaps, lease};

/// The worker learns from the session that a lease ends, when the transaction commits. So it cannot be prepared, unless all
/// that it has done with leases is rolled back to a savepoint.
#[test]
fn a_transaction_that_ends_a_lease_cannot_be_prepared() {
    let cluster = Cluster::builder().config("max_prepared_transactions", "5").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let taken = lease(&mut client, "'s', 10");
    let calls =
        ["hilo_lease_return('{}', 5)", "hilo_lease_renew('{}', '1s')", "hilo_lease_revoke('{}')"];
    for call in calls.map(|call| call.replace("{}", &taken.token)) {
        client.run(&format!("BEGIN; SELECT {call}"));
        client.refusal("PREPARE TRANSACTION 'p'").is("0A000").helps();
        client.run(&format!(
            "BEGIN; SAVEPOINT a; SELECT {call}; ROLLBACK TO a; PREPARE TRANSACTION 'p'"
        ));
        client.run("COMMIT PREPARED 'p'");
        client.run(&format!("BEGIN; SAVEPOINT a; SELECT {call}; RELEASE a"));
        client.refusal("PREPARE TRANSACTION 'p'").is("0A000").helps();
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 1);
    // What was released with a savepoint is announced.
    client.run(&format!(
        "BEGIN; SAVEPOINT a; SELECT hilo_lease_renew('{}', '1ms'); RELEASE a; COMMIT",
        taken.token
    ));
    wait_until("it is filed", LONG, || client.one::<i64>("SELECT count(*) FROM hilo.lease") == 0);
    assert_eq!(gaps(&mut client, "s"), [gap(1, 10, "expired")]);
    drop(client);
    assert_explained(&cluster, "s", &[]);
    cluster.finish();
}
