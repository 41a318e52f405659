//! The changes that consumers of logical decoding see of hilo: few rows, and none if they leave its
//! tables out.

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

/// The changes of hilo's own tables that `slot` has, as test_decoding prints them.
fn own_changes(client: &mut Client, slot: &str) -> Vec<String> {
    client.all(&format!(
        "SELECT data FROM pg_logical_slot_get_changes('{slot}', NULL, NULL) WHERE data LIKE 'table _hilo.%'"
    ))
}

/// A consumer of everything gets a row or two for each block, however many values are drawn. The
/// rows are the reservation, and the ranges that sessions return.
#[test]
fn a_consumer_sees_few_rows() {
    const VALUES: i64 = 200_000;
    if !hilo_tests::has_library("test_decoding") {
        return;
    }
    let cluster = Cluster::builder().logical().start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders'), hilo_create('exact', gapless => true), hilo_create('out')",
    );
    client.run("SELECT pg_create_logical_replication_slot('all', 'test_decoding')");
    for _ in 0..20 {
        let mut session = cluster.connect("postgres");
        session
            .run(&format!("SELECT hilo_nextval('orders') FROM generate_series(1, {VALUES} / 20)"));
    }
    let blocks: i64 =
        client.one("SELECT blocks_reserved FROM hilo_stat_sequences WHERE name = 'orders'");
    let changes = own_changes(&mut client, "all");
    let updates = changes.iter().filter(|row| row.starts_with("table _hilo.hilo_position: UPDATE"));
    assert!(updates.count() as i64 >= blocks, "{changes:#?}");
    assert!((changes.len() as i64) <= 4 * blocks + 40, "{blocks} blocks: {changes:#?}");
    assert!((changes.len() as i64) < VALUES / 100, "{}", changes.len());

    // One row for each transaction that draws from a gapless sequence, and one for each lease.
    client.run("BEGIN; SELECT hilo_nextval('exact') FROM generate_series(1, 100); COMMIT");
    let id: i64 = client.one("SELECT id FROM _hilo.hilo_definition WHERE name = 'exact'");
    let mut gapless = own_changes(&mut client, "all");
    // The worker may have written of 'orders' meanwhile.
    gapless.retain(|row| row.contains(&format!(" sequence[bigint]:{id} ")));
    assert!(
        matches!(&gapless[..], [row] if row.starts_with("table _hilo.hilo_position: UPDATE")),
        "{gapless:#?}"
    );
    let lease: String = client.one("SELECT lease::text FROM hilo_lease('out', 1000)");
    let mut leased = own_changes(&mut client, "all");
    client.run(&format!("SELECT hilo_lease_return('{lease}')"));
    wait_until("the lease is filed", LONG, || {
        leased.extend(own_changes(&mut client, "all"));
        leased.iter().any(|row| row.starts_with("table _hilo.hilo_lease: DELETE"))
    });
    for kind in ["INSERT", "UPDATE", "DELETE"] {
        let start = format!("table _hilo.hilo_lease: {kind}");
        assert_eq!(leased.iter().filter(|row| row.starts_with(&start)).count(), 1, "{leased:#?}");
    }
    client.run("SELECT hilo_create('new')");
    let created = own_changes(&mut client, "all");
    for table in ["definition", "position"] {
        let start = format!("table _hilo.hilo_{table}: INSERT");
        assert_eq!(created.iter().filter(|row| row.starts_with(&start)).count(), 1, "{created:#?}");
    }
    client.run("SELECT pg_drop_replication_slot('all')");
    cluster.finish();
}

/// A publication FOR ALL TABLES has hilo's tables. One of the schemas of the application does not,
/// and its consumer gets nothing for the worker's transactions, not even empty ones.
#[test]
fn a_publication_of_schemas_leaves_hilo_out() {
    // Each block that is drawn from is a reservation of its own.
    let cluster = Cluster::builder().logical().config("hilo.prefetch", "off").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders', block_size => 100);
         CREATE SCHEMA app; CREATE TABLE app.orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'));
         CREATE PUBLICATION everything FOR ALL TABLES;
         CREATE PUBLICATION app FOR TABLES IN SCHEMA app",
    );
    client.run("SELECT pg_create_logical_replication_slot('s', 'pgoutput')");
    client.run("SELECT hilo_nextval('orders') FROM generate_series(1, 1000)");
    let mut sent = |publication: &str, kinds: &str| {
        client.one::<i64>(&format!(
            "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, 'proto_version', '1', 'publication_names', '{publication}')
              WHERE chr(get_byte(data, 0)) ~ '[{kinds}]'"
        ))
    };
    assert!(sent("everything", "U") >= 10, "a row for each block");
    assert_eq!(sent("everything", "T"), 0);
    assert_eq!(sent("app", "A-Z"), 0, "neither rows nor transactions");
    cluster.connect("postgres").run("INSERT INTO app.orders SELECT FROM generate_series(1, 30)");
    assert_eq!(sent("app", "I"), 30);
    assert_eq!(sent("app", "UD"), 0);
    assert_eq!(sent("app", "BC"), 2, "one transaction");
    client.run("SELECT pg_drop_replication_slot('s')");
    cluster.finish();
}
