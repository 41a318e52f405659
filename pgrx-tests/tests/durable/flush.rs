//! Every flushed, returned or frozen range has one owner. So it has after a failed or half-done
//! flush, during an open alteration, and at the end of a sequence.

use hilo_tests::{Client, ClientExt, Cluster, assert_unique};

/// Promise 1: a worker that cannot flush a pool does not thaw it during an open renumbering.
#[test]
fn a_failed_flush_thaws_nothing() {
    let cluster = Cluster::with_hilo();
    let (mut client, mut other) = (cluster.connect("postgres"), cluster.connect("postgres"));
    client.run("SELECT hilo_create('s', block_size => 1000)");
    let mut seen = client.draw("s", 3);
    seen.extend(other.draw("s", 1));
    let mut open = cluster.connect("postgres");
    open.run("BEGIN; SELECT hilo_alter('s', increment => 2)");
    cluster.terminate_worker("postgres");
    other.run("SET hilo.reserve_timeout = '1s'");
    other.refusal("SELECT hilo_nextval('s')").is("55P03");
    open.run("COMMIT");
    seen.extend(other.draw("s", 10));
    assert_unique("s", &seen);
    cluster.finish();
}

/// Promises 1 and 5: the worker is terminated while its reservation is not acknowledged. A range
/// that it flushes is no longer in memory.
#[test]
fn returned_ranges_of_a_worker_that_ends_behind_a_commit() {
    let cluster = Cluster::builder().config("hilo.max_slice_size", "8").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let mut seen = Vec::new();
    let mut one_by_one = |client: &mut Client, count: usize| {
        (0..count).for_each(|_| seen.extend(client.draw("s", 1)));
    };
    let mut leaving = cluster.connect("postgres");
    one_by_one(&mut leaving, 9);
    one_by_one(&mut client, 9);
    cluster.await_absent_standby();
    cluster.close(leaving);
    // Behind the returned ranges, until the next block is needed, and none comes.
    client.run("SET hilo.reserve_timeout = '100ms'");
    let mut ranges = Vec::new();
    while let Ok(row) = client.query_one("SELECT first, last FROM hilo_nextrange('s', 24)", &[]) {
        ranges.extend(row.get::<_, i64>(0)..=row.get::<_, i64>(1));
    }
    client.run("RESET hilo.reserve_timeout");
    cluster.terminate_worker_awaiting_standby();
    cluster.configure("synchronous_standby_names", "");
    cluster.reload();
    one_by_one(&mut client, 60);
    drop(client);
    cluster.restart();
    one_by_one(&mut cluster.connect("postgres"), 400);
    seen.extend(ranges);
    assert_unique("s", &seen);
    cluster.finish();
}

/// Promise 6: an ordered sequence of which hilo_next_hi has skipped values reaches its end, and does not spin.
#[test]
fn an_ordered_sequence_ends_beside_what_it_skipped() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('o', ordered => true, block_size => 10, max_value => 35)");
    client.draw("o", 1);
    client.run("SELECT hilo_next_hi('o')");
    assert_eq!(client.draw("o", 15), (21..=35).collect::<Vec<_>>());
    client.refusal("SELECT hilo_nextval('o')").is("2200H");
    cluster.finish();
}

/// Promise 3 holds although `ordered` was on for a while.
#[test]
fn values_rise_within_a_session_when_ordered_is_switched_off() {
    let cluster = Cluster::builder().config("hilo.max_slice_size", "8").start_with_hilo();
    let (mut client, mut other) = (cluster.connect("postgres"), cluster.connect("postgres"));
    client.run("SELECT hilo_create('s')");
    client.draw("s", 1);
    for _ in 0..9 {
        other.draw("s", 1);
    }
    client.run("SELECT hilo_alter('s', ordered => true)");
    let mut last = 0;
    for _ in 0..20 {
        last = client.draw("s", 1)[0];
    }
    cluster.close(other);
    // Whatever the session remembers of its last value.
    client.run("DISCARD SEQUENCES");
    client.run("SELECT hilo_alter('s', ordered => false)");
    assert!(client.draw("s", 1)[0] > last);
    cluster.finish();
}

/// Sixty sessions leave a part of their slices behind when the sequence is at its end.
fn with_sixty_free_ranges() -> (Cluster, Vec<i64>) {
    let cluster = Cluster::builder().config("max_connections", "100").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 1000, slice_size => 10, max_value => 1000)");
    let mut seen = Vec::new();
    let mut others: Vec<Client> = (0..60).map(|_| cluster.connect("postgres")).collect();
    for other in &mut others {
        (0..9).for_each(|_| seen.extend(other.draw("s", 1)));
    }
    while let Ok(row) = client.query_one("SELECT hilo_nextval('s')", &[]) {
        seen.push(row.get(0));
    }
    let mut late = others.split_off(30);
    others.clear();
    late.clear();
    drop(client);
    cluster.restart();
    (cluster, seen)
}

/// Promise 7: one session is served all that is left, lowest first, by values and by ranges.
#[test]
fn one_session_is_served_all_that_is_free_at_the_end() {
    for call in ["SELECT hilo_nextval('s')", "SELECT first FROM hilo_nextrange('s', 1)"] {
        let (cluster, mut seen) = with_sixty_free_ranges();
        let mut client = cluster.connect("postgres");
        while let Ok(row) = client.query_one(call, &[]) {
            seen.push(row.get(0));
        }
        assert_unique(call, &seen);
        assert_eq!(seen.len(), 1000, "{call}");
        cluster.finish();
    }
}
