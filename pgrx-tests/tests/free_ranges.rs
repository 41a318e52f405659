//! Free ranges stay few, and even many of them delay no session.

use std::thread;

use hilo_tests::{ClientExt, Cluster, Mode, assert_unique, write_free_ranges};

/// Sessions that take values and ranges in turn leave less than one free range for each slice's worth of
/// values, and all that they got is different.
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
    let free: i64 = client.one("SELECT count(*) FROM hilo.free_range");
    let memory: i64 = client.one("SELECT count(*) FROM hilo_blocks WHERE tier = 'returned'");
    let slices = seen.len() as i64 / 256;
    assert!(free + memory < slices, "{free} and {memory} in memory for {slices} slices' worth");
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
    write_free_ranges(&mut client, "SELECT id FROM hilo.sequence", 1_000_000, 10, RANGES);
    client.run(
        "ALTER TABLE hilo.position DISABLE TRIGGER ALL;
         UPDATE hilo.position SET next_index = 20000000, settled_index = 20000000",
    );
    cluster.stop(Mode::Immediate);
    cluster.start();
    let mut client = cluster.connect("postgres");
    let value = client.draw("s", 1)[0];
    assert!(value > 1_000_000, "{value}");
    cluster.finish();
}
