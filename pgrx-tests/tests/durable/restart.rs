//! Clean stops keep every value.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use hilo_tests::{ClientExt, Cluster, LONG, Load, Mode, Source, wait_until};

/// Two fast restarts in the middle of the load of `concurrency.rs` change nothing about it. No
/// value comes twice, each session rises, and ordered sequences stay in order over the restarts
/// too.
#[test]
fn nothing_comes_twice_over_fast_restarts() {
    let cluster = Cluster::with_hilo();
    let sources = Source::three_kinds(&cluster);
    let load = Load { reconnect: true, ..Load::sixteen_sessions(3) };
    load.run_during(&cluster, &sources, || {
        for third in 1..=2 {
            wait_until("another third has been drawn", 3 * LONG, || {
                Source::count_seen(&sources) >= load.total() * third / 3
            });
            cluster.restart();
        }
    });
    sources.iter().for_each(Source::assert_kept);
    cluster.finish();
}

/// After a clean stop, smart or fast, a sequence continues with exactly the number that would have
/// come next, of whatever kind it is.
#[test]
fn the_next_value_after_a_clean_stop_is_the_next_number() {
    let cluster = Cluster::with_hilo();
    drop(Source::three_kinds(&cluster));
    for (name, step, first) in [("adaptive", 1, 1), ("ordered", 1, 1), ("falling", -3, -1)] {
        let mut next = first;
        for (mode, count) in [(Mode::Fast, 7), (Mode::Smart, 1), (Mode::Fast, 100)] {
            let expected: Vec<i64> = (0..count).map(|n| next + n * step).collect();
            assert_eq!(cluster.connect("postgres").draw(name, count as usize), expected, "{name}");
            next += count * step;
            cluster.stop(mode);
            cluster.start();
        }
        assert_eq!(cluster.connect("postgres").draw(name, 1), [next], "{name}");
    }
    cluster.finish();
}

/// A sequence that has not been used since it was created starts with its first number after a
/// restart. One that was set continues after its new value.
#[test]
fn definitions_and_positions_survive() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client
        .run("SELECT hilo_create('unused', start_value => 40, increment => 2), hilo_create('set')");
    client.run("SELECT hilo_setval('set', 500)");
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('unused')"), 40);
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('set')"), 501);
}

/// A fast stop ends a replication connection after hilo's worker. SQL over such a connection draws too, and loses nothing.
#[test]
fn a_walsender_that_has_drawn_loses_nothing() {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('s')");
    let mut walsender = cluster
        .tool("psql", "postgres")
        .args(["-X", "-q", "-A", "-t", "-d", "dbname=postgres replication=database"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("cannot run psql");
    let mut input = walsender.stdin.take().expect("it has an input");
    writeln!(input, "SELECT hilo_nextval('s') FROM generate_series(1, 20);").expect("it reads");
    let output = BufReader::new(walsender.stdout.take().expect("it has an output"));
    let drawn: Vec<i64> =
        output.lines().take(20).map(|line| line.unwrap().parse().unwrap()).collect();
    assert_eq!(drawn, Vec::from_iter(1..=20));
    cluster.stop(Mode::Fast);
    drop(input);
    walsender.wait().expect("it ends");
    cluster.start();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.draw("s", 1), [21]);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}

/// Single-user mode has no worker: it says so at once, and what needs none works there.
#[test]
fn single_user_mode_serves_only_what_needs_no_worker() {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('s'), hilo_create('g', gapless => true)");
    cluster.stop(Mode::Fast);
    let mut alone = cluster
        .tool("postgres", "postgres")
        .args(["--single", "-D"])
        .arg(cluster.data_directory())
        .arg("postgres")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cannot run postgres");
    let mut input = alone.stdin.take().expect("it has an input");
    for sql in ["SELECT hilo_nextval('s')", "SELECT 'drew ' || hilo_nextval('g')"] {
        writeln!(input, "{sql}").expect("it reads");
    }
    drop(input);
    let output = alone.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("cannot serve hilo sequences in single-user mode"), "{said}");
    assert!(said.contains("drew 1"), "{said}");
    cluster.start();
    assert_eq!(cluster.connect("postgres").draw("s", 1), [1]);
    assert_eq!(cluster.connect("postgres").draw("g", 1), [2]);
    cluster.finish();
}
