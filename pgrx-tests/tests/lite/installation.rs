//! hilo_lite is installed as an extension, or by psql alone, by whoever may create schemas; a dump brings it back.

use hilo_tests::{ClientExt, Cluster};

use super::{cluster, drop_additions, lease, script};

/// A role that is no superuser runs the script by psql, in a schema of its choice; and everybody's calls are its own
/// afterwards.
#[test]
fn psql_is_enough() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect("postgres");
    client.run("CREATE ROLE tenant LOGIN; CREATE ROLE app LOGIN");
    client.run("CREATE DATABASE shop OWNER tenant");
    let mut shop = cluster.connect_as("tenant", "shop");
    shop.run("CREATE SCHEMA ids; GRANT USAGE ON SCHEMA ids TO app; SET search_path = ids");
    shop.run(&script("hilo_lite--1.0.0.sql"));
    shop.run("SELECT hilo_create('s'), hilo_grant('s', 'app', 'USAGE')");
    shop.run(
        "CREATE TABLE t (id bigint DEFAULT hilo_nextval('s')); GRANT INSERT, SELECT ON t TO app",
    );
    let mut app = cluster.connect_as("app", "shop");
    app.run("INSERT INTO ids.t VALUES (DEFAULT), (DEFAULT)");
    assert_eq!(app.all::<i64>("SELECT id FROM ids.t"), [1, 2]);
    // It says what is there, and that nothing has changed.
    shop.refusal(&script("hilo_lite--1.0.0.sql"))
        .is("42710")
        .says("hilo_lite 1.0.0 is in this database already")
        .hints("Nothing is changed.");
    app.run("INSERT INTO ids.t VALUES (DEFAULT)");
    cluster.finish();
}

/// Names that programs ask for without a schema are not taken: all of hilo_lite's have its prefix, also those in _hilo. Users
/// see what they call, and nobody but the owner may create in _hilo.
#[test]
fn all_names_have_the_prefix() {
    let (cluster, mut client) = cluster();
    let members = "SELECT pg_describe_object(classid, objid, 0) FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
                    WHERE e.extname = 'hilo_lite' AND d.deptype = 'e'";
    let members = client.all::<String>(members);
    assert!(members.len() > 40, "{members:?}");
    let strange = "SELECT n.nspname || '.' || o.name FROM (
                       SELECT relnamespace AS schema, relname AS name FROM pg_class
                       UNION ALL SELECT typnamespace, ltrim(typname, '_') FROM pg_type
                       UNION ALL SELECT pronamespace, proname FROM pg_proc
                       UNION ALL SELECT connamespace, conname FROM pg_constraint) AS o
                   JOIN pg_namespace n ON n.oid = o.schema
                  WHERE n.nspname IN ('_hilo', 'public') AND o.name NOT LIKE 'hilo\\_%'";
    assert_eq!(client.all::<String>(strange), Vec::<String>::new());
    let public = "SELECT string_agg(DISTINCT proname, ' ' ORDER BY proname) FROM pg_proc
                   WHERE pronamespace = 'public'::regnamespace AND proname <> 'hilo_find_gaps'";
    assert_eq!(
        client.one::<String>(public),
        "hilo_alter hilo_create hilo_drop hilo_grant hilo_grant_all hilo_key hilo_key_value hilo_lease hilo_lease_renew \
         hilo_lease_return hilo_lease_revoke hilo_nextkey hilo_nextrange hilo_nextval hilo_refill hilo_rename hilo_revoke \
         hilo_setval"
    );
    let rights =
        "SELECT string_agg(x.privilege_type, ' ') FROM pg_namespace n, aclexplode(n.nspacl) AS x
                   WHERE n.nspname = '_hilo' AND x.grantee <> n.nspowner";
    assert_eq!(client.one::<String>(rights), "USAGE");
    client.run("DROP FUNCTION hilo_find_gaps; DROP EXTENSION hilo_lite");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM pg_namespace WHERE nspname = '_hilo'"), 0);
    cluster.finish();
}

