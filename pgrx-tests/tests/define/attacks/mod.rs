//! One attack per test: what a role that owns a schema, and can create any object in it, must not
//! achieve.
//!
//! Its traps are functions that fail for every role but itself: a statement that succeeds has not
//! called one.

mod columns;
mod planted;
mod trusted;

use hilo_tests::{Client, ClientExt, Cluster};

/// The role mallory, who may create in schema public and owns schema trap. There is a trap for
/// every operator and for every simple function in `schema`.
fn lay_traps(admin: &mut Client, schema: &str) {
    admin.run(
        "DO $$ BEGIN CREATE ROLE mallory LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
         DO $$ BEGIN GRANT INSERT ON hilo_sequences TO mallory; EXCEPTION WHEN undefined_table THEN NULL; END $$;
         GRANT CREATE ON SCHEMA public TO mallory;
         CREATE SCHEMA trap AUTHORIZATION mallory; GRANT USAGE ON SCHEMA trap TO PUBLIC",
    );
    admin.run(&format!("SET ROLE mallory; SET search_path = {schema}"));
    admin.run(
        r#"DO $do$
        DECLARE
            kinds constant text[] := ARRAY['int2', 'int4', 'int8', 'float8', 'numeric', 'text', 'name', 'oid', 'bool', 'regclass', 'timestamptz', 'interval', 'jsonb'];
            spring constant text := $$ BEGIN
                IF current_user OPERATOR(pg_catalog.<>) 'mallory' THEN RAISE EXCEPTION 'trapped %', current_user; END IF;
                RETURN NULL; END $$;
            l text; r text; sign text; result text; f record;
        BEGIN
            FOREACH l IN ARRAY kinds LOOP FOREACH r IN ARRAY kinds LOOP
                result := CASE WHEN 'float8' IN (l, r) THEN 'float8' WHEN 'numeric' IN (l, r) THEN 'numeric'
                               WHEN 'timestamptz' IN (l, r) THEN 'timestamptz' ELSE 'int8' END;
                EXECUTE format('CREATE FUNCTION trap_yes(%s, %s) RETURNS bool LANGUAGE plpgsql AS %L', l, r, spring);
                EXECUTE format('CREATE FUNCTION trap_sum(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L', l, r, result, spring);
                FOREACH sign IN ARRAY ARRAY['=', '<>', '<', '>', '<=', '>=', '~~', '~', '->', '->>', '#>', '#>>', '?', '@>'] LOOP
                    EXECUTE format('CREATE OPERATOR %s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = trap_yes)', sign, l, r);
                END LOOP;
                FOREACH sign IN ARRAY ARRAY['+', '-', '*', '/', '%', '||'] LOOP
                    EXECUTE format('CREATE OPERATOR %s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = trap_sum)', sign, l, r);
                END LOOP;
            END LOOP; END LOOP;
            FOR f IN SELECT DISTINCT ON (proname, proargtypes::text) proname, pg_get_function_identity_arguments(oid) AS arguments, prorettype::regtype AS result
                       FROM pg_proc p WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND NOT proretset
                        AND pronargs <= 3 AND provariadic = 0 AND proargmodes IS NULL
                        AND NOT EXISTS (SELECT FROM unnest(proargtypes || prorettype) t JOIN pg_type y ON y.oid = t WHERE y.typtype = 'p')
            LOOP
                EXECUTE format('CREATE FUNCTION %I(%s) RETURNS %s LANGUAGE plpgsql AS %L', f.proname, f.arguments, f.result, spring);
            END LOOP;
        END $do$"#,
    );
    admin.run("RESET ROLE; RESET search_path");
}

/// Whatever of others' depends on something of mallory's.
fn victims(admin: &mut Client) -> Vec<String> {
    admin.run("SET search_path = pg_catalog");
    let found = admin.all(
        "SELECT pg_describe_object(d.classid, d.objid, d.objsubid) || ' uses ' || pg_describe_object(d.refclassid, d.refobjid, 0)
           FROM pg_depend d
           LEFT JOIN pg_proc p ON d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid
           LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
           LEFT JOIN pg_proc hers ON d.classid = 'pg_proc'::regclass AND hers.oid = d.objid
           LEFT JOIN pg_operator sign ON d.classid = 'pg_operator'::regclass AND sign.oid = d.objid
          WHERE 'mallory'::regrole IN (p.proowner, o.oprowner)
            AND 'mallory'::regrole IS DISTINCT FROM COALESCE(hers.proowner, sign.oprowner)",
    );
    admin.run("RESET search_path");
    found
}

