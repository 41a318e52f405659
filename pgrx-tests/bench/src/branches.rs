//! A centre and eight branches. Each has two hundred sequences, and clients at a fixed rate; the
//! links have 100 ms a round trip. Then the centre fails in several ways.
//!
//! Beside it, what a call of a branch costs on a server of its own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use super::Bench;
use super::calls::nanoseconds;
use super::contenders::rotate;
use hilo_tests::{ClientExt, Cluster, Ends, LONG, Link, Mode, wait_until};

const ROUND_TRIP: Duration = Duration::from_millis(100);

/// The work of the branches, and how long it lasts.
#[derive(Clone, Copy)]
pub struct Fleet {
    branches: usize,
    sequences: u64,
    /// How often a second each branch draws a number of each sequence.
    often: u64,
    reserve_ahead: u64,
    warm_up: Duration,
    time: Duration,
    outage: Duration,
}

impl Fleet {
    pub fn full() -> Fleet {
        Fleet {
            branches: 8,
            sequences: 200,
            often: 32,
            reserve_ahead: 60,
            warm_up: Duration::from_secs(60),
            time: Duration::from_secs(200),
            outage: Duration::from_secs(30),
        }
    }

    pub fn quick() -> Fleet {
        Fleet {
            branches: 2,
            sequences: 10,
            often: 10,
            reserve_ahead: 10,
            warm_up: Duration::from_secs(5),
            time: Duration::from_secs(2),
            outage: Duration::from_secs(1),
        }
    }
}

/// The figures of the clients of all branches since the last reading.
#[derive(Default)]
struct Seen {
    over: AtomicBool,
    numbers: AtomicU64,
    failed: AtomicU64,
    /// In microseconds.
    longest: AtomicU64,
}

struct Branch {
    cluster: Cluster,
    link: Link,
}

fn branch_of(centre: &Cluster, names: &str, ahead: u64) -> Branch {
    let link = Link::to(centre);
    let cluster = Cluster::builder().own_identity().start_with_hilo();
    cluster.connect("postgres").run(&format!(
        "CREATE EXTENSION dblink;
         CREATE SERVER centre FOREIGN DATA WRAPPER dblink_fdw
             OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres', connect_timeout '3');
         CREATE USER MAPPING FOR postgres SERVER centre OPTIONS (user 'postgres');
         SELECT hilo_attach_server(name, 'centre') FROM {names} AS t (name);
         SELECT hilo_alter(name, reserve_ahead => '{ahead} s') FROM {names} AS t (name)",
        link.port()
    ));
    Branch { cluster, link }
}

/// Draws one number of each sequence, as often as the load says.
fn draw(branch: &Cluster, load: &Fleet, seen: &Seen) {
    let mut client = branch.connect("postgres");
    client.run("SET hilo.reserve_timeout = '60s'");
    let all = format!(
        "SELECT count(hilo_nextval('counter ' || n)) FROM generate_series(1, {}) n",
        load.sequences
    );
    let all = client.prepare(&all).expect("it is prepared");
    let began = Instant::now();
    let mut ticks = 0;
    while !seen.over.load(SeqCst) {
        if began.elapsed().as_secs_f64() * (load.often as f64) < f64::from(ticks) {
            thread::sleep(Duration::from_millis(2));
            continue;
        }
        ticks += 1;
        let before = Instant::now();
        match client.query_one(&all, &[]) {
            Ok(_) => seen.numbers.fetch_add(load.sequences, SeqCst),
            Err(_) => seen.failed.fetch_add(1, SeqCst),
        };
        seen.longest.fetch_max(before.elapsed().as_micros() as u64, SeqCst);
    }
}

fn waits(branches: &[Branch]) -> f64 {
    let sum = "SELECT COALESCE(sum(waits), 0)::float8 FROM hilo_stat_sequences";
    branches.iter().map(|branch| branch.cluster.connect("postgres").one::<f64>(sum)).sum()
}

/// Transactions that have committed, those that have written, and values that were received.
fn commits(centre: &Cluster, branches: &[Branch]) -> [f64; 3] {
    let mut client = centre.connect("postgres");
    let all = "SELECT xact_commit::float8 FROM pg_stat_database WHERE datname = 'postgres'";
    let written = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::float8";
    let received = "SELECT COALESCE(sum(received), 0)::float8 FROM hilo_stat_sources";
    let received =
        branches.iter().map(|branch| branch.cluster.connect("postgres").one::<f64>(received));
    [client.one(all), client.one(written), received.sum()]
}

/// `branches/steady/…`.
pub fn measure(bench: &mut Bench) {
    let load = bench.plan.branches;
    under_load(bench, |bench, centre, branches, seen| steady(bench, &load, centre, branches, seen));
    bench.results.say("branches", load.branches.to_string());
    bench.results.say("sequences of each", load.sequences.to_string());
}

/// `branches/FAULT/…`.
pub fn faults(bench: &mut Bench) {
    let load = bench.plan.branches;
    under_load(bench, |bench, centre, branches, seen| {
        for fault in ["stopped", "killed", "frozen", "promoted"] {
            read(bench, "", seen, 0.0);
            let before = waits(branches);
            trouble(fault, &load, centre, branches);
            thread::sleep(load.outage.min(Duration::from_secs(10)));
            read(bench, fault, seen, waits(branches) - before);
        }
    });
    bench.results.say("reserve_ahead", load.reserve_ahead.to_string());
    bench.results.say("outage of the centre", load.outage.as_secs().to_string());
}

