//! A crash, a lost connection, a stop or a promotion is a rollback of what was not committed.

use hilo_tests::{ClientExt, Cluster, LONG, Mode, wait_until};

use super::{INSERT, INVOICES, assert_gapless, count, with_invoices};

/// A backend that is killed or terminated, and a client that goes away, in the middle of a transaction.
#[test]
fn a_lost_session_gives_its_values_back() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(INSERT);
    let mut lost = cluster.connect("postgres");
    lost.run(&format!("BEGIN; {INSERT}; {INSERT}"));
    drop(lost);
    client.run(INSERT);
    let mut terminated = cluster.connect("postgres");
    terminated.run(&format!("BEGIN; {INSERT}; SAVEPOINT a; {INSERT}"));
    client.run(&format!("SELECT pg_terminate_backend({})", terminated.backend_pid()));
    client.run(INSERT);
    assert_gapless(&mut client, 3);
    let mut killed = cluster.connect("postgres");
    killed.run(&format!("BEGIN; {INSERT}; {INSERT}"));
    cluster.crash(killed.backend_pid());
    let mut client = cluster.connect_when_up("postgres");
    client.run(INSERT);
    assert_gapless(&mut client, 4);
}

/// Each kind of end of the server, under load, with synchronous_commit on and off. A value that a
/// client was told is committed is there, unless the commit was asynchronous, and the values have
/// no hole either way.
#[test]
fn ends_of_the_server_under_load() {
    let cluster = with_invoices();
    let faults: [&dyn Fn(); 5] = [
        &|| cluster.crash_session(),
        &|| {
            cluster.kill9_postmaster();
            cluster.start();
        },
        &|| {
            cluster.stop(Mode::Immediate);
            cluster.start();
        },
        &|| {
            cluster.stop(Mode::Fast);
            cluster.start();
        },
        &|| cluster.crash(cluster.wait_for_worker("postgres")),
    ];
    // So that the last fault finds a worker.
    cluster.connect("postgres").run("SELECT hilo_create('plain')");
    for fault in faults {
        let before = count(&mut cluster.connect_when_up("postgres"));
        std::thread::scope(|scope| {
            for session in 0..6 {
                let cluster = &cluster;
                scope.spawn(move || {
                    let mut client = cluster.connect("postgres");
                    let _ = client.batch_execute("SELECT hilo_nextval('plain')");
                    if session % 2 == 0 {
                        let _ = client.batch_execute("SET synchronous_commit = off");
                    }
                    let end = if session == 5 { "ROLLBACK" } else { "COMMIT" };
                    let draw = format!("BEGIN; {INSERT}; {INSERT}; {end}");
                    while client.batch_execute(&draw).is_ok() {}
                });
            }
            wait_until("the sessions have drawn", LONG, || {
                count(&mut cluster.connect("postgres")) > before + 100
            });
            fault();
        });
        let mut client = cluster.connect_when_up("postgres");
        let now = count(&mut client);
        assert_gapless(&mut client, now);
        assert!(now > 0);
    }
}

/// An acknowledged commit survives, and its successor follows it.
#[test]
fn an_acknowledged_value_survives_a_crash() {
    let cluster = with_invoices();
    for expected in 1..=5 {
        let mut client = cluster.connect_when_up("postgres");
        let drawn: i64 = client.one("INSERT INTO invoices DEFAULT VALUES RETURNING id");
        assert_eq!(drawn, expected);
        client.run(&format!("BEGIN; {INSERT}"));
        cluster.kill9_postmaster();
        cluster.start();
    }
    assert_gapless(&mut cluster.connect_when_up("postgres"), 5);
}

/// A standby refuses to draw. After its promotion it goes on where its data ends, and skips nothing.
#[test]
fn a_promoted_standby_goes_on() {
    let cluster = with_invoices();
    let standby = cluster.clone_by_base_backup();
    let mut client = cluster.connect("postgres");
    client.run(&format!("{INSERT}; {INSERT}"));
    let mut open = cluster.connect("postgres");
    open.run(&format!("BEGIN; {INSERT}"));
    cluster.wait_for_replay(&standby);
    standby.connect("postgres").refusal("SELECT hilo_nextval('invoices')").is("25006");
    cluster.stop(Mode::Immediate);
    standby.promote();
    let mut promoted = standby.connect_when_up("postgres");
    assert_gapless(&mut promoted, 2);
    promoted.run(INSERT);
    assert_gapless(&mut promoted, 3);
}

