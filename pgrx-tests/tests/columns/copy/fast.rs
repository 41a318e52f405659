//! Which defaults are fast.

use super::*;

const ROWS: u64 = 20_000;

/// The WAL for a COPY of some rows into a table whose column `id` has this type and default. The
/// sequence has its blocks before. Every sequence starts again, so that keys are equally long.
fn wal_of(client: &mut Client, column: &str) -> f64 {
    client.run(
        "SELECT hilo_setval(name, 1, false) FROM hilo_sequences; SELECT setval('core', 1, false)",
    );
    client.run(&format!("CREATE TABLE loaded (id {column}, v integer)"));
    copy(client, "loaded (v)", 1..=1000);
    let wal =
        wal(client, |client| assert_eq!(copy(client, "loaded (v)", 1001..=ROWS), ROWS - 1000));
    assert_eq!(client.one::<i64>("SELECT count(DISTINCT id) FROM loaded"), ROWS as i64, "{column}");
    client.run("DROP TABLE loaded");
    wal
}

/// Every default that draws from hilo writes the WAL that core's writes with CACHE 1000, whatever
/// casts the number, and wherever the name comes from. Rows are inserted many at a time.
#[test]
fn every_default_is_as_fast_as_core_s() {
    let cluster = cluster();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SEQUENCE core CACHE 1000;
         SELECT hilo_create('s'), hilo_create('o', ordered => true), hilo_create('k');
         SELECT hilo_create('for-' || current_user), hilo_create('d');
         CREATE FUNCTION next() RETURNS bigint LANGUAGE sql AS 'SELECT hilo_nextval(''s'')';
         CREATE DOMAIN number AS bigint DEFAULT hilo_nextval('d') CHECK (VALUE > 0)",
    );
    let long = wal_of(&mut client, "bigint DEFAULT nextval('core')");
    let narrow = wal_of(&mut client, "integer DEFAULT nextval('core')");
    let key = wal_of(&mut client, "text DEFAULT 'k/' || nextval('core')");
    let defaults = [
        ("bigint DEFAULT hilo_nextval('s')", long),
        ("bigint DEFAULT hilo_nextval('s'::text)", long),
        ("bigint DEFAULT hilo_nextval('for-' || current_user)", long),
        ("bigint DEFAULT hilo_nextval_always('s')", long),
        ("bigint DEFAULT hilo_nextval('o')", long),
        ("bigint DEFAULT next()", long),
        ("bigint DEFAULT 1000 + hilo_nextval('s') * 2", long),
        ("number", long),
        ("integer DEFAULT hilo_nextval('s')", narrow),
        ("integer DEFAULT hilo_nextval('s')::integer", narrow),
        ("text DEFAULT hilo_nextkey('k')", key),
        ("varchar(40) DEFAULT hilo_nextkey('k')", key),
        ("text DEFAULT 'k/' || hilo_nextval('s')", key),
    ];
    for (column, core) in defaults {
        let before = twins(&mut client);
        let ours = wal_of(&mut client, column);
        assert!(ours <= core * 1.05, "{column}: {ours} bytes of WAL, core {core}");
        assert_eq!(twins(&mut client) - before, ROWS as i64, "{column}");
    }
    cluster.finish();
}

/// A volatile default besides the number keeps COPY at one row at a time, as in core: such a
/// default may read the table.
#[test]
fn other_volatile_functions_see_each_row_before_the_next() {
    let cluster = cluster();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s'), hilo_create('names'), hilo_create('t0'), hilo_create('t1');
         CREATE TABLE loaded (v integer);
         CREATE FUNCTION rows() RETURNS bigint VOLATILE LANGUAGE sql AS 'SELECT count(*) FROM loaded';
         CREATE FUNCTION parity() RETURNS hilo_sequence VOLATILE LANGUAGE plpgsql AS
             $$ BEGIN RETURN 't' || rows() % 2; END $$;
         CREATE FUNCTION numbered() RETURNS bigint VOLATILE LANGUAGE plpgsql AS
             $$ BEGIN RETURN hilo_nextval('s') * 1000 + rows(); END $$",
    );
    // The default, and what it is in the row that counts as `v` from 0.
    let defaults = [
        ("hilo_nextval('s') * 1000 + rows()", "(v + 1) * 1000 + v"),
        ("numbered()", "(v + 1) * 1000 + v"),
        ("hilo_nextval(parity())", "v / 2 + 1"),
    ];
    for (default, expected) in defaults {
        client.run(&format!(
            "SELECT hilo_setval('s', 1, false), hilo_setval('t0', 1, false), hilo_setval('t1', 1, false);
             ALTER TABLE loaded ADD COLUMN id bigint;
             ALTER TABLE loaded ALTER COLUMN id SET DEFAULT {default}"
        ));
        copy(&mut client, "loaded (v)", 0..3000);
        let wrong = format!("SELECT count(*) FROM loaded WHERE id IS DISTINCT FROM {expected}");
        assert_eq!(client.one::<i64>(&wrong), 0, "{default}");
        client.run("TRUNCATE loaded; ALTER TABLE loaded DROP COLUMN id");
    }
    // Beside a default that is fast on its own.
    client.run(
        "ALTER TABLE loaded ADD COLUMN id bigint, ADD COLUMN n bigint;
         ALTER TABLE loaded ALTER COLUMN id SET DEFAULT hilo_nextval('names'), ALTER COLUMN n SET DEFAULT rows()",
    );
    copy(&mut client, "loaded (v)", 0..3000);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM loaded WHERE id = v + 1 AND n = v"), 3000);
    cluster.finish();
}

/// COPY into a partitioned table is fast too. It uses the defaults of that table; those of its partitions draw nothing.
#[test]
fn partitions() {
    let cluster = cluster();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SEQUENCE core CACHE 1000;
         SELECT hilo_create('s'), hilo_create('own')",
    );
    let mut load = |default: &str| {
        client.run(&format!(
            "CREATE TABLE loaded (id bigint DEFAULT {default}, v integer) PARTITION BY RANGE (v);
             CREATE TABLE low PARTITION OF loaded FOR VALUES FROM (0) TO (5001) PARTITION BY HASH (v);
             CREATE TABLE even PARTITION OF low FOR VALUES WITH (MODULUS 2, REMAINDER 0);
             CREATE TABLE odd PARTITION OF low FOR VALUES WITH (MODULUS 2, REMAINDER 1);
             CREATE TABLE high PARTITION OF loaded FOR VALUES FROM (5001) TO (100000);
             ALTER TABLE high ALTER COLUMN id SET DEFAULT hilo_nextval('own')"
        ));
        copy(&mut client, "loaded (v)", 1..=1000);
        let wal = wal(&mut client, |client| {
            assert_eq!(copy(client, "loaded (v)", 1001..=ROWS), ROWS - 1000)
        });
        assert_rise(&mut client, "loaded");
        client.run("DROP TABLE loaded");
        wal
    };
    let core = load("nextval('core')");
    let ours = load("hilo_nextval('s')");
    assert!(ours <= core * 1.05, "{ours} bytes of WAL, core {core}");
    assert_eq!(twins(&mut client), ROWS as i64);
    assert_eq!(client.draw("own", 1), [1]);
    cluster.finish();
}
