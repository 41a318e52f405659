//! One refill at a time: however many sessions need a block at the same moment, one reservation in one
//! transaction reserves it.

use std::sync::Barrier;
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

/// The sessions; `FLIGHT_SESSIONS=1000` where the machine has the memory for them.
fn sessions() -> usize {
    std::env::var("FLIGHT_SESSIONS").map_or(200, |count| count.parse().expect("a number"))
}

/// A sequence whose calls take one value each from the pool, and nothing beside it that writes.
fn cluster(settings: &[(&str, &str)]) -> Cluster {
    let connections = (sessions() + 20).to_string();
    let quiet = Cluster::builder()
        .config("max_connections", &connections)
        .config("autovacuum", "off")
        .config("hilo.sample_interval", "60s")
        .config("hilo.reserve_timeout", "60s");
    settings
        .iter()
        .fold(quiet, |builder, (name, value)| builder.config(name, value))
        .start_with_hilo()
}

fn stat(client: &mut Client, column: &str) -> i64 {
    client.one(&format!("SELECT {column}::bigint FROM hilo_stat_sequences WHERE name = 's'"))
}

/// How many transactions of the cluster have written something so far. Sessions that only draw do
/// not: their reservation is a transaction of the worker's.
fn count_transactions(client: &mut Client) -> i64 {
    client.one("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
}

/// The work that it took to serve one value to each session.
#[derive(Debug)]
struct Taken {
    reservations: i64,
    transactions: i64,
    waits: i64,
}

/// Lets all the sessions, which have drawn once before if they are to be `warm`, draw one value at
/// the same moment. Each stands at a lock in the server until this test lets go of it.
///
/// `ready` is called before, when all are connected.
fn cross(cluster: &Cluster, warm: bool, ready: impl FnOnce(&mut Client)) -> Taken {
    let count = sessions();
    let mut client = cluster.connect("postgres");
    let mut gate = cluster.connect("postgres");
    gate.run("SELECT pg_advisory_lock(1)");
    let connected = Barrier::new(count + 1);
    let prepared = Barrier::new(count + 1);
    thread::scope(|scope| {
        let draw = |_| {
            let body = || {
                let mut session = cluster.connect_when_up("postgres");
                if warm {
                    session.run("SELECT hilo_nextval('s')");
                }
                connected.wait();
                prepared.wait();
                let row =
                    session.query_one("SELECT pg_advisory_lock_shared(1), hilo_nextval('s')", &[]);
                row.unwrap_or_else(|error| panic!("{error:?}")).get::<_, i64>(1)
            };
            // A thousand of them need not have a thousand times two megabytes.
            thread::Builder::new().stack_size(256 * 1024).spawn_scoped(scope, body).unwrap()
        };
        let running: Vec<_> = (0..count).map(draw).collect();
        connected.wait();
        ready(&mut client);
        let before = (stat(&mut client, "blocks_reserved"), stat(&mut client, "waits"));
        let written_before = count_transactions(&mut client);
        prepared.wait();
        wait_until("all sessions wait for the lock", LONG, || {
            let waiting =
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
            client.one::<i64>(waiting) == count as i64
        });
        gate.run("SELECT pg_advisory_unlock(1)");

        let mut values: Vec<i64> =
            running.into_iter().map(|session| session.join().expect("it is served")).collect();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), count, "a value was served twice");
        // It may still be on its way when no session waits for it.
        wait_until("the block is published", LONG, || {
            stat(&mut client, "blocks_reserved") > before.0
                && client.one("SELECT NOT bool_or(refill_wanted) FROM hilo_stat_sequences")
        });
        Taken {
            reservations: stat(&mut client, "blocks_reserved") - before.0,
            transactions: count_transactions(&mut client) - written_before,
            waits: stat(&mut client, "waits") - before.1,
        }
    })
}

/// The threshold lies in the middle of what they draw. No session waits, and a session that falls below it while
/// the worker is at work, or just after, causes no second reservation.
#[test]
fn a_threshold_crossed_by_all_at_once_causes_one_reservation() {
    const BLOCK: usize = 1_000_000;
    let count = sessions();
    let threshold = BLOCK - 1 - count - count / 2;
    let cluster = cluster(&[("hilo.min_threshold", &threshold.to_string())]);
    let mut client = cluster.connect("postgres");
    client.run(&format!("SELECT hilo_create('s', block_size => {BLOCK}, slice_size => 1)"));
    client.run("SELECT hilo_nextval('s')");
    let taken = cross(&cluster, true, |client| {
        let left: i64 = stat(client, "in_current + in_standby");
        assert_eq!(left as usize, BLOCK - 1 - count);
        assert_eq!(stat(client, "blocks_reserved"), 1);
    });
    println!("{count} sessions below the threshold: {taken:?}");
    assert_eq!((taken.reservations, taken.transactions, taken.waits), (1, 1, 0));
    assert_eq!(stat(&mut client, "blocks_prefetched"), 1);
    cluster.finish();
}

/// The pool is empty and nothing is prefetched: all of them wait, for the same block.
#[test]
fn a_dry_pool_met_by_all_at_once_causes_one_reservation() {
    let block = 5 * sessions();
    let cluster = cluster(&[("hilo.prefetch", "off")]);
    let mut client = cluster.connect("postgres");
    client.run(&format!("SELECT hilo_create('s', block_size => {block}, slice_size => 1)"));
    let taken = cross(&cluster, false, |client| {
        client.run(&format!("SELECT hilo_nextval('s') FROM generate_series(1, {block})"));
        assert_eq!(stat(client, "in_current + in_standby"), 0);
    });
    println!("{} sessions at a dry pool: {taken:?}", sessions());
    assert_eq!((taken.reservations, taken.transactions), (1, 1));
    assert!(taken.waits > 0);
    cluster.finish();
}