const VIEWS: [&str; 6] = [
    "hilo_sequences",
    "hilo_stat_sequences",
    "hilo_stat_rates",
    "hilo_stat_backends",
    "hilo_blocks",
    "hilo_gaps",
];

/// Operators and functions may lie in the extension's schema before it is created, with better
/// matching arguments than Postgres's own. The extension does not take them up.
#[test]
fn traps_laid_before_the_extension_is_created() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = cluster.connect("postgres");
    lay_traps(&mut admin, "public");
    admin.run("CREATE EXTENSION hilo");
    let none: Vec<String> = Vec::new();
    assert_eq!(victims(&mut admin), none);
    admin.run("SELECT hilo_create('orders'); SELECT hilo_nextval('orders'); SELECT hilo_setval('orders', 100); SELECT hilo_nextval('orders')");
    for view in VIEWS {
        admin.run(&format!("SELECT * FROM {view}"));
    }
    admin.run("SELECT * FROM hilo_check(); SELECT hilo_report()");
    admin.run("CREATE TABLE serials (id serial)");
    admin.refusal("SELECT hilo_adopt_on_all_nodes('serials', 'id')").is("0A000").says("Citus");
    cluster.finish();
}

/// Objects under the extension's names are neither adopted nor replaced nor run: it is not created.
#[test]
fn objects_made_before_the_extension_is_created() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "DO $$ BEGIN CREATE ROLE mallory LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
         GRANT CREATE ON SCHEMA public TO mallory; GRANT CREATE ON DATABASE postgres TO mallory",
    );
    let mut mallory = cluster.connect_as("mallory", "postgres");
    for (make, unmake) in [
        ("CREATE SCHEMA _hilo", "DROP SCHEMA _hilo"),
        ("CREATE DOMAIN hilo_sequence AS text", "DROP DOMAIN hilo_sequence"),
        ("CREATE TYPE hilo_sequence AS (a text)", "DROP TYPE hilo_sequence"),
        (
            "CREATE FUNCTION hilo_lastval() RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
            "DROP FUNCTION hilo_lastval()",
        ),
        (
            "CREATE FUNCTION hilo_check() RETURNS TABLE (object text, severity text, what text, what_to_do text) LANGUAGE sql AS 'SELECT 1, 2, 3, 4'",
            "DROP FUNCTION hilo_check()",
        ),
        ("CREATE VIEW hilo_sequences AS SELECT 1", "DROP VIEW hilo_sequences"),
        ("CREATE TABLE hilo_gaps ()", "DROP TABLE hilo_gaps"),
    ] {
        // A body that cannot be is no object.
        if let Err(error) = mallory.batch_execute(make) {
            assert!(make.contains("SELECT 1"), "{make}: {error:?}");
            mallory.run(&format!("SET check_function_bodies = off; {make}"));
        }
        let refused = admin.batch_execute("CREATE EXTENSION hilo").expect_err(make);
        let sqlstate = refused.code().expect("a report").code();
        assert!(["42P06", "42710", "42723", "42P07"].contains(&sqlstate), "{make}: {refused:?}");
        assert_eq!(admin.one::<i64>("SELECT count(*) FROM pg_extension WHERE extname = 'hilo'"), 0);
        mallory.run(unmake);
    }
    admin.run("CREATE EXTENSION hilo");
    cluster.finish();
}

