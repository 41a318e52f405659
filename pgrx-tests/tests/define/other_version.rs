//! If the library and the SQL objects have different versions, nothing is served.

use std::collections::BTreeSet;

use hilo_tests::extension::{CURRENT, OLDER, install_older, install_script};
use hilo_tests::{Client, ClientExt, Cluster};

fn cluster() -> Cluster {
    let cluster = Cluster::builder().preload(true).start();
    cluster.connect("postgres").run("CREATE DATABASE shop");
    cluster
}

/// Where the SQL objects are older than the library, every call says so and how to update them.
/// Then it works, in the sessions that were refused too.
#[test]
fn older_objects_are_refused_until_they_are_updated() {
    let update = "ALTER EXTENSION hilo UPDATE";
    let cluster = cluster();
    install_older();
    let mut client = cluster.connect("shop");
    client.run(&format!("CREATE EXTENSION hilo VERSION '{OLDER}'"));
    assert_refused(&mut client, update);
    cluster.connect("shop").run(update);
    client.run("SELECT hilo_create('orders')");
    assert_eq!(client.draw("orders", 3), [1, 2, 3]);
    cluster.finish();
}

/// Where the SQL objects are newer than the library, every call says so. And a running server,
/// which keeps its library whatever is installed on the disk, refuses to create them or to update
/// to them.
#[test]
fn newer_objects_are_refused() {
    let cluster = cluster();
    let mut client = cluster.connect("shop");
    client.run("CREATE EXTENSION hilo; SELECT hilo_create('orders', block_size => 10)");
    client.run("SELECT hilo_nextval('orders')");
    install_script(&format!("hilo--{CURRENT}--999.0.sql"), "SELECT 1/0;");
    install_script("hilo--999.0.sql", "SELECT 1/0;");
    for change in [
        "ALTER EXTENSION hilo UPDATE TO '999.0'",
        "DROP EXTENSION hilo CASCADE; CREATE EXTENSION hilo VERSION '999.0'",
    ] {
        client.refusal(change).is("55000").says("999.0").details("same version").hints("estart");
    }
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('orders')"), 2);
    client.run("UPDATE pg_extension SET extversion = '999.0' WHERE extname = 'hilo'");
    drop(client);
    // A server loads an older library only when it starts.
    cluster.restart();
    let mut another = cluster.connect("shop");
    assert_refused(&mut another, "estart");
    for newer in ["SELECT hilo_report()", "SELECT * FROM hilo_stat_rates"] {
        another.refusal(newer).is("55000").details("same version").hints("estart");
    }
    let mut client = cluster.connect("shop");
    client.run(&format!("UPDATE pg_extension SET extversion = '{CURRENT}' WHERE extname = 'hilo'"));
    let mut seen = BTreeSet::from([1, 2]);
    for session in [&mut another, &mut client] {
        for value in session.draw("orders", 50) {
            assert!(seen.insert(value), "{value} twice");
        }
    }
    cluster.finish();
}

/// Every way in is refused with what to do, and none ends the session.
fn assert_refused(client: &mut Client, hint: &str) {
    for call in [
        "hilo_nextval('orders')",
        "hilo_nextvals('orders', 3)",
        "hilo_nextrange('orders', 3)",
        "hilo_next_hi('orders')",
        "hilo_nextkey('orders')",
        "hilo_currval('orders')",
        "hilo_key('orders', 1)",
        "hilo_key_value('orders', 'orders/1')",
        "hilo_setval('orders', 7)",
        "hilo_create('another')",
        "hilo_alter('orders', increment => 2)",
        "hilo_rename('orders', 'another')",
        "hilo_drop('orders')",
        "hilo_grant('orders', 'public', 'ALL')",
        "hilo_revoke('orders', 'public', 'ALL')",
        "hilo_stat_reset('orders')",
        "hilo_check()",
    ] {
        let refusal = client.refusal(&format!("SELECT {call}"));
        refusal.is("55000").says(CURRENT).details("same version").hints(hint);
    }
    for view in ["hilo_stat_sequences", "hilo_stat_backends", "hilo_blocks"] {
        let refusal = client.refusal(&format!("SELECT * FROM {view}"));
        refusal.is("55000").says(CURRENT).details("same version").hints(hint);
    }
    client.run("SELECT * FROM hilo_sequences; SELECT * FROM hilo_gaps");
}
