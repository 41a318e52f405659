//! The footprint of drawing numbers: WAL, writes to the catalog, numbers that no caller gets,
//! memory.

use std::fs;
use std::thread;
use std::time::Duration;

use postgres::Client;

use super::Bench;
use super::calls::select;
use super::contenders::*;
use super::many;
use hilo_tests::{ClientExt, Cluster};
use hilo_tests::{SERVER, run};

/// The end of the WAL once nothing has been written for a while: a worker may still be writing.
fn quiet_end(client: &mut Client) -> (String, f64) {
    const SQL: &str = "SELECT pg_current_wal_insert_lsn()::text,
                              pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::double precision";
    let mut end = client.query_one(SQL, &[]).expect("there is one").get::<_, f64>(1);
    loop {
        thread::sleep(Duration::from_millis(150));
        let row = client.query_one(SQL, &[]).expect("there is one");
        if row.get::<_, f64>(1) == end {
            return (row.get(0), end);
        }
        end = row.get(1);
    }
}

/// Records, commits and updates of rows between two places of the WAL, by pg_waldump.
fn records(bench: &Bench, from: &str, to: &str) -> [f64; 3] {
    if from == to {
        return [0.0; 3];
    }
    // A commit writes all of it to the files.
    bench.connect().run("SELECT pg_logical_emit_message(true, 'hilo', '')");
    let report = run(SERVER
        .command("pg_waldump")
        .args(["--stats=record", "--start", from, "--end", to, "--path"])
        .arg(bench.cluster.data_directory().join("pg_wal")));
    let count = |name: &str| {
        let line = report.lines().find(|line| line.trim_start().starts_with(name))?;
        line.trim_start().strip_prefix(name)?.split_whitespace().next()?.parse().ok()
    };
    let count = |name: &str| count(name).unwrap_or(0.0);
    let updates = count("Heap/HOT_UPDATE") + count("Heap/UPDATE");
    [count("Total"), count("Transaction/COMMIT"), updates]
}

/// `wal/bytes/ID`, `records`, `commits`, `updates` of rows, `blocks` of hilo's: for a million numbers that one session draws.
pub fn wal(bench: &mut Bench) {
    let mut client = bench.connect();
    let calls = 2 * bench.plan.calls;
    // So that it includes no full page images from before.
    client.run("CHECKPOINT");
    client.run("SELECT hilo_create('cold')");
    let cold = Contender { id: "cold", call: "hilo_nextval('cold')", ..HILO };
    take_wal(bench, &mut client, &cold, bench.plan.calls);
    let all: Vec<&Contender> = CALLED.into_iter().chain([&COUNTER]).collect();
    for round in 0..=bench.plan.few_rounds.min(3) {
        for contender in rotate(&all, round) {
            match (round, contender.id) {
                (0, "counter") => client.run(COUNT),
                (0, _) => client.run(&select(contender.call, calls)),
                (_, "counter") => take_wal(bench, &mut client, contender, calls / 2_000),
                // Few writes per number: draws enough to see some.
                _ if contender.floor == "floor_hilo" => {
                    take_wal(bench, &mut client, contender, 4 * calls);
                }
                _ => take_wal(bench, &mut client, contender, calls),
            }
        }
    }
}

fn take_wal(bench: &mut Bench, client: &mut Client, contender: &Contender, calls: u64) {
    let blocks = bench.count("blocks_reserved", &[contender.id]);
    let (from, before) = quiet_end(client);
    match contender.id {
        "counter" => client.run(&format!(
            "DO $$ BEGIN FOR i IN 1..{calls} LOOP UPDATE counter SET n = n + 1; COMMIT; END LOOP; END $$"
        )),
        _ => client.run(&select(contender.call, calls)),
    }
    let (to, after) = quiet_end(client);
    let [records, commits, updates] = records(bench, &from, &to);
    let blocks = bench.count("blocks_reserved", &[contender.id]) - blocks;
    let million = 1e6 / calls as f64;
    let measured = [
        ("bytes", after - before),
        ("records", records),
        ("commits", commits),
        ("updates", updates),
        ("blocks", blocks),
    ];
    for (what, count) in measured {
        bench.results.push(format!("wal/{what}/{}", contender.id), count * million);
    }
}