/// Measures a centre and its branches while clients draw from all branches.
fn under_load(bench: &mut Bench, measure: impl FnOnce(&mut Bench, &mut Cluster, &[Branch], &Seen)) {
    let load = bench.plan.branches;
    let names = format!(
        "(SELECT ('counter ' || n)::hilo_sequence FROM generate_series(1, {}) n)",
        load.sequences
    );
    let mut centre = Cluster::builder().config("max_connections", "60").start_with_hilo();
    centre.connect("postgres").run(&format!("SELECT hilo_create(name) FROM {names} AS t (name)"));
    let branches: Vec<Branch> = thread::scope(|scope| {
        let made: Vec<_> = (0..load.branches)
            .map(|_| scope.spawn(|| branch_of(&centre, &names, load.reserve_ahead)))
            .collect();
        made.into_iter().map(|one| one.join().expect("a branch is made")).collect()
    });
    let seen = &Seen::default();
    thread::scope(|scope| {
        let _ends = Ends(&seen.over);
        for branch in &branches {
            scope.spawn(move || draw(&branch.cluster, &load, seen));
        }
        thread::sleep(load.warm_up);
        branches.iter().for_each(|branch| branch.link.set_round_trip(ROUND_TRIP));
        measure(bench, &mut centre, &branches, seen);
    });
}

fn steady(bench: &mut Bench, load: &Fleet, centre: &Cluster, branches: &[Branch], seen: &Seen) {
    read(bench, "", seen, 0.0);
    let (waited, before) = (waits(branches), commits(centre, branches));
    let began = Instant::now();
    thread::sleep(load.time);
    let seconds = began.elapsed().as_secs_f64();
    let after = commits(centre, branches);
    let [all, written, received] = [0, 1, 2].map(|at| (after[at] - before[at]) / seconds);
    let numbers = seen.numbers.load(SeqCst) as f64;
    bench.results.push("branches/steady/rate", numbers / seconds);
    bench.results.push("branches/steady/received", received);
    bench.results.push("branches/steady/commits", all);
    bench.results.push("branches/steady/writes", written);
    bench.results.push("branches/steady/writes for 50k", 50_000.0 * written / received.max(1.0));
    read(bench, "steady", seen, waits(branches) - waited);
}

/// Stores the figures under this name, if there is one, and begins again.
fn read(bench: &mut Bench, name: &str, seen: &Seen, waits: f64) {
    let [numbers, failed, longest] =
        [&seen.numbers, &seen.failed, &seen.longest].map(|figure| figure.swap(0, SeqCst) as f64);
    if !name.is_empty() {
        let mut push = |what, value| bench.results.push(format!("branches/{name}/{what}"), value);
        push("numbers", numbers);
        push("waits", waits);
        push("failed", failed);
        push("longest", longest * 1e-3);
    }
}

fn trouble(fault: &str, load: &Fleet, centre: &mut Cluster, branches: &[Branch]) {
    match fault {
        "stopped" => {
            centre.stop(Mode::Fast);
            thread::sleep(load.outage);
            centre.start();
        }
        "killed" => {
            centre.kill9_postmaster();
            centre.start();
        }
        "frozen" => {
            let _frozen = centre.freeze();
            thread::sleep(load.outage);
        }
        _ => {
            let standby = centre.clone_by_base_backup();
            centre.wait_for_replay(&standby);
            centre.kill9_postmaster();
            standby.promote();
            branches.iter().for_each(|branch| branch.link.lead_to(&standby));
            *centre = standby;
        }
    }
}

/// `branches/call/WAY`: nanoseconds for a call of a sequence with a source, and of one without. The
/// latter is measured a second time while another's source is dead and somebody waits for it.
pub fn calls(bench: &mut Bench) {
    let centre = Cluster::builder().start_with_hilo();
    centre.connect("postgres").run("SELECT hilo_create('far')");
    let Branch { cluster: branch, .. } = branch_of(&centre, "unnest('{far}'::text[])", 10);
    let mut client = branch.connect("postgres");
    client.run(
        "SELECT hilo_create('own');
         SELECT hilo_create('dead',
             source => 'SELECT 1::bigint, 1::bigint FROM pg_catalog.pg_sleep(3600)')",
    );
    let count = bench.plan.calls;
    let sql =
        |name| format!("SELECT count(hilo_nextval('{name}')) FROM generate_series(1, {count})");
    for round in 0..bench.plan.rounds + 3 {
        for name in rotate(&["own", "far", "beside"], round) {
            let cost = match name {
                "beside" => {
                    while_one_waits(&branch, || nanoseconds(&mut client, &sql("own"), count))
                }
                name => nanoseconds(&mut client, &sql(name), count),
            };
            if round >= 3 {
                bench.results.push(format!("branches/call/{name}"), cost);
            }
        }
    }
}

/// Measures while a session waits for a source that does not answer.
fn while_one_waits(branch: &Cluster, measure: impl FnOnce() -> f64) -> f64 {
    let mut waiting = branch.connect("postgres");
    waiting.run("SET hilo.reserve_timeout = '1h'");
    let token = waiting.cancel_token();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                let _ = waiting.simple_query("SELECT hilo_nextval('dead')");
            }
        });
        let mut witness = branch.connect("postgres");
        let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%dead%'
                         AND wait_event_type = 'Extension' AND pid <> pg_backend_pid())";
        wait_until("a session waits for the dead source", LONG, || witness.one(waits));
        let cost = measure();
        over.store(true, SeqCst);
        token.cancel_query(postgres::NoTls).expect("the session is told");
        cost
    })
}
