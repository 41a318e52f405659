//! pg_upgrade, and the newer server's pg_dump, with hilo in use on both sides. They need two servers: `make test` runs them on
//! the newer one.

use std::collections::BTreeSet;

use hilo_tests::{Client, ClientExt, Cluster, Mode};

const SEQUENCES: &str = "
    CREATE EXTENSION hilo;
    CREATE ROLE keeper; CREATE ROLE clerk; GRANT CREATE ON SCHEMA public TO keeper; GRANT INSERT ON hilo_sequences TO keeper;
    SELECT hilo_create('orders'), hilo_create('ordered', ordered => true), hilo_create('set', block_size => 50),
           hilo_create('falling', increment => -3, data_type => 'integer');
    SELECT hilo_grant('orders', 'clerk', 'USAGE');
    CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), source hilo_sequence DEFAULT 'orders');
    CREATE INDEX ON orders (source);
    SELECT hilo_setval('set', 5000);
    SET ROLE keeper;
    SELECT hilo_create('kept');";

const NAMES: [&str; 4] = ["orders", "ordered", "set", "falling"];

const DEFINED: &str = "SELECT concat_ws(' ', s, (SELECT string_agg(p::text, ',' ORDER BY p::text)
                                                  FROM _hilo.hilo_privilege p WHERE p.sequence = s.id))
                         FROM _hilo.hilo_definition s ORDER BY s.name";

fn draw_from_each(client: &mut Client, seen: &mut BTreeSet<(&str, i64)>) {
    for name in NAMES {
        for value in client.draw(name, 70) {
            assert!(seen.insert((name, value)), "{name}: {value} twice");
        }
    }
}

/// The same by a session that has ended, and returned what it had left, before this returns.
fn draw_and_close(cluster: &Cluster, seen: &mut BTreeSet<(&str, i64)>) {
    let mut client = cluster.connect("postgres");
    draw_from_each(&mut client, seen);
    cluster.close(client);
}

/// Some minor releases of PostgreSQL 15 set an option at each column that no later version knows, with or without hilo.
fn clear_column_options(client: &mut Client) {
    client.run(
        "UPDATE pg_attribute SET attoptions = NULL WHERE attoptions::text LIKE '{pg_attver=%}'",
    );
}

/// Copied or linked, the new server has the same sequences, owners, privileges, defaults and types,
/// and each continues with the very next number. The old one flushed everything when it stopped.
/// This also holds if the old one was on another timeline.
#[test]
fn the_new_server_continues_where_the_old_one_stopped() {
    for (mode, promoted) in [("--copy", false), ("--link", true)] {
        let Some(mut old) = Cluster::builder().start_older() else {
            println!("skipped: there is no older server");
            return;
        };
        let mut seen = BTreeSet::new();
        let mut client = old.connect("postgres");
        client.run(SEQUENCES);
        drop(client);
        draw_and_close(&old, &mut seen);
        old.crash(old.wait_for_worker("postgres"));
        draw_and_close(&old, &mut seen);
        if promoted {
            old = promote_copy(old);
            draw_and_close(&old, &mut seen);
        }
        let mut client = old.connect("postgres");
        client.run("INSERT INTO orders SELECT FROM generate_series(1, 10)");
        let defined: Vec<String> = client.all(DEFINED);
        let lease: String = client.one("SELECT lease::text FROM hilo_lease('falling', 10)");
        let gaps: Vec<String> = client.all("SELECT g::text FROM hilo_gaps g ORDER BY 1");
        assert!(!gaps.is_empty(), "the test needs gaps");
        let next: i64 = client.one("SELECT max(id) + 1 FROM orders");
        seen.extend(client.all("SELECT id FROM orders").into_iter().map(|id| ("orders", id)));
        clear_column_options(&mut client);
        drop(client);
        old.stop(Mode::Fast);

        let new = Cluster::builder().preload(true).start();
        new.stop(Mode::Fast);
        new.upgrade_from(&old, mode);
        assert_eq!(new.log_count("hilo worker"), 0, "a worker was started during the upgrade");
        new.start();
        let mut client = new.connect("postgres");
        assert_eq!(client.all::<String>(DEFINED), defined, "{mode}");
        let found = "SELECT what FROM hilo_check() WHERE object LIKE 'node%'";
        assert_eq!(client.all::<String>(found), Vec::<String>::new(), "there is nothing to do");
        let id: i64 = client.one("INSERT INTO orders DEFAULT VALUES RETURNING id");
        assert!(seen.insert(("orders", id)), "{id} twice");
        assert_eq!(id, next);
        draw_from_each(&mut client, &mut seen);
        draw_and_close(&new, &mut seen);
        assert_eq!(client.all::<String>("SELECT g::text FROM hilo_gaps g ORDER BY 1"), gaps);
        // The new server can not know whether another one was promoted after the lease, and took it back.
        let back = format!("SELECT hilo_lease_return('{lease}')");
        assert_eq!(client.one::<i64>(&back), 0);
        client.run("SET enable_seqscan = off");
        assert_eq!(client.one::<i64>("SELECT count(*) FROM orders WHERE source = 'orders'"), 11);
        client.run("SELECT hilo_rename('orders', 'sales')");
        client.run("INSERT INTO orders DEFAULT VALUES");
        assert_eq!(
            client.one::<i64>("SELECT count(*) FROM hilo_check() WHERE object LIKE 'column%'"),
            0
        );
        new.finish();
    }
}

