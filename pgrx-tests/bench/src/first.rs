//! First calls: of a session, and of a server; and first uses of sequences.

use std::fs;
use std::time::Instant;

use postgres::Client;

use super::Bench;
use super::contenders::*;
use super::many;
use super::throughput::pgbench;
use hilo_tests::ClientExt;

pub const FIRST: [&Contender; 5] = [&FLOOR_HILO, &CORE_1, &CORE_1000, &HILO, &ORDERED];

fn microseconds(client: &mut Client, contender: &Contender) -> f64 {
    let sql = format!("SELECT {}", contender.call);
    let began = Instant::now();
    client.run(&sql);
    began.elapsed().as_secs_f64() * 1e6
}

/// How often a process has touched a page that was not mapped yet.
fn page_faults(pid: i32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    // The name of the program, in parentheses, may have spaces.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.clone().nth(7).and_then(|field| field.parse().ok()).expect("a number")
}

/// `first/faults/ID`: the page faults of the first call of a session. `first/connect/ID`: microseconds from sending the first call of a session, after a `SELECT 1`,
/// to having its answer. `first/second/ID`: the same for the next call. `first/start/ID`: for the
/// first call of a server. `first/rate/ID`: connections per second of one client of pgbench that
/// connects for each call.
pub fn measure(bench: &mut Bench) {
    // Another session is connected, as on a server in use.
    let mut onlooker = bench.connect();
    onlooker.run("SELECT hilo_nextval('hilo'), hilo_nextval('ordered')");
    for round in 0..20 * bench.plan.restarts {
        for contender in rotate(&FIRST, round) {
            let mut client = bench.connect();
            let pid = client.backend_pid();
            client.run("SELECT 1");
            let before = page_faults(pid);
            let first = microseconds(&mut client, contender);
            let faults = page_faults(pid) - before;
            bench.results.push(format!("first/faults/{}", contender.id), faults);
            let second = microseconds(&mut client, contender);
            bench.results.push(format!("first/connect/{}", contender.id), first);
            bench.results.push(format!("first/second/{}", contender.id), second);
        }
    }
    for round in 0..bench.plan.few_rounds {
        for contender in rotate(&FIRST, round) {
            let rate = pgbench(bench, &format!("SELECT {}", contender.call), 1, &["-C"]);
            bench.results.push(format!("first/rate/{}", contender.id), rate);
        }
    }
    drop(onlooker);
    for round in bench.rounds(bench.plan.restarts) {
        for contender in rotate(&FIRST, round) {
            bench.cluster.restart();
            let cost = microseconds(&mut bench.connect(), contender);
            bench.results.push(format!("first/start/{}", contender.id), cost);
        }
    }
}

/// Ways to draw from the sequence `{n}` of those that `many` has created.
const USES: [(&str, &str); 2] =
    [("hilo", "hilo_nextval('tenant-' || n)"), ("core", "nextval(('tenant_' || n)::regclass)")];

/// How sequences are created, drawn from and dropped again.
const NEW: [[&str; 4]; 2] = [
    [
        "hilo",
        "count(hilo_create('new-' || n))",
        "hilo_nextval('new-' || n)",
        "count(hilo_drop('new-' || n))",
    ],
    [
        "core",
        "CREATE SEQUENCE new_%s CACHE 32",
        "nextval(('new_' || n)::regclass)",
        "DROP SEQUENCE new_%s",
    ],
];

/// Runs a statement for each of the sequences: a query, or one of core's, some at a time because of the locks.
fn each(client: &mut Client, way: &str, statement: &str, count: u64) {
    if way == "hilo" {
        return client.run(&format!("SELECT {statement} FROM generate_series(1, {count}) n"));
    }
    for first in (1..=count).step_by(1_000) {
        let last = (first + 999).min(count);
        client.run(&format!(
            "DO $$ BEGIN FOR n IN {first}..{last} LOOP EXECUTE format('{statement}', n); END LOOP; END $$"
        ));
    }
}

/// `first/new/WAY`: milliseconds for drawing once from each of many sequences that the session has just created.
fn uses_after_creation(bench: &mut Bench, count: u64) {
    for round in 0..bench.plan.few_rounds {
        bench.cluster.restart();
        let mut client = bench.connect();
        client.run("SELECT hilo_nextval('hilo')");
        for [way, create, call, remove] in rotate(&NEW, round) {
            each(&mut client, way, create, count);
            let began = Instant::now();
            client.run(&format!("SELECT count({call}) FROM generate_series(1, {count}) n"));
            let time = began.elapsed().as_secs_f64() * 1e3;
            bench.results.push(format!("first/new/{way}"), time);
            each(&mut client, way, remove, count);
        }
    }
}

/// `first/use/WAY`: milliseconds for drawing once from each of many sequences, for the first time
/// since the server's start. `first/waits/WAY`: in how many of these calls the session waited.
/// `first/created`: microseconds for the first number of a sequence that hilo.auto_create creates.
pub fn uses(bench: &mut Bench) {
    many::create(bench);
    let count = bench.plan.sequences * 9 / 10;
    bench.results.say("first uses", count.to_string());
    uses_after_creation(bench, count);
    for round in bench.rounds(bench.plan.restarts) {
        bench.cluster.restart();
        let mut client = bench.connect();
        client.run("SELECT hilo_nextval('hilo')");
        for (way, call) in rotate(&USES, round) {
            let sql = format!("SELECT count({call}) FROM generate_series(1, {count}) n");
            let began = Instant::now();
            client.run(&sql);
            let time = began.elapsed().as_secs_f64() * 1e3;
            let waits = match way {
                "hilo" => client.one::<f64>(
                    "SELECT sum(waits)::float8 FROM hilo_stat_sequences WHERE name LIKE 'tenant-%'",
                ),
                _ => 0.0,
            };
            bench.results.push(format!("first/use/{way}"), time);
            bench.results.push(format!("first/waits/{way}"), waits);
        }
    }
    let mut client = bench.connect();
    client.run("SET hilo.auto_create = on");
    for number in 0..50 * bench.plan.restarts {
        let began = Instant::now();
        client.run(&format!("SELECT hilo_nextval('created-{number}')"));
        bench.results.push("first/created".to_owned(), began.elapsed().as_secs_f64() * 1e6);
    }
}