/// The worker and shared memory have no part in it.
#[test]
fn it_needs_neither_preloading_nor_a_worker() {
    let cluster = with_invoices();
    cluster.connect("postgres").run(INSERT);
    cluster.configure("max_worker_processes", "0");
    cluster.restart();
    let mut client = cluster.connect("postgres");
    client.run(INSERT);
    drop(client);
    cluster.configure("shared_preload_libraries", "");
    cluster.restart();
    let mut client = cluster.connect("postgres");
    client.run(INSERT);
    client.run(&format!("BEGIN; {INSERT}; ROLLBACK; BEGIN; {INSERT}; SAVEPOINT a; {INSERT}; ROLLBACK TO a; {INSERT}; COMMIT"));
    assert_eq!(client.all::<i64>("SELECT id FROM invoices ORDER BY id"), [1, 2, 3, 4, 5]);
    cluster.finish();
}

/// If the position cannot be written, the commit fails and nothing of the transaction stays.
#[test]
fn a_position_that_cannot_be_written_fails_the_commit() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(INSERT);
    client.run(&format!("BEGIN; {INSERT}; SAVEPOINT a; {INSERT}"));
    client.run("ALTER TABLE _hilo.hilo_position ADD COLUMN strange int");
    client.refusal("COMMIT").is("55000");
    assert_gapless(&mut client, 1);
    client.run(INSERT);
    assert_gapless(&mut client, 2);
    cluster.finish();
}

/// The row is rewritten within the transaction, as by CLUSTER: the position is still found.
#[test]
fn a_position_that_has_moved_is_found() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('filler/' || n, gapless => true) FROM generate_series(1, 50) n; SELECT hilo_drop('filler/' || n) FROM generate_series(1, 49) n");
    client.run(&format!("{INSERT}; BEGIN; {INSERT}; CLUSTER _hilo.hilo_position USING hilo_position_pkey; {INSERT}; COMMIT; {INSERT}"));
    assert_gapless(&mut client, 4);
    client.run("VACUUM FULL _hilo.hilo_position");
    client.run(INSERT);
    assert_gapless(&mut client, 5);
    cluster.finish();
}

/// The extension is dropped by the transaction that has drawn, for good or until its savepoint is rolled back.
#[test]
fn the_extension_is_dropped() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(&format!(
        "BEGIN; {INSERT}; SAVEPOINT a; DROP EXTENSION hilo CASCADE; ROLLBACK TO a; {INSERT}; COMMIT"
    ));
    assert_gapless(&mut client, 2);
    client.run(&format!(
        "BEGIN; {INSERT}; DROP EXTENSION hilo CASCADE; COMMIT; CREATE EXTENSION hilo"
    ));
    client.run("SELECT hilo_create('invoices', gapless => true, start_value => 4); INSERT INTO invoices VALUES (hilo_nextval('invoices'))");
    assert_eq!(client.all::<i64>("SELECT id FROM invoices ORDER BY id"), [1, 2, 3, 4]);
    cluster.finish();
}

/// A server that gets the table and the position by logical replication takes over where its data ends.
#[test]
fn a_subscriber_goes_on() {
    let start = || Cluster::builder().logical().own_identity().start_with_hilo();
    let (publisher, subscriber) = (start(), start());
    let mut client = publisher.connect("postgres");
    client.run(INVOICES);
    client.run(&format!("{INSERT}; {INSERT}"));
    client.run(
        "CREATE PUBLICATION own FOR TABLE _hilo.hilo_definition, _hilo.hilo_position, _hilo.hilo_privilege, invoices",
    );
    let mut copy = subscriber.connect("postgres");
    copy.run(
        "CREATE TABLE invoices (id bigint PRIMARY KEY DEFAULT hilo_nextval('invoices'), note text)",
    );
    subscriber.subscribe("own", &publisher, "own", "");
    client.run(&format!(
        "BEGIN; {INSERT}; ROLLBACK; {INSERT}; SELECT hilo_alter('invoices', max_value => 1000)"
    ));
    client.run(&format!("{INSERT}; {INSERT}"));
    publisher.wait_for_apply("own");
    publisher.stop(Mode::Fast);
    copy.run("ALTER SUBSCRIPTION own DISABLE; ALTER SUBSCRIPTION own SET (slot_name = NONE); DROP SUBSCRIPTION own");
    assert_gapless(&mut copy, 5);
    copy.run(&format!("BEGIN; {INSERT}; ROLLBACK; {INSERT}; BEGIN; {INSERT}; COMMIT"));
    assert_eq!(copy.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    assert_gapless(&mut copy, 7);
}

/// The row of a busy sequence stays in its page, as that of a counter table does.
#[test]
fn a_busy_sequence_does_not_bloat_the_position() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run("SET synchronous_commit = off; DROP TABLE invoices");
    client.run("DO $$ BEGIN FOR i IN 1..20000 LOOP PERFORM hilo_nextval('invoices'); COMMIT; END LOOP; END $$");
    assert_eq!(
        client.one::<i64>(
            "SELECT pg_relation_size('_hilo.hilo_position') / current_setting('block_size')::int"
        ),
        1
    );
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('invoices')"), 20_001);
    cluster.finish();
}
