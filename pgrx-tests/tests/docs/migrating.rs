//! The statements of docs/migrating.md work in a running system: no writer notices that a column
//! moves to hilo or back.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, Ends, LONG, assert_unique, blocks, wait_until};

/// The number that the page brings along from elsewhere.
const FROM_ELSEWHERE: i64 = 1_000_000;
const TABLES: [&str; 2] = ["orders", "invoices"];

fn page() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/migrating.md");
    blocks(&fs::read_to_string(path).expect("cannot read the page"), "sql")
}

/// The work of the writers so far.
#[derive(Default)]
struct Progress {
    inserted: AtomicUsize,
    stop: AtomicBool,
}

impl Progress {
    /// Waits until the writers have inserted into both tables again and again.
    #[track_caller]
    fn more(&self, what: &str) {
        let before = self.inserted.load(Relaxed);
        wait_until(what, LONG, || self.inserted.load(Relaxed) > before + 60);
    }
}

/// Inserts into both tables all the time, each row by itself or three in one transaction. Returns the numbers of each.
fn write(cluster: &Cluster, progress: &Progress) -> [Vec<i64>; 2] {
    let mut client = cluster.connect("postgres");
    let mut seen = [Vec::new(), Vec::new()];
    for round in 0.. {
        for (table, seen) in TABLES.iter().zip(&mut seen) {
            let sql =
                format!("INSERT INTO {table} (customer) VALUES ('{round}') RETURNING id::bigint");
            let rows = if round % 2 == 0 { 1 } else { 3 };
            client.run("BEGIN");
            seen.extend((0..rows).map(|_| client.one::<i64>(&sql)));
            client.run("COMMIT");
            progress.inserted.fetch_add(rows, Relaxed);
        }
        if progress.stop.load(Relaxed) {
            break;
        }
    }
    seen
}

/// The page's statements run in order while three writers insert into both of its tables. No writer
/// and no statement gets an error, no number comes twice, and none is lost. Each is in its table,
/// in hilo_gaps, or in memory.
#[test]
fn the_page_runs_under_three_writers() {
    // A worker that leaves writes to the catalog what no view shows.
    let cluster = Cluster::builder().config("hilo.worker_idle_timeout", "1h").start_with_hilo();
    let mut client = cluster.connect("postgres");
    let page = page();
    let (tables, moves) = page.split_first().expect("the page has SQL");
    assert!(moves.len() >= 4, "only {} blocks", moves.len());
    cluster.restore("postgres", tables);
    client.run("INSERT INTO orders (customer) SELECT 'x' FROM generate_series(1, 20000)");
    let progress = Progress::default();
    let seen: Vec<[Vec<i64>; 2]> = thread::scope(|scope| {
        let (cluster, progress) = (&cluster, &progress);
        let writers: Vec<_> =
            (0..3).map(|_| scope.spawn(move || write(cluster, progress))).collect();
        let stop = Ends(&progress.stop);
        for block in moves {
            progress.more("the writers write before a block");
            cluster.restore("postgres", block);
        }
        progress.more("the writers write after the last block");
        drop(stop);
        writers.into_iter().map(|writer| writer.join().expect("no writer has an error")).collect()
    });
    for (at, table) in TABLES.iter().enumerate() {
        let drawn: Vec<i64> = seen.iter().flat_map(|of_writer| of_writer[at].clone()).collect();
        assert_unique(table, &drawn);
        let rows: BTreeSet<i64> =
            client.all(&format!("SELECT id::bigint FROM {table}")).into_iter().collect();
        assert!(drawn.iter().all(|number| rows.contains(number)), "rows of {table} are missing");
        // Numbers between those of both sides of what came from elsewhere were never served.
        let (low, high): (Vec<i64>, Vec<i64>) =
            rows.iter().partition(|number| **number < FROM_ELSEWHERE);
        assert!(*table != "orders" || high.len() > 10, "few numbers after {FROM_ELSEWHERE}");
        for (first, last) in [(Some(&1), low.last()), (high.first(), high.last())] {
            let (Some(first), Some(last)) = (first, last) else { continue };
            let lost: Vec<i64> = client.all(&format!(
                "SELECT n FROM generate_series({first}::bigint, {last}) AS n
                  WHERE NOT EXISTS (SELECT FROM {table} WHERE id = n)
                    AND NOT EXISTS (SELECT FROM hilo_gaps WHERE name IN ('{table}', '{table}_id_seq') AND n BETWEEN first AND last)
                    AND NOT EXISTS (SELECT FROM hilo_blocks WHERE name IN ('{table}', '{table}_id_seq') AND n BETWEEN first AND last)"
            ));
            assert!(lost.is_empty(), "{table} from {first} to {last}: {lost:?}");
        }
    }
    cluster.finish();
}

