//! An older database is upgraded to a new version.

use std::fs;
use std::io::Write;

use hilo_tests::extension::{assert_equal_objects, objects};
use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

pub const OLDEST: &str = "0.1.0";
pub const CURRENT: &str = env!("CARGO_PKG_VERSION");

/// A cluster with the roles of the shops, and a database for one.
pub fn cluster() -> Cluster {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE shop_owner; CREATE ROLE shop_clerk; CREATE ROLE \"Shop Reader\"");
    admin.run("CREATE DATABASE shop");
    cluster
}

/// A dump of a shop that a release has made. That of 0.1.0 had served 1 to 100, and some of 499 to 522, of orders.
/// That of 0.3.0 has leases, a gapless sequence, one that a column owns, and one whose column was released.
fn dump(release: &str) -> String {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/releases");
    fs::read_to_string(format!("{place}/shop-{release}.sql")).expect("cannot read the dump")
}

/// The shop that a release has dumped, in the objects of a version; 0.2.0 has the shop of 0.1.0.
pub fn shop_of(cluster: &Cluster, version: &str) -> Client {
    const CREATE: &str = "CREATE EXTENSION IF NOT EXISTS hilo WITH SCHEMA public";
    let release = if version == "0.2.0" { OLDEST } else { version };
    let dump = dump(release).replace(CREATE, &format!("{CREATE} VERSION '{version}'"));
    cluster.restore("shop", &dump);
    let mut client = cluster.connect("shop");
    assert_eq!(extension_version(&mut client), version);
    client
}

fn old_shop(cluster: &Cluster) -> Client {
    shop_of(cluster, OLDEST)
}

fn extension_version(client: &mut Client) -> String {
    client.one("SELECT extversion FROM pg_extension WHERE extname = 'hilo'")
}

/// Each sequence of the shop continues after what it had served, or with what was free.
pub fn assert_serves_on(client: &mut Client) {
    let mut expect = |name: &str, count: usize, free: &[i64], next: i64| {
        for value in client.draw(name, count) {
            let on = if next < 0 { value <= next } else { value >= next };
            assert!(on || free.contains(&value), "{name} has served {value}");
        }
    };
    expect("orders", 300, &[514, 515, 516, 517, 518, 519], 523);
    expect("set", 300, &[5116, 5117, 5118, 5119, 5120, 5121], 5125);
    expect("invoices", 10, &[], 1114);
    expect("falling", 100, &[], -2179);
    expect("owned", 10, &[], 119);
    expect("unused", 1, &[], 1);
    assert_eq!(
        client.all::<String>(
            "SELECT grantee::text || ' ' || privilege FROM _hilo.privilege ORDER BY 1"
        ),
        ["\"Shop Reader\" SELECT", "public SELECT", "shop_clerk USAGE"]
    );
    assert_eq!(
        client.one::<String>("SELECT owner::text FROM hilo_sequences WHERE name = 'owned'"),
        "shop_owner"
    );
    client.run("INSERT INTO orders (customer) SELECT 'Grace' FROM generate_series(1, 100)");
    let key: String = client.one("INSERT INTO invoices DEFAULT VALUES RETURNING key");
    assert!(key.as_str() > "T-000114", "{key}");
}

