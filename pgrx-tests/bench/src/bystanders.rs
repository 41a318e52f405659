//! The cost of hilo for those who do not use it. Rows for tables whose numbers are core's, on a server with
//! hilo and on one without.

use std::fs;
use std::io::Write;
use std::time::Instant;

use postgres::Client;

use super::Bench;
use super::contenders::rotate;
use super::machine::SETTINGS;
use super::results::Results;
use super::table::{Section, Table, median};
use hilo_tests::{Builder, ClientExt, Cluster, can_count};

/// Ways to write rows: an id and a label.
pub const WAYS: [(&str, &str); 5] = [
    ("simple", "`INSERT` of one row, as text"),
    ("prepared", "`INSERT` of one row, prepared"),
    ("select", "`INSERT … SELECT` of many rows"),
    ("copy", "`COPY` of many rows"),
    ("copy_short", "`COPY` of ten rows"),
];

/// The servers: with hilo preloaded and created, without it, and a second one without it. The last one
/// shows how far two servers differ that are the same.
pub const SERVERS: [&str; 3] = ["with", "without", "again"];

const TABLE: &str = "CREATE TABLE bystanders (id bigserial PRIMARY KEY, v bigint NOT NULL,
         at timestamptz NOT NULL DEFAULT now()) WITH (autovacuum_enabled = off)";

const INSERT: &str = "INSERT INTO bystanders (v) VALUES (1)";

/// Rows of one measurement: of single rows, and of many.
fn sizes(bench: &Bench) -> (u64, u64) {
    (bench.plan.calls / 500, bench.plan.calls / 20)
}

/// A server without hilo's settings, which a server without hilo would not accept.
fn builder() -> Builder {
    let settings = SETTINGS.iter().filter(|(name, _)| !name.starts_with("hilo."));
    settings.fold(Cluster::builder(), |builder, (name, value)| builder.config(name, value))
}

/// A file with this many rows.
fn file(server: &Cluster, rows: u64) -> String {
    let file = server.file(&format!("{rows} rows of bystanders"));
    fs::write(&file, "1\n".repeat(rows as usize)).expect("cannot write the rows");
    file.display().to_string()
}

fn copy(client: &mut Client, rows: &str) {
    let mut writer = client.copy_in("COPY bystanders (v) FROM STDIN").expect("it begins");
    writer.write_all(rows.as_bytes()).expect("it takes the rows");
    writer.finish().expect("it ends");
}

/// Nanoseconds for a row that is written in this way.
fn cost(client: &mut Client, way: &str, (single, many): (u64, u64), file: &str) -> f64 {
    let ten = "1\n".repeat(10);
    let prepared = (way == "prepared").then(|| client.prepare(INSERT).expect("it is right"));
    // The session knows the table, and does not wait for the disk at each row.
    client.run(&format!("BEGIN; {INSERT}"));
    let began = Instant::now();
    let rows = match way {
        "simple" => {
            (0..single).for_each(|_| client.run(INSERT));
            single
        }
        "prepared" => {
            let statement = prepared.expect("it is prepared");
            (0..single).for_each(|_| {
                client.execute(&statement, &[]).expect("it inserts");
            });
            single
        }
        "select" => {
            let rows = format!("SELECT n FROM generate_series(1, {many}) n");
            client.run(&format!("INSERT INTO bystanders (v) {rows}"));
            many
        }
        "copy" => {
            client.run(&format!("COPY bystanders (v) FROM '{file}'"));
            many
        }
        _ => {
            (0..single / 4).for_each(|_| copy(client, &ten));
            single / 4 * 10
        }
    };
    let cost = began.elapsed().as_secs_f64() * 1e9 / rows as f64;
    client.run("ROLLBACK; TRUNCATE bystanders");
    cost
}