/// A search_path that has traps before Postgres's own operators and functions leads none of our
/// functions into them.
#[test]
fn a_search_path_full_of_traps() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    lay_traps(&mut admin, "trap");
    admin.run(
        "CREATE DOMAIN whole AS bigint; CREATE TABLE orders (id bigint, n numeric, w whole, i integer);
         CREATE ROLE anna LOGIN; GRANT CREATE ON SCHEMA public TO anna; GRANT INSERT ON hilo_sequences TO anna; GRANT mallory TO anna",
    );
    let mut victim = cluster.connect("postgres");
    for table in [
        "pg_class",
        "pg_namespace",
        "pg_attribute",
        "pg_settings",
        "pg_roles",
        "pg_type",
        "pg_depend",
        "pg_index",
        "sequence",
        "position",
    ] {
        victim.run(&format!("CREATE TEMP TABLE {table} (trap int)"));
    }
    for name in ["oid", "int8", "text", "regtype", "hilo_sequence", "role"] {
        victim.run(&format!("CREATE DOMAIN pg_temp.{name} AS pg_catalog.int4 CHECK (false)"));
    }
    victim.run("SET search_path = pg_temp, trap, pg_catalog");
    victim.refusal("SELECT 1 + 1").says("trapped postgres");
    for sql in [
        "SELECT public.hilo_create('orders'); SELECT public.hilo_create('steps', increment => 7, start_value => 3)",
        "SELECT public.hilo_create('down', increment => '-5')",
        "ALTER TABLE public.orders ALTER id SET DEFAULT public.hilo_nextval('orders')",
        "INSERT INTO public.orders DEFAULT VALUES; INSERT INTO public.orders DEFAULT VALUES",
        "SELECT public.hilo_nextvals('steps', 10); SELECT public.hilo_nextrange('down', 20); SELECT public.hilo_nextkey('steps')",
        "SELECT public.hilo_setval('steps', 500); SELECT public.hilo_nextval('steps')",
        "SELECT * FROM public.hilo_find_gaps('orders', 'public.orders', 'id')",
        "SELECT * FROM public.hilo_find_gaps('steps', 'public.orders', 'n')",
        "SELECT * FROM public.hilo_find_gaps('steps', 'public.orders', 'w')",
        "SELECT * FROM public.hilo_find_gaps('down', 'public.orders', 'i')",
        "SELECT * FROM public.hilo_check()",
        "SELECT * FROM public.hilo_sequences; SELECT * FROM public.hilo_stat_sequences",
        "SELECT * FROM public.hilo_stat_backends; SELECT * FROM public.hilo_blocks; SELECT * FROM public.hilo_gaps",
        "SELECT public.hilo_rename('orders', 'sales'); INSERT INTO public.orders DEFAULT VALUES",
        "SELECT public.hilo_grant('sales', 'mallory', 'ALL'); SELECT public.hilo_revoke('sales', 'mallory', 'ALL')",
        "SELECT public.hilo_set_owner('sales', 'anna'); SELECT public.hilo_stat_reset()",
        "SELECT public.hilo_alter('steps', increment => 3)",
        "SELECT public.hilo_alter('steps', max_value => 100000); SELECT public.hilo_nextval('steps')",
        "SELECT public.hilo_drop('sales', cascade => true); SELECT public.hilo_key_value('steps', public.hilo_key('steps', 8))",
        "SET hilo.auto_create = on; SELECT public.hilo_nextval('new')",
        "REASSIGN OWNED BY anna TO postgres; DROP OWNED BY anna",
    ] {
        victim.run(sql);
    }
    cluster.finish();
}

/// Casts from and to the type of names are its owner's to make. A domain over it, and a function
/// behind a default, are not run by who renames or drops the sequence.
#[test]
fn casts_domains_and_defaults() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    lay_traps(&mut admin, "trap");
    let mut mallory = cluster.connect_as("mallory", "postgres");
    mallory.run("CREATE FUNCTION trap.cast(text) RETURNS hilo_sequence LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN 'other'; END $$");
    for cast in [
        "text AS hilo_sequence",
        "varchar AS hilo_sequence",
        "hilo_sequence AS text",
        "hilo_sequence AS bigint",
    ] {
        let sql = format!("CREATE CAST ({cast}) WITH INOUT AS IMPLICIT");
        mallory.refusal(&sql).is("42501").says("must be owner of type");
    }
    admin.run("SELECT hilo_create('orders')");
    mallory.run(
        "CREATE FUNCTION trap.sprung(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
             IF current_user <> 'mallory' THEN RAISE EXCEPTION 'trapped %', current_user; END IF; RETURN $1; END $$;
         CREATE DOMAIN trap.name AS hilo_sequence CHECK (trap.sprung(VALUE::text) IS NOT NULL);
         CREATE TABLE trap.t (
             a bigint DEFAULT hilo_nextval('orders'::trap.name),
             b bigint DEFAULT hilo_nextval('orders') + length(trap.sprung('x')),
             c bigint DEFAULT hilo_nextval(trap.sprung('orders')),
             d text DEFAULT hilo_nextkey('orders') || trap.sprung('y'),
             e bigint DEFAULT CASE WHEN trap.sprung('z') = 'z' THEN hilo_nextval('orders') END)",
    );
    admin.run("SELECT * FROM hilo_check(); SELECT hilo_rename('orders', 'sales')");
    admin.refusal("SELECT hilo_drop('sales')").is("2BP01").details("trap.t");
    admin.run("SELECT hilo_drop('sales', cascade => true)");
    assert_eq!(admin.all::<String>("SELECT attname::text FROM pg_attribute WHERE attrelid = 'trap.t'::regclass AND atthasdef"), ["c"]);
    cluster.finish();
}

