//! A lease counts from its commit. A range of a transaction that does not commit is a gap, recorded
//! once, whoever is in the way.

use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

use super::{assert_explained, gap, gaps, lease};

const ROUNDS: i64 = 40;

/// A rollback, of a savepoint or of everything, and an error.
#[test]
fn what_is_rolled_back_is_a_gap() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    client.run("BEGIN");
    lease(&mut client, "'s', 10");
    client.run("ROLLBACK");
    client.run("BEGIN");
    let kept = lease(&mut client, "'s', 10");
    client.run("SAVEPOINT a");
    lease(&mut client, "'s', 10");
    client.run("SAVEPOINT b");
    lease(&mut client, "'s', 10");
    client.run("RELEASE b; ROLLBACK TO a");
    let also = lease(&mut client, "'s', 10");
    client.run("COMMIT");
    client.refusal("SELECT hilo_lease('s', 10), 1 / 0 FROM generate_series(1, 2)").is("22012");
    assert_eq!((kept.first, also.first), (11, 41));
    // The worker writes neighbours off together.
    let expected = [gap(1, 10, "discarded"), gap(21, 40, "discarded")];
    wait_until("the worker has written them off", LONG, || {
        gaps(&mut client, "s").iter().filter(|gap| gap.0 <= 50).eq(&expected)
    });
    let last = gaps(&mut client, "s").len();
    assert_eq!(last, 2, "the statement that failed took nothing, or its lease is a gap");
    let tokens = client.all::<i64>("SELECT first FROM hilo_leases ORDER BY first");
    assert_eq!(tokens, [11, 41]);
    drop(client);
    assert_explained(&cluster, "s", &[]);
    cluster.finish();
}

/// The session is terminated, or its server process ends, while the transaction is open.
#[test]
fn what_a_terminated_session_had_taken_is_a_gap() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("SELECT hilo_create('s')");
    let mut client = cluster.connect("postgres");
    client.run("BEGIN");
    lease(&mut client, "'s', 10");
    let pid = client.backend_pid();
    admin.run(&format!("SELECT pg_terminate_backend({pid})"));
    cluster.wait_until_gone(pid);
    wait_until("it is written off", LONG, || gaps(&mut admin, "s") == [gap(1, 10, "discarded")]);
    // The same at a clean stop.
    let mut client = cluster.connect("postgres");
    client.run("BEGIN");
    assert_eq!(lease(&mut client, "'s', 10").first, 11);
    drop(admin);
    assert_explained(&cluster, "s", &[]);
    let mut admin = cluster.connect("postgres");
    assert_eq!(gaps(&mut admin, "s"), [gap(1, 20, "discarded")]);
    cluster.finish();
}

/// While no worker is there, or the position is locked, nothing is lost and nobody waits.
#[test]
fn it_is_written_off_when_the_position_is_free_again() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    lease(&mut client, "'s', 10");
    let mut locker = cluster.connect("postgres");
    client.run("BEGIN");
    let taken = lease(&mut client, "'s', 10");
    locker.run("BEGIN; SELECT 1 FROM _hilo.hilo_position FOR UPDATE");
    client.run("ROLLBACK");
    cluster.terminate_worker("postgres");
    assert_eq!(gaps(&mut client, "s"), []);
    locker.run("COMMIT");
    client.run("SELECT hilo_nextval('s')");
    wait_until("it is written off", LONG, || {
        gaps(&mut client, "s") == [gap(taken.first, taken.last, "discarded")]
    });
    cluster.finish();
}

/// A range that a transaction has leased is kept in its session until it commits, so it cannot be
/// prepared.
#[test]
fn a_transaction_that_has_leased_cannot_be_prepared() {
    let cluster = Cluster::builder().config("max_prepared_transactions", "5").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    client.run("BEGIN");
    lease(&mut client, "'s', 10");
    client.refusal("PREPARE TRANSACTION 'p'").is("0A000").helps();
    wait_until("it is written off", LONG, || gaps(&mut client, "s") == [gap(1, 10, "discarded")]);
    // A lease that is rolled back to a savepoint is the worker's.
    client.run("BEGIN; SAVEPOINT a");
    lease(&mut client, "'s', 10, ttl => '1 hour'");
    client.run("ROLLBACK TO a; PREPARE TRANSACTION 'p'");
    client.run("COMMIT PREPARED 'p'");
    wait_until("it is written off", LONG, || gaps(&mut client, "s") == [gap(1, 20, "discarded")]);
    cluster.finish();
}