/// The shop of 0.3.0 continues too: with what was free, behind all that was reserved, and never with what is leased.
pub fn assert_later_shop_serves_on(client: &mut Client) {
    let mut drawn = client.draw("orders", 300);
    drawn.sort_unstable();
    assert_eq!(drawn[0], 6207);
    assert!(drawn[1..21].iter().copied().eq(6308..=6327), "{drawn:?}");
    assert!(drawn[21..].iter().all(|value| *value > 6347), "{drawn:?}");
    for (name, next) in [("invoices", 1005), ("tickets", 85), ("falling", -364), ("goods", 83)] {
        assert_eq!(client.draw(name, 1), [next], "{name}");
    }
    client.run("INSERT INTO orders (customer) VALUES ('Grace'); INSERT INTO goods DEFAULT VALUES");
    let leases: Vec<String> =
        client.all("SELECT holder || ' ' || first || ' ' || last FROM hilo_leases ORDER BY 1");
    assert_eq!(leases, ["till 1 6208 6257", "till 2 6258 6297"]);
    let gaps: Vec<String> = client.all(
        "SELECT name || ' ' || first || ' ' || last || ' ' || reason FROM hilo_gaps
          WHERE name IN ('orders', 'gone', 'falling') ORDER BY 1",
    );
    assert_eq!(
        gaps,
        [
            "falling -4 -358 crash",
            "gone 6 90 crash",
            "orders 49 6200 crash",
            "orders 6328 6347 revoked"
        ]
    );
    assert_eq!(
        client.all::<String>("SELECT grantee || ' ' || pattern FROM hilo_default_privileges"),
        ["shop_clerk sho%"]
    );
    client.run("DROP TABLE goods");
    client.refusal("SELECT hilo_nextval('goods')").is("42704");
}

/// ALTER EXTENSION hilo UPDATE makes of a release's objects what a new database has, and its
/// sequences continue. It goes through the releases between one by one, or at once.
#[test]
fn an_upgraded_catalog_equals_a_fresh_one() {
    let all = ["0.2.0", "0.3.0", CURRENT];
    for (version, steps) in
        [(OLDEST, &[CURRENT][..]), (OLDEST, &all), ("0.2.0", &[CURRENT]), ("0.3.0", &[CURRENT])]
    {
        let cluster = cluster();
        let mut fresh = cluster.connect("postgres");
        fresh.run("CREATE EXTENSION hilo");
        let mut upgraded = shop_of(&cluster, version);
        for step in steps {
            upgraded.run(&format!("ALTER EXTENSION hilo UPDATE TO '{step}'"));
            assert_eq!(&extension_version(&mut upgraded), step);
        }
        upgraded.run("ALTER EXTENSION hilo UPDATE");
        assert_eq!(extension_version(&mut upgraded), CURRENT);
        assert_equal_objects(&objects(&mut fresh), &objects(&mut upgraded));
        match version {
            "0.3.0" => assert_later_shop_serves_on(&mut upgraded),
            _ => assert_serves_on(&mut upgraded),
        }
        cluster.finish();
    }
}

/// A lease of 0.3.0 on this server is returned after the update, and what it did not use is served again.
#[test]
fn a_lease_survives_the_update() {
    let cluster = cluster();
    let mut client = shop_of(&cluster, "0.3.0");
    // As the server that was dumped has it, rather than one to which it was restored.
    client.run(
        "UPDATE hilo.lease SET timeline = 1, system_id = (SELECT system_identifier FROM pg_control_system());
         UPDATE hilo.position SET incarnation = 0",
    );
    client.run("ALTER EXTENSION hilo UPDATE");
    let open = "FROM hilo_leases WHERE holder = 'till 1'";
    let renewed = format!("SELECT hilo_lease_renew(lease, '1 hour') IS NOT NULL {open}");
    assert!(client.one::<bool>(&renewed));
    let returned = format!("SELECT hilo_lease_return(lease, first + 10) {open}");
    assert_eq!(client.one::<i64>(&returned), 40);
    let filed = "SELECT NOT EXISTS (SELECT FROM _hilo.lease WHERE holder = 'till 1')";
    wait_until("it is filed", LONG, || client.one::<bool>(filed));
    let drawn = client.draw("orders", 300);
    assert!((6218..=6257).all(|value| drawn.contains(&value)), "{drawn:?}");
    assert!(!drawn.iter().any(|value| (6258..=6297).contains(value)), "{drawn:?}");
    cluster.finish();
}