/// `bystander/WAY/SERVER`: nanoseconds for a row. Each measurement has a session of its own, so that no
/// server is lucky with the place of one process in memory.
pub fn measure(bench: &mut Bench) {
    let servers = [
        builder().start_with_hilo(),
        builder().preload(false).start(),
        builder().preload(false).start(),
    ];
    let (single, many) = sizes(bench);
    let files: Vec<String> = servers.iter().map(|server| file(server, many)).collect();
    for server in &servers {
        server.connect("postgres").run(TABLE);
    }
    let places: Vec<usize> = (0..servers.len()).collect();
    for round in bench.rounds(bench.plan.rounds * 6 + 1) {
        for (way, _) in rotate(&WAYS, round) {
            for at in rotate(&places, round) {
                let mut client = servers[at].connect("postgres");
                let cost = cost(&mut client, way, (single, many), &files[at]);
                if round > 0 {
                    bench.results.push(format!("bystander/{way}/{}", SERVERS[at]), cost);
                }
            }
        }
    }
    servers.into_iter().for_each(Cluster::finish);
}

/// `bystander_work/WAY/SERVER`: instructions for a row, of one process that writes many more rows than another.
pub fn count(bench: &mut Bench) {
    /// Rows of the two processes: of single rows, and of many.
    const SIZES: [(u64, u64); 2] = [(200, 2_000), (600, 6_000)];
    if !can_count() {
        return;
    }
    let [with, without, _] = SERVERS;
    let servers = [
        (with, builder().counted().start_with_hilo()),
        (without, builder().counted().preload(false).start()),
    ];
    for (_, server) in &servers {
        server.connect("postgres").run(TABLE);
    }
    for round in bench.rounds(bench.plan.few_rounds) {
        for (way, _) in rotate(&WAYS, round) {
            for (name, server) in &servers {
                let counts = SIZES.map(|sizes| {
                    let mut client = server.connect("postgres");
                    let pid = client.backend_pid();
                    cost(&mut client, way, sizes, &file(server, sizes.1));
                    drop(client);
                    server.instructions(pid)
                });
                let rows = |(single, many): (u64, u64)| match way {
                    "select" | "copy" => many,
                    "copy_short" => single / 4 * 10,
                    _ => single,
                };
                let more = (rows(SIZES[1]) - rows(SIZES[0])) as f64;
                let each = (counts[1] - counts[0]) / more;
                bench.results.push(format!("bystander_work/{way}/{name}"), each);
            }
        }
    }
    servers.into_iter().for_each(|(_, server)| server.finish());
}

/// A row on a server against one on the server without hilo; `what`: in time or in instructions.
fn against(results: &Results, what: &str, way: &str, server: &str) -> Option<f64> {
    let [_, without, _] = SERVERS;
    results.ratio(&format!("{what}/{way}/{server}"), &format!("{what}/{way}/{without}"))
}

const TIME: &str = "bystander";
const WORK: &str = "bystander_work";

/// The highest ratio: of instructions, or of time where instructions cannot be counted.
pub fn worst(results: &Results) -> Option<f64> {
    let of = |what| WAYS.iter().filter_map(move |(way, _)| against(results, what, way, "with"));
    of(WORK).reduce(f64::max).or_else(|| of(TIME).reduce(f64::max))
}

pub fn section(results: &Results) -> Section {
    let [with, without, again] = SERVERS;
    let against = |what, way, server| decimals(against(results, what, way, server));
    let mut times = Table::new(&[
        "µs for a row",
        "with hilo",
        "without",
        "with against without",
        "another without against it",
    ]);
    let mut work =
        Table::new(&["instructions for a row", "with hilo", "without", "with against without"]);
    for (way, label) in WAYS {
        let stat = |what, server| results.stat(&format!("{what}/{way}/{server}"));
        let time = |server| median(stat(TIME, server).map(|stat| stat.times(1e-3)));
        let ratios = [against(TIME, way, with), against(TIME, way, again)];
        times.row(label, [time(with), time(without)].into_iter().chain(ratios));
        let count = |server| median(stat(WORK, server));
        work.row(label, [count(with), count(without), against(WORK, way, with)]);
    }
    let text = "Rows for a table `(id bigserial PRIMARY KEY, v bigint, at timestamptz DEFAULT now())`, whose numbers \
                are core's. One server preloads hilo and has the extension in the database; two others do not know of it. \
                Instructions of the session's process are counted by `valgrind --tool=cachegrind`; without it, the time is \
                measured, and the last column shows how far two servers differ that are the same."
        .to_owned();
    let tables = [work, times].into_iter().filter(Table::has_number).take(1).collect();
    Section { title: "Those who do not use hilo", text, tables, picture: None }
}

fn decimals(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"))
}
