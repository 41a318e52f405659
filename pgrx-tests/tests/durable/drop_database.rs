//! Databases and the extension are dropped and created; each keeps its own numbers.

use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, assert_unique, wait_until};
use postgres::NoTls;

fn new_shop(cluster: &Cluster) -> Client {
    cluster.connect("postgres").run("CREATE DATABASE shop");
    let mut client = cluster.connect("shop");
    client.run("CREATE EXTENSION hilo");
    client.run("SELECT hilo_create('orders')");
    client
}

/// DROP DATABASE, within the time for which it waits for others to leave, and CREATE DATABASE …
/// TEMPLATE succeed as soon as the sessions have left. The worker leaves too.
#[test]
fn the_worker_is_in_nobodys_way() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = new_shop(&cluster);
    client.draw("orders", 100);
    cluster.wait_for_worker("shop");
    drop(client);
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE DATABASE copy TEMPLATE shop");
    cluster.connect("shop").draw("orders", 1);
    admin.run("DROP DATABASE shop");
    cluster.connect("copy").draw("orders", 1);
    admin.run("DROP DATABASE copy");
    cluster.finish();
}

/// A database with the name of a dropped one starts from the beginning: nothing of the old one's pool is
/// served.
#[test]
fn a_database_of_the_same_name_starts_afresh() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = new_shop(&cluster);
    assert_eq!(client.draw("orders", 3), [1, 2, 3]);
    drop(client);
    let mut admin = cluster.connect("postgres");
    admin.run("DROP DATABASE shop");
    let mut client = new_shop(&cluster);
    assert_eq!(client.draw("orders", 3), [1, 2, 3]);
    admin.run("DROP DATABASE shop WITH (FORCE)");
    assert_eq!(new_shop(&cluster).draw("orders", 3), [1, 2, 3]);
}

/// Sequences of the same name and id in two databases, one of them the other's copy, have nothing
/// in common but where they started.
#[test]
fn databases_do_not_share_sequences() {
    let cluster = Cluster::builder().preload(true).start();
    let mut shop = new_shop(&cluster);
    assert_eq!(shop.draw("orders", 5), [1, 2, 3, 4, 5]);
    drop(shop);
    cluster.connect("postgres").run("CREATE DATABASE copy TEMPLATE shop");
    let mut shop = cluster.connect("shop");
    let mut copy = cluster.connect("copy");
    for n in 6..10 {
        assert_eq!(shop.draw("orders", 1), [n]);
        assert_eq!(copy.draw("orders", 1), [n]);
    }
}

/// A session that remembers a sequence notices that the extension was dropped and created again in
/// between, and a sequence that was. It starts with the new one's first number.
#[test]
fn what_is_dropped_and_recreated_starts_afresh() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = new_shop(&cluster);
    let mut other = cluster.connect("shop");
    assert_eq!(client.draw("orders", 3), [1, 2, 3]);

    other.run("SELECT hilo_drop('orders')");
    client.refusal("SELECT hilo_nextval('orders')").is("42704");
    other.run("SELECT hilo_create('orders', start_value => 10)");
    assert_eq!(client.draw("orders", 2), [10, 11]);

    other.run("DROP EXTENSION hilo");
    client.refusal("SELECT hilo_nextval('orders')").is("42883");
    other.run("CREATE EXTENSION hilo");
    client.refusal("SELECT hilo_nextval('orders')").is("42704");
    other.run("SELECT hilo_create('orders', start_value => 20)");
    assert_eq!(client.draw("orders", 2), [20, 21]);

    other.run("BEGIN; DROP EXTENSION hilo; CREATE EXTENSION hilo");
    other.run("SELECT hilo_create('orders', start_value => 30)");
    assert_eq!(other.draw("orders", 2), [30, 31]);
    other.run("COMMIT");
    assert_eq!(client.draw("orders", 1), [32]);

    // A count of a transaction goes with the extension, or not, as that does.
    other.run("BEGIN; SELECT hilo_create('own')");
    assert_eq!(other.draw("own", 2), [1, 2]);
    other.run("SAVEPOINT a; DROP EXTENSION hilo; ROLLBACK TO a");
    assert_eq!(other.draw("own", 1), [3]);
    other.run("SELECT hilo_setval('orders', 40)");
    assert_eq!(other.draw("orders", 1), [41]);
    other.run("DROP EXTENSION hilo; COMMIT");
    client.refusal("SELECT hilo_nextval('orders')").is("42883");
    other.run("CREATE EXTENSION hilo; SELECT hilo_create('own')");
    assert_eq!(client.draw("own", 1), [1]);
    cluster.finish();
}

