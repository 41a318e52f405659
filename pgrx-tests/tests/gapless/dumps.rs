//! A dump is of one moment: the table and the position fit each other, and a restored sequence skips nothing.

use hilo_tests::ClientExt;

use super::{INSERT, assert_gapless, with_invoices};

#[test]
fn a_restored_sequence_goes_on() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(&format!("{INSERT}; {INSERT}"));
    let mut open = cluster.connect("postgres");
    open.run(&format!("BEGIN; {INSERT}; {INSERT}"));
    let dump = cluster.pg_dump("postgres", &[]);
    open.run("COMMIT");
    client.run("CREATE DATABASE copy");
    cluster.restore("copy", &dump);
    let mut copy = cluster.connect("copy");
    assert_gapless(&mut copy, 2);
    copy.run(&format!("BEGIN; {INSERT}; ROLLBACK; {INSERT}; BEGIN; {INSERT}; COMMIT"));
    assert_gapless(&mut copy, 4);
    client.run(INSERT);
    assert_gapless(&mut client, 5);
    assert_eq!(copy.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    let gapless = "SELECT gapless FROM hilo_sequences WHERE name = 'invoices'";
    assert!(copy.one::<bool>(gapless));
    cluster.finish();
}

#[test]
fn a_document_brings_the_option_along() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(INSERT);
    let document: String = client.one("SELECT hilo_export('invoices')::text");
    assert!(document.contains("\"gapless\": true"), "{document}");
    client.run("SELECT hilo_alter('invoices', gapless => false)");
    assert!(!client.one::<String>("SELECT hilo_export('invoices')::text").contains("gapless"));
    let changes = client
        .all::<String>(&format!("SELECT action || detail::text FROM hilo_apply('{document}')"));
    assert_eq!(changes, [r#"alter{"gapless": {"to": true, "from": false}}"#]);
    assert_eq!(client.one::<i64>(&format!("SELECT count(*) FROM hilo_apply('{document}')")), 0);
    client.run(&format!("BEGIN; {INSERT}; ROLLBACK; {INSERT}"));
    assert_gapless(&mut client, 2);
    client.run(&format!(
        "DROP TABLE invoices; SELECT hilo_drop('invoices'); SELECT hilo_apply('{document}')"
    ));
    client.run("BEGIN; SELECT hilo_nextval('invoices'); ROLLBACK");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('invoices')"), 1);
    cluster.finish();
}
