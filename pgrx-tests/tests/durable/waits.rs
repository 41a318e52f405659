//! Every wait can be ended: by a cancel, by statement_timeout, by the end of the session. Nothing
//! is left behind, neither a pin nor a holder nor a lock. The next call is served, what was waited
//! for can be dropped, and every slot can be used again.

use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

const PLACES: usize = 16;

/// The cause that keeps the call waiting.
#[derive(Clone, Copy)]
enum Obstacle {
    /// A transaction of another session, which has done this.
    Transaction(&'static str),
    /// The worker does nothing.
    Worker,
}

use Obstacle::{Transaction, Worker};

/// Every wait there is in src/session, and the locks of Postgres that definitions wait for.
const WAITS: [(&str, Obstacle, &str); 11] = [
    (
        "the terms",
        Transaction("SELECT FROM _hilo.hilo_position FOR UPDATE"),
        "hilo_nextval('fresh')",
    ),
    (
        "a block",
        Transaction("SELECT FROM _hilo.hilo_position FOR UPDATE"),
        "hilo_nextvals('waited', 1000)",
    ),
    (
        "a range",
        Transaction("SELECT FROM _hilo.hilo_position FOR UPDATE"),
        "hilo_nextrange('waited', 1000)",
    ),
    ("a hi", Transaction("SELECT hilo_setval('waited', 500)"), "hilo_next_hi('waited')"),
    ("a key", Transaction("SELECT hilo_setval('waited', 500)"), "hilo_nextkey('waited')"),
    ("the worker", Worker, "hilo_nextvals('waited', 1000)"),
    ("a name's creation", Worker, "hilo_nextval('unknown')"),
    (
        "a row that is altered",
        Transaction("SELECT hilo_alter('waited', slice_size => 2)"),
        "hilo_drop('waited', cascade => true)",
    ),
    (
        "a row that is dropped",
        Transaction("SELECT hilo_drop('waited', cascade => true)"),
        "hilo_setval('waited', 7)",
    ),
    ("a table", Transaction("LOCK TABLE filled"), "hilo_rename('waited', 'renamed')"),
    ("a name", Transaction("SELECT hilo_create('taken')"), "hilo_create('taken')"),
];

fn is_waiting(watcher: &mut Client, pid: i32) -> bool {
    let sql = format!(
        "SELECT state = 'active' AND wait_event_type IN ('Extension', 'IPC', 'Lock')
           FROM pg_stat_activity WHERE pid = {pid}"
    );
    watcher.one::<Option<bool>>(&sql) == Some(true)
}

fn client(cluster: &Cluster) -> Client {
    let mut client = cluster.connect("postgres");
    client.run("SET hilo.reserve_timeout = '60s'; SET hilo.auto_create = on");
    client
}

/// A call that waits, left in each of the three ways.
fn leave(cluster: &Cluster, call: &str) {
    let mut watcher = cluster.connect("postgres");
    let mut waiter = client(cluster);
    let pid = waiter.backend_pid();
    let sql = format!("SELECT {call}");
    waiter.run("SET statement_timeout = '150ms'");
    waiter.refusal(&sql).is("57014");
    waiter.run("SET statement_timeout = 0");
    for end in ["pg_cancel_backend", "pg_terminate_backend"] {
        thread::scope(|scope| {
            let call = scope.spawn(|| waiter.batch_execute(&sql).expect_err("it is not served"));
            wait_until("the call waits", LONG, || is_waiting(&mut watcher, pid));
            watcher.run(&format!("SELECT {end}({pid})"));
            let error = call.join().unwrap_or_else(|_| panic!("{sql}: {end}"));
            // The client may see of a session no more than that it was ended.
            let expected = if end == "pg_cancel_backend" { "57014" } else { "57P01" };
            let said = error.code().map_or("57P01", |code| code.code());
            assert_eq!(said, expected, "{sql}: {error:?}");
        });
    }
    cluster.wait_until_gone(pid);
}

/// In each wait.
#[test]
fn every_wait_can_be_left() {
    let cluster = Cluster::builder()
        .config("hilo.max_sequences", &PLACES.to_string())
        .config("hilo.worker_idle_timeout", "1h")
        .start_with_hilo();
    let mut seen = Vec::new();
    for (what, obstacle, call) in WAITS {
        let mut holder = client(&cluster);
        holder.run(
            "SELECT hilo_create('waited', block_size => 10), hilo_create('fresh');
             CREATE TABLE filled (id bigint DEFAULT hilo_nextval('waited'))",
        );
        seen.extend(holder.draw("waited", 5));
        match obstacle {
            Transaction(sql) => {
                holder.run(&format!("BEGIN; {sql}"));
                leave(&cluster, call);
                holder.run("ROLLBACK");
            }
            Worker => {
                let worker = Pid::from_raw(cluster.wait_for_worker("postgres"));
                kill(worker, Signal::SIGSTOP).expect("the worker stands");
                leave(&cluster, call);
                kill(worker, Signal::SIGCONT).expect("the worker continues");
            }
        }
        let mut next = client(&cluster);
        seen.extend(next.draw("waited", 50));
        seen.sort_unstable();
        let drawn = seen.len();
        seen.dedup();
        assert_eq!((seen.len(), drawn), (55, 55), "after waiting for {what}");
        seen.clear();
        let nobodys = "SELECT count(*) FROM hilo_blocks b
                        WHERE pid IS NOT NULL AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = b.pid)";
        assert_eq!(next.one::<i64>(nobodys), 0, "after waiting for {what}");
        next.run("DROP TABLE filled; SELECT hilo_drop(name) FROM hilo_sequences");
        drop((next, holder));
        every_place_can_be_used(&cluster, what);
    }
    cluster.finish();
}