/// Whatever kind a relation is, whoever may not read its column does not by hilo_find_gaps, drawn
/// from or not. Others read a view with its owner's rights and its functions with the caller's, as
/// by SELECT.
#[test]
fn relations_that_one_may_not_read() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE mallory LOGIN; SELECT hilo_create('orders'), hilo_create('fresh');
         SELECT hilo_grant('orders', 'mallory', 'SELECT'), hilo_grant('fresh', 'mallory', 'SELECT');
         SELECT hilo_nextvals('orders', 10);
         CREATE SCHEMA closed; CREATE TABLE closed.a (id bigint); GRANT SELECT ON closed.a TO mallory;
         CREATE TABLE b (id bigint, other bigint); GRANT SELECT (other) ON b TO mallory;
         CREATE VIEW c AS SELECT * FROM b; CREATE MATERIALIZED VIEW d AS SELECT * FROM b;
         CREATE TABLE e (id bigint) PARTITION BY LIST (id); CREATE TABLE e1 PARTITION OF e DEFAULT;
         CREATE FOREIGN DATA WRAPPER nowhere; CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;
         CREATE FOREIGN TABLE f (id bigint) SERVER nowhere; CREATE SEQUENCE g; CREATE INDEX h ON b (id)",
    );
    let mut mallory = cluster.connect_as("mallory", "postgres");
    for sequence in ["orders", "fresh"] {
        for relation in ["b", "c", "d", "e", "e1", "f", "h"] {
            let oid: u32 = admin.one(&format!("SELECT '{relation}'::regclass::oid"));
            let gaps = format!("SELECT * FROM hilo_find_gaps('{sequence}', {oid}, 'id')");
            mallory.refusal(&gaps).is("42501").says("permission denied for column \"id\"");
        }
        mallory.run(&format!("SELECT * FROM hilo_find_gaps('{sequence}', 'b', 'other')"));
    }
    let oid: u32 = admin.one("SELECT 'closed.a'::regclass::oid");
    mallory.refusal(&format!("SELECT * FROM hilo_find_gaps('orders', {oid}, 'id')")).is("42501");
    admin.run(
        "CREATE FUNCTION who() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT CASE current_user WHEN 'mallory' THEN 3 ELSE 4 END::bigint $$;
         CREATE VIEW i AS SELECT who() AS id; GRANT SELECT ON c, i TO mallory; INSERT INTO b VALUES (1)",
    );
    assert_eq!(
        mallory
            .all::<i64>("SELECT first FROM hilo_find_gaps('orders', 'c', 'id') WHERE first <= 10"),
        [2]
    );
    assert_eq!(
        mallory
            .all::<i64>("SELECT first FROM hilo_find_gaps('orders', 'i', 'id') WHERE first <= 10"),
        [1, 4]
    );
    cluster.finish();
}