/// The newer pg_dump dumps a running older server, as core recommends it. The newer server restores
/// the same definitions, privileges, owners and defaults. Nothing that was served before is served
/// again. Values that the old server had in memory or had leased out are in hilo_gaps or still
/// open.
#[test]
fn a_dump_by_the_newer_pg_dump_is_restored() {
    let Some(old) = Cluster::builder().start_older() else {
        println!("skipped: there is no older server");
        return;
    };
    let mut seen = BTreeSet::new();
    let mut client = old.connect("postgres");
    client.run(SEQUENCES);
    client.run("RESET ROLE");
    draw_from_each(&mut client, &mut seen);
    client.run("INSERT INTO orders SELECT FROM generate_series(1, 10)");
    seen.extend(client.all("SELECT id FROM orders").into_iter().map(|id| ("orders", id)));
    client.run("SELECT hilo_lease('falling', 10, 'sorter')");
    let (first, last): (i64, i64) = {
        let row = client.query_one("SELECT first, last FROM hilo_leases", &[]).unwrap();
        (row.get(0), row.get(1))
    };
    let defined: Vec<String> = client.all(DEFINED);
    clear_column_options(&mut client);

    let new = Cluster::builder().preload(true).start();
    new.connect("postgres").run("CREATE ROLE keeper; CREATE ROLE clerk");
    let dump = new.pg_dump_of(&old, "postgres");
    new.restore("postgres", &dump);
    let mut client = new.connect("postgres");
    assert_eq!(client.all::<String>(DEFINED), defined);
    assert_eq!(client.all::<String>("SELECT holder FROM hilo_leases"), ["sorter"]);
    let next: i64 = client.one("INSERT INTO orders DEFAULT VALUES RETURNING id");
    assert!(seen.insert(("orders", next)), "{next} twice");
    draw_from_each(&mut client, &mut seen);
    let leased =
        |(name, value): &&(&str, i64)| *name == "falling" && (last..=first).contains(value);
    assert_eq!(seen.iter().filter(leased).count(), 0, "leased, and served by another server");
    let lost = "SELECT count(*) FROM hilo_gaps WHERE reason = 'restored'";
    assert!(client.one::<i64>(lost) > 0, "what was in memory");
    let columns = "SELECT count(*) FROM hilo_check() WHERE object LIKE 'column%'";
    assert_eq!(client.one::<i64>(columns), 0);
    new.finish();
    old.finish();
}

/// The same cluster on its second timeline.
fn promote_copy(old: Cluster) -> Cluster {
    let standby = old.clone_by_base_backup();
    old.wait_for_replay(&standby);
    old.stop(Mode::Fast);
    standby.promote();
    standby
}
