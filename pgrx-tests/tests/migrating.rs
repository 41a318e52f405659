//! What docs/migrating.md prints works in a running system: no writer notices that a column moves to hilo or back.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use hilo_tests::{ClientExt, Cluster, LONG, assert_unique, blocks, wait_until};

/// The number that the page brings along from elsewhere.
const FROM_ELSEWHERE: i64 = 1_000_000;
const TABLES: [&str; 2] = ["orders", "invoices"];

fn page() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/migrating.md");
    blocks(&fs::read_to_string(path).expect("cannot read the page"), "sql")
}

/// What the writers have done so far.
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

/// Ends the writers even if the page fails: the scope waits for them.
impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Relaxed);
    }
}
struct Stop<'a>(&'a Progress);

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

/// The page's statements run in order while three writers insert into both of its tables. No writer and no statement
/// gets an error, no number comes twice, and none is lost: each is in its table, in hilo_gaps, or in memory.
#[test]
fn the_page_runs_under_three_writers() {
    let cluster = Cluster::builder().start_with_hilo();
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
        let stop = Stop(progress);
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
