//! The owner of hilo_lite, who need not be a superuser, puts code of his own wherever he can. A superuser who then puts hilo in
//! its place runs none of it, and column defaults call hilo.

use hilo_tests::{Client, ClientExt, Cluster, assert_unique};

use super::conversion::convert;
use super::script;

/// `evil` counts how often a superuser runs it, which no rollback takes back. `fixed` does so where only an immutable function
/// may stand.
const EVIL: &str = "
    CREATE SEQUENCE public.runs;
    CREATE FUNCTION public.evil() RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_catalog.nextval('public.runs'::regclass) FROM pg_catalog.pg_roles WHERE rolname = current_user AND rolsuper;
        RETURN true;
    END $$;
    CREATE FUNCTION public.fixed() RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN public.evil(); END';
    CREATE DOMAIN public.d AS text CHECK (public.evil())";

/// A server, and a database of it whose owner has installed hilo_lite by psql, and used it.
fn hostile() -> (Cluster, Client) {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE mallory LOGIN");
    admin.run("CREATE DATABASE model OWNER mallory");
    let mut mallory = cluster.connect_as("mallory", "model");
    mallory.run("CREATE SCHEMA ids; SET search_path = ids");
    mallory.run(&script("hilo_lite--1.0.0.sql"));
    mallory.run("SELECT hilo_create('s'), hilo_nextrange('s', 5), hilo_lease('s', 10)");
    mallory.run("SELECT hilo_lease_return(lease, first + 5) FROM hilo_leases");
    mallory.run("SELECT hilo_grant('s', 'public', 'USAGE')");
    mallory.run(EVIL);
    (cluster, admin)
}

/// A copy of that database in which its owner has run the attack.
fn attacked(cluster: &Cluster, admin: &mut Client, name: &str, attack: &str) {
    admin.run(&format!("CREATE DATABASE {name} TEMPLATE model OWNER mallory"));
    let mut mallory = cluster.connect_as("mallory", name);
    mallory.run("SET search_path = ids");
    mallory.run(attack);
}

#[track_caller]
fn assert_not_run(client: &mut Client, attack: &str) {
    assert!(!client.one::<bool>("SELECT is_called FROM public.runs"), "{attack}");
}

/// Tables in which a query could run something are not taken for hilo_lite's.
#[test]
fn code_in_tables_is_refused() {
    let (cluster, mut admin) = hostile();
    let view = "ALTER TABLE _hilo.T RENAME TO real; CREATE VIEW _hilo.T AS SELECT * FROM _hilo.real WHERE public.evil()";
    let attacks = [
        (view, "hilo_definition"),
        (view, "hilo_lease"),
        (view, "hilo_unused"),
        (view, "hilo_privilege"),
        (
            "ALTER TABLE _hilo.T RENAME TO real; CREATE TABLE _hilo.T (LIKE _hilo.real) PARTITION BY LIST ((public.fixed() = (sequence > 0)))",
            "hilo_lease",
        ),
        ("CREATE INDEX ON _hilo.T ((public.fixed()))", "hilo_definition"),
        ("CREATE INDEX ON _hilo.T (sequence) WHERE public.fixed()", "hilo_lease"),
        ("CREATE STATISTICS public.x ON (public.fixed()) FROM _hilo.T", "hilo_unused"),
        ("ALTER TABLE _hilo.T ADD CHECK (public.evil())", "hilo_privilege"),
        (
            "ALTER TABLE _hilo.T ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON _hilo.T USING (public.evil())",
            "hilo_definition",
        ),
        ("CREATE RULE r AS ON INSERT TO _hilo.T DO ALSO SELECT public.evil()", "hilo_lease"),
        ("CREATE TABLE public.child () INHERITS (_hilo.T)", "hilo_unused"),
        (
            "ALTER TABLE _hilo.T ADD more boolean GENERATED ALWAYS AS (public.fixed()) STORED",
            "hilo_lease",
        ),
        (
            "ALTER TABLE _hilo.T DROP privilege, ADD privilege text GENERATED ALWAYS AS (public.fixed()::text) STORED",
            "hilo_privilege",
        ),
        ("ALTER TABLE _hilo.T ALTER reason TYPE public.d", "hilo_unused"),
        ("ALTER TABLE _hilo.T DROP name CASCADE, ADD name public.d", "hilo_definition"),
        ("ALTER TABLE _hilo.T DROP privilege", "hilo_privilege"),
    ];
    let conversion = format!("BEGIN; {}; COMMIT", script("hilo_lite_to_hilo.sql"));
    for (number, (attack, table)) in attacks.into_iter().enumerate() {
        let (name, attack) =
            (format!("attacked{number}"), attack.replace("_hilo.T", &format!("_hilo.{table}")));
        // A view of its own depends on what some attacks change.
        attacked(&cluster, &mut admin, &name, "DROP VIEW hilo_leases, hilo_gaps CASCADE");
        cluster.connect_as("mallory", &name).run(&attack);
        let mut client = cluster.connect(&name);
        println!("{attack}");
        client.refusal(&conversion).is("55000").helps();
        client.run("ROLLBACK");
        assert_not_run(&mut client, &attack);
    }
    cluster.finish();
}

