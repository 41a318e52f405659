//! hilo_check notes what may be meant to be so, after all else: sequences that feed several columns, and sequences
//! that no column uses.

use hilo_tests::{Client, ClientExt, Cluster, assert_unique};

fn notes(client: &mut Client) -> Vec<String> {
    client.all(
        "SELECT object || ': ' || what FROM hilo_check() WHERE severity = 'note' ORDER BY object, what",
    )
}

fn none() -> Vec<String> {
    Vec::new()
}

/// CREATE TABLE … (LIKE … INCLUDING ALL) makes two tables share a sequence, as with core's serial.
/// With an identity column it does not. hilo_check says so, and its advice ends that.
#[test]
fn a_copied_table_shares_the_sequence() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders');
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), serial serial, identity integer GENERATED ALWAYS AS IDENTITY);
         INSERT INTO orders DEFAULT VALUES",
    );
    assert_eq!(notes(&mut client), none());
    client.run("CREATE TABLE copy (LIKE orders INCLUDING ALL)");
    let insert = "INSERT INTO copy DEFAULT VALUES RETURNING concat_ws(' ', id, serial, identity)";
    assert_eq!(client.one::<String>(insert), "2 2 1");
    assert_eq!(
        notes(&mut client),
        ["sequence \"orders\": it feeds 2 columns: public.copy.id, public.orders.id"]
    );
    let advice: String = client.one("SELECT what_to_do FROM hilo_check() WHERE severity = 'note'");
    assert!(advice.contains("hilo_create") && advice.contains("SET DEFAULT"), "{advice}");
    client.run("SELECT hilo_create('copy'); ALTER TABLE copy ALTER id SET DEFAULT hilo_nextval('copy'); SELECT hilo_sync('copy', 'copy', 'id')");
    assert_eq!(notes(&mut client), none());
    assert_eq!(client.one::<String>(insert), "3 3 2");
    a_copy_of_an_owner_is_warned_of(&mut client);
    cluster.finish();
}

/// If another table's column owns the sequence, the drop of that takes the default along. Each way
/// out of what hilo_check says prevents that, whether the copy takes the place of the other table
/// or is a tenant's.
fn a_copy_of_an_owner_is_warned_of(client: &mut Client) {
    let found =
        "SELECT what_to_do FROM hilo_check() WHERE severity = 'warning' AND object LIKE '%two%'";
    for way in ["let it own the sequence: ", "beyond its rows: ", "let neither own it: "] {
        client.run(
            "CREATE SCHEMA one; CREATE SCHEMA \"two's\"; CREATE TABLE one.t (id bigserial, n int) PARTITION BY LIST (n);
             CREATE TABLE one.part PARTITION OF one.t DEFAULT; SELECT hilo_adopt('one.t', 'id');
             CREATE TABLE \"two's\".t (LIKE one.t INCLUDING ALL); INSERT INTO one.t DEFAULT VALUES;
             INSERT INTO \"two's\".t SELECT FROM generate_series(1, 5)",
        );
        let warned: Vec<String> = client.all(found);
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert_eq!(notes(client), none());
        let statements = warned[0].split_once(way).expect("it is a way").1;
        client.run(statements.split(" If ").next().unwrap_or_default());
        assert_eq!(client.all::<String>(found), none(), "{way}");
        client.run("INSERT INTO one.t SELECT FROM generate_series(1, 3); DROP SCHEMA one CASCADE");
        client.run("INSERT INTO \"two's\".t SELECT FROM generate_series(1, 5)");
        let ids: Vec<i64> = client.all("SELECT id FROM \"two's\".t");
        assert_unique(way, &ids);
        assert_eq!(ids.len(), 10);
        client.run("DROP SCHEMA \"two's\" CASCADE; SELECT hilo_drop(name) FROM hilo_sequences WHERE name LIKE '%t_id_seq'");
    }
}