/// The same where the extension lives in a schema of its own.
#[test]
fn an_upgraded_catalog_in_its_own_schema_equals_a_fresh_one() {
    let cluster = cluster();
    let create = "CREATE SCHEMA own; CREATE EXTENSION hilo SCHEMA own";
    let mut fresh = cluster.connect("postgres");
    fresh.run(create);
    let mut upgraded = cluster.connect("shop");
    upgraded.run(&format!("{create} VERSION '{OLDEST}'"));
    upgraded.run("ALTER EXTENSION hilo UPDATE");
    assert_equal_objects(&objects(&mut fresh), &objects(&mut upgraded));
    upgraded.run("SELECT own.hilo_create('orders'), own.hilo_nextval('orders')");
    cluster.finish();
}

/// The update leaves every row of the catalog as it was, and what an administrator has granted or revoked on the
/// extension's objects. Then nothing needs attention.
#[test]
fn rows_and_grants_survive_the_update() {
    for version in [OLDEST, "0.3.0"] {
        let cluster = cluster();
        let mut client = shop_of(&cluster, version);
        update_rows_and_grants(&mut client);
        match version {
            OLDEST => assert_serves_on(&mut client),
            _ => assert_later_shop_serves_on(&mut client),
        }
        assert!(!client.all::<String>("SELECT name FROM busy").is_empty());
        cluster.finish();
    }
}

fn update_rows_and_grants(client: &mut Client) {
    let queries: Vec<String> = client.all(
        "SELECT format('SELECT ROW(%s)::text FROM <schema>.%I ORDER BY 1',
                       string_agg(quote_ident(attname), ', ' ORDER BY attnum), relname)
           FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0
          WHERE relnamespace = 'hilo'::regnamespace AND relkind = 'r' GROUP BY relname",
    );
    let rows = |client: &mut Client, schema: &str| -> Vec<String> {
        let queries = queries.iter().map(|rows| rows.replace("<schema>", schema));
        queries.flat_map(|rows| client.all::<String>(&rows)).collect()
    };
    let before = rows(client, "hilo");
    assert!(before.len() > 20, "{before:?}");
    client.run(
        "REVOKE EXECUTE ON FUNCTION hilo_nextval FROM PUBLIC;
         GRANT EXECUTE ON FUNCTION hilo_nextval TO shop_clerk;
         REVOKE SELECT ON hilo_stat_sequences, hilo_sequences FROM PUBLIC;
         GRANT SELECT ON hilo_stat_sequences, hilo_sequences TO shop_owner;
         CREATE VIEW busy AS SELECT name, served FROM hilo_stat_sequences WHERE served > 0",
    );
    client.run("ALTER EXTENSION hilo UPDATE");
    assert_eq!(rows(client, "_hilo"), before);
    let granted: Vec<String> = client.all(
        "SELECT role FROM unnest(ARRAY['shop_clerk', 'shop_owner', 'Shop Reader']) role
          WHERE has_function_privilege(role, 'hilo_nextval(hilo_sequence)', 'EXECUTE')
         UNION ALL
         SELECT role || ' sees ' || seen FROM unnest(ARRAY['shop_clerk', 'shop_owner']) role,
                unnest(ARRAY['hilo_stat_sequences', 'hilo_sequences']) seen
          WHERE has_table_privilege(role, seen, 'SELECT') ORDER BY 1",
    );
    assert_eq!(
        granted,
        ["shop_clerk", "shop_owner sees hilo_sequences", "shop_owner sees hilo_stat_sequences"]
    );
    // The settings that make tests fast are not safe, and hilo_check says so.
    let findings = "SELECT what FROM hilo_check() WHERE severity <> 'note' AND what NOT LIKE 'with % = off, %'";
    assert_eq!(client.all::<String>(findings), [""; 0]);
}

