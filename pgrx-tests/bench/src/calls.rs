//! The cost of a call in a long SELECT, and of many numbers at once.

use std::time::Instant;

use postgres::Client;

use super::Bench;
use super::contenders::{CALLED, COUNT, Contender, FLOORS, rotate};
use hilo_tests::ClientExt;

/// A query with the same plan for every call.
pub fn select(call: &str, count: u64) -> String {
    format!("SELECT count({call}) FROM generate_series(1, {count})")
}

/// Nanoseconds of a statement, divided by the `count` calls or rows in it.
pub fn nanoseconds(client: &mut Client, sql: &str, count: u64) -> f64 {
    let began = Instant::now();
    client.run(sql);
    began.elapsed().as_secs_f64() * 1e9 / count as f64
}

/// `call/ID`: nanoseconds for each call, including what the executor does for it.
pub fn single(bench: &mut Bench) {
    let mut client = bench.connect();
    let calls = bench.plan.calls;
    let all: Vec<&Contender> = FLOORS.into_iter().chain(CALLED).collect();
    // The first round warms up the caches, and blocks grow to the size that the rate requires.
    for round in bench.rounds(bench.plan.rounds + 1) {
        for contender in rotate(&all, round) {
            let cost = nanoseconds(&mut client, &select(contender.call, calls), calls);
            if round > 0 {
                bench.results.push(format!("call/{}", contender.id), cost);
            }
        }
    }
    let count = calls / 1_000;
    let loop_ = format!(
        "DO $$ BEGIN FOR i IN 1..{count} LOOP {}; COMMIT; END LOOP; END $$",
        COUNT.trim_end_matches(" RETURNING n")
    );
    for _ in 0..bench.plan.few_rounds {
        let cost = nanoseconds(&mut client, &loop_, count);
        bench.results.push("call/counter", cost);
    }
}

/// Ways to get `n` numbers, as a name and SQL.
pub const BULK: [(&str, &str); 5] = [
    ("generate_series", "SELECT count(*) FROM generate_series(1::bigint, {n})"),
    ("nextval", "SELECT count(hilo_nextval('hilo')) FROM generate_series(1::bigint, {n})"),
    ("nextvals", "SELECT count(*) FROM hilo_nextvals('hilo', {n})"),
    ("nextrange", "SELECT * FROM hilo_nextrange('hilo', {n})"),
    (
        "nextrange_rows",
        "SELECT count(*) FROM hilo_nextrange('hilo', {n}) r,
                generate_series(r.first, r.last, r.increment)",
    ),
];

pub const BULK_SIZES: [u64; 4] = [1, 100, 10_000, 1_000_000];

/// `bulk/WAY/N`: nanoseconds for a statement that gets N numbers.
pub fn bulk(bench: &mut Bench) {
    let mut client = bench.connect();
    for round in bench.rounds(bench.plan.rounds + 1) {
        for size in BULK_SIZES {
            let size = size.min(bench.plan.calls);
            let times = (20_000 / size).clamp(1, 200);
            for (way, sql) in rotate(&BULK, round) {
                let sql =
                    client.prepare(&sql.replace("{n}", &size.to_string())).expect("it is right");
                let began = Instant::now();
                for _ in 0..times {
                    client.query(&sql, &[]).unwrap_or_else(|error| panic!("{way}: {error:?}"));
                }
                let cost = began.elapsed().as_secs_f64() * 1e9 / times as f64;
                if round > 0 {
                    bench.results.push(format!("bulk/{way}/{size}"), cost);
                }
            }
        }
    }
}