/// Partitions and children share the sequence of their table because the rows are the table's. The
/// default of a view is for the rows of a table.
#[test]
fn a_hierarchy_is_one_column() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s'), hilo_create('t')");
    let default = "bigint DEFAULT hilo_nextval('s')";
    for (tables, expected) in [
        ("CREATE TABLE a (id bigint DEFAULT hilo_nextval('s') + hilo_nextval('s'))".into(), ""),
        (
            format!(
                "CREATE TABLE a (extra text, id {default}, n integer) PARTITION BY LIST (n);
                 CREATE TABLE z PARTITION OF a FOR VALUES IN (1, 2) PARTITION BY LIST (n);
                 CREATE TABLE y PARTITION OF z FOR VALUES IN (1);
                 CREATE TABLE b (n integer, id {default}, extra text); ALTER TABLE z ATTACH PARTITION b FOR VALUES IN (2)"
            ),
            "",
        ),
        (
            format!("CREATE TABLE a (id {default}); CREATE TABLE b () INHERITS (a); CREATE TABLE c () INHERITS (b)"),
            "",
        ),
        // The default is that of each partition, and of no table above.
        (
            "CREATE TABLE a (id bigint, n integer) PARTITION BY LIST (n);
             CREATE TABLE b PARTITION OF a FOR VALUES IN (1); CREATE TABLE c PARTITION OF a FOR VALUES IN (2);
             ALTER TABLE b ALTER id SET DEFAULT hilo_nextval('s'); ALTER TABLE c ALTER id SET DEFAULT hilo_nextval('s')"
                .into(),
            "",
        ),
        (
            format!("CREATE TABLE a (id {default}); CREATE VIEW v AS SELECT * FROM a; ALTER VIEW v ALTER id SET DEFAULT hilo_nextval('s')"),
            "",
        ),
        (
            "CREATE TABLE a (id bigint DEFAULT hilo_nextval('s')); CREATE TABLE b (id bigint DEFAULT hilo_nextval('t'))".into(),
            "",
        ),
        // Two parents, of which one is another hierarchy.
        (
            format!("CREATE TABLE a (id {default}); CREATE TABLE b (id bigint); CREATE TABLE c () INHERITS (b, a)"),
            "",
        ),
        (
            format!("CREATE TABLE a (id {default}); CREATE TABLE b (id {default}); CREATE TABLE c () INHERITS (b, a)"),
            "public.a.id, public.b.id",
        ),
        (
            format!(
                "CREATE TABLE a (id {default}, n integer) PARTITION BY LIST (n); CREATE TABLE b PARTITION OF a FOR VALUES IN (1);
                 ALTER TABLE a DETACH PARTITION b"
            ),
            "public.a.id, public.b.id",
        ),
        // A child's own column is none that it inherits.
        (
            format!("CREATE TABLE a (id {default}); CREATE TABLE b (own {default}) INHERITS (a)"),
            "public.a.id, public.b.own",
        ),
        (format!("CREATE TABLE a (id {default}, \"No\" {default})"), "public.a.\"No\", public.a.id"),
    ] {
        let tables: String = tables;
        client.run(&tables);
        let feeds = |columns: &str| match columns {
            "" => none(),
            _ => vec![format!("sequence \"s\": it feeds 2 columns: {columns}")],
        };
        assert_eq!(notes(&mut client), feeds(expected), "{tables}");
        client.run("DROP VIEW IF EXISTS v; DROP TABLE IF EXISTS a, b, c, y, z CASCADE");
    }
    // Not all of many are named.
    for n in 10..22 {
        client.run(&format!("CREATE TABLE t{n} (id {default})"));
    }
    let all: Vec<String> = (10..20).map(|n| format!("public.t{n}.id")).collect();
    let expected = format!("sequence \"s\": it feeds 12 columns: {}", all.join(", "));
    assert_eq!(notes(&mut client), [expected]);
    cluster.finish();
}

