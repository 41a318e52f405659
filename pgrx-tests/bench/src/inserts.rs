//! INSERT with the number as the default of the primary key.

use std::time::Instant;

use super::Bench;
use super::contenders::*;
use super::throughput::pgbench;
use hilo_tests::ClientExt;

/// The contenders that can be a column default, in the order of the tables.
pub const DEFAULTS: [&Contender; 8] =
    [&CORE_1, &CORE_100, &CORE_1000, &IDENTITY, &HILO, &ORDERED, &KEYS, &UUID];

/// A table for each, with a column beside the key.
fn create(bench: &Bench) {
    let mut client = bench.connect();
    for contender in DEFAULTS {
        let key = match contender.id {
            "identity" => "bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY".to_owned(),
            "keys" => format!("text PRIMARY KEY DEFAULT {}", contender.call),
            "uuid" => format!("uuid PRIMARY KEY DEFAULT {}", contender.call),
            _ => format!("bigint PRIMARY KEY DEFAULT {}", contender.call),
        };
        client.run(&format!("CREATE TABLE rows_{} (id {key}, v bigint)", contender.id));
    }
    // The floor: numbers that exist already.
    client.run("CREATE TABLE rows_floor (id bigint PRIMARY KEY, v bigint)");
}

pub fn measure(bench: &mut Bench) {
    create(bench);
    many_rows(bench);
    single_rows(bench);
}

/// `insert/ID`: nanoseconds for each row of a long INSERT … SELECT, and `insert/floor` without a default.
fn many_rows(bench: &mut Bench) {
    let mut client = bench.connect();
    let rows = bench.plan.calls;
    let ids: Vec<&str> = DEFAULTS.iter().map(|contender| contender.id).chain(["floor"]).collect();
    for round in bench.rounds(bench.plan.rounds.min(7) + 1) {
        for id in rotate(&ids, round) {
            let sql = match id {
                "floor" => {
                    format!("INSERT INTO rows_floor SELECT n, n FROM generate_series(1, {rows}) n")
                }
                _ => {
                    format!("INSERT INTO rows_{id} (v) SELECT n FROM generate_series(1, {rows}) n")
                }
            };
            client.run(&format!("TRUNCATE rows_{id}"));
            let began = Instant::now();
            client.run(&sql);
            let cost = began.elapsed().as_secs_f64() * 1e9 / rows as f64;
            client.run(&format!("TRUNCATE rows_{id}"));
            if round > 0 {
                bench.results.push(format!("insert/{id}"), cost);
            }
        }
    }
}

/// How a row with a number from a counter table is inserted: no default can do that.
const COUNTED: &str = "WITH next AS (UPDATE counter SET n = n + 1 RETURNING n)
    INSERT INTO rows_floor SELECT n, 1 FROM next";

/// `rows/ID/on` and `…/off`: rows per second that eight sessions of pgbench insert, a transaction for
/// each, with and without waiting for the disk at commit.
fn single_rows(bench: &mut Bench) {
    let ids: Vec<&str> = DEFAULTS.iter().map(|contender| contender.id).chain(["counter"]).collect();
    bench
        .connect()
        .run("CREATE ROLE hasty SUPERUSER LOGIN; ALTER ROLE hasty SET synchronous_commit = off");
    for round in 0..bench.plan.few_rounds.min(3) {
        for (commit, options) in [("on", ["-U", "postgres"]), ("off", ["-U", "hasty"])] {
            for id in rotate(&ids, round) {
                let sql = match id {
                    "counter" => COUNTED.replace('\n', " "),
                    _ => format!("INSERT INTO rows_{id} (v) VALUES (1)"),
                };
                let rate = pgbench(bench, &sql, 8, &options);
                bench.results.push(format!("rows/{id}/{commit}"), rate);
            }
        }
    }
}