/// Views and functions that use the older hilo_nextvals continue to work after the update, and in a dump of it.
/// A view on a function that the update has to replace stops it, by name, and nothing has changed.
#[test]
fn what_uses_older_functions_survives_the_update() {
    let cluster = cluster();
    let mut client = old_shop(&cluster);
    client.run(
        "CREATE VIEW batch AS SELECT hilo_nextvals('unused', 3) AS id;
         CREATE FUNCTION many(n integer) RETURNS SETOF bigint BEGIN ATOMIC SELECT hilo_nextvals('unused', n); END;
         CREATE FUNCTION late(n integer) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT hilo_nextvals(''unused'', n)';
         CREATE FUNCTION make() RETURNS void BEGIN ATOMIC SELECT hilo_create('made'); END",
    );
    let update = "ALTER EXTENSION hilo UPDATE";
    client.refusal(update).is("2BP01").says("hilo_create").details("function make()");
    assert_eq!(extension_version(&mut client), OLDEST);
    client.run(&format!("DROP FUNCTION make(); {update}"));
    let dump = cluster.pg_dump("shop", &[]);
    cluster.connect("postgres").run("CREATE DATABASE restored");
    cluster.restore("restored", &dump);
    for database in ["shop", "restored"] {
        let mut client = cluster.connect(database);
        let mut drawn = client.all::<i64>("SELECT id FROM batch");
        drawn.extend(client.all::<i64>("SELECT many(2)"));
        drawn.extend(client.all::<i64>("SELECT late(2)"));
        assert_eq!(drawn, [1, 2, 3, 4, 5, 6, 7], "{database}");
        client.refusal("SELECT many(-1)").is("22023");
    }
    cluster.finish();
}

/// A dump that an older release has made is restored into this one, although the tables have moved since.
#[test]
fn a_dump_of_an_older_release_is_restored() {
    for version in [OLDEST, "0.3.0"] {
        let cluster = cluster();
        cluster.restore("shop", &dump(version));
        let mut client = cluster.connect("shop");
        assert_eq!(extension_version(&mut client), CURRENT);
        match version {
            OLDEST => assert_serves_on(&mut client),
            _ => assert_later_shop_serves_on(&mut client),
        }
        cluster.finish();
    }
}

/// So it is by a client that prepares each COPY, as libraries do.
#[test]
fn a_dump_of_an_older_release_is_restored_by_prepared_statements() {
    for version in [OLDEST, "0.3.0"] {
        let cluster = cluster();
        let mut client = cluster.connect("shop");
        let dump = dump(version);
        let (mut statements, mut lines) = (Vec::new(), dump.lines());
        let mut copied = 0;
        while let Some(line) = lines.next() {
            if !line.starts_with("COPY ") {
                statements.push(line);
                continue;
            }
            client.run(&statements.join("\n"));
            statements.clear();
            let rows: Vec<&str> = lines.by_ref().take_while(|row| *row != "\\.").collect();
            let copy = client.prepare(line).expect("it is prepared");
            // A client may do so as often as it likes.
            for rows in [&rows[..], &[]] {
                let mut copy = client.copy_in(&copy).expect("it begins");
                for row in rows {
                    writeln!(copy, "{row}").expect("the row is sent");
                }
                copied += copy.finish().expect("it ends");
            }
        }
        client.run(&statements.join("\n"));
        assert!(copied > 20, "{copied}");
        let mut client = cluster.connect("shop");
        match version {
            OLDEST => assert_serves_on(&mut client),
            _ => assert_later_shop_serves_on(&mut client),
        }
        cluster.finish();
    }
}

/// One that consists of INSERTs is restored into the objects of that release, which are then updated.
#[test]
fn a_dump_of_inserts_is_restored_into_objects_of_its_version() {
    let cluster = cluster();
    drop(shop_of(&cluster, "0.3.0"));
    let dump = cluster.pg_dump("shop", &["--inserts"]);
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE DATABASE restored");
    let mut client = cluster.connect("restored");
    client.run("CREATE EXTENSION hilo VERSION '0.3.0'");
    cluster.restore("restored", &dump);
    client.run("ALTER EXTENSION hilo UPDATE");
    assert_later_shop_serves_on(&mut client);
    cluster.finish();
}

