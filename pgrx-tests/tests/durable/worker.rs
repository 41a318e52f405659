//! The worker is visible, responds to signals, and keeps no session waiting without end.

use std::thread;
use std::time::{Duration, Instant};

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The worker is in pg_stat_activity by name while its database needs it, and leaves when the last
/// session that drew has left.
#[test]
fn is_visible_and_leaves_when_idle() {
    let cluster = Cluster::builder().config("hilo.worker_idle_timeout", "100ms").start_with_hilo();
    assert_eq!(cluster.worker_pid("postgres"), None);
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('seen')");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('seen')"), 1);
    let worker = cluster.wait_for_worker("postgres");
    let name: String =
        client.one(&format!("SELECT backend_type FROM pg_stat_activity WHERE pid = {worker}"));
    assert!(name.starts_with("hilo"), "{name}");
    drop(client);
    cluster.wait_until_gone(worker);
    assert_eq!(cluster.connect("postgres").one::<i64>("SELECT hilo_nextval('seen')"), 2);
    cluster.finish();
}

/// pg_terminate_backend ends the worker, without a value lost or repeated, and the next caller who
/// needs one has a new one.
#[test]
fn obeys_terminate_and_comes_back() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('ended', block_size => 10)");
    let mut next = 1;
    for _ in 0..5 {
        let mut worker = None;
        wait_until("a caller has made a worker start", LONG, || {
            assert_eq!(client.draw("ended", 1), [next]);
            next += 1;
            worker = cluster.worker_pid("postgres");
            worker.is_some()
        });
        let worker = worker.expect("it is there");
        assert!(client.one::<bool>(&format!("SELECT pg_terminate_backend({worker}, 10000)")));
        assert_ne!(cluster.worker_pid("postgres"), Some(worker));
    }
    hilo_check_says_if_it_is_stopped(&cluster, &mut client);
    cluster.finish();
}

/// One that was asked for something and does not react is an error, also when the caller has given up.
fn hilo_check_says_if_it_is_stopped(cluster: &Cluster, client: &mut Client) {
    let found = "SELECT what FROM hilo_check() WHERE object = 'worker' AND severity = 'error'";
    client.run("SELECT hilo_create('more')");
    client.draw("ended", 1);
    let worker = cluster.wait_for_worker("postgres");
    assert_eq!(client.all::<String>(found), [""; 0]);
    let process = Pid::from_raw(worker);
    kill(process, Signal::SIGSTOP).expect("the worker runs");
    let mut other = cluster.connect("postgres");
    other.run("SET hilo.reserve_timeout = '100ms'");
    other.refusal("SELECT hilo_nextval('more')").is("55P03");
    let mut said = Vec::new();
    wait_until("hilo_check says so", LONG, || {
        said = client.all::<String>(found);
        !said.is_empty()
    });
    kill(process, Signal::SIGCONT).expect("the worker runs");
    assert!(said[0].starts_with(&format!("process {worker}, which")), "{said:?}");
    other.run("SET hilo.reserve_timeout = '60s'");
    assert_eq!(other.draw("more", 1).len(), 1);
    wait_until("the finding ends", LONG, || client.all::<String>(found).is_empty());
}

/// If no background worker is free, a caller waits for one up to hilo.reserve_timeout and
/// then gets an error that says what to raise.
#[test]
fn without_a_free_worker_slot_callers_get_an_error() {
    let cluster = Cluster::builder()
        .config("max_worker_processes", "0")
        .config("hilo.reserve_timeout", "300ms")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('starved')");
    let began = Instant::now();
    client
        .refusal("SELECT hilo_nextval('starved')")
        .is("53400")
        .details("No background worker")
        .hints("max_worker_processes");
    assert!(began.elapsed() >= Duration::from_millis(300));
    // Its own transaction needs no worker.
    client.run("BEGIN; SELECT hilo_create('own'); SELECT hilo_nextval('own'); COMMIT");
}

/// A worker that waits for a lock before it has connected is not in pg_stat_activity. The HINT names
/// pg_locks, which has it.
#[test]
fn a_worker_that_cannot_connect_is_found_in_pg_locks() {
    let cluster = Cluster::builder().config("hilo.reserve_timeout", "300ms").start_with_hilo();
    let [mut client, mut holder, mut watcher] = [(); 3].map(|()| cluster.connect("postgres"));
    client.run("SELECT hilo_create('late')");
    assert_eq!(cluster.worker_pid("postgres"), None);
    // Each process reads this catalog on its way into a database.
    holder.run("BEGIN; LOCK TABLE pg_db_role_setting");
    client.refusal("SELECT hilo_nextval('late')").is("55P03").hints("pg_locks");
    let locked = "SELECT pg_blocking_pids(pid) FROM pg_locks
                   WHERE NOT granted AND relation = 'pg_db_role_setting'::regclass";
    let held_by = vec![holder.backend_pid()];
    wait_until("pg_locks has it", LONG, || watcher.all(locked).contains(&held_by));
    holder.run("COMMIT; SET hilo.reserve_timeout = '60s'");
    assert_eq!(holder.draw("late", 1), [1]);
    cluster.finish();
}

