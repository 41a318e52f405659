//! A default with hilo works wherever one with core's nextval works.

use std::fs;
use std::io::Write;

use hilo_tests::{Client, ClientExt, Cluster};

fn shop(cluster: &Cluster) -> Client {
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders');
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), note text)",
    );
    client
}

/// COPY, INSERT … SELECT, ON CONFLICT, MERGE and an explicit DEFAULT all take it.
#[test]
fn statements() {
    let cluster = Cluster::with_hilo();
    let mut client = shop(&cluster);
    let mut copy = client.copy_in("COPY orders (note) FROM STDIN").unwrap();
    for n in 0..1_000 {
        writeln!(copy, "copied {n}").unwrap();
    }
    assert_eq!(copy.finish().unwrap(), 1_000);
    client.run(
        "INSERT INTO orders (note) SELECT 'selected' FROM generate_series(1, 1000);
         INSERT INTO orders VALUES (DEFAULT, 'explicit'), (DEFAULT, 'explicit');
         INSERT INTO orders (note) VALUES ('upserted') ON CONFLICT (id) DO NOTHING;
         MERGE INTO orders USING (SELECT 'merged' AS note) new ON orders.note = new.note
             WHEN NOT MATCHED THEN INSERT (note) VALUES (new.note);
         UPDATE orders SET id = DEFAULT WHERE note = 'explicit';
         ALTER TABLE orders ADD COLUMN other bigint NOT NULL DEFAULT hilo_nextval('orders')",
    );
    assert_eq!(
        client.one::<i64>(
            "SELECT count(DISTINCT n) FROM (SELECT id FROM orders UNION ALL SELECT other FROM orders) all_values (n)"
        ),
        2 * 2_004
    );
}

/// Partitioned tables, tables that inherit, and tables made LIKE another.
#[test]
fn tables_of_tables() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('parts');
         CREATE TABLE parts (id bigint DEFAULT hilo_nextval('parts'), region integer)
             PARTITION BY LIST (region);
         CREATE TABLE part_one PARTITION OF parts FOR VALUES IN (1);
         CREATE TABLE part_two PARTITION OF parts FOR VALUES IN (2);
         CREATE TABLE alike (LIKE parts INCLUDING DEFAULTS);
         CREATE TABLE heir () INHERITS (alike);
         INSERT INTO parts (region) SELECT n % 2 + 1 FROM generate_series(1, 500) n;
         INSERT INTO part_one (region) VALUES (1);
         INSERT INTO alike (region) VALUES (7);
         INSERT INTO heir (region) VALUES (8)",
    );
    let ids: Vec<i64> =
        client.all("SELECT id FROM parts UNION ALL SELECT id FROM alike ORDER BY 1");
    assert_eq!(ids, (1..=503).collect::<Vec<_>>());
}

/// Triggers, PL/pgSQL, SQL functions, views and rules.
#[test]
fn code() {
    let cluster = Cluster::with_hilo();
    let mut client = shop(&cluster);
    client.run(
        "SELECT hilo_create('audit');
         CREATE TABLE audit (id bigint DEFAULT hilo_nextval('audit'), order_id bigint);
         CREATE FUNCTION write_audit() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO audit (order_id) VALUES (NEW.id);
             RETURN NEW;
         END $$;
         CREATE TRIGGER audit AFTER INSERT ON orders
             FOR EACH ROW EXECUTE FUNCTION write_audit();
         CREATE FUNCTION number_it() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             NEW.id := hilo_nextval('orders');
             RETURN NEW;
         END $$;
         CREATE VIEW orders_view AS SELECT * FROM orders;
         DO $$
         DECLARE
             sequence text := 'orders';
             last bigint := 0;
             next bigint;
         BEGIN
             FOR n IN 1..500 LOOP
                 next := hilo_nextval(sequence);
                 IF next <= last THEN RAISE EXCEPTION '% after %', next, last; END IF;
                 last := next;
                 BEGIN
                     INSERT INTO orders (note) VALUES ('looped');
                     IF n % 5 = 0 THEN RAISE EXCEPTION 'no'; END IF;
                 EXCEPTION WHEN raise_exception THEN NULL;
                 END;
             END LOOP;
         END $$;
         INSERT INTO orders_view (note) VALUES ('through a view')",
    );
    assert_eq!(client.one::<i64>("SELECT count(*) FROM orders"), 401);
    assert_eq!(client.one::<i64>("SELECT count(DISTINCT id) FROM audit"), 401);
    client.run(
        "CREATE TRIGGER number_it BEFORE INSERT ON orders
             FOR EACH ROW EXECUTE FUNCTION number_it();
         INSERT INTO orders SELECT 0, 'numbered' FROM generate_series(1, 10)",
    );
    assert_eq!(client.one::<i64>("SELECT count(DISTINCT id) FROM orders"), 411);
}

