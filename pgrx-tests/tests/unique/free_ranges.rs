//! Free ranges and gaps stay few, whatever is called, and each value has its row. Even many of them
//! delay no session.

use std::thread;

use hilo_tests::{ClientExt, Cluster, LONG, Mode, assert_unique, wait_until, write_free_ranges};

/// Sessions that take values and ranges in turn soon leave nothing over, and all that they got is
/// different.
#[test]
fn values_and_ranges_in_turn_leave_few() {
    const SESSIONS: usize = 8;
    const TURNS: usize = 400;
    const RANGE: usize = 50;
    let cluster = Cluster::builder().config("hilo.reserve_timeout", "60s").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let take = || {
        let mut session = cluster.connect("postgres");
        let range = format!("SELECT first, last FROM hilo_nextrange('s', {RANGE})");
        let mut seen = Vec::new();
        for _ in 0..TURNS {
            seen.extend(session.draw("s", 1));
            let row = session.query_one(&range, &[]).expect("it is served");
            seen.extend(row.get::<_, i64>(0)..=row.get::<_, i64>(1));
        }
        (session, seen)
    };
    let (_sessions, seen): (Vec<_>, Vec<_>) = thread::scope(|scope| {
        let sessions: Vec<_> = (0..SESSIONS).map(|_| scope.spawn(take)).collect();
        sessions.into_iter().map(|session| session.join().expect("it was served")).unzip()
    });
    let seen = seen.concat();
    assert_eq!(seen.len(), SESSIONS * TURNS * (1 + RANGE));
    assert_unique("s", &seen);
    let free: i64 = client.one("SELECT count(*) FROM _hilo.hilo_free_range");
    let memory: i64 = client.one("SELECT count(*) FROM hilo_blocks WHERE tier = 'returned'");
    // A session leaves a rest after 1, 2, 4, … draws.
    let most = SESSIONS as i64 * i64::from(TURNS.ilog2() + 2);
    assert!(free + memory < most, "{free}, and {memory} in memory, but not {most}");
    cluster.finish();
}

/// Thousands of values that come back one by one, between values that are lost, are few rows, which
/// explain them all.
#[test]
fn thousands_of_rests_and_losses_are_few_rows() {
    const LEASES: i64 = 6_000;
    const MAX_ROWS: i64 = 1_000;
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(&format!(
        "SELECT hilo_create('s', increment => -3);
         CREATE TABLE leased AS
             SELECT n, l.lease, l.first FROM generate_series(1, {LEASES}) n, LATERAL hilo_lease('s', 2 + n * 0) l;
         CREATE TABLE used AS SELECT first AS id FROM leased WHERE n % 2 = 0"
    ));
    let of_each = |rest: i64, end: &str| format!("SELECT {end} FROM leased WHERE n % 2 = {rest}");
    client.run(&of_each(0, "hilo_lease_return(lease, first - 3)"));
    client.run(&of_each(1, "hilo_lease_revoke(lease)"));
    let left = "SELECT count(*) FROM _hilo.hilo_lease";
    wait_until("the worker has filed them", LONG, || client.one::<i64>(left) == 0);
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    for table in ["_hilo.hilo_free_range", "_hilo.hilo_gap"] {
        let rows: i64 = client.one(&format!("SELECT count(*) FROM {table}"));
        assert!((1..=MAX_ROWS).contains(&rows), "{rows} rows in {table}");
    }
    let known: i64 = client.one(&format!(
        "SELECT {LEASES} / 2 + ((SELECT sum(end_index - first_index) FROM _hilo.hilo_free_range)
                              + (SELECT sum(count) FROM _hilo.hilo_gap))::bigint"
    ));
    assert_eq!(client.one::<i64>("SELECT next_index FROM _hilo.hilo_position"), known);
    let revoked = "SELECT sum(count)::bigint FROM hilo_gaps WHERE reason = 'revoked'";
    assert_eq!(client.one::<i64>(revoked), LEASES, "each is lost for its own reason");
    let found = "SELECT sum(count)::bigint FROM hilo_find_gaps('s', 'used', 'id')";
    assert_eq!(client.one::<i64>(found), known - LEASES / 2, "each that the column lacks, once");
    let wrong = format!("{found} WHERE reason ~ 'unknown' OR (first + 1) % 3 <> 0");
    assert!(client.one::<bool>(&format!("SELECT ({wrong}) IS NULL")), "{wrong}");
    cluster.finish();
}

/// A loop of leases that are revoked leaves one gap, or two if an hour ends meanwhile.
#[test]
fn leases_revoked_one_after_the_other_are_one_gap() {
    const TURNS: i64 = 100;
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', increment => -3)");
    for _ in 0..TURNS {
        client.run("SELECT hilo_lease_revoke(lease) FROM hilo_lease('s', 10)");
    }
    let left = "SELECT count(*) FROM _hilo.hilo_lease";
    wait_until("the worker has filed them", LONG, || client.one::<i64>(left) == 0);
    assert!(client.one::<i64>("SELECT count(*) FROM hilo_gaps") <= 2);
    assert_eq!(
        client.one::<String>(
            "SELECT concat_ws(' ', max(first), min(last), sum(count)) FROM hilo_gaps"
        ),
        format!("-1 {} {}", -3 * 10 * TURNS + 2, 10 * TURNS)
    );
    cluster.finish();
}

/// The first caller after a crash does not wait for the free ranges that there are.
#[test]
fn many_keep_nobody_waiting_after_a_crash() {
    const RANGES: i64 = 600_000;
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    assert_eq!(client.draw("s", 1), [1]);
    // As if every other ten numbers had been returned.
    write_free_ranges(&mut client, "SELECT id FROM _hilo.hilo_definition", 1_000_000, 10, RANGES);
    client.run(
        "ALTER TABLE _hilo.hilo_position DISABLE TRIGGER ALL;
         UPDATE _hilo.hilo_position SET next_index = 20000000, settled_index = 20000000",
    );
    cluster.stop(Mode::Immediate);
    cluster.start();
    let mut client = cluster.connect("postgres");
    let value = client.draw("s", 1)[0];
    assert!(value > 1_000_000, "{value}");
    cluster.finish();
}
