//! The extension is trusted: whoever may create objects in a database creates it there, and its script runs as the
//! bootstrap superuser. That makes nobody a superuser, and opens nothing of the catalog.

use hilo_tests::{Client, ClientExt, Cluster};

use super::{lay_traps, victims};

const NONE: [&str; 0] = [];

/// Database `shop`, which belongs to mallory, with her traps in a schema; and her session there.
fn shop(cluster: &Cluster, schema: &str) -> (Client, Client) {
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE DATABASE shop");
    let mut admin = cluster.connect("shop");
    if schema != "public" {
        admin.run(&format!(
            "CREATE ROLE mallory LOGIN; CREATE SCHEMA {schema} AUTHORIZATION mallory"
        ));
    }
    lay_traps(&mut admin, schema);
    admin.run("ALTER DATABASE shop OWNER TO mallory; CREATE ROLE clerk LOGIN");
    let mallory = cluster.connect_as("mallory", "shop");
    (admin, mallory)
}

/// Its creator owns the extension and nothing in it, and can drop it. No object of it can be
/// changed or replaced, and no table of the catalog written.
#[test]
fn its_creator_owns_nothing_in_it() {
    for schema in ["public", "hilo", "numbers"] {
        let cluster = Cluster::builder().preload(true).start();
        let (mut admin, mut mallory) = shop(&cluster, "public");
        mallory.run(&format!(
            "CREATE SCHEMA IF NOT EXISTS {schema}; CREATE EXTENSION hilo SCHEMA {schema}"
        ));
        assert_eq!(victims(&mut admin), NONE);
        let owned = "SELECT pg_describe_object(d.classid, d.objid, 0) FROM pg_depend d
                       LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
                       LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
                       LEFT JOIN pg_type t ON d.classid = 'pg_type'::regclass AND t.oid = d.objid
                       LEFT JOIN pg_namespace n ON d.classid = 'pg_namespace'::regclass AND n.oid = d.objid
                      WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
                        AND 'mallory'::regrole IN (p.proowner, c.relowner, t.typowner, n.nspowner)";
        admin.run("SET search_path = pg_catalog");
        assert_eq!(admin.all::<String>(owned), NONE);
        mallory.run(&format!("SET search_path = {schema}"));
        for change in [
            "ALTER FUNCTION hilo_nextval(hilo_sequence) OWNER TO mallory",
            "ALTER EXTENSION hilo DROP FUNCTION hilo_nextval(hilo_sequence)",
            "CREATE OR REPLACE FUNCTION hilo_nextval(name hilo_sequence) RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
            "CREATE OR REPLACE VIEW hilo_sequences AS SELECT 1",
            "CREATE RULE more AS ON SELECT TO hilo_sequences DO INSTEAD SELECT 1",
            "ALTER TYPE hilo_sequence OWNER TO mallory",
            "INSERT INTO _hilo.hilo_position SELECT",
            "DELETE FROM _hilo.hilo_gap",
            "TRUNCATE _hilo.hilo_definition",
            "ALTER TABLE _hilo.hilo_definition DISABLE TRIGGER ALL",
            "CREATE TABLE _hilo.more ()",
            "ALTER SCHEMA _hilo RENAME TO mine",
            "ALTER SCHEMA _hilo OWNER TO mallory",
            "CREATE FUNCTION more() RETURNS bigint LANGUAGE c AS '$libdir/hilo', 'hilo_nextval_wrapper'",
        ] {
            mallory.refusal(change).is("42501");
        }
        mallory.run("DROP EXTENSION hilo");
        cluster.finish();
    }
}

/// The owner of a database creates it, defines sequences, lets others use them, and updates and drops it. Who may
/// not create objects in the database creates none.
#[test]
fn the_owner_of_a_database_needs_no_superuser() {
    let cluster = Cluster::builder().preload(true).start();
    let (_, mut mallory) = shop(&cluster, "public");
    let mut clerk = cluster.connect_as("clerk", "shop");
    clerk.refusal("CREATE EXTENSION hilo").is("42501");
    mallory.run(
        "CREATE SCHEMA hilo;
         GRANT USAGE ON SCHEMA hilo TO PUBLIC;
         CREATE EXTENSION hilo SCHEMA hilo;
         SELECT hilo.hilo_create('orders'), hilo.hilo_grant('orders', 'clerk', 'USAGE')",
    );
    assert_eq!(clerk.one::<i64>("SELECT hilo.hilo_nextval('orders')"), 1);
    clerk.refusal("SELECT hilo.hilo_create('mine')").is("42501");
    mallory.run("GRANT INSERT ON hilo.hilo_sequences TO clerk");
    clerk.run("SELECT hilo.hilo_create('mine')");
    clerk.refusal("DROP EXTENSION hilo").is("42501");
    clerk.refusal("ALTER EXTENSION hilo UPDATE").is("42501");
    mallory.run("ALTER EXTENSION hilo UPDATE; DROP EXTENSION hilo; DROP OWNED BY mallory");
    cluster.finish();
}
