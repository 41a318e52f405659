//! Parallel queries: a table that is created from an aggregate, with a number for each of its rows.

use std::time::Instant;

use super::Bench;
use super::contenders::*;
use hilo_tests::ClientExt;

/// The ways to number the rows, in the order of the table. The id of the floor is that of the
/// aggregate alone.
pub const NUMBERED: [(&str, &str, &str); 5] = [
    ("none", "no number", "1"),
    (CORE_1.id, CORE_1.label, CORE_1.call),
    (CORE_1000.id, CORE_1000.label, CORE_1000.call),
    (HILO.id, HILO.label, HILO.call),
    (ORDERED.id, ORDERED.label, ORDERED.call),
];

/// `parallel/ID`: milliseconds of a CREATE TABLE AS over an aggregate of `parallel_rows` rows in a thousand groups;
/// `parallel/workers/ID`: how many workers its plan launches.
pub fn measure(bench: &mut Bench) {
    let rows = 2 * bench.plan.calls;
    bench.results.say("parallel_rows", rows.to_string());
    let mut client = bench.connect();
    client.run(&format!(
        "CREATE TABLE many AS SELECT n, n % 1000 AS g FROM generate_series(1, {rows}) AS n;
         ALTER TABLE many SET (parallel_workers = 2); ANALYZE many; SET max_parallel_workers_per_gather = 2"
    ));
    for round in bench.rounds(bench.plan.rounds.min(7) + 1) {
        for (id, _, call) in rotate(&NUMBERED, round) {
            let sql = format!(
                "CREATE TABLE numbered AS SELECT {call} AS id, totals.*
                   FROM (SELECT g, count(*), sum(n), avg(n) FROM many GROUP BY g) AS totals"
            );
            let began = Instant::now();
            client.run(&sql);
            let took = began.elapsed().as_secs_f64() * 1e3;
            client.run("DROP TABLE numbered");
            if round > 0 {
                bench.results.push(format!("parallel/{id}"), took);
                continue;
            }
            let plan =
                client.all::<String>(&format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {sql}"));
            client.run("DROP TABLE numbered");
            let launched =
                plan.iter().find_map(|line| line.trim().strip_prefix("Workers Launched: "));
            let launched = launched.map_or(0.0, |count| count.parse().expect("a count"));
            bench.results.push(format!("parallel/workers/{id}"), launched);
        }
    }
    client.run("DROP TABLE many");
}
