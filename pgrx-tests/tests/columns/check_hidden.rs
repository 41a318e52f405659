//! Findings of hilo_check that its caller may not see are not lost for those who watch the server.

use hilo_tests::{ClientExt, Cluster};

/// hilo_check tells a role that watches the server of each finding about a column. It gives no name
/// where the role may not see the column or its rows. Roles that do not watch the server learn
/// nothing of the columns of others.
#[test]
fn findings_that_a_role_may_not_see_are_counted() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE watcher LOGIN IN ROLE pg_monitor; CREATE ROLE reader LOGIN IN ROLE pg_read_all_data; CREATE ROLE nobody LOGIN;
         CREATE ROLE writer LOGIN; CREATE SCHEMA closed;
         SELECT hilo_create('orders'), hilo_create('small');
         CREATE TABLE closed.orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders')); INSERT INTO closed.orders VALUES (4711);
         CREATE TABLE closed.lacking (id bigint DEFAULT hilo_nextval('nothing'));
         CREATE TABLE closed.narrow (id integer DEFAULT hilo_nextval('small'));
         CREATE TABLE half (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders')); INSERT INTO half VALUES (4712);
         GRANT INSERT ON half TO PUBLIC; GRANT pg_write_all_data TO writer; SELECT hilo_grant('orders', 'PUBLIC', 'USAGE')",
    );
    let columns = "SELECT severity || ': ' || object FROM hilo_check() WHERE object LIKE '%column%' ORDER BY 1";
    let all = [
        "error: column closed.lacking.id",
        "error: column closed.orders.id",
        "error: column public.half.id",
        "warning: column closed.narrow.id",
    ];
    let hidden = ["error: a column", "error: a column", "error: a column", "warning: a column"];
    let seen = |role: &str| cluster.connect_as(role, "postgres").all::<String>(columns);
    assert_eq!(seen("postgres"), all);
    assert_eq!(seen("reader"), all);
    assert_eq!(seen("watcher"), hidden);
    // It may know of every column, and of the values of none.
    assert_eq!(
        seen("writer"),
        [
            "error: a column",
            "error: a column",
            "error: column closed.lacking.id",
            "warning: column closed.narrow.id"
        ]
    );
    // It knows of the column half.id, and may not read it.
    assert_eq!(seen("nobody"), [""; 0]);

    let all = "SELECT string_agg(c::text, ' ') FROM hilo_check() c WHERE object = 'a column'";
    let said: String = cluster.connect_as("watcher", "postgres").one(all);
    for secret in ["closed", "orders", "half", "4711", "nothing", "small"] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
    assert!(said.contains("pg_read_all_data"), "{said}");

    // The column is not even searched for a role that may be told nothing of it.
    let scans = |role: &str| {
        let mut client = cluster.connect_as(role, "postgres");
        client.run(
            "BEGIN; SELECT u.value FROM _hilo.hilo_visible q, _hilo.hilo_unserved_values('half'::regclass, 1::smallint, q.id) u
                     WHERE q.name = 'orders'",
        );
        client.one::<i64>("SELECT pg_stat_get_xact_numscans('half_pkey'::regclass)")
    };
    assert_eq!(scans("nobody"), 0);
    assert!(scans("reader") > 0);

    cluster.finish();
}