/// Returning, renewing and revoking are undone by a rollback.
#[test]
fn ending_a_lease_is_undone_by_a_rollback() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let taken = lease(&mut client, "'s', 10, 'app', '1 hour'");
    for call in
        ["hilo_lease_return('{}')", "hilo_lease_revoke('{}')", "hilo_lease_renew('{}', '1d')"]
    {
        client.run(&format!("BEGIN; SELECT {}; ROLLBACK", call.replace("{}", &taken.token)));
        let hours = "SELECT extract(hour FROM expires_at - leased_at)::bigint FROM hilo_leases";
        assert_eq!(client.one::<i64>(hours), 1, "{call}");
    }
    assert_eq!(gaps(&mut client, "s"), []);
    // Both in one transaction.
    client.run("BEGIN");
    let taken = lease(&mut client, "'s', 10");
    assert_eq!(super::give_back(&mut client, &taken, taken.first + 3), 7);
    client.run("COMMIT");
    super::wait_until_back(&mut client, taken.first + 3);
    assert_eq!(client.draw("s", 7), (taken.first + 3..=taken.last).collect::<Vec<_>>());
    cluster.finish();
}

/// Many leases of one sequence in one transaction, and as many rolled back.
#[test]
fn a_transaction_can_take_many() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let many = "SELECT sum(l.count)::bigint FROM generate_series(1, 2000) n, LATERAL hilo_lease('s', 3 + n * 0) l";
    assert_eq!(client.one::<i64>(many), 6000);
    client.run("BEGIN");
    assert_eq!(client.one::<i64>(many), 6000);
    client.run("ROLLBACK");
    let lost = "SELECT coalesce(sum(count), 0)::bigint FROM hilo_gaps WHERE reason = 'discarded'";
    wait_until("they are written off", LONG, || client.one::<i64>(lost) == 6000);
    // More than memory has places for.
    client.run("BEGIN");
    let sql = "SELECT hilo_lease('s', 1 + n * 0) FROM generate_series(1, 20000) n";
    client.refusal(sql).is("54000").helps();
    client.run("ROLLBACK");
    wait_until("they are written off", LONG, || client.one::<i64>(lost) >= 6000 + 16384);
    lease(&mut client, "'s', 1");
    drop(client);
    assert_explained(&cluster, "s", &[]);
    cluster.finish();
}

/// Whoever finds no place waits until the worker has written off what was rolled back.
#[test]
fn what_is_rolled_back_keeps_no_place() {
    const MANY: &str = "SELECT hilo_lease('s', 1 + n * 0) FROM generate_series(1, 16384) n";
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let mut other = cluster.connect("postgres");
    for _ in 0..4 {
        client.run(&format!("BEGIN; {MANY}; ROLLBACK"));
        other.run("SELECT hilo_lease('s', 1 + n * 0) FROM generate_series(1, 500) n");
    }
    // Nobody can write them off.
    client.run(&format!("BEGIN; {MANY}"));
    let mut locker = cluster.connect("postgres");
    locker.run("BEGIN; LOCK TABLE _hilo.hilo_gap IN SHARE MODE");
    let sql = "SET hilo.reserve_timeout = '100ms'; SELECT hilo_lease('s', 1)";
    other.refusal(sql).is("54000").details("have not ended yet have taken 16384 leases");
    client.run("ROLLBACK");
    other.refusal(sql).is("54000").details("16384 that were rolled back").hints("locked");
    locker.run("COMMIT");
    other.run("SET hilo.reserve_timeout = '60s'; SELECT hilo_lease('s', 1)");
    cluster.finish();
}

/// A session that renumbers the sequence waits for the transaction in which the worker writes a rolled back lease off. It
/// finds the range in the catalog, and no longer in memory: between the two there were some microseconds.
#[test]
fn a_renumbering_that_waits_for_the_write_off_records_nothing_twice() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let mut locker = cluster.connect("postgres");
    let mut setter = cluster.connect("postgres");
    let pid = setter.backend_pid();
    for round in 1..=ROUNDS {
        client.run("BEGIN");
        lease(&mut client, "'s', 10");
        locker.run("BEGIN; LOCK TABLE _hilo.hilo_gap IN SHARE MODE");
        client.run("ROLLBACK");
        wait_until("the worker waits for the table", LONG, || {
            client.one("SELECT EXISTS (SELECT FROM pg_locks WHERE relation = '_hilo.hilo_gap'::regclass AND NOT granted)")
        });
        std::thread::scope(|scope| {
            scope.spawn(|| setter.run(&format!("SELECT hilo_setval('s', {round} * 1000)")));
            wait_until("the session waits", LONG, || client.sees_waiting(pid));
            locker.run("COMMIT");
        });
    }
    client.run("SELECT hilo_nextval('s')");
    // Each value of the ranges, which begin behind a multiple of 1000, is in one row.
    let rows = client.query("SELECT first, last FROM hilo_gaps WHERE name = 's'", &[]).unwrap();
    let rows: Vec<(i64, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    for value in (0..ROUNDS).flat_map(|round| (1..=10).map(move |at| round * 1000 + at)) {
        let has = rows.iter().filter(|row| (row.0..=row.1).contains(&value)).count();
        assert_eq!(has, 1, "{value}: {rows:?}");
    }
    cluster.finish();
}
