//! Nobody writes to the catalog's tables by SQL but restores and replication. Each of their triggers that does not fire
//! as it should is found and mended.

use std::io::{Read, Write};

use hilo_tests::{Client, ClientExt, Cluster};

const TABLES: &str =
    "SELECT unnest(extconfig)::regclass::text FROM pg_extension WHERE extname = 'hilo'";
const FIXES: &str =
    "SELECT fix FROM hilo_check() WHERE object LIKE 'table \\_hilo.%' ORDER BY object";

/// A superuser is refused too, whatever else the statement names, and so is who applies replicated changes.
#[test]
fn truncate_of_the_catalog_is_refused_for_everybody() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders'), hilo_nextval('orders'); CREATE TABLE kept (id int); INSERT INTO kept VALUES (1)",
    );
    let tables = client.all::<String>(TABLES);
    assert_eq!(tables.len(), 8);
    for role in ["origin", "replica", "local"] {
        client.run(&format!("SET session_replication_role = {role}"));
        for table in &tables {
            for statement in ["{t}", "ONLY {t}", "kept, {t}", "{t} RESTART IDENTITY CASCADE"] {
                let statement = format!("TRUNCATE {}", statement.replace("{t}", table));
                let refusal = client.refusal(&statement).is("42501").says("of the extension hilo");
                refusal.details("served again").hints("hilo_drop");
            }
        }
        client.refusal(&format!("TRUNCATE {}", tables.join(", "))).is("42501");
    }
    client.run("RESET session_replication_role");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM kept"), 1);
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('orders')"), 2);
    cluster.finish();
}

/// Statements that write to a table, also where they find no row.
fn writes(client: &mut Client, table: &str) -> [String; 6] {
    let column: String = client.one(&format!(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum = 1"
    ));
    let conflict = format!("INSERT INTO {table} SELECT * FROM {table} ON CONFLICT DO NOTHING");
    [
        format!("INSERT INTO {table} SELECT * FROM {table}"),
        format!("UPDATE {table} SET {column} = {column}"),
        format!("DELETE FROM ONLY {table}"),
        format!("MERGE INTO {table} t USING {table} s ON s = t WHEN MATCHED THEN DELETE"),
        format!("WITH gone AS (DELETE FROM {table} RETURNING *) SELECT count(*) FROM gone"),
        conflict,
    ]
}

/// As of a helper that empties all tables between tests. The statement does nothing at all.
#[test]
fn a_superuser_writes_to_no_table_of_the_catalog() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('orders'), hilo_nextval('orders'), hilo_lease('orders', 5)");
    for role in ["origin", "local"] {
        client.run(&format!("SET session_replication_role = {role}"));
        for table in client.all::<String>(TABLES) {
            for statement in writes(&mut client, &table) {
                let refusal = client.refusal(&statement).is("42501").says("of the extension hilo");
                refusal.details("served again").hints("check_function_bodies");
            }
        }
    }
    client.refusal("DELETE FROM _hilo.hilo_position").hints("out of DELETE");
    assert!(client.draw("orders", 1)[0] > 1);
    cluster.finish();
}

/// pg_dump's scripts, pg_restore, COPY of other tools and replication write; so do upgrades of the extension.
#[test]
fn restores_and_replication_write_to_the_catalog() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('orders'), hilo_nextval('orders')");
    for way in ["check_function_bodies = off", "session_replication_role = replica"] {
        for table in client.all::<String>(TABLES) {
            for statement in
                writes(&mut client, &table).into_iter().filter(|one| !one.contains("INSERT"))
            {
                client.run(&format!("BEGIN; SET LOCAL {way}; {statement}; ROLLBACK"));
            }
        }
    }
    let position: String = client.one("SELECT row_to_json(p)::text FROM _hilo.hilo_position p");
    client.meddle("DELETE FROM _hilo.hilo_position");
    client.run(&format!(
        "CREATE TABLE copied AS SELECT * FROM json_populate_record(NULL::_hilo.hilo_position, '{position}')"
    ));
    let mut rows = Vec::new();
    client.copy_out("COPY copied TO STDOUT").unwrap().read_to_end(&mut rows).unwrap();
    let mut copy = client.copy_in("COPY _hilo.hilo_position FROM STDIN").unwrap();
    copy.write_all(&rows).unwrap();
    copy.finish().expect("the row is copied");
    assert!(client.draw("orders", 1)[0] > 1);
    cluster.finish();
}

