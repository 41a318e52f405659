//! Numbers without holes: gapless sequences beside the two usual ways to count in a table.

use super::Bench;
use super::contenders::rotate;
use super::fleet::{LITE, create_lite_database};
use super::throughput::pgbench_in;
use hilo_tests::ClientExt;

/// How many sequences, or counters, the sessions choose from.
pub const CROWDS: [u32; 2] = [1, 1_000];

/// An id, a label, and how a row with the next number of `{name}` is inserted.
pub const WAYS: [(&str, &str, &str); 4] = [
    ("gapless", "hilo, gapless", "INSERT INTO counted VALUES ({name}, hilo_nextval({name}))"),
    ("lite", "hilo_lite", "INSERT INTO counted VALUES ({name}, hilo_nextval({name}))"),
    (
        "update",
        "`UPDATE … RETURNING`",
        "WITH c AS (UPDATE counters SET n = n + 1 WHERE name = {name} RETURNING name, n)
         INSERT INTO counted SELECT name, n FROM c",
    ),
    (
        "upsert",
        "`INSERT … ON CONFLICT DO UPDATE`",
        "WITH c AS (INSERT INTO upserts AS u VALUES ({name}, 1)
                    ON CONFLICT (name) DO UPDATE SET n = u.n + 1 RETURNING name, n)
         INSERT INTO counted SELECT name, n FROM c",
    ),
];

/// Ways to draw in a large transaction: an id, a label, and a call.
pub const DRAWS: [(&str, &str, &str); 2] = [
    ("gapless", "hilo, gapless", "hilo_nextval('gapless-1')"),
    ("hilo", "hilo", "hilo_nextval('hilo')"),
];

/// The database in which a way inserts.
fn database(way: &str) -> &'static str {
    if way == "lite" { LITE } else { "postgres" }
}

fn create(bench: &Bench) {
    create_lite_database(bench);
    bench.cluster.connect(LITE).run(
        "SELECT hilo_create('gapless-' || n) FROM generate_series(1, 1000) n;
         CREATE TABLE counted (name text, id bigint)",
    );
    bench.connect().run(
        "SELECT hilo_create('gapless-' || n, gapless => true) FROM generate_series(1, 1000) n;
         CREATE TABLE counters (name text PRIMARY KEY, n bigint NOT NULL);
         INSERT INTO counters SELECT 'gapless-' || n, 0 FROM generate_series(1, 1000) n;
         CREATE TABLE upserts (name text PRIMARY KEY, n bigint NOT NULL);
         CREATE TABLE counted (name text, id bigint);
         CREATE ROLE careless SUPERUSER LOGIN; ALTER ROLE careless SET synchronous_commit = off",
    );
}

/// `gapless/WAY/CROWD/on` and `…/off`: rows per second of eight sessions, a transaction each;
/// `gapless/row/WAY`: nanoseconds for a row of one large transaction.
pub fn measure(bench: &mut Bench) {
    create(bench);
    let usual = bench.plan.pgbench;
    for round in 0..bench.plan.few_rounds.min(3) {
        for crowd in CROWDS {
            bench.plan.pgbench = if crowd == 1 { usual } else { bench.plan.pgbench_of_many };
            for (commit, options) in [("on", ["-U", "postgres"]), ("off", ["-U", "careless"])] {
                for (way, _, sql) in rotate(&WAYS, round) {
                    bench.cluster.connect(database(way)).run("TRUNCATE counted");
                    let sql = sql.replace("{name}", "('gapless-' || :n)").replace('\n', " ");
                    let script = format!("\\set n random(1, {crowd})\n{sql}");
                    let rate = pgbench_in(bench, database(way), &script, 8, &options);
                    bench.results.push(format!("gapless/{way}/{crowd}/{commit}"), rate);
                }
            }
        }
    }
    bench.plan.pgbench = usual;
    let rows = bench.plan.calls;
    for round in bench.rounds(bench.plan.rounds.min(7) + 1) {
        for (way, _, call) in rotate(&DRAWS, round) {
            let mut client = bench.connect();
            client.run("TRUNCATE counted");
            let began = std::time::Instant::now();
            client.run(&format!(
                "INSERT INTO counted SELECT 'a', {call} FROM generate_series(1, {rows})"
            ));
            if round > 0 {
                let cost = began.elapsed().as_secs_f64() * 1e9 / rows as f64;
                bench.results.push(format!("gapless/row/{way}"), cost);
            }
        }
    }
}
