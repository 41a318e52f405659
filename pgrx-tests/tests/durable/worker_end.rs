//! However a worker ends, it leaves behind only what its successor finds, and keeps no session waiting.

use std::thread;
use std::time::{Duration, Instant};

use hilo_tests::{
    Client, ClientExt, Cluster, LONG, Mode, assert_accounted, assert_unique, taken_count,
    wait_until, write_free_ranges,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A cluster with a sequence `s`, from which a session has drawn five values and left; its worker is running.
fn with_a_worker(settings: &[(&str, &str)]) -> (Cluster, Vec<i64>) {
    let mut builder = Cluster::builder().config("hilo.worker_idle_timeout", "1h");
    for (name, value) in settings {
        builder = builder.config(name, value);
    }
    let cluster = builder.start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let seen = client.draw("s", 5);
    cluster.close(client);
    cluster.wait_for_worker("postgres");
    (cluster, seen)
}

/// Waits until no lock of a process that has ended is left. A process that begins has its first locks before it is in
/// pg_stat_activity.
#[track_caller]
fn wait_until_unlocked(client: &mut Client) {
    let unknown = "SELECT count(*) FROM pg_locks
          WHERE pid IS NOT NULL AND pid NOT IN (SELECT pid FROM pg_stat_activity)";
    wait_until("the dead hold no lock", LONG, || client.one::<i64>(unknown) == 0);
}

/// Nothing of those who have ended is left, the next caller is served, and a clean stop finds every number.
#[track_caller]
fn assert_sound(cluster: Cluster, mut seen: Vec<i64>) {
    let mut client = cluster.connect("postgres");
    wait_until_unlocked(&mut client);
    seen.extend(client.draw("s", 500));
    drop(client);
    cluster.restart();
    assert_accounted(&mut cluster.connect("postgres"), "s", &seen);
    cluster.finish();
}

/// A session locks the tables one after the other, as DROP EXTENSION does, while the worker flushes.
#[test]
fn beside_somebody_who_locks_its_tables() {
    let (cluster, seen) = with_a_worker(&[("deadlock_timeout", "200ms")]);
    let mut locker = cluster.connect("postgres");
    let mut client = cluster.connect("postgres");
    locker.run("SET deadlock_timeout = '20s'; SET lock_timeout = '10s'");
    locker.run("BEGIN; LOCK TABLE _hilo.hilo_gap");
    let worker = cluster.wait_for_worker("postgres");
    client.run(&format!("SELECT pg_terminate_backend({worker})"));
    let settled = format!(
        "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {worker})
             OR EXISTS (SELECT FROM pg_locks WHERE pid = {worker} AND NOT granted)"
    );
    wait_until("the worker has left or waits", LONG, || client.one::<bool>(&settled));
    locker.run("LOCK TABLE _hilo.hilo_position; ROLLBACK");
    cluster.wait_until_gone(worker);
    assert_sound(cluster, seen);
}

/// Terminated beside a DROP EXTENSION that is still open: it does not wait for its end.
#[test]
fn beside_an_open_drop_of_the_extension() {
    let (cluster, seen) = with_a_worker(&[]);
    let mut dropper = cluster.connect("postgres");
    dropper.run("BEGIN; DROP EXTENSION hilo");
    cluster.terminate_worker("postgres");
    dropper.run("ROLLBACK");
    assert_sound(cluster, seen);
}

/// The same beside tables that are locked.
#[test]
fn beside_a_locked_table() {
    for table in ["position", "free_range", "gap"] {
        let (cluster, seen) = with_a_worker(&[]);
        let mut locker = cluster.connect("postgres");
        locker.run(&format!("BEGIN; LOCK TABLE _hilo.hilo_{table}"));
        cluster.terminate_worker("postgres");
        locker.run("ROLLBACK");
        assert_sound(cluster, seen);
    }
}

/// The lock table is full when it is to write for the last time.
#[test]
fn with_the_lock_table_full() {
    let (cluster, seen) = with_a_worker(&[("max_locks_per_transaction", "10")]);
    let worker = cluster.wait_for_worker("postgres");
    let mut greedy = cluster.connect("postgres");
    greedy.refusal("SELECT pg_advisory_lock(n) FROM generate_series(1, 10000000) AS n").is("53200");
    // To ask the server about it takes locks.
    kill(Pid::from_raw(worker), Signal::SIGTERM).expect("it is there");
    wait_until("the worker has ended", LONG, || naps(worker).is_none());
    greedy.run("SELECT pg_advisory_unlock_all()");
    drop(greedy);
    assert_sound(cluster, seen);
}

/// A table cannot grow when it is to write for the last time, as on a full disk.
#[test]
fn with_no_room_for_its_rows() {
    let (cluster, _) = with_a_worker(&[
        ("max_connections", "60"),
        ("hilo.max_slice_size", "16"),
        ("autovacuum", "off"),
    ]);
    let mut client = cluster.connect("postgres");
    // Larger than a segment of the log, for which there is to be room.
    write_free_ranges(&mut client, "SELECT -1", 0, 1, 300_000);
    let size: i64 = client.one("SELECT pg_relation_size('_hilo.hilo_free_range')");
    assert!(size > 17 << 20, "{size}");
    let names: Vec<String> = (0..8).map(|number| format!("n{number}")).collect();
    let mut seen = vec![Vec::new(); names.len()];
    for name in &names {
        client.run(&format!("SELECT hilo_create('{name}', block_size => 2000)"));
    }
    let mut sessions: Vec<_> = (0..30).map(|_| cluster.connect("postgres")).collect();
    for count in 1..=6 {
        for session in &mut sessions {
            for (name, seen) in names.iter().zip(&mut seen) {
                seen.extend(session.draw(name, count));
            }
        }
    }
    let worker = cluster.wait_for_worker("postgres");
    cluster.expect_in_log("could not extend file");
    cluster.expect_in_log("Check free disk space");
    cluster.limit_files(worker, 17 << 20);
    for session in sessions {
        cluster.close(session);
    }
    cluster.terminate_worker("postgres");
    client.meddle("DELETE FROM _hilo.hilo_free_range WHERE sequence < 0");
    wait_until_unlocked(&mut client);
    for (name, seen) in names.iter().zip(&mut seen) {
        seen.extend(client.draw(name, 100));
    }
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    for (name, seen) in names.iter().zip(&seen) {
        assert_accounted(&mut client, name, seen);
    }
    drop(client);
    cluster.finish();
}

/// A fast stop ends also while a prepared transaction holds locks on its tables, which no session resolves.
#[test]
fn at_a_fast_stop_beside_a_prepared_transaction() {
    let (cluster, mut seen) = with_a_worker(&[("max_prepared_transactions", "4")]);
    let mut client = cluster.connect("postgres");
    client.run("BEGIN; LOCK TABLE _hilo.hilo_gap; PREPARE TRANSACTION 'forgotten'");
    drop(client);
    cluster.restart();
    cluster.connect("postgres").run("ROLLBACK PREPARED 'forgotten'");
    seen.extend(cluster.connect("postgres").draw("s", 500));
    assert_unique("s", &seen);
    cluster.finish();
}

/// A fast stop is nothing that the worker reports as fatal, whichever sessions are connected.
#[test]
fn at_a_fast_stop_says_nothing_fatal() {
    let (cluster, _) = with_a_worker(&[]);
    for drawn in [0, 5] {
        let mut client = cluster.connect("postgres");
        client.draw("s", drawn);
        cluster.wait_for_worker("postgres");
        cluster.restart();
        cluster.connect("postgres").draw("s", 1);
    }
    cluster.stop(Mode::Fast);
    let log = cluster.log();
    let fatal = |line: &&str| line.contains("hilo worker") && line.contains("FATAL");
    assert_eq!(log.lines().filter(fatal).collect::<Vec<_>>(), Vec::<&str>::new());
}

/// Promise 5: what sessions hold when the worker is terminated, and return when none is running, is
/// flushed. A clean stop continues with the very next number.
#[test]
fn before_the_sessions_leave() {
    let cluster = Cluster::with_hilo();
    hold_and_leave(&cluster);
    let mut watcher = cluster.connect("postgres");
    wait_until("a worker is running, or has written what was returned", LONG, || {
        cluster.worker_pid("postgres").is_some() || taken_count(&mut watcher, "s") == 100
    });
    cluster.restart();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.draw("s", 1), [101]);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}