/// The contenders from which short connections draw one number each, each with its own sequence.
pub const SHORT: [&Contender; 6] = [&CORE_1, &CORE_32, &CORE_100, &CORE_1000, &HILO, &ORDERED];

/// `burned/ID`: numbers that no caller got, among those that short connections have used up. Each
/// connection takes one number of each.
pub fn gaps_per_connection(bench: &mut Bench) {
    bench.connect().run(
        "CREATE SEQUENCE short_core1; CREATE SEQUENCE short_core32 CACHE 32;
         CREATE SEQUENCE short_core100 CACHE 100; CREATE SEQUENCE short_core1000 CACHE 1000;
         SELECT hilo_create('short_hilo'), hilo_create('short_ordered', ordered => true)",
    );
    let calls = SHORT.map(|contender| contender.call.replace("('", "('short_"));
    let sql = format!("SELECT ARRAY[{}]", calls.join(", "));
    let each = bench.plan.connections / 4;
    let draw = || (0..each).map(|_| bench.connect().one::<Vec<i64>>(&sql)).collect::<Vec<_>>();
    let seen: Vec<Vec<i64>> = thread::scope(|scope| {
        let sessions: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
        sessions.into_iter().flat_map(|session| session.join().expect("it drew")).collect()
    });
    for (place, contender) in SHORT.iter().enumerate() {
        let furthest = seen.iter().map(|numbers| numbers[place]).max().unwrap_or(0);
        bench.results.push(format!("burned/{}", contender.id), furthest as f64 - seen.len() as f64);
    }
}

/// `memory/slot`, `memory/shared`, `memory/large` (with 100,000 slots): bytes; `memory/hilo/N`, `memory/core/N`: bytes that a session has
/// more after it has drawn from N sequences.
pub fn memory(bench: &mut Bench) {
    const SHARED: &str = "SELECT coalesce(sum(allocated_size), 0)::bigint FROM pg_shmem_allocations
                          WHERE name LIKE 'hilo%'";
    many::create(bench);
    let mut client = bench.connect();
    let shared: i64 = client.one(SHARED);
    let large = Cluster::builder().config("hilo.max_sequences", "100000").start_with_hilo();
    let of_large = large.connect("postgres").one::<i64>(SHARED);
    large.finish();
    bench.results.push("memory/large", of_large as f64);
    let slots: String = client.one("SHOW hilo.max_sequences");
    let slots: f64 = slots.parse().expect("a number");
    bench.results.push("memory/shared", shared as f64);
    bench.results.push("memory/slot", shared as f64 / slots);
    let kinds = [
        ("hilo", "hilo_nextval('tenant-' || n)"),
        ("core", "nextval(('tenant_' || n)::regclass)"),
        ("floor", "length('tenant_' || n)"),
    ];
    for _ in 0..bench.plan.few_rounds.min(3) {
        for (kind, call) in kinds {
            let mut session = bench.connect();
            let pid = session.backend_pid();
            let draw = |session: &mut Client, count| {
                session.run(&format!("SELECT count({call}) FROM generate_series(1, {count}) n"));
            };
            // The needs of a session's first query do not depend on sequences.
            session.run("SELECT count(length('tenant_' || n)) FROM generate_series(1, 10) n");
            let before = own_memory(pid);
            for count in bench.plan.crowds() {
                draw(&mut session, count);
                bench.results.push(format!("memory/{kind}/{count}"), own_memory(pid) - before);
            }
        }
    }
}

/// The private memory of a process, in bytes.
fn own_memory(pid: i32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("it runs");
    let line = text.lines().find(|line| line.starts_with("Anonymous:")).expect("it has some");
    let kilobytes: f64 =
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    kilobytes * 1024.0
}