/// A value that the source of a sequence brought before the copy was made is the original's to
/// serve. In the copy it is a gap, and the source refuses to take more there.
#[test]
fn a_copy_explains_what_the_originals_source_brought() {
    let cluster = Cluster::builder().preload(true).start();
    let mut shop = new_shop(&cluster);
    shop.run(
        "CREATE SEQUENCE counter INCREMENT BY 10; SELECT hilo_attach('s', 'counter', 'efcore')",
    );
    let mut seen = shop.draw("s", 15);
    drop(shop);
    cluster.connect("postgres").run("CREATE DATABASE copy TEMPLATE shop");
    let mut copy = cluster.connect("copy");
    copy.refusal("SELECT hilo_nextval('s')").is("55000").hints("hilo_stat_sources");
    let lost = "SELECT coalesce(sum(count), 0)::bigint FROM hilo_gaps WHERE name = 's'";
    wait_until("the copy has gaps for what the original holds", LONG, || copy.one::<i64>(lost) > 0);
    let held: Vec<i64> =
        copy.all("SELECT generate_series(first, last) FROM hilo_gaps WHERE name = 's'");
    let mut shop = cluster.connect("shop");
    let more = shop.draw("s", 5);
    assert!(more.iter().all(|value| held.contains(value)), "{more:?}: {held:?}");
    seen.extend(more);
    assert_unique("shop", &seen);
    cluster.finish();
}

/// How a database is made whose copies have a sequence.
fn template(cluster: &Cluster) -> Client {
    drop(new_shop(cluster));
    let mut admin = cluster.connect("postgres");
    admin.run("ALTER DATABASE shop RENAME TO template");
    admin
}

/// A database that gets the OID of a dropped one, and is made from the same template, has the same
/// ids, epochs and positions. Memory has nothing for it: it begins with its own first number, and no
/// number comes twice.
#[test]
fn a_database_with_the_oid_of_a_dropped_one_starts_afresh() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = template(&cluster);
    for round in 0..4 {
        admin.run("CREATE DATABASE copy TEMPLATE template OID = 90000");
        let mut clients: Vec<Client> = (0..20).map(|_| cluster.connect("copy")).collect();
        clients.iter_mut().for_each(|client| drop(client.draw("orders", 40)));
        if round % 2 == 1 {
            // This transaction locks the position, so nothing is flushed.
            clients[0].run("BEGIN; SELECT hilo_setval('orders', 1000000)");
        }
        admin.run("DROP DATABASE copy WITH (FORCE)");
        admin.run("CREATE DATABASE copy TEMPLATE template OID = 90000");
        let mut values = Vec::new();
        for _ in 0..4 {
            values.extend(cluster.connect("copy").draw("orders", 1000));
        }
        assert_eq!(values[0], 1);
        assert_unique("the new database", &values);
        admin.run("DROP DATABASE copy WITH (FORCE)");
    }
    cluster.finish();
}

/// The memory of a database is free as soon as it is dropped, with FORCE too.
#[test]
fn a_dropped_database_leaves_nothing_in_memory() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = template(&cluster);
    admin.run("CREATE EXTENSION hilo");
    let taken = "SELECT slots_taken::bigint FROM _hilo.hilo_server_state()";
    for _ in 0..3 {
        admin.run("CREATE DATABASE copy TEMPLATE template");
        let mut clients: Vec<Client> = (0..10).map(|_| cluster.connect("copy")).collect();
        clients.iter_mut().for_each(|client| drop(client.draw("orders", 40)));
        // A lease of a transaction that is open.
        clients[1].run("BEGIN; SELECT hilo_lease('orders', 10, 'somebody')");
        assert!(admin.one::<i64>(taken) > 0);
        admin.run("DROP DATABASE copy WITH (FORCE)");
        assert_eq!(admin.one::<i64>(taken), 0);
    }
    cluster.finish();
}

