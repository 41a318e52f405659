//! While others write to a table, its column moves to hilo and back, and no number comes twice.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use hilo_tests::{ClientExt, Cluster, LONG, assert_unique, wait_until};

use crate::adopt::{cluster, insert};

/// While three writers insert all the time, a table of 200,000 rows goes to hilo and back six times. No writer gets
/// an error, no number comes twice, and each number is in the table or has a row in hilo_gaps.
#[test]
fn under_three_writers() {
    const ROWS: usize = 200_000;
    const ROUNDS: usize = 6;
    // A worker that leaves writes to the catalog what no view shows.
    let cluster = Cluster::builder().config("hilo.worker_idle_timeout", "1h").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE t (id bigserial PRIMARY KEY, writer int)");
    client.run(&format!("INSERT INTO t (writer) SELECT 0 FROM generate_series(1, {ROWS})"));
    let stop = AtomicBool::new(false);
    let inserted = AtomicUsize::new(0);
    let mut moves = Vec::new();
    let (seen, stalls): (Vec<_>, Vec<_>) = thread::scope(|scope| {
        let (cluster, stop, inserted) = (&cluster, &stop, &inserted);
        let write = move || {
            let mut client = cluster.connect("postgres");
            let (mut seen, mut longest) = (Vec::new(), Duration::ZERO);
            while !stop.load(Relaxed) {
                client.run("BEGIN");
                for _ in 0..3 {
                    let began = Instant::now();
                    seen.push(client.one::<i64>("INSERT INTO t (writer) VALUES (1) RETURNING id"));
                    longest = longest.max(began.elapsed());
                    inserted.fetch_add(1, Relaxed);
                }
                client.run("COMMIT");
            }
            (seen, longest)
        };
        let writers: Vec<_> = (0..3).map(|_| scope.spawn(write)).collect();
        let writers_continue = || {
            let before = inserted.load(Relaxed);
            wait_until("the writers continue", LONG, || inserted.load(Relaxed) > before + 30);
        };
        for round in 0..ROUNDS {
            let kind = ["NULL", "'BY DEFAULT'"][round % 2];
            for call in ["hilo_adopt('t', 'id')", &format!("hilo_release('t', 'id', {kind})")] {
                writers_continue();
                let began = Instant::now();
                client.run(&format!("SELECT {call}"));
                moves.push(began.elapsed());
            }
            // At once, and with nobody between.
            client.run("SELECT hilo_adopt('t', 'id'); SELECT hilo_release('t', 'id')");
        }
        client.run("SELECT hilo_adopt('t', 'id')");
        writers_continue();
        stop.store(true, Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("no writer gets an error")).unzip()
    });
    println!("longest insert {:?}, longest move {:?}", stalls.iter().max(), moves.iter().max());
    let seen: Vec<i64> = seen.concat();
    assert_unique("t", &seen);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM t") as usize, ROWS + seen.len());
    let missing: i64 = client.one(
        "SELECT count(*) FROM generate_series(1, (SELECT max(id) FROM t)) AS n
          WHERE NOT EXISTS (SELECT FROM t WHERE id = n)
            AND NOT EXISTS (SELECT FROM hilo_gaps WHERE name = 't_id_seq' AND n BETWEEN first AND last)
            AND NOT EXISTS (SELECT FROM hilo_blocks WHERE n BETWEEN first AND last)",
    );
    assert_eq!(missing, 0);
    cluster.finish();
}

/// A session that draws from the old sequence before it writes to the table, as some mappers do, does not meet
/// hilo_adopt in a deadlock.
#[test]
fn beside_those_who_draw_first() {
    let (cluster, mut client) = cluster();
    client.run("CREATE SEQUENCE s; CREATE TABLE t (id bigint PRIMARY KEY DEFAULT nextval('s')); CREATE VIEW keeps AS SELECT nextval('s')");
    let mut writer = cluster.connect("postgres");
    writer.run("BEGIN");
    let drawn: i64 = writer.one("SELECT nextval('s')");
    let pid = client.backend_pid();
    thread::scope(|scope| {
        let adopting = scope.spawn(|| client.run("SELECT hilo_adopt('t', 'id')"));
        wait_until("hilo_adopt waits for the writer", LONG, || {
            cluster.connect("postgres").sees_waiting(pid)
        });
        writer.run(&format!("INSERT INTO t VALUES ({drawn})"));
        writer.run("INSERT INTO t DEFAULT VALUES; COMMIT");
        adopting.join().expect("it is not refused");
    });
    assert_eq!(insert(&mut client), drawn + 2);
    cluster.finish();
}
