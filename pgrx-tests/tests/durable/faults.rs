//! Sessions wait instead of failing: a fault in a reservation reaches exactly those that wait for that sequence,
//! with its cause, and affects nothing else.

use std::thread;

use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

fn stat(cluster: &Cluster, column: &str, name: &str) -> i64 {
    cluster.connect("postgres").one(&format!(
        "SELECT coalesce(sum({column}), 0)::bigint FROM hilo_stat_sequences WHERE name = '{name}'"
    ))
}

/// While a row is locked, its callers wait and are served when it is free; the others notice nothing.
#[test]
fn a_locked_row_is_waited_for_and_others_are_served() {
    let cluster = Cluster::builder().config("hilo.reserve_timeout", "60s").start_with_hilo();
    let mut holder = cluster.connect("postgres");
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('held', block_size => 1), hilo_create('free', block_size => 1)");
    client.run("SELECT hilo_nextval('free')");
    holder.run(
        "BEGIN; SELECT FROM _hilo.hilo_position p JOIN _hilo.hilo_definition s ON s.id = p.sequence
          WHERE s.name = 'held' FOR UPDATE OF p",
    );
    thread::scope(|scope| {
        let waiting =
            scope.spawn(|| cluster.connect("postgres").one::<i64>("SELECT hilo_nextval('held')"));
        wait_until("the worker has met the lock", LONG, || stat(&cluster, "errors", "held") > 0);
        for value in 2..=100 {
            assert_eq!(client.one::<i64>("SELECT hilo_nextval('free')"), value);
        }
        assert_eq!(stat(&cluster, "errors", "free"), 0);
        holder.run("COMMIT");
        assert_eq!(waiting.join().expect("it is served"), 1);
    });
    cluster.finish();
}

/// A caller that has waited without success is told what held the row; the value comes later, and only once.
#[test]
fn the_error_names_the_cause() {
    let cluster = Cluster::with_hilo();
    let mut holder = cluster.connect("postgres");
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('held')");
    holder.run("BEGIN; SELECT FROM _hilo.hilo_position FOR UPDATE");
    client.run("SET hilo.reserve_timeout = '500ms'");
    client
        .refusal("SELECT hilo_nextval('held')")
        .is("55P03")
        .details("locked by another transaction")
        .hints("is still open");
    holder.run("ROLLBACK");
    client.run("RESET hilo.reserve_timeout");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('held')"), 1);
    cluster.finish();
}

/// With the catalog out of reach, sessions are served from memory until it is used up. Then they
/// get the cause, after a bounded number of tries. The worker lives, logs the fault once, and
/// continues when the catalog is available again.
#[test]
fn without_its_catalog_memory_serves() {
    let cluster = Cluster::builder().config("hilo.prefetch", "off").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('cut', block_size => 100)");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('cut')"), 1);
    let worker = cluster.wait_for_worker("postgres");
    cluster.connect("postgres").run("ALTER TABLE _hilo.hilo_position ADD COLUMN strange integer");
    for value in 2..=100 {
        assert_eq!(client.one::<i64>("SELECT hilo_nextval('cut')"), value);
    }
    for _ in 0..3 {
        client.refusal("SELECT hilo_nextval('cut')").is("55000").says("columns");
    }
    assert_eq!(cluster.worker_pid("postgres"), Some(worker), "the worker has died of it");
    assert_eq!(cluster.log_count("hilo could not reserve a block"), 1);
    cluster.connect("postgres").run("ALTER TABLE _hilo.hilo_position DROP COLUMN strange");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('cut')"), 101);
    cluster.finish();
}

/// A setting that a running server can change takes effect on reload.
#[test]
fn settings_are_taken_up_on_reload() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('set')");
    client.run("SELECT hilo_nextval('set')");
    let ahead = |cluster: &Cluster| stat(cluster, "in_current + in_standby", "set");
    assert!(ahead(&cluster) < 1_000);
    cluster.configure("hilo.min_threshold", "5000");
    cluster.reload();
    wait_until("the new threshold is met", LONG, || {
        client.run("SELECT hilo_nextval('set')");
        ahead(&cluster) >= 5_000
    });
    cluster.finish();
}

/// A size set by hilo_alter counts from the next block on, and renumbers nothing.
#[test]
fn sizes_are_altered_without_a_gap() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('sized')");
    for value in 1..=10 {
        assert_eq!(client.one::<i64>("SELECT hilo_nextval('sized')"), value);
    }
    client.run("SELECT hilo_alter('sized', block_size => 777, slice_size => 3)");
    for value in 11..=2_000 {
        assert_eq!(client.one::<i64>("SELECT hilo_nextval('sized')"), value);
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    assert!(client.one::<i64>("SELECT max(left_in_slice) FROM hilo_stat_backends") <= 3);
    cluster.finish();
}
