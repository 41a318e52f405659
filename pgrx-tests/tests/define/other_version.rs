//! If the library and the SQL objects have different versions, nothing is served.

use std::collections::{BTreeMap, BTreeSet};

use hilo_tests::extension::install_script;
use hilo_tests::{Client, ClientExt};

use crate::versions::{
    CURRENT, OLDEST, assert_later_shop_serves_on, assert_serves_on, cluster, shop_of,
};

/// Where the SQL objects are older than the library, every call says so and how to update them.
/// Then it works, in the sessions that were refused too.
#[test]
fn older_objects_are_refused_until_they_are_updated() {
    let update = "ALTER EXTENSION hilo UPDATE";
    for version in [OLDEST, "0.3.0"] {
        let cluster = cluster();
        let mut client = shop_of(&cluster, version);
        assert_refused(&mut client, update);
        if version != OLDEST {
            for call in ["hilo_compare('{}')", "hilo_create_on_all_nodes('orders')"] {
                let refusal = client.refusal(&format!("SELECT {call}"));
                refusal.is("55000").details("same version").hints(update);
            }
        }
        cluster.connect("shop").run(update);
        match version {
            OLDEST => assert_serves_on(&mut client),
            _ => assert_later_shop_serves_on(&mut client),
        }
        cluster.finish();
    }
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

/// A function of the library keeps its arguments and its result permanently, and only adds
/// arguments at the end. Objects of an older version still call it. An integer arrives like a
/// bigint.
#[test]
fn a_function_of_the_library_keeps_its_signature() {
    let cluster = cluster();
    let signatures = |client: &mut Client| -> BTreeMap<String, (Vec<String>, String)> {
        let sql = "SELECT p.prosrc, replace(p.proargtypes::regtype[]::text, 'integer', 'bigint')::text[], pg_get_function_result(p.oid)
                     FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
                    WHERE l.lanname = 'c' AND p.probin LIKE '%hilo%'";
        let rows = client.query(sql, &[]).expect("the functions can be listed");
        rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect()
    };
    let mut fresh = cluster.connect("postgres");
    fresh.run("CREATE EXTENSION hilo");
    let new = signatures(&mut fresh);
    let mut client = cluster.connect("shop");
    for version in [OLDEST, "0.2.0", "0.3.0"] {
        client.run(&format!("CREATE EXTENSION hilo VERSION '{version}'"));
        let old = signatures(&mut client);
        client.run("DROP EXTENSION hilo");
        for (symbol, (arguments, result)) in &old {
            if let Some((now, result_now)) = new.get(symbol) {
                assert_eq!(result, result_now, "{symbol}");
                assert!(now.starts_with(arguments), "{symbol}: {arguments:?}, now {now:?}");
            }
        }
        assert!(old.len() > 30, "{old:?}");
    }
    cluster.finish();
}
