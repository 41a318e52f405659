//! Nobody empties the catalog's tables by TRUNCATE, and each of their triggers that does not fire as it should is found
//! and mended.

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
    assert_eq!(before.len(), 27);
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
            AND proname NOT IN ('hilo_note_roles', 'hilo_refuse_truncate')",
    );
    assert_eq!(functions.len(), 8);
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