/// A fast stop finds a transaction that renumbers, and takes a while to roll back. The worker waits
/// for the end of it, and everything is flushed.
#[test]
fn beside_a_transaction_that_the_stop_rolls_back() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    assert_eq!(client.draw("s", 100).last(), Some(&100));
    let mut holder = cluster.connect("postgres");
    holder.run("BEGIN; SELECT hilo_setval('s', 5000)");
    holder.run(
        "DO $$ BEGIN FOR n IN 1 .. 400000 LOOP
             BEGIN PERFORM pg_current_xact_id(); EXCEPTION WHEN division_by_zero THEN END;
         END LOOP; END $$",
    );
    cluster.restart();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.draw("s", 1), [101]);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}

/// The same without a stop: a session that returns values causes a worker to start, which flushes and leaves.
#[test]
fn before_the_sessions_leave_a_server_that_stays() {
    let cluster = Cluster::builder().config("hilo.worker_idle_timeout", "100ms").start_with_hilo();
    hold_and_leave(&cluster);
    let mut watcher = cluster.connect("postgres");
    wait_until("all that was returned is in the catalog", LONG, || {
        taken_count(&mut watcher, "s") == 100
    });
    wait_until("the worker has left", LONG, || cluster.worker_pid("postgres").is_none());
    assert_eq!(watcher.one::<i64>("SELECT count(*) FROM hilo_blocks"), 0);
    cluster.finish();
}