/// A dump holds positions and leases, whichever way it was installed.
#[test]
fn a_dump_brings_back_positions_and_leases() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('s', increment => 5)");
    for database in ["extension", "plain", "source"] {
        client.run(&format!("CREATE DATABASE {database}"));
    }
    let mut source = cluster.connect("source");
    source.run(&script("hilo_lite--1.0.0.sql"));
    source.run("SELECT hilo_create('s', increment => 5)");
    for (from, to, mut client) in [("postgres", "extension", client), ("source", "plain", source)] {
        client.draw("s", 3);
        let (name, first, last) = lease(&mut client, "'s', 10");
        if from == "postgres" {
            drop_additions(&mut client);
        }
        let dump = cluster.pg_dump(from, &[]);
        cluster.restore(to, &dump);
        let mut copy = cluster.connect(to);
        assert_eq!(copy.draw("s", 1), [last + 5]);
        assert_eq!(
            copy.one::<i64>(&format!("SELECT hilo_lease_return('{name}', {first} + 15)")),
            7
        );
        assert_eq!(copy.one::<String>("SELECT hilo_create('t')"), "t");
    }
    cluster.finish();
}

/// Operators and functions for pairs of types for which core has none.
const BAIT: &str = r"
DO $$ DECLARE o record; f record; BEGIN
    FOR o IN SELECT n, l, r, CASE WHEN n ~ '[=<>~]' THEN 'boolean' ELSE l END AS result,
                    'op_' || md5(n || l || r) AS function
               FROM unnest('{=,<>,<,>,<=,>=,+,-,*,~,!~,~~,||}'::text[]) n,
                    unnest('{bigint,integer,numeric,oid,regclass,regrole,regtype,text,name,boolean}'::text[]) l,
                    unnest('{bigint,integer,numeric,oid,regclass,regrole,regtype,text,name,boolean}'::text[]) r
              WHERE to_regoperator(format('pg_catalog.%s(%s,%s)', n, l, r)) IS NULL
    LOOP
        EXECUTE format('CREATE FUNCTION bait.%I(%s, %s) RETURNS %s LANGUAGE plpgsql AS $f$ BEGIN RETURN NULL; END $f$',
                       o.function, o.l, o.r, o.result);
        EXECUTE format('CREATE OPERATOR bait.%s (FUNCTION = bait.%I, LEFTARG = %s, RIGHTARG = %s)',
                       o.n, o.function, o.l, o.r);
    END LOOP;
    FOR f IN SELECT DISTINCT p.proname, t
               FROM pg_proc p,
                    unnest(ARRAY['bigint', 'oid', 'text', 'name', 'bigint,bigint', 'text,text', 'name,text', 'oid,text',
                                 'text,integer', 'text,boolean', 'text,text,text', 'regrole', 'record',
                                 'bigint,bigint,bigint']) AS t
              WHERE p.pronamespace = 'pg_catalog'::regnamespace
                AND p.proname IN ('pg_has_role', 'max', 'count', 'lpad', 'length', 'ltrim', 'substr', 'format', 'unnest',
                                  'to_jsonb', 'current_setting', 'jsonb_build_object', 'pg_get_userbyid',
                                  'clock_timestamp', 'pg_extension_config_dump')
                AND to_regprocedure(format('pg_catalog.%I(%s)', p.proname, t)) IS NULL
    LOOP
        EXECUTE format('CREATE FUNCTION bait.%I(%s) RETURNS text LANGUAGE plpgsql AS $f$ BEGIN RETURN NULL; END $f$',
                       f.proname, f.t);
    END LOOP;
END $$";

/// Whoever may create functions and operators where hilo_lite is to be installed has none there that it then uses.
#[test]
fn an_installation_binds_nothing_of_others() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect("postgres");
    client.run("CREATE ROLE app; CREATE SCHEMA bait AUTHORIZATION app; SET search_path = bait");
    client.run(&format!("SET ROLE app; {BAIT}; RESET ROLE"));
    let planted = "SELECT count(*) FROM pg_operator WHERE oprnamespace = 'bait'::regnamespace";
    assert!(client.one::<i64>(planted) > 500);
    client.run(&script("hilo_lite--1.0.0.sql"));
    let bound = "SELECT pg_describe_object(d.classid, d.objid, 0) || ' uses ' ||
                        pg_describe_object(d.refclassid, d.refobjid, 0)
                   FROM pg_depend d
                   LEFT JOIN pg_proc p ON d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid
                   LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
                  WHERE coalesce(p.proowner, o.oprowner) = 'app'::regrole
                    AND pg_describe_object(d.classid, d.objid, 0) NOT LIKE 'operator %'";
    assert_eq!(client.all::<String>(bound), Vec::<String>::new());
    assert_eq!(client.one::<i64>("SELECT hilo_nextval(hilo_create('s'))"), 1);
    cluster.finish();
}
