//! COPY FROM with the number as a column default.

use std::fs;
use std::time::Instant;

use postgres::Client;

use super::Bench;
use super::contenders::*;
use hilo_tests::ClientExt;

/// The target of the load: one table, or one with partitions.
pub const TABLES: [&str; 2] = ["table", "parts"];
const PARTS: usize = 8;

/// Core's number as part of a text, to compare with keys.
pub const CORE_KEYS: Contender = contender(
    "core_keys",
    "core, CACHE 1000, as text",
    "'keys/' || nextval('core1000')",
    "",
    [180, 160, 60],
);

/// The contenders, in the order of the table.
pub const LOADED: [&Contender; 8] =
    [&CORE_1, &CORE_100, &CORE_1000, &HILO, &ORDERED, &CORE_KEYS, &KEYS, &UUID];

/// Tables for each, without an index: COPY costs little more than its rows then. Autovacuum leaves them alone.
fn create(client: &mut Client) {
    let columns = LOADED.iter().map(|who| {
        let kind = match who.id {
            "keys" | "core_keys" => "text",
            "uuid" => "uuid",
            _ => "bigint",
        };
        (who.id, format!("{kind} DEFAULT {}", who.call))
    });
    // The floor: numbers that are in the file.
    for (id, column) in columns.chain([("floor", "bigint".to_owned())]) {
        let columns = format!("(id {column}, v integer)");
        client.run(&format!(
            "CREATE TABLE copy_table_{id} {columns} WITH (autovacuum_enabled = off);
             CREATE TABLE copy_parts_{id} {columns} PARTITION BY HASH (v)"
        ));
        for part in 0..PARTS {
            client.run(&format!(
                "CREATE TABLE copy_parts_{id}_{part} PARTITION OF copy_parts_{id}
                     FOR VALUES WITH (MODULUS {PARTS}, REMAINDER {part}) WITH (autovacuum_enabled = off)"
            ));
        }
    }
}

/// `copy/TABLE/ID`: nanoseconds for each row of a long COPY from a file of the server; `copy/wal/TABLE/ID`: the bytes
/// of WAL for a million rows.
pub fn measure(bench: &mut Bench) {
    let mut client = bench.connect();
    create(&mut client);
    let rows = bench.plan.calls;
    let file = |name: &str, line: fn(u64) -> String| {
        let file = bench.cluster.file(name);
        fs::write(&file, (1..=rows).map(line).collect::<String>()).expect("cannot write the rows");
        file.display().to_string()
    };
    let one = file("one column", |n| format!("{n}\n"));
    let two = file("two columns", |n| format!("{n}\t{n}\n"));
    let ids: Vec<&str> = LOADED.iter().map(|who| who.id).chain(["floor"]).collect();
    for round in bench.rounds(bench.plan.rounds.min(7) + 1) {
        for table in TABLES {
            for id in rotate(&ids, round) {
                let into = format!("copy_{table}_{id}");
                let sql = match id {
                    "floor" => format!("COPY {into} FROM '{two}'"),
                    _ => format!("COPY {into} (v) FROM '{one}'"),
                };
                client.run(&format!("TRUNCATE {into}"));
                let (before, began) = (wal_end(&mut client), Instant::now());
                client.run(&sql);
                let cost = began.elapsed().as_secs_f64() * 1e9 / rows as f64;
                let wal = (wal_end(&mut client) - before) * 1e6 / rows as f64;
                client.run(&format!("TRUNCATE {into}"));
                if round > 0 {
                    bench.results.push(format!("copy/{table}/{id}"), cost);
                    bench.results.push(format!("copy/wal/{table}/{id}"), wal);
                }
            }
        }
    }
}

fn wal_end(client: &mut Client) -> f64 {
    client.one("SELECT (pg_current_wal_insert_lsn() - '0/0')::double precision")
}
