//! A column that was GENERATED ALWAYS stays protected with hilo, and becomes what it was.

use hilo_tests::{Client, ClientExt};

use crate::adopt::{cluster, insert};

/// GENERATED ALWAYS stays: what core refuses for such a column is refused, and what it takes is taken.
#[test]
fn generated_always_is_protected() {
    let (cluster, mut client) = cluster();
    client.run("CREATE TABLE core (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text) PARTITION BY RANGE (id)");
    client.run("CREATE TABLE core_part PARTITION OF core FOR VALUES FROM (0) TO (1000); CREATE TABLE source AS SELECT 50 AS id");
    client.run("CREATE TABLE hilo_table (LIKE core INCLUDING ALL) PARTITION BY RANGE (id); CREATE TABLE hilo_part PARTITION OF hilo_table FOR VALUES FROM (0) TO (1000)");
    client.run("SELECT hilo_adopt('hilo_table', 'id')");
    for (statement, expected) in [
        ("INSERT INTO t DEFAULT VALUES", "ok"),
        ("INSERT INTO t VALUES (DEFAULT, 'a')", "ok"),
        ("INSERT INTO t VALUES (DEFAULT, 'a'), (DEFAULT, 'b')", "ok"),
        ("INSERT INTO t VALUES (DEFAULT, 'a'), (7, 'b')", "428C9"),
        ("INSERT INTO t VALUES (70)", "428C9"),
        ("INSERT INTO t VALUES (NULL)", "428C9"),
        ("INSERT INTO t (id) SELECT id FROM source", "428C9"),
        ("INSERT INTO t (item) SELECT 'x' FROM generate_series(1, 3)", "ok"),
        ("INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (70)", "ok"),
        ("INSERT INTO t OVERRIDING USER VALUE VALUES (71, 'mine')", "ok"),
        ("INSERT INTO t OVERRIDING USER VALUE VALUES (72, 'mine'), (73, 'mine')", "ok"),
        ("INSERT INTO t OVERRIDING USER VALUE SELECT id FROM source", "ok"),
        (
            "INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (1) ON CONFLICT (id) DO UPDATE SET item = 'y'",
            "ok",
        ),
        (
            "INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (1) ON CONFLICT (id) DO UPDATE SET id = 9",
            "428C9",
        ),
        ("UPDATE t SET id = 90 WHERE id = 2", "428C9"),
        ("UPDATE t SET item = 'z', id = id", "428C9"),
        ("UPDATE t SET id = DEFAULT WHERE id = 2", "ok"),
        (
            "MERGE INTO t USING source s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
            "428C9",
        ),
        (
            "MERGE INTO t USING source s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (item) VALUES ('m')",
            "ok",
        ),
        ("MERGE INTO t USING source s ON t.id = 1 WHEN MATCHED THEN UPDATE SET id = 5", "428C9"),
        ("WITH w AS (INSERT INTO t (id) VALUES (5) RETURNING id) SELECT * FROM w", "428C9"),
        ("WITH w AS (INSERT INTO t (item) VALUES ('w') RETURNING id) SELECT * FROM w", "ok"),
        ("EXPLAIN (ANALYZE) INSERT INTO t (id) VALUES (5)", "428C9"),
        ("EXPLAIN (ANALYZE) INSERT INTO t (item) VALUES ('e')", "ok"),
        ("PREPARE p AS INSERT INTO t VALUES ($1)", "428C9"),
    ] {
        for table in ["core", "hilo_table"] {
            let statement = statement.replace(" t ", &format!(" {table} "));
            let statement = statement.replace("t.id", &format!("{table}.id"));
            let got = match client.batch_execute(&statement) {
                Ok(()) => "ok".to_owned(),
                Err(error) => error.code().expect("an error of the server").code().to_owned(),
            };
            // Core finds it when it rewrites the statement, which is when a prepared one is executed.
            if !(statement.starts_with("PREPARE") && table == "core") {
                assert_eq!(got, expected, "{statement}");
            }
        }
    }
    // Into a partition itself, and into a table that inherits, as core does in this version.
    client.run("CREATE TABLE core_heirs (id int GENERATED ALWAYS AS IDENTITY); CREATE TABLE core_heir () INHERITS (core_heirs)");
    client.run("CREATE TABLE hilo_heirs (id int GENERATED ALWAYS AS IDENTITY); CREATE TABLE hilo_heir () INHERITS (hilo_heirs)");
    client.run("SELECT hilo_adopt('hilo_heirs', 'id')");
    for statement in [
        "INSERT INTO @_part (id) VALUES (300)",
        "UPDATE @_part SET id = 301 WHERE id = 300",
        "INSERT INTO @_part (id, item) OVERRIDING SYSTEM VALUE VALUES (302, 'z')",
        "INSERT INTO @_heir VALUES (300)",
        "UPDATE @_heir SET id = 301",
        "INSERT INTO @_heirs VALUES (300)",
    ] {
        let [core, hilo] = ["core", "hilo"].map(|kind| {
            let done = client.batch_execute(&statement.replace('@', kind));
            done.map_err(|error| error.code().expect("an error of the server").clone())
        });
        assert_eq!(core, hilo, "{statement}");
    }
    let rows = |client: &mut Client, table: &str| {
        client.all::<i32>(&format!("SELECT id FROM {table} ORDER BY id"))
    };
    assert_eq!(rows(&mut client, "core"), rows(&mut client, "hilo_table"));
    // Dumps restore it, the data by themselves too; types change, and columns go.
    client.run("CREATE DATABASE copy");
    cluster
        .restore("copy", &cluster.pg_dump("postgres", &["--schema-only", "--exclude-table=core*"]));
    cluster
        .restore("copy", &cluster.pg_dump("postgres", &["--data-only", "--exclude-table=core*"]));
    let mut copy = cluster.connect("copy");
    assert_eq!(rows(&mut copy, "hilo_table"), rows(&mut client, "hilo_table"));
    copy.refusal("INSERT INTO hilo_table (id) VALUES (1)").is("428C9").helps();
    client.run("CREATE TABLE plain (id int GENERATED ALWAYS AS IDENTITY); SELECT hilo_adopt('plain', 'id')");
    client.run("ALTER TABLE plain ALTER id TYPE bigint; COPY plain FROM PROGRAM 'echo 7'");
    client.refusal("INSERT INTO plain VALUES (8)").is("428C9");
    client.run("SELECT hilo_release('plain', 'id', 'ALWAYS')");
    client.refusal("INSERT INTO plain VALUES (8)").is("428C9");
    client.run("SELECT hilo_adopt('plain', 'id'); ALTER TABLE plain ALTER id SET DEFAULT hilo_nextval('plain_id_seq')");
    client.run("INSERT INTO plain VALUES (8); ALTER TABLE plain DROP COLUMN id; DROP EXTENSION hilo CASCADE");
    client.run("INSERT INTO plain DEFAULT VALUES");
    cluster.finish();
}