/// A session can hold values of as many sequences as there are places.
fn every_place_can_be_used(cluster: &Cluster, what: &str) {
    let mut user = client(cluster);
    user.run("SET hilo.auto_create = off");
    user.run(&format!("SELECT hilo_create('place' || n) FROM generate_series(1, {PLACES}) AS n"));
    let all =
        format!("SELECT hilo_nextvals('place' || n, 3) FROM generate_series(1, {PLACES}) AS n");
    for _ in 0..3 {
        if let Err(error) = user.batch_execute(&all) {
            panic!("after waiting for {what}: {error:?}");
        }
    }
    let held = "SELECT count(DISTINCT name) FROM hilo_blocks WHERE tier = 'slice'";
    assert_eq!(user.one::<i64>(held), PLACES as i64, "after waiting for {what}");
    user.run("SELECT hilo_drop(name) FROM hilo_sequences");
}

/// The wait for a place among the active sequences. In each of them a session waits for a
/// transaction that is about to renumber them all.
#[test]
fn the_wait_for_a_place_can_be_left() {
    let cluster = Cluster::builder()
        .config("hilo.max_sequences", &PLACES.to_string())
        .config("hilo.max_backend_slices", "64")
        .start_with_hilo();
    let mut holder = client(&cluster);
    holder.run(&format!("SELECT hilo_create('held' || n) FROM generate_series(1, {PLACES}) AS n; SELECT hilo_create('more')"));
    holder.run("BEGIN; SELECT hilo_setval(name, 100) FROM hilo_sequences WHERE name <> 'more'");
    let mut users: Vec<Client> = (0..PLACES).map(|_| client(&cluster)).collect();
    let pids: Vec<i32> = users.iter_mut().map(|user| user.backend_pid()).collect();
    thread::scope(|scope| {
        let calls: Vec<_> = users
            .iter_mut()
            .enumerate()
            .map(|(n, user)| {
                let sql = format!("SELECT hilo_nextval('held{}')", n + 1);
                scope.spawn(move || user.one::<i64>(&sql))
            })
            .collect();
        let mut watcher = cluster.connect("postgres");
        wait_until("each of them waits", LONG, || {
            pids.iter().all(|pid| is_waiting(&mut watcher, *pid))
        });
        leave(&cluster, "hilo_nextval('more')");
        let mut waiter = client(&cluster);
        waiter.run("SET hilo.reserve_timeout = '200ms'");
        waiter.refusal("SELECT hilo_nextval('more')").is("53400").hints("hilo.max_sequences");
        holder.run("ROLLBACK");
        waiter.run("SET hilo.reserve_timeout = '60s'");
        assert_eq!(waiter.one::<i64>("SELECT hilo_nextval('more')"), 1);
        for call in calls {
            assert_eq!(call.join().expect("it was served"), 1);
        }
    });
    holder.run("SELECT hilo_drop(name) FROM hilo_sequences");
    drop((users, holder));
    every_place_can_be_used(&cluster, "a place");
    cluster.finish();
}