/// Whoever drops, renames or copies a database does not wait for its worker, however long that would
/// stay without a session.
#[test]
fn the_worker_makes_way_whatever_its_idle_timeout() {
    let cluster = Cluster::builder().preload(true).config("hilo.worker_idle_timeout", "1h").start();
    drop(new_shop(&cluster));
    let mut admin = cluster.connect("postgres");
    let mut name = "shop";
    for (statement, next) in [
        ("CREATE DATABASE copy TEMPLATE shop", "shop"),
        ("ALTER DATABASE shop RENAME TO store", "store"),
        ("ALTER DATABASE store RENAME TO shop", "shop"),
        ("DROP DATABASE shop", "copy"),
        ("DROP DATABASE copy", ""),
    ] {
        let drawn = cluster.connect(name).draw("orders", 1);
        let began = std::time::Instant::now();
        admin.run(statement);
        assert!(began.elapsed().as_secs() < 4, "{statement}: {:?}", began.elapsed());
        name = next;
        assert_eq!(drawn.len(), 1);
    }
    cluster.finish();
}

/// A database that somebody alters keeps its memory. Its numbers go on without a gap.
#[test]
fn an_altered_database_goes_on_without_a_gap() {
    let cluster = Cluster::builder().preload(true).start();
    let mut shop = new_shop(&cluster);
    let mut values = shop.draw("orders", 10);
    let mut admin = cluster.connect("postgres");
    admin.run("ALTER DATABASE shop CONNECTION LIMIT 50");
    // It sees another version of the database's row.
    values.extend(cluster.connect("shop").draw("orders", 10));
    values.extend(shop.draw("orders", 10));
    drop(shop);
    admin.run("ALTER DATABASE shop CONNECTION LIMIT 60");
    let mut shop = cluster.connect("shop");
    values.extend(shop.draw("orders", 10));
    values.sort_unstable();
    assert_unique("shop", &values);
    assert_eq!(shop.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}

/// Whoever drops a database waits for no source that is asked there. Nothing of it stays, also if a
/// session waits for the answer when FORCE ends it.
#[test]
fn a_source_that_is_asked_is_in_nobodys_way() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE EXTENSION hilo");
    let asked = "SELECT count(*) FROM pg_stat_activity
                  WHERE datname = 'shop' AND backend_type = 'hilo source' AND wait_event = 'PgSleep'";
    let left = "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'hilo %'";
    for drop_database in ["DROP DATABASE shop", "DROP DATABASE shop WITH (FORCE)"] {
        let mut client = new_shop(&cluster);
        client.run(
            "SELECT hilo_create('s', source => 'SELECT $2, $2 FROM pg_catalog.pg_sleep(3600)')",
        );
        client.run("SET hilo.reserve_timeout = '1h'");
        let cancel = client.cancel_token();
        let waiting = thread::spawn(move || {
            client.query_one("SELECT hilo_nextval('s')", &[]).expect_err("it has no answer");
        });
        wait_until("the source is asked", LONG, || admin.one::<i64>(asked) == 1);
        if !drop_database.contains("FORCE") {
            cancel.cancel_query(NoTls).expect("cannot cancel");
        }
        wait_until("it is dropped", LONG, || admin.batch_execute(drop_database).is_ok());
        waiting.join().expect("the caller panicked");
        wait_until("no process of it is left", LONG, || admin.one::<i64>(left) == 0);
        let taken = "SELECT slots_taken::bigint FROM _hilo.hilo_server_state()";
        assert_eq!(admin.one::<i64>(taken), 0);
    }
    cluster.finish();
}