/// A row that moves to another partition, and a trigger that inserts into the same table, draw nothing of the
/// caller's.
#[test]
fn generated_always_beside_triggers_and_partitions() {
    let (cluster, mut client) = cluster();
    client.run("CREATE TABLE m (id bigint GENERATED ALWAYS AS IDENTITY, state text, parent bigint) PARTITION BY LIST (state)");
    client.run("CREATE TABLE m_o PARTITION OF m FOR VALUES IN ('open'); CREATE TABLE m_d PARTITION OF m FOR VALUES IN ('done')");
    client.run("CREATE FUNCTION up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.parent = 0 THEN INSERT INTO m (state) VALUES ('open') RETURNING id INTO NEW.parent; END IF; RETURN NEW; END $$");
    client.run("CREATE TRIGGER a BEFORE INSERT ON m_o FOR EACH ROW EXECUTE FUNCTION up()");
    client.run("SELECT hilo_adopt('m', 'id'); INSERT INTO m (state) VALUES ('open'), ('open'); UPDATE m SET state = 'done' WHERE id = 1");
    client.run("INSERT INTO m (state, parent) VALUES ('open', 0)");
    assert_eq!(client.all::<i64>("SELECT id FROM m ORDER BY 1"), [1, 2, 3, 4]);
    cluster.finish();
}

/// An ordinary owner moves columns that were GENERATED ALWAYS; each is protected by itself.
#[test]
fn several_columns_that_were_generated_always() {
    let (cluster, mut client) = cluster();
    client.run("CREATE ROLE seller; GRANT CREATE ON SCHEMA public TO seller; GRANT INSERT ON hilo_sequences TO seller; SET ROLE seller");
    client.run("CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, b int GENERATED ALWAYS AS IDENTITY, c int NOT NULL DEFAULT 0)");
    client.run("SELECT hilo_adopt('t', 'id'), hilo_adopt('t', 'b')");
    client.run("INSERT INTO t DEFAULT VALUES; SELECT hilo_release('t', 'b', 'ALWAYS')");
    client.refusal("INSERT INTO t (id) VALUES (99)").is("428C9").helps();
    client.refusal("INSERT INTO t (b) VALUES (99)").is("428C9");
    assert_eq!(insert(&mut client), 2);
    cluster.finish();
}