/// A session that locks one table of hilo after the other, as DROP EXTENSION does, never ends in a
/// deadlock with the worker. The worker waits for no table while it holds another. If it did, the
/// session would be the one to fail, because the worker would have looked for a deadlock before
/// there was one.
#[test]
fn the_worker_waits_for_no_table() {
    let cluster = Cluster::builder().config("deadlock_timeout", "10ms").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let mut other = cluster.connect("postgres");
    other.run("SET hilo.reserve_timeout = '60s'; SELECT hilo_nextval('s')");
    client.run("BEGIN; LOCK TABLE _hilo.hilo_definition");
    thread::scope(|scope| {
        let draws = scope.spawn(move || other.draw("s", 1_000));
        let waits = "SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
                                     WHERE backend_type = 'hilo worker' AND NOT granted
                                       AND waitstart < clock_timestamp() - interval '100 ms')";
        wait_until("the worker has met the lock", LONG, || {
            client.one(waits) || cluster.log_count("hilo could not reserve") > 0
        });
        client.run("LOCK TABLE _hilo.hilo_position, _hilo.hilo_free_range, _hilo.hilo_gap; COMMIT");
        let values = draws.join().expect("it is served");
        assert_eq!(values.len(), 1_000);
    });
    cluster.finish();
}

/// The worker meets the lock of one wish of hilo.auto_create, and serves other sequences before it tries the next.
#[test]
fn wishes_hold_up_no_other_sequence() {
    const WISHES: usize = 20;
    let cluster = Cluster::builder().config("hilo.prefetch", "off").start_with_hilo();
    let mut user = client(&cluster);
    user.run("SELECT hilo_create('s', block_size => 1)");
    user.draw("s", 1);
    let mut holder = client(&cluster);
    holder.run(&format!(
        "BEGIN; SELECT hilo_create('wish ' || n) FROM generate_series(1, {WISHES}) n"
    ));
    let mut wishers: Vec<Client> = (0..WISHES).map(|_| client(&cluster)).collect();
    let pids: Vec<i32> = wishers.iter_mut().map(|wisher| wisher.backend_pid()).collect();
    let worker = Pid::from_raw(cluster.wait_for_worker("postgres"));
    kill(worker, Signal::SIGSTOP).expect("the worker runs");
    thread::scope(|scope| {
        let calls: Vec<_> = wishers
            .iter_mut()
            .enumerate()
            .map(|(n, wisher)| {
                let sql = format!("SELECT hilo_nextval('wish {}')", n + 1);
                scope.spawn(move || wisher.one::<i64>(&sql))
            })
            .collect();
        let mut watcher = cluster.connect("postgres");
        wait_until("each of them waits", LONG, || {
            pids.iter().all(|pid| is_waiting(&mut watcher, *pid))
        });
        kill(worker, Signal::SIGCONT).expect("the worker runs");
        let (mut met, mut between) = (0, 0);
        wait_until("each wish has met the lock", LONG, || {
            user.draw("s", 1);
            let before = met;
            met = cluster.log_count("hilo could not reserve a block of sequence \"wish ");
            between += usize::from(before > 0 && met < WISHES);
            met == WISHES
        });
        assert!(between > 0, "all wishes came before the next value");
        holder.run("ROLLBACK");
        for call in calls {
            assert_eq!(call.join().expect("it is served"), 1);
        }
    });
    cluster.finish();
}
