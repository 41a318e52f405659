//! Whoever has the oldest snapshot keeps rows of hilo's tables that are dead, and hilo_check names him.

use hilo_tests::{ClientExt, Cluster, LONG, Mode, wait_until};

/// hilo_check names whoever keeps the rows of hilo's tables that are dead, and nobody else.
#[test]
fn checks_who_has_the_oldest_snapshot() {
    let cluster = Cluster::builder()
        .config("max_prepared_transactions", "2")
        .config("hot_standby_feedback", "on")
        .config("wal_receiver_status_interval", "1s")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT count(hilo_create('many' || n)) FROM generate_series(1, 10) n");
    // Each subtransaction that writes has a number, and leaves dead rows.
    let ages =
        "DO $$ BEGIN FOR n IN 1..1001 LOOP BEGIN UPDATE _hilo.hilo_position SET served = served;
                    EXCEPTION WHEN division_by_zero THEN END; END LOOP; END $$";
    let mut expect = |holder: &str, before: &str| {
        client.meddle(before);
        let found = "SELECT coalesce(string_agg(object, ', '), '') FROM hilo_check() WHERE what LIKE '%its snapshot%'";
        wait_until(&format!("{holder} is found"), LONG, || client.one::<String>(found) == holder);
    };
    let mut old = cluster.connect("postgres");
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    expect(&format!("session {}", old.backend_pid()), ages);
    old.run("COMMIT");
    expect("", "SELECT");
    // The snapshot of whoever looks keeps the same rows.
    old.run("BEGIN; CREATE TABLE held ()");
    expect(&format!("session {}", old.backend_pid()), ages);
    old.run("PREPARE TRANSACTION 'held'");
    expect("prepared transaction 'held'", "SELECT");
    old.run("ROLLBACK PREPARED 'held'");
    expect("", "SELECT");
    old.run("SELECT pg_create_physical_replication_slot('away')");
    let standby = cluster.clone_by_base_backup();
    standby.configure("primary_slot_name", "away");
    standby.reload();
    let holds = "SELECT xmin IS NOT NULL FROM pg_replication_slots";
    wait_until("the slot holds rows", LONG, || old.one::<bool>(holds));
    standby.stop(Mode::Immediate);
    expect("replication slot \"away\"", ages);
    old.run("SELECT pg_drop_replication_slot('away')");
    expect("", "SELECT");
    cluster.finish();
}