/// The triggers of the catalog, each with what it fires for.
fn triggers(client: &mut Client) -> Vec<(String, String, String)> {
    let sql = "SELECT tgrelid::regclass::text, tgname::text, tgenabled::text
                 FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
                WHERE relnamespace = '_hilo'::regnamespace AND NOT tgisinternal ORDER BY 1, 2";
    let rows = client.query(sql, &[]).expect("the triggers can be listed");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

/// Each trigger that is disabled, or fires for other rows, is found. The fix that hilo_check
/// proposes lets it fire as before.
#[test]
fn each_trigger_that_was_disabled_is_found_and_mended() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let before = triggers(&mut client);
    assert_eq!(before.len(), 29);
    let mend = |client: &mut Client, changed: &str| {
        client.run(changed);
        let fixes = client.all::<String>(FIXES);
        assert_eq!(fixes.len(), 1, "{changed}: {fixes:?}");
        client.run(&fixes[0]);
        assert_eq!(triggers(client), before, "{changed}");
        assert_eq!(client.all::<String>(FIXES), [""; 0], "{changed}");
    };
    for (table, trigger, fires) in &before {
        mend(&mut client, &format!("ALTER TABLE {table} DISABLE TRIGGER {trigger}"));
        let other = if fires == "A" { "REPLICA" } else { "ALWAYS" };
        mend(&mut client, &format!("ALTER TABLE {table} ENABLE {other} TRIGGER {trigger}"));
    }
    // As Rails does around its fixtures, and pg_restore --disable-triggers.
    for table in client.all::<String>(TABLES) {
        let change = format!(
            "ALTER TABLE {table} DISABLE TRIGGER ALL; ALTER TABLE {table} ENABLE TRIGGER ALL"
        );
        mend(&mut client, &change);
    }
    cluster.finish();
}

/// hilo_check names a table that lacks a trigger, and mends the others.
#[test]
fn a_trigger_that_was_dropped_is_found() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("ALTER TABLE _hilo.hilo_lease DISABLE TRIGGER ALL; DROP TRIGGER restored ON _hilo.hilo_lease");
    let fixes = client.all::<String>(FIXES);
    assert_eq!(fixes.len(), 1, "{fixes:?}");
    client.run(&fixes[0]);
    let found = "SELECT what || ' ' || what_to_do FROM hilo_check() WHERE object = 'table _hilo.hilo_lease' AND fix IS NULL";
    let left = client.all::<String>(found);
    assert!(
        matches!(&left[..], [what] if what.contains("(restored)") && what.contains("dropped")),
        "{left:?}"
    );
    cluster.finish();
}

/// The functions of the catalog's triggers refuse any other table, where they read rows as C structures.
#[test]
fn triggers_of_the_catalog_elsewhere() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let functions: Vec<String> = client.all(
        "SELECT oid::regprocedure::text FROM pg_proc
          WHERE pronamespace = '_hilo'::regnamespace AND prorettype = 'trigger'::regtype 
            AND prolang = (SELECT oid FROM pg_language WHERE lanname = 'c')
            AND proname NOT IN ('hilo_note_roles', 'hilo_refuse_write')",
    );
    assert_eq!(functions.len(), 1);
    for function in functions {
        for columns in ["(a text)", "(sequence text, node text, timeline text, owner text)"] {
            client.run(&format!(
                "CREATE TABLE strange {columns};
                 CREATE TRIGGER t BEFORE INSERT ON strange FOR EACH ROW EXECUTE FUNCTION {function};
                 ALTER TABLE strange ENABLE ALWAYS TRIGGER t"
            ));
            for role in ["origin", "replica"] {
                client.run(&format!("SET session_replication_role = {role}"));
                client
                    .refusal("INSERT INTO strange VALUES ('x')")
                    .is("39P01")
                    .says("trigger of the catalog of hilo")
                    .helps();
            }
            client.run("RESET session_replication_role; DROP TABLE strange");
        }
    }
    cluster.finish();
}
