//! A copy of a server that is in use: what the sessions of the original held then is in `hilo_gaps`
//! of the copy, as restored. Rows of the copy may have it. No other gap covers a number that a row has.

use hilo_tests::{Client, ClientExt, Cluster, LONG, Mode, wait_until};

/// Fills a table in a session that stays open, so that it holds more numbers than the rows have.
fn insert(cluster: &Cluster) -> Client {
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE items (id bigserial PRIMARY KEY); SELECT hilo_adopt('items', 'id')");
    for _ in 0..3 {
        client.run("INSERT INTO items SELECT FROM generate_series(1, 900)");
    }
    // Another one, with a slice of its own.
    cluster.connect("postgres").run("INSERT INTO items SELECT FROM generate_series(1, 10)");
    client
}

const MORE: &str = "INSERT INTO items SELECT FROM generate_series(1, 3000)";

/// The copy draws for the first time: its gaps may cover rows, and say so.
#[track_caller]
fn check(copy: &mut Client) {
    assert_eq!(copy.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0, "nothing has been drawn");
    copy.run("INSERT INTO items DEFAULT VALUES");
    assert_eq!(copy.all::<String>("SELECT DISTINCT reason FROM hilo_gaps"), ["restored"]);
    let lacked = "SELECT DISTINCT reason FROM hilo_find_gaps('items_id_seq', 'items', 'id')";
    let reasons: Vec<String> = copy.all(lacked);
    assert!(reasons.contains(&"restored".to_owned()), "{reasons:?}");
}

#[test]
fn a_restored_dump_calls_nothing_lost_that_rows_have() {
    let cluster = Cluster::with_hilo();
    let mut client = insert(&cluster);
    let dump = cluster.pg_dump("postgres", &[]);
    client.run(MORE);
    client.run("CREATE DATABASE copy");
    cluster.restore("copy", &dump);
    check(&mut cluster.connect("copy"));
    cluster.finish();
}

#[test]
fn a_promoted_standby_calls_nothing_lost_that_rows_have() {
    let primary = Cluster::with_hilo();
    let client = insert(&primary);
    let standby = primary.clone_by_base_backup();
    primary.wait_for_replay(&standby);
    standby.promote();
    check(&mut standby.connect("postgres"));
    drop(client);
    standby.finish();
    primary.finish();
}

#[test]
fn a_recovery_to_a_point_in_time_calls_nothing_lost_that_rows_have() {
    let primary = Cluster::with_hilo();
    let copy = primary.clone_by_base_backup();
    copy.stop(Mode::Fast);
    let mut client = insert(&primary);
    let point: String = client.one("SELECT pg_current_wal_insert_lsn()::text");
    client.run(MORE);
    copy.configure("recovery_target_lsn", &point);
    copy.configure("recovery_target_action", "promote");
    copy.start();
    let mut restored = copy.connect("postgres");
    wait_until("the recovery has ended", LONG, || {
        !restored.one::<bool>("SELECT pg_is_in_recovery()")
    });
    check(&mut restored);
    copy.finish();
    primary.finish();
}