/// A prepared statement notices what happens to the sequence, in a custom and a generic plan. The
/// name is a constant or a parameter.
#[test]
fn prepared_statements() {
    let cluster = Cluster::with_hilo();
    let mut client = shop(&cluster);
    client.run("SELECT hilo_create('other', start_value => 1000)");
    for mode in ["force_custom_plan", "force_generic_plan"] {
        client.run(&format!(
            "DEALLOCATE ALL;
             SET plan_cache_mode = {mode};
             SELECT hilo_setval('orders', 1, false), hilo_setval('other', 1000, false);
             PREPARE fixed AS SELECT hilo_nextval('orders');
             PREPARE given (text) AS SELECT hilo_nextval($1)"
        ));
        for n in 0..20 {
            assert_eq!(client.one::<i64>("EXECUTE fixed"), 2 * n + 1);
            assert_eq!(client.one::<i64>("EXECUTE given ('orders')"), 2 * n + 2);
            assert_eq!(client.one::<i64>("EXECUTE given ('other')"), 1000 + n);
        }
        client.run("SELECT hilo_setval('orders', 5000)");
        assert_eq!(client.one::<i64>("EXECUTE fixed"), 5001);
    }
}

/// An integer and a smallint column take the default, and what does not fit is refused by them as
/// core's is.
#[test]
fn narrow_columns() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('narrow', data_type => 'integer'), hilo_create('wide');
         CREATE TABLE narrow (id integer DEFAULT hilo_nextval('narrow'),
                              tiny smallint DEFAULT hilo_nextval('wide'));
         INSERT INTO narrow DEFAULT VALUES;
         INSERT INTO narrow DEFAULT VALUES",
    );
    assert_eq!(client.all::<i32>("SELECT id FROM narrow ORDER BY id"), [1, 2]);
    client.run("SELECT hilo_setval('wide', 32767)");
    client.refusal("INSERT INTO narrow DEFAULT VALUES").is("22003").says("smallint out of range");
    client.run("SELECT hilo_setval('narrow', 2147483646)");
    client.run("INSERT INTO narrow (tiny) VALUES (0)");
    client.refusal("INSERT INTO narrow (tiny) VALUES (0)").is("2200H").says("2147483647");
}

/// Millions of rows through a column default leak no memory: the backend's peak does not grow with
/// their number. `HILO_ROWS=10000000` makes it ten million.
#[test]
fn millions_of_rows_leak_nothing() {
    let rows: usize = std::env::var("HILO_ROWS").map_or(3_000_000, |rows| rows.parse().unwrap());
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('many');
         CREATE UNLOGGED TABLE many (id bigint DEFAULT hilo_nextval('many'), n integer)",
    );
    let pid = client.backend_pid();
    let mut peak_after = |rows: usize| {
        client.run(&format!("INSERT INTO many (n) SELECT n FROM generate_series(1, {rows}) n"));
        peak_memory(pid)
    };
    // The first rows, of more than its size, also touch all shared buffers, and load what a backend loads once.
    let few = peak_after(600_000);
    let many = peak_after(rows);
    assert!(many < few + (4 << 20), "{many} bytes after {rows} rows, {few} before");
    assert_eq!(client.one::<i64>("SELECT max(id) FROM many"), rows as i64 + 600_000);
}

/// The most memory that a process ever had resident, in bytes.
fn peak_memory(pid: i32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}
