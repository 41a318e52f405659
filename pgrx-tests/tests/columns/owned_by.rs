//! A column can own a sequence, as it can own one of core's: the sequence follows the column and its table.

use hilo_tests::{Client, ClientExt, Cluster, Refusal};

fn cluster() -> (Cluster, Client) {
    let cluster = Cluster::builder().start_with_hilo();
    let client = cluster.connect("postgres");
    (cluster, client)
}

fn names(client: &mut Client) -> Vec<String> {
    client.all("SELECT name::text FROM hilo_sequences ORDER BY 1")
}

fn owner_column(client: &mut Client, name: &str) -> Option<String> {
    let sql = "SELECT owned_by FROM hilo_sequences WHERE name = $1::text";
    client.query_one(sql, &[&name]).expect("it exists").get(0)
}

const TABLE: &str =
    "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), item text)";

/// The sequence is dropped with its column, its table or its schema, with the transaction, and with nothing
/// else. A rollback keeps it, and it serves what it would have served.
#[test]
fn it_is_dropped_with_its_column() {
    let (cluster, mut client) = cluster();
    for (drop, stays) in [
        ("DROP TABLE shop.orders", false),
        ("ALTER TABLE shop.orders DROP COLUMN id", false),
        ("DROP SCHEMA shop CASCADE", false),
        ("DROP OWNED BY CURRENT_USER CASCADE", false),
        ("ALTER TABLE shop.orders DROP COLUMN item", true),
    ] {
        client.run("CREATE ROLE seller; CREATE SCHEMA shop AUTHORIZATION seller; GRANT CREATE ON SCHEMA public TO seller; GRANT INSERT ON hilo_sequences TO seller");
        client.run("SET ROLE seller; SET search_path = shop, public");
        client.run("SELECT hilo_create('orders')");
        client.run(TABLE);
        client.run("SELECT hilo_alter('orders', owned_by => 'orders.id')");
        assert_eq!(owner_column(&mut client, "orders").as_deref(), Some("shop.orders.id"));
        let first = client.one::<i64>("INSERT INTO orders DEFAULT VALUES RETURNING id");
        client.run(&format!("BEGIN; {drop}; ROLLBACK"));
        let next = client.one::<i64>("INSERT INTO orders DEFAULT VALUES RETURNING id");
        assert_eq!(next, first + 1, "{drop}");
        client.run(&format!("BEGIN; SAVEPOINT a; {drop}; ROLLBACK TO a; COMMIT"));
        let next = client.one::<i64>("INSERT INTO orders DEFAULT VALUES RETURNING id");
        assert_eq!(next, first + 2, "{drop}");
        client.run(drop);
        assert_eq!(names(&mut client).is_empty(), !stays, "{drop}");
        client.run("RESET ROLE; RESET search_path; DROP OWNED BY seller CASCADE; DROP SCHEMA IF EXISTS shop CASCADE; DROP ROLE seller");
        assert!(names(&mut client).is_empty());
    }
    cluster.finish();
}