/// While a report reads the table for long, hilo_adopt and hilo_release wait, and others read and
/// write meanwhile. Their lock_timeout ends the wait, and so does the end of the report, which may
/// write first.
#[test]
fn a_long_report_holds_up_nobody() {
    let cluster = Cluster::builder().start_with_hilo();
    let (mut client, heard) = cluster.connect_listening("postgres", "postgres");
    client.run("CREATE TABLE t (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, x int) PARTITION BY RANGE (id)");
    client.run("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (100000)");
    let mut other = cluster.connect("postgres");
    other.run("SET statement_timeout = '30s'");
    let mut report = cluster.connect("postgres");
    let pid = client.backend_pid();
    for call in ["SELECT hilo_adopt('t', 'id')", "SELECT hilo_release('t', 'id', NULL)"] {
        report.run("BEGIN; SELECT count(*) FROM t");
        client.run("SET lock_timeout = '300ms'");
        client.refusal(call).is("55P03");
        client.run("RESET lock_timeout");
        heard.take();
        thread::scope(|scope| {
            let moving = scope.spawn(|| client.run(call));
            wait_until("the call waits", LONG, || other.sees_waiting(pid));
            for _ in 0..50 {
                other.run("SELECT count(*) FROM t");
                other.run("INSERT INTO t (x) VALUES (1)");
            }
            assert!(!moving.is_finished());
            report.run("INSERT INTO t (x) VALUES (2); COMMIT");
            moving.join().expect("it is not refused");
        });
        let told = heard.messages();
        let waits = |message: &&String| message.contains("waiting for other transactions");
        assert_eq!(told.iter().filter(waits).count(), 1, "{told:?}");
    }
    let ids: Vec<i64> = client.all("SELECT id FROM t");
    assert_unique("t", &ids);
    cluster.finish();
}

/// pg_dump, which has locked the table and will look at its default later, finds the default and
/// its sequence.
#[test]
fn a_dump_finds_what_it_has_seen() {
    let cluster = Cluster::builder().start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE t (id serial PRIMARY KEY); CREATE TABLE z (x int)");
    let mut holder = cluster.connect("postgres");
    for (call, default) in [
        ("SELECT hilo_adopt('t', 'id')", "nextval('public.t_id_seq'::regclass)"),
        ("SELECT hilo_release('t', 'id', NULL)", "hilo_nextval('t_id_seq'::public.hilo_sequence)"),
    ] {
        holder.run("BEGIN; LOCK TABLE z IN ACCESS EXCLUSIVE MODE");
        let dump = thread::scope(|scope| {
            let dumping = scope.spawn(|| cluster.pg_dump("postgres", &["--schema-only"]));
            let waits = "SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'pg_dump' AND NOT l.granted";
            wait_until("the dump waits for table z", LONG, || client.one(waits));
            client.run("SET lock_timeout = '300ms'");
            client.refusal(call).is("55P03");
            holder.run("ROLLBACK");
            dumping.join().expect("it is not disturbed")
        });
        assert!(dump.contains(default), "{dump}");
        client.run("RESET lock_timeout");
        client.run(call);
    }
    cluster.finish();
}

/// Whoever reads the table, its definition or its defaults, or makes a table like it, sees it
/// before a move or after one.
#[test]
fn readers_of_a_definition_see_one_or_the_other() {
    const ROUNDS: usize = 60;
    const READS: [&str; 6] = [
        "CREATE TEMP TABLE x (LIKE t INCLUDING ALL)",
        "DROP TABLE x",
        "SELECT count(*) FROM t WHERE id < 5",
        "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 't'::regclass",
        "SELECT column_default, identity_generation FROM information_schema.columns WHERE table_name = 't'",
        "SELECT * FROM hilo_check()",
    ];
    let cluster = Cluster::builder().start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE t (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, x int)");
    let done = AtomicBool::new(false);
    let read = || {
        while !done.load(Relaxed) {
            // A session that has just begun reads all from the catalogs.
            let (mut client, heard) = cluster.connect_listening("postgres", "postgres");
            READS.iter().for_each(|sql| client.run(sql));
            assert_eq!(heard.messages(), [""; 0]);
        }
    };
    // The default of somebody's x uses the sequence for a moment.
    let moved = |client: &mut Client, sql: &str| match client.batch_execute(sql) {
        Ok(()) => true,
        Err(error) => match error.code().map(|code| code.code()) {
            Some("55000") => false,
            _ => panic!("{sql}: {error:?}"),
        },
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(read)).collect();
        for _ in 0..ROUNDS {
            for call in ["SELECT hilo_adopt('t', 'id')", "SELECT hilo_release('t', 'id')"] {
                wait_until("it is moved", LONG, || moved(&mut client, call));
            }
        }
        done.store(true, Relaxed);
        readers.into_iter().for_each(|reader| reader.join().expect("no reader has an error"));
    });
    cluster.finish();
}

/// Whoever has drawn from a gapless sequence, and holds its position, inserts the number beside a
/// waiting hilo_release.
#[test]
fn a_drawn_number_is_inserted_beside_a_release() {
    let cluster = Cluster::builder().start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', gapless => true); CREATE TABLE t (id bigint NOT NULL DEFAULT hilo_nextval('s'))");
    let mut writer = cluster.connect("postgres");
    writer.run("BEGIN");
    let drawn: i64 = writer.one("SELECT hilo_nextval('s')");
    let pid = client.backend_pid();
    thread::scope(|scope| {
        let releasing = scope.spawn(|| client.run("SELECT hilo_release('t', 'id')"));
        wait_until("hilo_release waits for the writer", LONG, || {
            cluster.connect("postgres").sees_waiting(pid)
        });
        writer
            .run(&format!("INSERT INTO t VALUES ({drawn}); INSERT INTO t DEFAULT VALUES; COMMIT"));
        releasing.join().expect("it is not refused");
    });
    assert_eq!(client.one::<i64>("INSERT INTO t DEFAULT VALUES RETURNING id"), drawn + 2);
    cluster.finish();
}