/// Traps lie around a table: its index's functions, checks, policies, rules and triggers.
/// hilo_check does not meet them, nor does it read a table that has policies.
#[test]
fn tables_that_hilo_check_reads() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE mallory LOGIN; CREATE SCHEMA trap AUTHORIZATION mallory; GRANT USAGE ON SCHEMA trap TO PUBLIC;
         CREATE ROLE watcher LOGIN; GRANT pg_read_all_data TO watcher;
         SELECT hilo_create('orders'), hilo_grant('orders', 'PUBLIC', 'ALL')",
    );
    let mut mallory = cluster.connect_as("mallory", "postgres");
    mallory.run(
        "CREATE FUNCTION trap.sprung(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
             IF current_user <> 'mallory' THEN RAISE EXCEPTION 'trapped %', current_user; END IF; RETURN $1; END $$;
         CREATE TABLE trap.checked (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), n bigint CHECK (trap.sprung(1) = 1));
         CREATE INDEX ON trap.checked (id, (trap.sprung(n + trap.sprung(2))));
         CREATE TABLE trap.policed (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), n bigint);
         CREATE POLICY p ON trap.policed USING (trap.sprung(id) > 0);
         ALTER TABLE trap.policed ENABLE ROW LEVEL SECURITY;
         CREATE TABLE trap.unread (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'));
         REVOKE ALL ON trap.unread FROM mallory;
         INSERT INTO trap.checked VALUES (1000000); INSERT INTO trap.policed VALUES (2000000)",
    );
    for role in ["postgres", "watcher", "mallory"] {
        let mut client = cluster.connect_as(role, "postgres");
        let found: Vec<String> =
            client.all("SELECT object FROM hilo_check() WHERE what LIKE 'its value%'");
        assert_eq!(found, ["column trap.checked.id"], "{role}");
    }
    // The caller's own SELECT is what hilo_find_gaps needs, and no more than it gives.
    for (relation, column) in
        [("trap.checked", "id"), ("trap.policed", "id"), ("trap.unread", "id")]
    {
        mallory.run(&format!("REVOKE ALL ON {relation} FROM PUBLIC"));
        admin.run("CREATE ROLE nobody LOGIN; SELECT hilo_create('mine'); SELECT hilo_grant('mine', 'nobody', 'ALL')");
        let mut nobody = cluster.connect_as("nobody", "postgres");
        nobody
            .refusal(&format!("SELECT * FROM hilo_find_gaps('orders', '{relation}', '{column}')"))
            .is("42501");
        drop(nobody);
        admin.run("SELECT hilo_drop('mine'); DROP ROLE nobody");
    }
    cluster.finish();
}

/// A table that cannot be read keeps hilo_check from nothing but that table, as another session's
/// temporary one does. And of what a table's owner has put into its indexes nothing runs, whoever
/// calls.
#[test]
fn code_that_hilo_check_does_not_run() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE mallory LOGIN; CREATE SCHEMA trap AUTHORIZATION mallory; SELECT hilo_create('orders');
         CREATE TABLE late (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders')); INSERT INTO late VALUES (1000000);
         CREATE TEMPORARY TABLE own (LIKE late INCLUDING ALL); INSERT INTO own VALUES (1)",
    );
    let mut mallory = cluster.connect_as("mallory", "postgres");
    let sprung = |body: &str| {
        format!(
            "CREATE OR REPLACE FUNCTION trap.sprung(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN {body} RETURN $1; END $$"
        )
    };
    mallory.run(&sprung(""));
    mallory.run(
        "CREATE TABLE trap.open (id bigint DEFAULT hilo_nextval('orders'), n bigint);
         CREATE INDEX ON trap.open (id, (n + trap.sprung(2)));
         CREATE INDEX ON trap.open (id) WHERE trap.sprung(7) = 7;
         CREATE INDEX ON trap.open (id);
         CREATE INDEX ON trap.open (trap.sprung(id));
         INSERT INTO trap.open VALUES (2000000)",
    );
    let find =
        "SELECT object || ': ' || what FROM hilo_check() WHERE object LIKE 'column%' ORDER BY 1";
    let volatile = "CREATE OR REPLACE FUNCTION trap.plant() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
             EXECUTE 'CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (trap.sprung(1) = 1)'; END $$";
    mallory.run(volatile);
    for body in [
        "RAISE EXCEPTION 'trapped';",
        "RAISE EXCEPTION 'trapped' USING ERRCODE = '57014';",
        "PERFORM pg_sleep(3600);",
        "PERFORM trap.plant();",
    ] {
        mallory.run(&sprung(body));
        // A session of its own, which has planned nothing yet.
        let mut watcher = cluster.connect("postgres");
        watcher.run("SET statement_timeout = '20s'");
        let found: Vec<String> = watcher.all(find);
        assert_eq!(found.len(), 2, "{body}: {found:?}");
        assert!(
            found[0].starts_with("column public.late.id: its value 1000000 is yet to be served"),
            "{found:?}"
        );
        assert!(
            found[1].starts_with("column trap.open.id: its value 2000000 is yet to be served"),
            "{found:?}"
        );
        assert!(watcher.one::<bool>("SELECT current_user = 'postgres' AND 'x'::text = 'x'"));
        assert_eq!(watcher.one::<i64>("SELECT count(*) FROM pg_type WHERE typname = 'text'"), 1);
    }
    cluster.finish();
}
