//! The statements of docs/faq.md beyond its SQL, which `pages.rs` runs.

use hilo_tests::{ClientExt, Cluster};

/// A standby draws nothing, shows what the catalog has, and has nothing in memory. When it is promoted, the numbers jump by a
/// million or more, and the jump is recorded.
#[test]
fn a_standby_reads_until_it_is_promoted() {
    let primary = Cluster::with_hilo();
    let mut client = primary.connect("postgres");
    client.run("SELECT hilo_create('orders')");
    let last = client.draw("orders", 3)[2];
    let standby = primary.clone_by_base_backup();
    primary.wait_for_replay(&standby);
    let mut reader = standby.connect("postgres");
    reader.refusal("SELECT hilo_nextval('orders')").is("25006");
    assert_eq!(reader.all::<String>("SELECT name FROM hilo_sequences"), ["orders"]);
    assert_eq!(reader.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    assert_eq!(reader.one::<i64>("SELECT count(*) FROM hilo_stat_sequences"), 0);
    drop((client, reader));
    primary.finish();
    standby.promote();
    let mut client = standby.connect("postgres");
    assert!(client.draw("orders", 1)[0] > last + 1_000_000);
    let skipped = "SELECT sum(count)::bigint FROM hilo_gaps WHERE reason = 'restored'";
    assert!(client.one::<i64>(skipped) > 1_000_000);
    standby.finish();
}

/// A crash costs a sequence of which little is used about a hundred values.
#[test]
fn a_crash_costs_little_used_sequences_about_a_hundred_values() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('orders')");
    client.draw("orders", 3);
    cluster.kill9_postmaster();
    cluster.start();
    let mut client = cluster.connect("postgres");
    client.draw("orders", 1);
    let lost =
        "SELECT sum(count)::bigint FROM hilo_gaps WHERE name = 'orders' AND reason = 'crash'";
    let lost: i64 = client.one(lost);
    assert!((1..200).contains(&lost), "{lost}");
    cluster.finish();
}

/// With the default settings and 100 connections, the shared memory of a server that preloads hilo is some 34 MB.
#[test]
fn the_memory_is_as_the_page_says() {
    let defaults = [("max_connections", "100"), ("max_worker_processes", "8")];
    let builder = defaults
        .into_iter()
        .fold(Cluster::builder(), |builder, (name, value)| builder.config(name, value));
    let cluster = builder.start_with_hilo();
    let size = "SELECT allocated_size FROM pg_shmem_allocations WHERE name = 'hilo'";
    for bytes in cluster.connect("postgres").all::<i64>(size) {
        assert!((31_000_000..36_000_000).contains(&bytes), "{bytes}");
    }
    cluster.finish();
}
