//! A worker that is terminated in the middle of its work loses no number.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;

use hilo_tests::{ClientExt, Cluster, LONG, assert_unique, wait_until};

/// Promise 5, whatever the worker was doing when pg_terminate_backend met it. Every number below
/// the position was seen, is free, or is written down as a gap. Promise 1: none was seen twice.
#[test]
fn under_load_leaves_no_gap_unexplained() {
    const ROUNDS: usize = 60;
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('small', block_size => 8), hilo_create('adaptive')");
    let seen = [Mutex::new(Vec::new()), Mutex::new(Vec::new())];
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Acquire) {
                    let mut client = cluster.connect("postgres");
                    for _ in 0..20 {
                        for (name, seen) in ["small", "adaptive"].iter().zip(&seen) {
                            let values = client.draw(name, 21);
                            seen.lock().unwrap().extend(values);
                        }
                    }
                }
            });
        }
        for _ in 0..ROUNDS {
            client.run(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
                 WHERE backend_type = 'hilo worker'",
            );
        }
        done.store(true, Release);
    });
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    for (name, seen) in ["small", "adaptive"].iter().zip(seen) {
        let seen = seen.into_inner().unwrap();
        let distinct: HashSet<i64> = seen.iter().copied().collect();
        assert_eq!(distinct.len(), seen.len(), "{name}: values seen twice");
        let row = format!("(SELECT id FROM _hilo.hilo_definition WHERE name = '{name}')");
        let reserved: i64 = client
            .one(&format!("SELECT next_index FROM _hilo.hilo_position WHERE sequence = {row}"));
        let free: i64 = client.one(&format!(
            "SELECT coalesce(sum(end_index - first_index), 0)::bigint \
             FROM _hilo.hilo_free_range WHERE sequence = {row} AND incarnation = 0"
        ));
        let gaps: i64 = client.one(&format!(
            "SELECT coalesce(sum(count), 0)::bigint FROM _hilo.hilo_gap WHERE sequence = {row}"
        ));
        assert_eq!(
            reserved,
            seen.len() as i64 + free + gaps,
            "{name}: {free} free, {gaps} in gaps"
        );
    }
    drop(client);
    cluster.finish();
}

/// Promises 2 and 5: a worker ended while it waits for the synchronous standby serves nothing of
/// the block that was not acknowledged. It leaves the block for the next one, and no number is
/// missing.
#[test]
fn while_the_standby_is_silent_loses_no_block() {
    let cluster = Cluster::builder()
        .config("hilo.prefetch", "off")
        .config("hilo.reserve_timeout", "60s")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('silent', block_size => 8)");
    assert_eq!(cluster.connect("postgres").draw("silent", 8), (1..=8).collect::<Vec<_>>());
    cluster.await_absent_standby();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| cluster.connect("postgres").draw("silent", 1));
        for _ in 0..3 {
            cluster.terminate_worker_awaiting_standby();
            assert!(!waiting.is_finished(), "a block was served that no standby has");
        }
        cluster.configure("synchronous_standby_names", "");
        cluster.reload();
        assert_eq!(waiting.join().unwrap(), [9]);
    });
    drop(client);
    cluster.finish();
}

/// Promise 2: neither does one that is cancelled, also where it has made the sequence with its
/// first block.
#[test]
fn a_cancelled_worker_serves_nothing_that_no_standby_has() {
    let cluster = Cluster::builder()
        .config("hilo.auto_create", "on")
        .config("hilo.reserve_timeout", "60s")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('old', block_size => 8)");
    for name in ["old", "new"] {
        cluster.await_absent_standby();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| cluster.connect("postgres").draw(name, 1));
            for _ in 0..3 {
                let worker = cluster.wait_for_worker_awaiting_standby();
                client.run(&format!("SELECT pg_cancel_backend({worker})"));
                assert!(!waiting.is_finished(), "a block was served that no standby has");
            }
            cluster.wait_for_worker_awaiting_standby();
            cluster.configure("synchronous_standby_names", "");
            cluster.reload();
            assert_eq!(waiting.join().unwrap(), [1]);
        });
    }
    drop(client);
    cluster.finish();
}

/// Promise 3: a block that no standby had when its worker ended comes back from the catalog, and lies beyond what
/// the pool still holds. A session that takes single values and ranges by turns gets them in order.
#[test]
fn values_rise_when_a_block_comes_back() {
    let cluster = Cluster::builder().config("hilo.max_slice_size", "1").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 100)");
    let mut seen = client.draw("s", 1);
    cluster.await_absent_standby();
    client.run("SET hilo.reserve_timeout = '100ms'");
    // Until fewer are left than one call asks for. The worker reserves more, which nobody gets.
    while let Ok(row) = client.query_one("SELECT last FROM hilo_nextrange('s', 24)", &[]) {
        seen.push(row.get(0));
    }
    client.run("RESET hilo.reserve_timeout");
    cluster.wait_for_worker_awaiting_standby();
    let mut other = cluster.connect("postgres");
    thread::scope(|scope| {
        let locking = scope
            .spawn(|| other.run("BEGIN; LOCK _hilo.hilo_position IN SHARE ROW EXCLUSIVE MODE"));
        let locks = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = '_hilo.hilo_position'::regclass";
        wait_until("the lock is waited for", LONG, || client.one(locks));
        cluster.terminate_worker_awaiting_standby();
        locking.join().unwrap();
    });
    other.run("COMMIT");
    cluster.configure("synchronous_standby_names", "");
    cluster.reload();
    seen.extend(client.draw("s", 1));
    let held = "SELECT sum(count) > 24 FROM hilo_blocks WHERE name = 's'";
    wait_until("the block is back", LONG, || client.one(held));
    for _ in 0..2 {
        seen.extend(client.draw("s", 1));
        seen.push(client.one("SELECT first FROM hilo_nextrange('s', 1)"));
    }
    assert!(seen.is_sorted(), "the values of a session do not rise: {seen:?}");
    assert_unique("s", &seen);
    drop(client);
    cluster.finish();
}