/// A session draws up to 100, sees the worker terminated, and leaves.
fn hold_and_leave(cluster: &Cluster) {
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    assert_eq!(client.draw("s", 100).last(), Some(&100));
    let pid = client.backend_pid();
    cluster.terminate_worker("postgres");
    drop(client);
    cluster.wait_until_gone(pid);
}

/// Beside a transaction that keeps it from putting back, a worker that has nothing else to do rests.
#[test]
fn that_cannot_come_yet_is_no_reason_to_hurry() {
    for open in ["hilo_drop('s')", "hilo_setval('s', 7)", "hilo_alter('s', max_value => 1000)"] {
        let (cluster, _) = with_a_worker(&[]);
        let mut holder = cluster.connect("postgres");
        holder.run(&format!("BEGIN; SELECT {open}"));
        let worker = cluster.worker_pid("postgres").expect("it is there");
        cluster.configure("hilo.worker_idle_timeout", "0");
        cluster.reload();
        let before = naps(worker).expect("it is there");
        let woken = || naps(worker).map_or(0, |naps| naps - before);
        let began = Instant::now();
        wait_until("five seconds have passed, or the worker has woken 400 times", LONG, || {
            woken() > 400 || began.elapsed() > Duration::from_secs(5)
        });
        assert!(woken() <= 400, "{open}: {} wake-ups in {:?}", woken(), began.elapsed());
        holder.run("ROLLBACK");
        cluster.finish();
    }
}

/// How often a process has waited for something so far, unless it is gone.
fn naps(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// DROP EXTENSION beside the worker's end, again and again: both come to an end, and the next extension
/// serves.
#[test]
fn beside_extensions_that_come_and_go() {
    let cluster = Cluster::builder().config("deadlock_timeout", "50ms").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SET hilo.reserve_timeout = '60s'");
    for round in 0..100 {
        client.run("SELECT hilo_create('s')");
        assert_eq!(client.draw("s", 3), [1, 2, 3], "round {round}");
        thread::scope(|scope| {
            let end = scope.spawn(|| {
                cluster.connect("postgres").run(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                      WHERE backend_type = 'hilo worker'",
                );
            });
            let mut dropper = cluster.connect("postgres");
            dropper.run("SET lock_timeout = '30s'");
            // The worker may be the one that a deadlock spares.
            while let Err(error) = dropper.batch_execute("DROP EXTENSION hilo") {
                assert_eq!(error.code().map(|code| code.code()), Some("40P01"), "{error:?}");
            }
            end.join().expect("it was asked");
        });
        client.run("CREATE EXTENSION hilo");
    }
    cluster.finish();
}

/// ALTER DATABASE … ALLOW_CONNECTIONS false leaves those who are connected their numbers.
#[test]
fn in_a_database_that_lets_nobody_in() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE DATABASE shut");
    let mut client = cluster.connect("shut");
    client.run("CREATE EXTENSION hilo; SELECT hilo_create('s')");
    let mut seen = client.draw("s", 1);
    admin.run("ALTER DATABASE shut ALLOW_CONNECTIONS false");
    cluster.terminate_worker("shut");
    seen.extend(client.draw("s", 5_000));
    assert_unique("s", &seen);
    cluster.finish();
}
