//! The throughput of many sessions at once.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;

use super::Bench;
use super::calls::select;
use super::contenders::*;
use hilo_tests::ClientExt;

pub const SESSIONS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// How many numbers one statement draws.
const CHUNK: u64 = 20_000;

/// Numbers per second that all `clients` together get within `time`, by statements of CHUNK numbers.
fn draw_for(clients: &mut [Client], sql: &str, time: Duration) -> f64 {
    let start = Barrier::new(clients.len());
    let draw = |client: &mut Client| {
        let statement = client.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        start.wait();
        let began = Instant::now();
        let mut count = 0;
        while began.elapsed() < time {
            client.query(&statement, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            count += CHUNK;
        }
        count as f64 / began.elapsed().as_secs_f64()
    };
    thread::scope(|scope| {
        let sessions: Vec<_> =
            clients.iter_mut().map(|client| scope.spawn(|| draw(client))).collect();
        sessions.into_iter().map(|session| session.join().expect("it drew")).sum()
    })
}

/// Draws until the blocks have the size that the rate requires. The sessions that are measured do it: what
/// a sequence holds in memory is flushed once no session uses it.
pub fn warm_up(bench: &Bench, clients: &mut [Client], name: &str) {
    let sql = select(&format!("hilo_nextval('{name}')"), CHUNK);
    draw_for(clients, &sql, bench.plan.warm_up);
}

/// `throughput/ID/SESSIONS`: numbers per second of all sessions together in long SELECTs, and what
/// hilo counted meanwhile.
pub fn long_selects(bench: &mut Bench) {
    const HILO_NAMES: [&str; 3] = ["hilo", "ordered", "keys"];
    let most = SESSIONS[SESSIONS.len() - 1];
    let mut clients: Vec<Client> = (0..most).map(|_| bench.connect()).collect();
    for name in HILO_NAMES {
        warm_up(bench, &mut clients[..8], name);
    }
    bench.connect().run("SELECT hilo_stat_reset()");
    let all: Vec<&Contender> = CALLED.into_iter().chain([&FLOOR_HILO]).collect();
    for round in bench.rounds(bench.plan.few_rounds) {
        for sessions in SESSIONS {
            for contender in rotate(&all, round) {
                let clients = &mut clients[..sessions];
                let sql = select(contender.call, CHUNK);
                let rate = draw_for(clients, &sql, bench.plan.time);
                bench.results.push(format!("throughput/{}/{sessions}", contender.id), rate);
            }
        }
    }
    for what in ["waits", "served", "blocks_reserved"] {
        bench.results.push(format!("throughput/{what}"), bench.count(what, &HILO_NAMES));
    }
    steady(bench, &mut clients[..8]);
}

/// `steady/…`: hilo's counters while eight warm sessions draw continuously.
fn steady(bench: &mut Bench, clients: &mut [Client]) {
    for contender in [&HILO, &ORDERED] {
        let sql = select(contender.call, CHUNK);
        warm_up(bench, clients, contender.id);
        bench.connect().run(&format!("SELECT hilo_stat_reset('{}')", contender.id));
        draw_for(clients, &sql, 2 * bench.plan.warm_up);
        for what in ["waits", "served", "blocks_reserved"] {
            let count = bench.count(what, &[contender.id]);
            bench.results.push(format!("steady/{what}/{}", contender.id), count);
        }
    }
}

/// Sessions of pgbench, fewer than above: one statement for each number is far slower.
pub const PGBENCH_SESSIONS: [usize; 3] = [1, 8, 32];

/// `statements/ID/SESSIONS`: numbers per second, one statement for each, through pgbench.
pub fn statements(bench: &mut Bench) {
    let all =
        [&CORE_1, &CORE_100, &CORE_1000, &HILO, &ORDERED, &KEYS, &UUID, &COUNTER, &FLOOR_HILO];
    for round in bench.rounds(bench.plan.few_rounds.min(3)) {
        for sessions in PGBENCH_SESSIONS {
            for contender in rotate(&all, round) {
                let sql = match contender.id {
                    "counter" => COUNT.to_owned(),
                    _ => format!("SELECT {}", contender.call),
                };
                let rate = pgbench(bench, &sql, sessions, &[]);
                bench.results.push(format!("statements/{}/{sessions}", contender.id), rate);
            }
        }
    }
}

/// Transactions per second of a script of one prepared statement, for at least a second.
pub fn pgbench(bench: &Bench, sql: &str, sessions: usize, options: &[&str]) -> f64 {
    pgbench_in(bench, "postgres", sql, sessions, options)
}

/// The same in another database.
pub fn pgbench_in(
    bench: &Bench,
    database: &str,
    sql: &str,
    sessions: usize,
    options: &[&str],
) -> f64 {
    let sessions = sessions.to_string();
    let mut arguments = vec!["-M", "prepared", "-n", "-c", &sessions];
    arguments.extend(bench.plan.pgbench);
    let threads = if sessions == "1" { "1" } else { "2" };
    arguments.extend(["-j", threads]);
    arguments.extend(options);
    let report = bench.cluster.pgbench(database, &format!("{sql};\n"), &arguments);
    report
        .lines()
        .find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("pgbench says no rate:\n{report}"))
}
