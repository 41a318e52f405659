//! Values are unique, rise within a session, and are ordered on demand.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, Load, Source, assert_unique, wait_until};

/// No value is ever returned twice, whatever is rolled back; each session sees its values rise, or
/// fall where the increment is negative. An ordered sequence keeps the order of all the calls on
/// the server.
#[test]
fn sixteen_sessions_see_no_value_twice() {
    let cluster = Cluster::with_hilo();
    let sources = Source::three_kinds(&cluster);
    let load = Load::sixteen_sessions(1);
    load.run(&cluster, &sources);
    sources.iter().for_each(Source::assert_kept);
    assert_eq!(Source::count_seen(&sources), load.total());
    cluster.finish();
}

/// The reserved ranges of the catalog cover all that the clients saw.
#[test]
fn nobody_sees_a_value_beyond_what_was_reserved() {
    let cluster = Cluster::with_hilo();
    let sources = Source::three_kinds(&cluster);
    Load { values: 2_000, ..Load::sixteen_sessions(2) }.run(&cluster, &sources);
    let mut client = cluster.connect("postgres");
    let mut reserved = |name: &str| {
        client.one::<i64>(&format!("SELECT max_reserved FROM hilo_sequences WHERE name = '{name}'"))
    };
    let seen = |number: usize| sources[number].seen.in_order();
    assert!(seen(0).last().unwrap() <= &reserved("adaptive"));
    assert!(seen(1).last().unwrap() <= &reserved("ordered"));
    assert!(seen(2).first().unwrap() >= &reserved("falling"));
}

/// Two hundred sequences used in turn by one session, more than it can hold slices of, serve
/// everything once. A slice that makes room loses nothing of its place.
#[test]
fn more_sequences_than_slices_serve_every_value_once() {
    let cluster = Cluster::builder().config("hilo.max_backend_slices", "8").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('tenant-' || n) FROM generate_series(1, 200) n");
    for _ in 0..3 {
        client.run(
            "CREATE TEMPORARY TABLE IF NOT EXISTS seen (tenant integer, value bigint,
                                                        PRIMARY KEY (tenant, value));
             INSERT INTO seen SELECT n, hilo_nextval('tenant-' || n)
             FROM generate_series(1, 200) n, generate_series(1, 5)",
        );
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM seen"), 3_000);
}

/// Core gives hilo's tables another file, other indexes or another order, one after the other and
/// again and again, beside calls of all kinds. Each call succeeds, and no value comes twice.
#[test]
fn maintenance_of_hilos_tables_disturbs_no_call() {
    const ROUNDS: usize = 12;
    let cluster = Cluster::builder().config("fsync", "off").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('a', block_size => 20), hilo_create('g', gapless => true), hilo_create('l')");
    let tables: Vec<String> = client.all(
        "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = '_hilo'::regnamespace AND relkind = 'r' ORDER BY 1",
    );
    let done = AtomicBool::new(false);
    let calls = [
        "SELECT hilo_nextval('a') FROM generate_series(1, 30)",
        "SELECT hilo_nextval('g')",
        "SELECT first FROM hilo_nextrange('l', 7)",
        "SELECT first FROM hilo_lease('l', 5)",
    ];
    // One call in each transaction: REINDEX locks a table first and its indexes then. So may be in
    // a deadlock with a transaction that has read the table and is about to write.
    let others = [
        "SELECT hilo_create('d')",
        "SELECT hilo_setval('d', 7)",
        "SELECT hilo_grant('d', 'PUBLIC', 'USAGE')",
        "SELECT hilo_nextval('d')",
        "SELECT hilo_alter('d', increment => 2)",
        "SELECT hilo_lease_return(lease) FROM hilo_lease('d', 3)",
        "SELECT * FROM hilo_check()",
        "SELECT hilo_export()",
        "SELECT hilo_drop('d')",
    ];
    let values: Vec<(usize, Vec<i64>)> = thread::scope(|scope| {
        let (cluster, done) = (&cluster, &done);
        let draw = |which: usize| {
            let mut seen = Vec::new();
            while !done.load(Relaxed) {
                // A name that a session looks up first is looked up again in the next one.
                let mut client = cluster.connect("postgres");
                (0..50).for_each(|_| seen.extend(client.all::<i64>(calls[which])));
            }
            (which, seen)
        };
        let drawers: Vec<_> =
            (0..2 * calls.len()).map(|at| scope.spawn(move || draw(at % calls.len()))).collect();
        let definer = scope.spawn(move || {
            let mut client = cluster.connect("postgres");
            while !done.load(Relaxed) {
                others.iter().for_each(|call| client.run(call));
            }
        });
        let all = panic::catch_unwind(AssertUnwindSafe(|| {
            for round in 0..ROUNDS {
                tables.iter().for_each(|table| maintain(&mut client, table, round % 2 == 0));
            }
        }));
        done.store(true, Relaxed);
        all.unwrap_or_else(|panic| panic::resume_unwind(panic));
        definer.join().expect("no definition fails");
        drawers.into_iter().map(|drawer| drawer.join().expect("no call fails")).collect()
    });
    for (which, call) in calls.iter().enumerate() {
        let of_this = |(at, seen): &(usize, Vec<i64>)| (*at == which).then(|| seen.clone());
        let seen: Vec<i64> = values.iter().filter_map(of_this).flatten().collect();
        assert!(seen.len() > 10, "{call}: {}", seen.len());
        assert_unique(call, &seen);
    }
    cluster.finish();
}