/// A sequence that has been used, and that no column uses, is noted, all such in one row: applications may draw
/// from them. One whose owner column is gone has lost its use.
#[test]
fn sequences_that_no_column_uses() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE TABLE t (id bigint, other bigint, owner bigint);
         SELECT hilo_create('fresh'), hilo_create('used'), hilo_create('default'), hilo_create('owned', owned_by => 't.owner'), hilo_create('it''s \"odd\"');
         ALTER TABLE t ALTER id SET DEFAULT hilo_nextval('default')",
    );
    assert_eq!(notes(&mut client), none());
    client.run("SELECT hilo_nextval('default'), hilo_nextval('owned')");
    assert_eq!(notes(&mut client), none(), "used by columns");
    client.run("SELECT hilo_nextval('used')");
    assert_eq!(notes(&mut client), ["sequences: no column uses 1 of them: \"used\""]);
    client.run("SELECT hilo_setval('it''s \"odd\"', 1, false)");
    let both = "sequences: no column uses 2 of them: \"it's \"odd\"\", \"used\"";
    assert_eq!(notes(&mut client), [both]);
    client.run("ALTER TABLE t ALTER other SET DEFAULT hilo_nextval('used'); SELECT hilo_drop('it''s \"odd\"')");
    assert_eq!(notes(&mut client), none(), "a default");
    client.run("ALTER TABLE t ALTER id DROP DEFAULT, ALTER other DROP DEFAULT");
    assert_eq!(notes(&mut client), ["sequences: no column uses 2 of them: \"default\", \"used\""]);
    client.run("SELECT hilo_alter('used', owned_by => 't.other'), hilo_drop('default')");
    assert_eq!(notes(&mut client), none(), "an owner");
    // As a restore leaves it that finds no such column.
    client.meddle("SELECT hilo_create('lost', owned_by => 't.id'); UPDATE _hilo.hilo_definition SET owned_by = '-' WHERE name = 'lost'");
    assert_eq!(notes(&mut client), ["sequences: no column uses 1 of them: \"lost\""]);
    client.run("ALTER TABLE t ALTER id SET DEFAULT hilo_nextval('lost')");
    assert_eq!(notes(&mut client), none(), "a column uses it all the same");

    client.run("SELECT hilo_nextval('n' || n) FROM (SELECT hilo_create('n' || n), n FROM generate_series(10, 21) AS n OFFSET 0) AS made");
    let ten: Vec<String> = (10..20).map(|n| format!("\"n{n}\"")).collect();
    assert_eq!(
        notes(&mut client),
        [format!("sequences: no column uses 12 of them: {}", ten.join(", "))]
    );
    cluster.finish();
}

/// A role is told of the sequences that it may read, and of the columns on which it has a
/// privilege. A column that it has none on is a use all the same.
#[test]
fn each_role_sees_its_own() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE clerk LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_monitor; CREATE ROLE nobody LOGIN;
         SELECT hilo_create('s'), hilo_create('mine'), hilo_create('theirs');
         SELECT hilo_nextval('mine'), hilo_nextval('theirs'), hilo_nextval('s');
         CREATE TABLE a (id bigint DEFAULT hilo_nextval('s')); CREATE TABLE b (LIKE a INCLUDING ALL);
         GRANT INSERT ON a TO clerk, watcher; SELECT hilo_grant('mine', 'clerk', 'SELECT')",
    );
    let mut clerk = cluster.connect_as("clerk", "postgres");
    let mut watcher = cluster.connect_as("watcher", "postgres");
    let mut nobody = cluster.connect_as("nobody", "postgres");
    let shared = "sequence \"s\": it feeds 2 columns: public.a.id, public.b.id";
    let mine = "sequences: no column uses 1 of them: \"mine\"";
    let both = "sequences: no column uses 2 of them: \"mine\", \"theirs\"";
    assert_eq!(notes(&mut admin), [shared, both]);
    assert_eq!(notes(&mut watcher), [both]);
    assert_eq!(notes(&mut clerk), [mine]);
    assert_eq!(notes(&mut nobody), none());
    admin.run("GRANT INSERT ON b TO clerk");
    assert_eq!(notes(&mut clerk), [mine], "it may not read the sequence");
    admin.run("SELECT hilo_grant('s', 'clerk', 'USAGE')");
    assert_eq!(notes(&mut clerk), [shared, mine]);
    admin.run("REVOKE INSERT ON a FROM clerk");
    assert_eq!(notes(&mut clerk), [mine], "it knows of one column only");
    cluster.finish();
}

/// The worst findings come first, and notes come last.
#[test]
fn the_worst_comes_first() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('a'), hilo_nextval('a'), hilo_create('wide');
         CREATE TABLE a (id bigint DEFAULT hilo_nextval('missing'), n integer DEFAULT hilo_nextval('wide'))",
    );
    let severities: Vec<String> = client.all("SELECT severity FROM hilo_check()");
    let mut sorted = severities.clone();
    sorted.sort_by_key(|severity| ["error", "warning", "note"].iter().position(|s| s == severity));
    assert_eq!(severities, sorted);
    sorted.dedup();
    assert_eq!(sorted, ["error", "warning", "note"]);
    cluster.finish();
}