/// Where another database's worker has taken the only slot, a caller waits. It is served when that
/// worker has nothing to do, or when sessions that hold slices of its have left.
#[test]
fn a_worker_slot_that_becomes_free_is_taken() {
    let cluster = Cluster::builder()
        // One for the launcher of logical replication, one for a worker of ours.
        .config("max_worker_processes", "2")
        .config("hilo.worker_idle_timeout", "100ms")
        .config("hilo.reserve_timeout", "60s")
        .start_with_hilo();
    let mut first = cluster.connect("postgres");
    first.run("SELECT hilo_create('turns')");
    first.run("CREATE DATABASE second");
    let mut second = cluster.connect("second");
    second.run("CREATE EXTENSION hilo");
    second.run("SELECT hilo_create('turns')");

    assert_eq!(first.draw("turns", 1), [1]);
    assert_eq!(second.draw("turns", 2), [1, 2]);
    let waiter = first.backend_pid();
    thread::scope(|scope| {
        let call = scope.spawn(|| first.draw("turns", 1));
        let mut watch = cluster.connect("second");
        wait_until("the call waits or is served", LONG, || {
            call.is_finished() || is_waiting(&mut watch, waiter)
        });
        drop(second);
        assert_eq!(call.join().unwrap(), [2]);
    });
    cluster.finish();
}

/// While a sequence's row is held, callers whose pool is empty wait, and leave when
/// hilo.reserve_timeout or statement_timeout says so, or when they are cancelled. Then they are
/// served as soon as the row is free.
#[test]
fn waiting_callers_can_leave() {
    let cluster = Cluster::with_hilo();
    let mut holder = cluster.connect("postgres");
    holder.run("SELECT hilo_create('held'), hilo_create('free')");
    holder.run("BEGIN; SELECT hilo_setval('held', 10)");

    let mut client = cluster.connect("postgres");
    client.run("SET hilo.reserve_timeout = '300ms'");
    client.refusal("SELECT hilo_nextval('held')").is("55P03").says("held").helps();
    client.run("SET hilo.reserve_timeout = '60s'; SET statement_timeout = '300ms'");
    client.refusal("SELECT hilo_nextval('held')").is("57014");
    client.run("SET statement_timeout = 0");

    let waiter = client.backend_pid();
    thread::scope(|scope| {
        let call = scope.spawn(|| drop(client.refusal("SELECT hilo_nextval('held')").is("57014")));
        wait_until_waiting(&cluster, waiter);
        // No other session is delayed by it.
        let mut other = cluster.connect("postgres");
        assert_eq!(other.draw("free", 1_000).len(), 1_000);
        other.run(&format!("SELECT pg_cancel_backend({waiter})"));
        call.join().unwrap();
    });

    thread::scope(|scope| {
        let call = scope.spawn(|| client.draw("held", 1));
        wait_until_waiting(&cluster, waiter);
        holder.run("COMMIT");
        assert_eq!(call.join().unwrap(), [11]);
    });
    cluster.finish();
}

/// A change of hilo's settings takes effect on reload.
#[test]
fn obeys_reload() {
    let cluster = Cluster::builder().config("hilo.worker_idle_timeout", "1h").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('reloaded')");
    client.run("SELECT hilo_nextval('reloaded')");
    let worker = cluster.wait_for_worker("postgres");
    drop(client);
    cluster.configure("hilo.worker_idle_timeout", "100ms");
    cluster.reload();
    cluster.wait_until_gone(worker);
}

/// Waits until backend `pid` is in the middle of a statement and waits for something.
fn wait_until_waiting(cluster: &Cluster, pid: i32) {
    let mut client = cluster.connect("postgres");
    wait_until("the call waits", LONG, || is_waiting(&mut client, pid));
}

fn is_waiting(client: &mut Client, pid: i32) -> bool {
    let waiting = format!(
        "SELECT state = 'active' AND wait_event_type IN ('Extension', 'IPC')
         FROM pg_stat_activity WHERE pid = {pid}"
    );
    client.one::<Option<bool>>(&waiting) == Some(true)
}