/// All else that the owner has made or changed is dropped, and does not run.
#[test]
fn code_elsewhere_does_not_run() {
    let (cluster, mut admin) = hostile();
    let attacks = [
        "ALTER DOMAIN hilo_sequence ADD CHECK (public.evil())",
        "CREATE OR REPLACE VIEW hilo_sequences AS SELECT * FROM _hilo.hilo_readable WHERE public.evil();
         CREATE OR REPLACE FUNCTION _hilo.hilo_view() RETURNS regclass LANGUAGE sql
             RETURN CASE WHEN public.evil() THEN 'hilo_sequences'::regclass END",
        "CREATE FUNCTION public.t() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM public.evil(); RETURN NULL; END';
         CREATE TRIGGER t AFTER DELETE OR UPDATE OR TRUNCATE ON _hilo.hilo_definition EXECUTE FUNCTION public.t();
         CREATE TRIGGER t BEFORE DELETE OR TRUNCATE ON _hilo.hilo_lease EXECUTE FUNCTION public.t()",
        // Names that the script uses, before those of core in its search_path.
        "CREATE SCHEMA bait;
         DO $$ DECLARE f record; BEGIN
             FOR f IN SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS arguments, format_type(prorettype, NULL) AS result
                        FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND p.proname IN (
                            'format', 'format_type', 'quote_ident', 'clock_timestamp', 'now', 'pg_get_expr', 'regexp_replace',
                            'trunc', 'aclexplode', 'regexp_match', 'nameeq', 'array_append')
                         AND NOT p.proretset AND p.provariadic = 0
             LOOP
                 EXECUTE format('CREATE FUNCTION bait.%I(%s) RETURNS %s LANGUAGE plpgsql AS ''BEGIN PERFORM public.evil(); RETURN NULL; END''',
                                f.proname, f.arguments, f.result);
             END LOOP;
             EXECUTE format('ALTER DATABASE %I SET search_path = bait, ids, pg_catalog', current_database());
             IF current_setting('server_version_num')::integer < 190000 THEN
                 EXECUTE format('ALTER DATABASE %I SET standard_conforming_strings = off', current_database());
             END IF;
             EXECUTE format('ALTER DATABASE %I SET constraint_exclusion = on', current_database());
             EXECUTE format('ALTER DATABASE %I SET row_security = off', current_database());
         END $$",
        // Texts of defaults that look like calls, or like the end of one.
        "CREATE TABLE public.t (a text DEFAULT concat('abc(', '::text)::ids.hilo_sequence; ALTER ROLE mallory SUPERUSER; --',
                                                      hilo_nextval('s')),
                                b text DEFAULT concat('(''x''::text)::ids.hilo_sequence', hilo_nextkey('s')),
                                c bigint DEFAULT hilo_nextval($q$'::text)::ids.hilo_sequence); ALTER ROLE mallory SUPERUSER; --$q$))",
    ];
    for (number, attack) in attacks.into_iter().enumerate() {
        let name = format!("attacked{number}");
        attacked(&cluster, &mut admin, &name, attack);
        convert(&cluster, &name);
        let mut client = cluster.connect(&name);
        // 1 to 5 and 6 to 10 are in use, and 11 to 15 came back.
        assert_eq!(
            client.one::<i64>("SELECT ids.hilo_nextval('s'::ids.hilo_sequence)"),
            11,
            "{attack}"
        );
        assert_not_run(&mut client, attack);
    }
    let mut client = cluster.connect("attacked4");
    let value = "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'public.t'::regclass ORDER BY adnum";
    let quoted =
        "'''::text)::ids.hilo_sequence); ALTER ROLE mallory SUPERUSER; --'::ids.hilo_sequence";
    assert_eq!(client.all::<String>(value)[2], format!("ids.hilo_nextval({quoted})"));
    cluster.finish();
}