/// A server that publishes hilo's tables and its subscriber, both with the objects of a version.
fn older_servers(version: &str) -> (Cluster, Cluster) {
    let older = || {
        let cluster = Cluster::builder().preload(true).logical().own_identity().start();
        cluster.connect("postgres").run(&format!("CREATE EXTENSION hilo VERSION '{version}'"));
        cluster
    };
    let (publisher, subscriber) = (older(), older());
    let tables = "hilo.sequence, hilo.position, hilo.privilege";
    publisher.connect("postgres").run(&format!("CREATE PUBLICATION own FOR TABLE {tables}"));
    subscriber.subscribe("own", &publisher, "own", "");
    (publisher, subscriber)
}

fn upgrade(cluster: &Cluster) {
    cluster.connect("postgres").run("ALTER EXTENSION hilo UPDATE");
}

/// Servers that replicate hilo's tables are upgraded one after the other, in whatever order, when nothing is on its way.
/// Replication may stop in between; once both are upgraded, it continues by itself, and nothing is left out.
#[test]
fn replication_continues_when_both_servers_are_upgraded() {
    for (version, publisher_first) in
        [("0.2.0", true), ("0.2.0", false), ("0.3.0", true), ("0.3.0", false)]
    {
        let (publisher, subscriber) = older_servers(version);
        if !publisher_first {
            upgrade(&subscriber);
        }
        upgrade(&publisher);
        publisher.connect("postgres").run("SELECT hilo_create('orders'), hilo_nextval('orders')");
        if publisher_first {
            upgrade(&subscriber);
        }
        publisher.wait_for_apply("own");
        let positions = "SELECT max_reserved FROM hilo_sequences WHERE name = 'orders'";
        let arrived: Vec<Option<i64>> = subscriber.connect("postgres").all(positions);
        assert!(matches!(arrived[..], [Some(_)]), "{arrived:?}");
        subscriber.finish();
        publisher.finish();
    }
}

/// Rows that an older server has sent find no table on an upgraded one. The tables go back to where the rows look for
/// them, until these have arrived.
#[test]
fn rows_of_an_older_server_arrive_late() {
    let (publisher, subscriber) = older_servers("0.3.0");
    let mut there = publisher.connect("postgres");
    let mut here = subscriber.connect("postgres");
    let waits = |here: &mut Client, errors: i64| {
        let failed = format!("SELECT apply_error_count > {errors} FROM pg_stat_subscription_stats");
        wait_until("the subscription waits", LONG, || here.one::<bool>(&failed));
    };
    let move_to = |here: &mut Client, schema: &str| {
        let tables: Vec<String> = here.all(
            "SELECT unnest(extconfig)::regclass::text FROM pg_extension WHERE extname = 'hilo'",
        );
        for table in tables {
            here.run(&format!("ALTER TABLE {table} SET SCHEMA {schema}"));
        }
    };
    upgrade(&subscriber);
    there.run(
        "INSERT INTO hilo.sequence (id, name, data_type, start_value, increment, min_value, max_value, cycle, ordered,
                                    owner, created_at)
           VALUES (7, 'late', 'bigint', 1, 1, 1, 1000000, false, false, 'postgres', now());
         INSERT INTO hilo.position VALUES (7, 0, 1, 1, 500, 500, 0, 1, 1024, 0, 1, 0)",
    );
    waits(&mut here, 0);
    move_to(&mut here, "hilo");
    publisher.wait_for_apply("own");
    let arrived = "SELECT max_reserved FROM hilo_sequences WHERE name = ";
    assert_eq!(here.all::<Option<i64>>(&format!("{arrived}'late'")), [Some(500)]);
    upgrade(&publisher);
    let errors: i64 = here.one("SELECT apply_error_count FROM pg_stat_subscription_stats");
    there.run("SELECT hilo_create('orders'), hilo_nextval('orders')");
    waits(&mut here, errors);
    move_to(&mut here, "_hilo");
    publisher.wait_for_apply("own");
    let orders: Vec<Option<i64>> = here.all(&format!("{arrived}'orders'"));
    assert!(matches!(orders[..], [Some(_)]), "{orders:?}");
    subscriber.finish();
    publisher.finish();
}
