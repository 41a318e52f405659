//! A worker that is terminated in the middle of its work loses no number.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;

use hilo_tests::{ClientExt, Cluster};

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
        let row = format!("(SELECT id FROM _hilo.sequence WHERE name = '{name}')");
        let reserved: i64 =
            client.one(&format!("SELECT next_index FROM _hilo.position WHERE sequence = {row}"));
        let free: i64 = client.one(&format!(
            "SELECT coalesce(sum(end_index - first_index), 0)::bigint \
             FROM _hilo.free_range WHERE sequence = {row} AND incarnation = 0"
        ));
        let gaps: i64 = client.one(&format!(
            "SELECT coalesce(sum(count), 0)::bigint FROM _hilo.gap WHERE sequence = {row}"
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
