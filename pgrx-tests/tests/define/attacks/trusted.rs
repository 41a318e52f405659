//! The extension is trusted: whoever may create objects in a database creates it there, and its script runs as the
//! bootstrap superuser. That makes nobody a superuser, and opens nothing of the catalog.

use hilo_tests::{Client, ClientExt, Cluster};

use super::{lay_traps, victims};

const NONE: [&str; 0] = [];
const CURRENT: &str = env!("CARGO_PKG_VERSION");

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

/// Overloads of all functions of the extension in schema public, and operators on its type there, that match other
/// arguments than its own ones.
const TRAPS_ON_ITS_TYPES: &str = r"DO $do$
    DECLARE
        spring constant text := $$ BEGIN
            IF current_user OPERATOR(pg_catalog.<>) 'mallory' THEN RAISE EXCEPTION 'trapped %', current_user; END IF;
            RETURN NULL; END $$;
        other text; sign text; f record;
    BEGIN
        FOREACH other IN ARRAY ARRAY['text', 'varchar', 'name', 'bpchar'] LOOP
            FOR f IN SELECT proname, arguments FROM pg_proc p
                      CROSS JOIN LATERAL (SELECT string_agg(CASE t WHEN 'hilo_sequence'::regtype THEN other WHEN 'bigint'::regtype THEN 'integer' ELSE t::regtype::text END, ', ')
                                            FROM unnest(proargtypes) t) a (arguments)
                      WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'hilo\_%' AND proowner <> 'mallory'::regrole AND pronargs > 0
            LOOP
                BEGIN
                    EXECUTE format('CREATE FUNCTION %I(%s) RETURNS bigint LANGUAGE plpgsql AS %L', f.proname, f.arguments, spring);
                EXCEPTION WHEN duplicate_function THEN NULL;
                END;
            END LOOP;
            EXECUTE format('CREATE FUNCTION trap_yes(hilo_sequence, %s) RETURNS bool LANGUAGE plpgsql AS %L', other, spring);
            EXECUTE format('CREATE FUNCTION trap_yes(%s, hilo_sequence) RETURNS bool LANGUAGE plpgsql AS %L', other, spring);
            FOREACH sign IN ARRAY ARRAY['=', '<>', '<', '>', '<=', '>=', '~~', '||'] LOOP
                EXECUTE format('CREATE OPERATOR %s (LEFTARG = hilo_sequence, RIGHTARG = %s, FUNCTION = trap_yes)', sign, other);
                EXECUTE format('CREATE OPERATOR %s (LEFTARG = %s, RIGHTARG = hilo_sequence, FUNCTION = trap_yes)', sign, other);
            END LOOP;
        END LOOP;
    END $do$";

/// Creating it, and each update from the first release on, calls nothing of hers, and adopts nothing. Nor do its
/// functions, whoever calls them.
#[test]
fn its_scripts_step_into_no_trap() {
    // The objects of the first two releases are in no schema hilo.
    for (schema, first, updates) in
        [("public", "0.1.0", &["0.2.0", "0.3.0", CURRENT][..]), ("hilo", "0.3.0", &[CURRENT][..])]
    {
        let cluster = Cluster::builder().preload(true).start();
        let (mut admin, mut mallory) = shop(&cluster, schema);
        mallory.run(&format!(
            "SET search_path = {schema}; CREATE EXTENSION hilo; DROP EXTENSION hilo"
        ));
        // Scripts of older releases are for superusers.
        mallory.refusal(&format!("CREATE EXTENSION hilo VERSION '{first}'")).is("42501");
        let old = format!(
            "SET search_path = {schema}; CREATE EXTENSION hilo VERSION '{first}'; RESET search_path"
        );
        admin.run(&old);
        mallory.run(TRAPS_ON_ITS_TYPES);
        for version in updates {
            admin.run(&format!("ALTER EXTENSION hilo UPDATE TO '{version}'"));
            assert_eq!(victims(&mut admin), NONE, "{version} in {schema}");
        }
        admin.run(&format!(
            "SET search_path = {schema};
             SELECT hilo_create('orders'::hilo_sequence), hilo_nextval('orders'::hilo_sequence);
             RESET search_path"
        ));
        admin.run(&format!(
            "SELECT * FROM {schema}.hilo_check(); SELECT {schema}.hilo_report();
             SELECT * FROM {schema}.hilo_refill(ARRAY[gen_random_uuid()], ARRAY[1::bigint], ARRAY[gen_random_uuid()],
                                                ARRAY['orders'::text], ARRAY[10::bigint]);
             SELECT * FROM {schema}.hilo_adopt_all('public'::name, true)"
        ));
        cluster.finish();
    }
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
            "INSERT INTO _hilo.position SELECT",
            "DELETE FROM _hilo.gap",
            "TRUNCATE _hilo.sequence",
            "ALTER TABLE _hilo.sequence DISABLE TRIGGER ALL",
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
         CREATE EXTENSION hilo SCHEMA hilo;
         SELECT hilo.hilo_create('orders'), hilo.hilo_grant('orders', 'clerk', 'USAGE')",
    );
    assert_eq!(clerk.one::<i64>("SELECT hilo.hilo_nextval('orders')"), 1);
    clerk.refusal("SELECT hilo.hilo_create('mine')").is("42501");
    mallory.run("GRANT CREATE ON SCHEMA hilo TO clerk");
    clerk.run("SELECT hilo.hilo_create('mine')");
    clerk.refusal("DROP EXTENSION hilo").is("42501");
    clerk.refusal("ALTER EXTENSION hilo UPDATE").is("42501");
    mallory.run("ALTER EXTENSION hilo UPDATE; DROP EXTENSION hilo; DROP OWNED BY mallory");
    cluster.finish();
}