/// A default of another table prevents the drop, as with a core sequence, and goes with CASCADE. Tables that
/// are dropped together need no CASCADE.
#[test]
fn another_default_prevents_the_drop() {
    let (cluster, mut client) = cluster();
    let prepare = |client: &mut Client| {
        client.run("SELECT hilo_create('orders')");
        client.run(TABLE);
        client.run("SELECT hilo_alter('orders', owned_by => 'orders.id')");
        client.run("CREATE TABLE copy (LIKE orders INCLUDING ALL)");
    };
    prepare(&mut client);
    for drop in ["DROP TABLE orders", "ALTER TABLE orders DROP COLUMN id"] {
        let refusal = client.refusal(drop).is("2BP01").details(
            "default value for column id of table copy depends on hilo sequence \"orders\"",
        );
        assert_eq!(names(&mut client), ["orders"]);
        // The HINT names the call that lets the copy keep its default.
        let hint = refusal.report().hint().unwrap_or_default();
        let call = hint.split_once(": ").and_then(|(_, call)| call.split_once(';'));
        client.run(&format!("BEGIN; {}; {drop}", call.expect("it names a call").0));
        client.run("INSERT INTO copy DEFAULT VALUES; ROLLBACK");
    }
    client.run("INSERT INTO orders DEFAULT VALUES; INSERT INTO copy DEFAULT VALUES");
    client.run("DROP TABLE orders CASCADE");
    assert!(names(&mut client).is_empty());
    client.refusal("INSERT INTO copy DEFAULT VALUES").is("23502");
    client.run("DROP TABLE copy");
    prepare(&mut client);
    client.run("DROP TABLE orders, copy");
    assert!(names(&mut client).is_empty());
    prepare(&mut client);
    client.run("SELECT hilo_alter('orders', owned_by => 'none')");
    client.run("DROP TABLE orders");
    assert_eq!(names(&mut client), ["orders"]);
    cluster.finish();
}