/// Functions of hilo's names with other types, planted before, are no column's default afterwards, and no number comes twice.
#[test]
fn defaults_call_hilo_whatever_is_planted() {
    let (cluster, mut admin) = hostile();
    let plant = "
        GRANT ALL ON SCHEMA ids TO PUBLIC;
        CREATE TABLE public.t (id bigint DEFAULT hilo_nextval('s'), key text DEFAULT hilo_nextkey('s'),
                               other bigint DEFAULT 5 + hilo_nextval(lower('S')));
        CREATE TABLE public.child (own bigint DEFAULT hilo_nextval('s')) INHERITS (public.t);
        ALTER TABLE public.child ALTER id SET DEFAULT 77;
        INSERT INTO public.t DEFAULT VALUES; INSERT INTO public.t DEFAULT VALUES";
    attacked(&cluster, &mut admin, "shop", plant);
    admin.run("CREATE ROLE sam LOGIN");
    let mut sam = cluster.connect_as("sam", "shop");
    for kind in ["text", "varchar", "name", "anyelement", "unknown", "cstring"] {
        for function in ["hilo_nextval", "hilo_nextkey", "hilo_sequence"] {
            let result = if function == "hilo_nextval" { "bigint" } else { "text" };
            let body = "LANGUAGE plpgsql AS 'BEGIN RAISE ''planted''; END'";
            let _ = sam.batch_execute(&format!(
                "CREATE FUNCTION ids.{function}({kind}) RETURNS {result} {body}"
            ));
        }
    }
    convert(&cluster, "shop");
    let mut client = cluster.connect("shop");
    client.run("SET search_path = pg_catalog");
    let defaults = "SELECT attrelid::regclass || ' ' || attname || ' ' || pg_get_expr(adbin, adrelid)
                      FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
                     WHERE adrelid IN ('public.t'::regclass, 'public.child'::regclass) ORDER BY adrelid, adnum";
    assert_eq!(
        client.all::<String>(defaults),
        [
            "public.t id ids.hilo_nextval('s'::ids.hilo_sequence)",
            "public.t key ids.hilo_nextkey('s'::ids.hilo_sequence)",
            "public.t other (5 + ids.hilo_nextval((lower('S'::text))::ids.hilo_sequence))",
            "public.child id 77",
            "public.child key ids.hilo_nextkey('s'::ids.hilo_sequence)",
            "public.child other (5 + ids.hilo_nextval((lower('S'::text))::ids.hilo_sequence))",
            "public.child own ids.hilo_nextval('s'::ids.hilo_sequence)",
        ]
    );
    let mut mallory = cluster.connect_as("mallory", "shop");
    for _ in 0..3 {
        mallory.run("INSERT INTO public.t DEFAULT VALUES; INSERT INTO public.child DEFAULT VALUES");
    }
    let seen = "SELECT id FROM ONLY public.t UNION ALL SELECT split_part(key, '/', 2)::bigint FROM public.t
                UNION ALL SELECT other - 5 FROM public.t UNION ALL SELECT own FROM public.child";
    let seen = client.all::<i64>(seen);
    assert_eq!(seen.len(), 5 + 8 + 8 + 3);
    assert_unique("s", &seen);
    cluster.finish();
}

/// Who could create sequences can, and nobody else; roles that have been dropped leave their sequences to the superuser.
#[test]
fn rights_go_on_and_nobody_gets_one() {
    let (cluster, mut admin) = hostile();
    admin.run("CREATE ROLE maker LOGIN; CREATE ROLE \"Gone X\" LOGIN; CREATE ROLE app LOGIN");
    let attack = "
        GRANT USAGE ON SCHEMA ids TO maker, app, \"Gone X\";
        GRANT INSERT ON hilo_sequences TO maker, \"Gone X\" WITH GRANT OPTION; SELECT hilo_grant('s', 'Gone X', 'ALL')";
    attacked(&cluster, &mut admin, "shop", attack);
    let mut gone = cluster.connect_as("Gone X", "shop");
    gone.run("SELECT ids.hilo_create('left'), ids.hilo_grant('left', 'app', 'USAGE')");
    gone.run("SELECT ids.hilo_lease('left', 5)");
    drop(gone);
    cluster.connect("shop").run("REVOKE ALL ON ids.hilo_sequences FROM \"Gone X\"; REVOKE ALL ON SCHEMA ids FROM \"Gone X\"");
    admin.run("DROP ROLE \"Gone X\"");
    convert(&cluster, "shop");
    for (role, may) in [("maker", true), ("mallory", true), ("app", false)] {
        let mut client = cluster.connect_as(role, "shop");
        let made = client
            .batch_execute(&format!("SELECT ids.hilo_create('of {role}'::ids.hilo_sequence)"));
        assert_eq!(made.is_ok(), may, "{role}: {made:?}");
    }
    let mut client = cluster.connect("shop");
    let sequences =
        "SELECT name || ' ' || owner FROM ids.hilo_sequences ORDER BY name::text COLLATE \"C\"";
    assert_eq!(
        client.all::<String>(sequences),
        ["left postgres", "of maker maker", "of mallory mallory", "s mallory"]
    );
    let mut app = cluster.connect_as("app", "shop");
    app.run("SELECT ids.hilo_nextval('left'::ids.hilo_sequence), ids.hilo_nextval('s'::ids.hilo_sequence)");
    app.refusal("SELECT ids.hilo_setval('s'::ids.hilo_sequence, 5)").is("42501");
    cluster.finish();
}