fn maintain(client: &mut Client, table: &str, with_order: bool) {
    client.run(&format!("REINDEX TABLE CONCURRENTLY {table}"));
    client.run(&format!("VACUUM FULL {table}"));
    if client.one::<i32>("SELECT current_setting('server_version_num')::int") >= 190_000 {
        client.run(&format!("REPACK {table}"));
        let by_key = format!(
            "SELECT relreplident = 'd' AND EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary)
               FROM pg_class c WHERE oid = '{table}'::regclass"
        );
        if client.one::<bool>(&by_key) {
            client.run(&format!("REPACK (CONCURRENTLY) {table}"));
        }
    }
    if with_order {
        client.run(&format!("REINDEX TABLE {table}"));
        let index: String = client.one(&format!(
            "SELECT min(indexrelid::regclass::text) FROM pg_index WHERE indrelid = '{table}'::regclass AND indpred IS NULL"
        ));
        client.run(&format!("CLUSTER {table} USING {}", index.trim_start_matches("_hilo.")));
    }
}

/// A call that waits for a transaction which drops the extension and creates it again finds the new
/// one, and if it cannot, says so.
#[test]
fn a_call_that_waits_for_another_extension_finds_it() {
    let cluster = Cluster::with_hilo();
    let mut other = cluster.connect("postgres");
    let create = "SELECT hilo_create('g', gapless => true), hilo_create('s')";
    other.run(create);
    let mut warm = cluster.connect("postgres");
    let call = "SELECT hilo_nextval('g')";
    warm.run(call);
    let mut fresh = cluster.connect("postgres");
    for session in [&mut fresh, &mut warm] {
        let pid = session.backend_pid();
        other.run(&format!("BEGIN; DROP EXTENSION hilo; CREATE EXTENSION hilo; {create}"));
        let answer = thread::scope(|scope| {
            let answer = scope.spawn(|| session.batch_execute(call));
            let mut observer = cluster.connect("postgres");
            wait_until("the call waits", LONG, || observer.sees_waiting(pid));
            other.run("COMMIT");
            answer.join().unwrap()
        });
        if let Err(error) = answer {
            let error = error.as_db_error().expect("the server answers");
            let (code, message) = (error.code().code(), error.message());
            assert_eq!(code, "40001", "{call}: {message}");
            assert!(message.contains("dropped and created"), "{call}: {message}");
        }
        session.run(call);
    }
    cluster.finish();
}

/// So does one that is just looking for hilo's tables: it does not say that the old ones are not as
/// they should be.
#[test]
fn a_look_up_that_meets_another_extension_finds_it() {
    let cluster = Cluster::with_hilo();
    let mut other = cluster.connect("postgres");
    let create = "SELECT hilo_create('g', gapless => true), hilo_create('s')";
    other.run(create);
    for call in ["SELECT hilo_nextval('s')", "SELECT hilo_nextval('g')"] {
        let mut session = cluster.connect("postgres");
        let pid = session.backend_pid();
        // It knows all but the tables by then.
        session.run(&format!("SELECT '_hilo'::regnamespace; PREPARE call AS {call}"));
        session.run("SELECT oid FROM pg_extension WHERE extname = 'hilo'");
        other.run("BEGIN; LOCK TABLE pg_class IN ACCESS EXCLUSIVE MODE");
        let answer = thread::scope(|scope| {
            let answer = scope.spawn(|| session.batch_execute(call));
            let waits =
                format!("SELECT EXISTS (SELECT FROM pg_locks WHERE pid = {pid} AND NOT granted)");
            wait_until("the call waits", LONG, || other.one::<bool>(&waits));
            other.run(&format!("DROP EXTENSION hilo; CREATE EXTENSION hilo; {create}; COMMIT"));
            answer.join().unwrap()
        });
        answer.unwrap_or_else(|error| panic!("{call}: {error:?}"));
    }
    cluster.finish();
}