/// A drop with CASCADE names each default of another table that goes with the column. So does core for its sequences.
#[test]
fn a_default_that_cascade_takes_is_named() {
    let cluster = Cluster::builder().start_with_hilo();
    let (mut client, heard) = cluster.connect_listening("postgres", "postgres");
    client.run("CREATE ROLE seller; GRANT INSERT ON hilo_sequences TO seller");
    for drop in [
        "DROP TABLE shop.orders CASCADE",
        "ALTER TABLE shop.orders DROP COLUMN id CASCADE",
        "DROP DOMAIN shop.number CASCADE",
        "DROP SCHEMA shop CASCADE",
        "DROP OWNED BY seller CASCADE",
    ] {
        let mut named = |adopt: bool| {
            client.run(
                "CREATE SCHEMA shop AUTHORIZATION seller; SET ROLE seller; CREATE DOMAIN shop.number AS bigint;
                 CREATE SEQUENCE shop.counted; CREATE TABLE shop.orders (id shop.number DEFAULT nextval('shop.counted'));
                 ALTER SEQUENCE shop.counted OWNED BY shop.orders.id; RESET ROLE",
            );
            if adopt {
                client.run("SELECT hilo_adopt('shop.orders', 'id')");
            }
            client.run("CREATE TABLE copy (LIKE shop.orders INCLUDING ALL)");
            // The domain would take the column of the copy.
            client.run("ALTER TABLE copy ALTER id TYPE bigint");
            heard.take();
            client.run(drop);
            let reports = heard.take();
            let texts = reports
                .iter()
                .map(|report| [report.message(), report.detail().unwrap_or_default()].join("\n"));
            let texts = texts.collect::<Vec<_>>().join("\n");
            assert!(client.one::<bool>("INSERT INTO copy DEFAULT VALUES RETURNING id IS NULL"));
            client.run("DROP TABLE copy; DROP SCHEMA IF EXISTS shop CASCADE");
            texts
                .lines()
                .filter(|line| line.contains("default value"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let core = named(false);
        assert_eq!(core, ["drop cascades to default value for column id of table copy"], "{drop}");
        assert_eq!(named(true), core, "{drop}");
    }
    cluster.finish();
}

/// TRUNCATE … RESTART IDENTITY restarts the sequences of all tables that it empties, in its transaction;
/// TRUNCATE alone does not.
#[test]
fn truncate_restarts_it() {
    let (cluster, mut client) = cluster();
    client.run("CREATE TABLE parent (id bigint PRIMARY KEY)");
    client.run("CREATE TABLE child (id bigint PRIMARY KEY, parent bigint REFERENCES parent)");
    client.run("CREATE TABLE heir () INHERITS (parent)");
    for table in ["parent", "child", "heir"] {
        client.run(&format!(
            "SELECT hilo_create('{table}', start_value => 7, owned_by => '{table}.id')"
        ));
    }
    client.run("SELECT hilo_create('free', start_value => 7)");
    let next = |client: &mut Client| -> Vec<i64> {
        ["parent", "child", "heir", "free"]
            .map(|name| client.one(&format!("SELECT hilo_nextval('{name}')")))
            .to_vec()
    };
    assert_eq!(next(&mut client), [7, 7, 7, 7]);
    client.run("TRUNCATE parent, child");
    assert_eq!(next(&mut client), [8, 8, 8, 8]);
    client.run("BEGIN; TRUNCATE parent RESTART IDENTITY CASCADE");
    assert_eq!(next(&mut client), [7, 7, 7, 9]);
    client.run("ROLLBACK");
    assert_eq!(next(&mut client), [9, 9, 9, 10]);
    client.run("TRUNCATE ONLY parent RESTART IDENTITY CASCADE");
    assert_eq!(next(&mut client), [7, 7, 10, 11]);
    client.run("TRUNCATE child RESTART IDENTITY");
    assert_eq!(next(&mut client), [8, 7, 11, 12]);
    // As in core, only the owner of the sequence restarts it.
    client.run("CREATE ROLE helper; GRANT TRUNCATE ON child TO helper; SET ROLE helper");
    client.run("TRUNCATE child");
    client.refusal("TRUNCATE child RESTART IDENTITY").is("42501");
    client.run("RESET ROLE");
    assert_eq!(next(&mut client), [9, 8, 12, 13]);
    cluster.finish();
}

/// The sequence is found again after its table and column were renamed and moved, and has the table's owner.
#[test]
fn it_follows_its_table() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('orders')");
    client.run(TABLE);
    client.run("SELECT hilo_alter('orders', owned_by => 'public.orders.id')");
    client.run("CREATE SCHEMA \"The Shop\"; ALTER TABLE orders RENAME TO \"Orders\"");
    client.run("ALTER TABLE \"Orders\" RENAME COLUMN id TO \"Id\"; ALTER TABLE \"Orders\" SET SCHEMA \"The Shop\"");
    assert_eq!(
        owner_column(&mut client, "orders").as_deref(),
        Some("\"The Shop\".\"Orders\".\"Id\"")
    );
    client.run("CREATE ROLE seller; ALTER TABLE \"The Shop\".\"Orders\" OWNER TO seller");
    let owner = "SELECT owner::text FROM hilo_sequences";
    assert_eq!(client.one::<String>(owner), "seller");
    client
        .refusal("SELECT hilo_set_owner('orders', 'postgres')")
        .is("0A000")
        .details("\"The Shop\".\"Orders\".\"Id\"");
    client.run("REASSIGN OWNED BY seller TO CURRENT_USER");
    assert_eq!(client.one::<String>(owner), client.one::<String>("SELECT current_user::text"));
    client.run("DROP ROLE seller; DROP TABLE \"The Shop\".\"Orders\"");
    assert!(names(&mut client).is_empty());
    cluster.finish();
}

/// A column that cannot own a sequence is refused, with nothing changed.
#[test]
fn what_cannot_own_a_sequence() {
    let (cluster, mut client) = cluster();
    client.run("CREATE TABLE t (id bigint); CREATE VIEW v AS SELECT id FROM t; CREATE TEMP TABLE temporary (id bigint)");
    client.run("SELECT hilo_create('s')");
    for (column, sqlstate) in [
        ("t.other", "42703"),
        ("t.ctid", "42703"),
        ("nothing.id", "42P01"),
        ("nowhere.t.id", "3F000"),
        ("v.id", "42809"),
        ("temporary.id", "42809"),
        ("t", "22023"),
        ("a.b.c.d", "22023"),
        ("", "22023"),
        ("t.", "22023"),
    ] {
        for call in [
            format!("hilo_alter('s', owned_by => '{column}')"),
            format!("hilo_create('new', owned_by => '{column}')"),
        ] {
            let refusal: Refusal = client.refusal(&format!("SELECT {call}"));
            refusal.is(sqlstate);
        }
    }
    client.run("CREATE ROLE seller; GRANT CREATE ON SCHEMA public TO seller; GRANT INSERT ON hilo_sequences TO seller; SET ROLE seller");
    client.refusal("SELECT hilo_create('new', owned_by => 't.id')").is("42501");
    client.run("CREATE TABLE hers (id bigint); RESET ROLE");
    client.refusal("SELECT hilo_create('new', owned_by => 'hers.id')").is("55000");
    assert_eq!(names(&mut client), ["s"]);
    assert_eq!(owner_column(&mut client, "s"), None);
    cluster.finish();
}

/// A dump brings the owner column back by its name; where that is missing, the sequence comes without.
#[test]
fn it_is_dumped_and_restored() {
    let (cluster, mut client) = cluster();
    client.run("CREATE SCHEMA shop; CREATE TABLE shop.gone (x int, id bigint); ALTER TABLE shop.gone DROP COLUMN x");
    client.run("CREATE TABLE shop.kept (x int, id bigint); ALTER TABLE shop.kept DROP COLUMN x");
    client.run("SELECT hilo_create('gone', owned_by => 'shop.gone.id'), hilo_create('kept', owned_by => 'shop.kept.id')");
    client.run("CREATE DATABASE copy");
    cluster.restore("copy", &cluster.pg_dump("postgres", &["--exclude-table=shop.gone"]));
    let mut copy = cluster.connect("copy");
    assert_eq!(names(&mut copy), ["gone", "kept"]);
    assert_eq!(owner_column(&mut copy, "gone"), None);
    assert_eq!(owner_column(&mut copy, "kept").as_deref(), Some("shop.kept.id"));
    copy.run("DROP TABLE shop.kept");
    assert_eq!(names(&mut copy), ["gone"]);
    assert_eq!(names(&mut client), ["gone", "kept"]);
    cluster.finish();
}

/// CASCADE counts for the statement that says it, whatever an event trigger does meanwhile.
#[test]
fn statements_within_statements() {
    let (cluster, mut client) = cluster();
    client.run("CREATE TABLE temporary (x int); CREATE FUNCTION f() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN IF current_setting('test.kind') = 'cascade' THEN DROP TABLE IF EXISTS nothing CASCADE; ELSE CREATE TABLE IF NOT EXISTS temporary (x int); END IF; END $$");
    client.run("SET client_min_messages = error; SET test.kind = ''; CREATE EVENT TRIGGER e ON sql_drop EXECUTE FUNCTION f()");
    let prepare = |client: &mut Client| {
        client.run("SELECT hilo_create('orders')");
        client.run(TABLE);
        client.run("SELECT hilo_alter('orders', owned_by => 'orders.id'); CREATE TABLE copy (LIKE orders INCLUDING ALL)");
    };
    prepare(&mut client);
    client.run("SET test.kind = 'cascade'");
    client.refusal("DROP TABLE orders").is("2BP01");
    client.run("SET test.kind = ''; DROP TABLE orders CASCADE");
    assert!(names(&mut client).is_empty());
    client.run("DROP TABLE copy");
    prepare(&mut client);
    client.run("DO $$ BEGIN BEGIN DROP TABLE orders; EXCEPTION WHEN OTHERS THEN NULL; END; DROP TABLE temporary; END $$");
    assert_eq!(names(&mut client), ["orders"]);
    client.run("DO $$ BEGIN BEGIN DROP TABLE orders CASCADE; RAISE 'no'; EXCEPTION WHEN OTHERS THEN NULL; END; END $$");
    client.run("INSERT INTO orders DEFAULT VALUES; INSERT INTO copy DEFAULT VALUES");
    cluster.finish();
}

/// Statements about tables, roles and other objects that have nothing to do with hilo, in the order
/// in which they can run.
const OF_OTHERS: &str = "
    CREATE TABLE a (id serial PRIMARY KEY, x int)
    CREATE TABLE b (id bigint GENERATED ALWAYS AS IDENTITY, x int REFERENCES a)
    CREATE TABLE c (LIKE a INCLUDING ALL)
    CREATE TABLE d AS SELECT * FROM a
    CREATE TABLE p (id serial, x int) PARTITION BY RANGE (x)
    CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)
    CREATE UNLOGGED TABLE u (x int)
    CREATE TEMP TABLE t (x int)
    CREATE SEQUENCE s OWNED BY d.x
    CREATE VIEW v AS SELECT * FROM a
    CREATE MATERIALIZED VIEW m AS SELECT * FROM a
    CREATE INDEX i ON a (x)
    CREATE SCHEMA o CREATE TABLE a (id serial)
    CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'
    CREATE ROLE clerk
    CREATE ROLE other
    INSERT INTO a (x) VALUES (1)
    GRANT ALL ON a, b TO clerk
    COMMENT ON TABLE a IS 'x'
    ALTER TABLE d ADD COLUMN y int DEFAULT 1
    ALTER TABLE d ALTER x TYPE bigint
    ALTER TABLE d DROP COLUMN y
    ALTER TABLE c ALTER id DROP DEFAULT
    ALTER TABLE c RENAME TO e
    ALTER TABLE e SET SCHEMA o
    ALTER TABLE d OWNER TO clerk
    ALTER TABLE u SET LOGGED
    ALTER TABLE p DETACH PARTITION p1
    REFRESH MATERIALIZED VIEW m
    CLUSTER a USING i
    REINDEX TABLE a
    TRUNCATE d
    TRUNCATE a RESTART IDENTITY CASCADE
    REASSIGN OWNED BY clerk TO CURRENT_USER
    DROP OWNED BY clerk
    DROP ROLE clerk, other
    DROP INDEX i
    DROP MATERIALIZED VIEW m
    DROP VIEW v
    DROP FUNCTION f
    ALTER TABLE d DROP COLUMN x
    DROP TABLE b, d, p, p1, u, t
    DROP SCHEMA o CASCADE
    DROP TABLE a CASCADE";

/// Whoever creates, alters, rewrites or drops what is nobody's of hilo's ends with no lock on
/// hilo's tables. He waits for nobody who writes to them.
#[test]
fn the_statements_of_others_lock_nothing_of_hilos() {
    let (cluster, mut client) = cluster();
    client.run("CREATE TABLE mine (id bigserial); SELECT hilo_adopt('mine', 'id'); CREATE TABLE released (id bigserial); SELECT hilo_adopt('released', 'id')");
    cluster.connect("postgres").draw("released_id_seq", 20);
    client.run("SELECT hilo_release('released', 'id')");
    let of_hilo = "FROM pg_class c WHERE relnamespace = '_hilo'::regnamespace AND relkind = 'r'";
    let mut writer = cluster.connect("postgres");
    let tables: String =
        writer.one(&format!("SELECT string_agg(oid::regclass::text, ', ') {of_hilo}"));
    writer.run(&format!("BEGIN; LOCK TABLE {tables} IN EXCLUSIVE MODE"));
    client.run("SET lock_timeout = '10s'; BEGIN");
    for statement in OF_OTHERS.trim().lines() {
        client.run(statement);
        let held: Vec<String> = client.all(&format!("SELECT relname || ' ' || mode {of_hilo_locks}", of_hilo_locks =
            "FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE l.pid = pg_backend_pid() AND relnamespace = '_hilo'::regnamespace"));
        assert!(held.is_empty(), "{statement}: {held:?}");
    }
    client.run("COMMIT; CREATE TABLE d (x int)");
    client.run("VACUUM FULL d");
    writer.run("ROLLBACK");
    // A table that was hilo's does.
    client.run("DROP TABLE released");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}
