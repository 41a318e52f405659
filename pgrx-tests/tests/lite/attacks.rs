//! Whatever a role writes into a request, or plants beside hilo_lite, it gets no right that nobody gave it.

use std::collections::BTreeSet;

use hilo_tests::{Client, ClientExt, Cluster};

use super::{cluster, script};

/// All that is written of the definitions but for where they go on.
fn definitions(client: &mut Client) -> Vec<String> {
    client.all("SELECT (to_jsonb(d) - '{next_value,epoch}'::text[])::text FROM _hilo.hilo_definition d ORDER BY id")
}

/// A request sets the options of its sequence, for who may set them, and none of its other columns.
#[test]
fn a_request_sets_no_column_that_it_is_not_for() {
    let (cluster, mut client) = cluster();
    client.run(
        "CREATE ROLE reader LOGIN IN ROLE pg_read_all_data; CREATE ROLE maker LOGIN; GRANT INSERT ON hilo_sequences TO maker;
         SELECT hilo_create('orders'), hilo_create('other'), hilo_nextrange('orders', 1000);
         SELECT hilo_grant('other', 'reader', 'UPDATE')",
    );
    let before = definitions(&mut client);
    let mut reader = cluster.connect_as("reader", "postgres");
    let request = "INSERT INTO _hilo.hilo_request (op, names, sizes, options)";
    for options in [
        r#"{"id": 1, "name": "orders"}"#,
        r#"{"id": 99, "name": "mine", "owner": "reader"}"#,
        r#"{"owner": "reader", "next_value": 5, "epoch": 77}"#,
        r#"{"min_value": -5, "max_value": 7, "cycle": true, "increment": -1, "gapless": true, "key_format": "{value}"}"#,
    ] {
        reader.run(&format!("{request} VALUES ('set', '{{other}}', '{{1}}', '{options}')"));
        let alter = format!("{request} VALUES ('alter', '{{other}}', '{{1}}', '{options}')");
        reader.refusal(&alter).is("42501").helps();
        let create = format!("{request} VALUES ('create', '{{fresh}}', NULL, '{options}')");
        reader.refusal(&create).is("42501").helps();
        assert_eq!(definitions(&mut client), before, "{options}");
    }
    assert_eq!(client.draw("orders", 1), [1001]);
    assert_eq!(client.draw("other", 1), [1]);
    // Whoever may create is the owner, of a sequence of its own.
    let mut maker = cluster.connect_as("maker", "postgres");
    let options = r#"{"id": 1, "name": "orders", "owner": "postgres", "next_value": 7, "epoch": 5, "increment": 2,
                      "cycle": false, "ordered": false, "gapless": false, "data_type": "bigint"}"#;
    let create = format!("{request} VALUES ('create', '{{fresh}}', NULL, '{options}')");
    maker.run(&create);
    let made = "SELECT concat_ws(' ', id, owner, next_value, epoch) FROM _hilo.hilo_definition WHERE name = 'fresh'";
    assert_eq!(client.all::<String>(made), ["3 maker 1 0"]);
    maker.run(&format!(
        "{request} VALUES ('alter', '{{fresh}}', NULL, '{{\"id\": 1, \"owner\": \"postgres\", \"next_value\": 9}}')"
    ));
    assert_eq!(client.all::<String>(made), ["3 maker 1 0"]);
    let nonsense = ["'\"x\"'", "'[1]'", "'{\"data_type\": \"x\"}'", "NULL"];
    for options in nonsense {
        let sql = format!("{request} VALUES ('create', '{{bad}}', NULL, {options})");
        assert!(maker.batch_execute(&sql).is_err(), "{options}");
    }
    for op in ["draw", "range", "lease", "set", "create", "alter", "grant", "refill", "swept", "x"]
    {
        let sql = format!("INSERT INTO _hilo.hilo_request (op) VALUES ('{op}')");
        let _ = maker.batch_execute(&sql);
    }
    let counters =
        "SELECT concat_ws(' ', name, next_value, epoch) FROM _hilo.hilo_definition ORDER BY id";
    assert_eq!(client.all::<String>(counters), ["orders 1002 0", "other 2 4", "fresh 1 0"]);
    cluster.finish();
}

/// The right to create is INSERT on the view: of its owner and the database's, and of whom they grant it to. No row is
/// inserted by it, and the right to create functions beside it is none.
#[test]
fn insert_on_the_view_is_the_right_to_create() {
    let cluster = Cluster::builder().start();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE tenant LOGIN; CREATE ROLE app LOGIN");
    admin.run("CREATE DATABASE shop OWNER tenant");
    let mut client = cluster.connect("shop");
    client.run("CREATE SCHEMA ids; GRANT ALL ON SCHEMA ids TO PUBLIC; SET search_path = ids");
    client.run(&script("hilo_lite--1.0.0.sql"));
    let mut app = cluster.connect_as("app", "shop");
    app.run("SET search_path = ids");
    app.refusal("SELECT hilo_create('a')")
        .is("42501")
        .details("role app needs INSERT on the view ids.hilo_sequences.")
        .hints(
            "The owner of the database grants it with: GRANT INSERT ON ids.hilo_sequences TO app;",
        );
    client.run("GRANT INSERT (name) ON hilo_sequences TO app");
    app.refusal("SELECT hilo_create('a')").is("42501");
    let mut tenant = cluster.connect_as("tenant", "shop");
    tenant.run("SET search_path = ids; SELECT hilo_create('t')");
    tenant.run("GRANT INSERT ON hilo_sequences TO app; ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO app");
    app.run("SELECT hilo_create('a')");
    for sql in [
        "INSERT INTO hilo_sequences (name, id, owner) VALUES ('x', 9, 'app')",
        "INSERT INTO hilo_sequences (name) SELECT 'x'",
        "INSERT INTO hilo_sequences DEFAULT VALUES",
        "COPY hilo_sequences (name) FROM STDIN",
        "UPDATE hilo_sequences SET next_value = 1",
        "DELETE FROM hilo_sequences",
    ] {
        assert!(app.batch_execute(sql).is_err(), "{sql}");
    }
    tenant.run("REVOKE INSERT ON hilo_sequences FROM app");
    app.refusal("SELECT hilo_create('b')").is("42501");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), 2);
    cluster.finish();
}

/// Who gets rights on each new table of the role that runs the script gets none on those of hilo_lite.
#[test]
fn default_privileges_give_nothing_away() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE ROLE app LOGIN; CREATE ROLE \"We ird\" LOGIN; GRANT CREATE ON SCHEMA public TO app;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO app, \"We ird\", PUBLIC;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO app, PUBLIC;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO app",
    );
    client.run(&script("hilo_lite--1.0.0.sql"));
    let given = "SELECT concat_ws(' ', c.relname, x.grantee::regrole, x.privilege_type)
                   FROM pg_class c, aclexplode(c.relacl) AS x
                  WHERE (c.relnamespace = '_hilo'::regnamespace OR c.relname = 'hilo_sequences') AND x.grantee <> c.relowner
                  ORDER BY 1";
    assert_eq!(
        client.all::<String>(given),
        [
            "hilo_readable - SELECT",
            "hilo_sequences - SELECT",
            "hilo_sequences pg_database_owner INSERT"
        ]
    );
    client.run("SELECT hilo_create('s')");
    let mut app = cluster.connect_as("app", "postgres");
    for sql in [
        "UPDATE _hilo.hilo_definition SET next_value = 1",
        "SELECT hilo_create('a')",
        "SELECT hilo_nextval('s')",
        "SELECT _hilo.hilo_cut(d, 1, false) FROM _hilo.hilo_definition d",
        "SELECT _hilo.hilo_may('app', 1, '{}')",
        "CREATE TABLE t (a int); CREATE TRIGGER t BEFORE INSERT ON t EXECUTE FUNCTION _hilo.hilo_answer()",
        "SELECT setval('_hilo.hilo_definition_id', 1)",
    ] {
        app.refusal(sql).is("42501");
    }
    cluster.finish();
}

/// Each function of hilo_lite, as CREATE FUNCTION wants it, with another type for each argument, and with one for all. Types
/// of hilo_lite's own are text.
const OTHERS: &str = r"
    WITH f AS (
        SELECT p.oid, p.proname, ARRAY(
                   SELECT CASE WHEN typname LIKE 'hilo%' OR typname LIKE '\_hilo%' THEN 'text'
                               ELSE format_type(t.oid, NULL) END
                     FROM unnest(p.proargtypes) WITH ORDINALITY AS a (oid, n) JOIN pg_type t ON t.oid = a.oid ORDER BY n) AS types
          FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
         WHERE n.nspname = '_hilo' OR n.nspname = 'public' AND p.proname LIKE 'hilo\_%'
    ), o AS (
        SELECT DISTINCT proname, array_to_string(ARRAY(
                   SELECT CASE WHEN at IN (0, n) THEN other ELSE t END
                     FROM unnest(types) WITH ORDINALITY AS x (t, n) ORDER BY n), ', ') AS types
          FROM f, generate_series(0, cardinality(types)) AS at,
               unnest('{text,name,varchar,integer,bigint,numeric,smallint,regclass,oid,anyelement,jsonb,boolean}'::text[]) AS other
    )
    SELECT format('CREATE FUNCTION ids.%I(%s) RETURNS text LANGUAGE plpgsql AS ''BEGIN RAISE ''''planted''''; END''', proname, types)
      FROM o WHERE to_regprocedure(format('public.%I(%s)', proname, types)) IS NULL";

/// Functions of hilo_lite's names, with other types for their arguments, lie beside it before it is installed and
/// afterwards. None of them runs.
#[test]
fn no_planted_function_runs() {
    let (cluster, mut reference) = cluster();
    let others: BTreeSet<String> = reference.all::<String>(OTHERS).into_iter().collect();
    assert!(others.len() > 1000, "{}", others.len());
    reference.run("CREATE ROLE tenant LOGIN; CREATE ROLE app LOGIN");
    reference.run("CREATE DATABASE shop OWNER tenant");
    let mut tenant = cluster.connect_as("tenant", "shop");
    tenant.run("CREATE SCHEMA ids; GRANT ALL ON SCHEMA ids TO app; SET search_path = ids");
    let mut app = cluster.connect_as("app", "shop");
    let mut plant = || -> usize {
        app.run("BEGIN");
        let made = others.iter().filter(|sql| {
            app.run("SAVEPOINT a");
            let made = app.batch_execute(sql).is_ok();
            app.run(if made { "RELEASE a" } else { "ROLLBACK TO a; RELEASE a" });
            made
        });
        let made = made.count();
        app.run("COMMIT");
        made
    };
    assert!(plant() > 1000);
    tenant.run(&script("hilo_lite--1.0.0.sql"));
    plant();
    let bound = "SELECT count(*) FROM pg_depend d JOIN pg_proc p ON d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid
                  WHERE p.proowner = 'app'::regrole";
    assert_eq!(tenant.one::<i64>(bound), 0);
    let seq = "::ids.hilo_sequence";
    for call in [
        format!("ids.hilo_create('s'{seq}, gapless => true, key_format => '{{value:05}}'::text)"),
        format!("ids.hilo_create('t'{seq}, increment => 5::bigint)"),
        format!("ids.hilo_alter('s'{seq}, gapless => false)"),
        format!("ids.hilo_nextval('s'{seq})"),
        format!("ids.hilo_nextrange('s'{seq}, 5::bigint)"),
        format!("ids.hilo_nextkey('s'{seq})"),
        format!("ids.hilo_key('s'{seq}, 5::bigint)"),
        format!("ids.hilo_key_value('s'{seq}, '00005'::text)"),
        format!("ids.hilo_lease('s'{seq}, 5::bigint, 'x'::text, '1 hour'::interval)"),
        format!("ids.hilo_lease('s'{seq}, 5::bigint, 'y'::text, '1 hour'::interval)"),
        "ids.hilo_lease_renew(lease, '2 hours'::interval) FROM ids.hilo_leases".into(),
        "ids.hilo_lease_return(lease, first + 1::bigint) FROM ids.hilo_leases WHERE holder = 'x'"
            .into(),
        "ids.hilo_lease_revoke(NULL::uuid, 'y'::text)".into(),
        "ids.hilo_refill(names => '{s,t}'::text[], sizes => '{5,5}'::bigint[])".into(),
        "count(*) FROM ids.hilo_leases, ids.hilo_gaps, ids.hilo_sequences".into(),
        format!("ids.hilo_grant('s'{seq}, 'app'::text, 'ALL'::text)"),
        format!("ids.hilo_revoke('s'{seq}, 'app'::text, 'ALL'::text)"),
        "ids.hilo_grant_all('app'::text, 'USAGE'::text)".into(),
        format!("ids.hilo_setval('s'{seq}, 500::bigint)"),
        format!("ids.hilo_rename('s'{seq}, 'u'{seq})"),
        format!("ids.hilo_drop('u'{seq}, true)"),
    ] {
        tenant.run(&format!("SELECT {call}"));
    }
    cluster.finish();
}

/// Texts without end are not repeated in errors.
#[test]
fn errors_do_not_repeat_what_has_no_end() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('s')");
    for call in [
        "hilo_nextval(long)",
        "hilo_create(long)",
        "hilo_lease('s', 5, long)",
        "hilo_alter('s', key_format => long)",
        "hilo_key(long, 5)",
        "hilo_key_value('s', long)",
        "hilo_grant('s', 'public', long)",
    ] {
        let sql = format!("SELECT {call} FROM repeat('x', 1000000) AS long");
        let refusal = client.refusal(&sql);
        assert!(refusal.report().message().len() < 600, "{call}");
    }
    cluster.finish();
}

/// With the setting that makes a backslash special, which anybody may set before PostgreSQL 19, keys are those that they are.
#[test]
fn backslashes_in_texts_change_nothing() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect("postgres");
    if client.one::<i32>("SELECT current_setting('server_version_num')::int") < 190_000 {
        client.run("SET standard_conforming_strings = off; SET escape_string_warning = off");
    }
    client.run(&script("hilo_lite--1.0.0.sql"));
    client.run("SELECT hilo_create('s', key_format => '{server}-{value:05}'), hilo_grant('s', 'public', 'usage, select')");
    client.run("SET hilo.server_prefix = 'a'");
    assert_eq!(client.one::<String>("SELECT hilo_nextkey('s')"), "a-00001");
    assert_eq!(client.one::<i64>("SELECT hilo_key_value('s', 'a-00001')"), 1);
    client.run(
        "SET hilo.server_prefix = 'a7'; SELECT hilo_alter('s', key_format => '{server}/{value}')",
    );
    client.refusal("SELECT hilo_alter('s', key_format => '{server}{value')").is("22023");
    client.refusal("SELECT hilo_alter('s', key_format => '{server}{value}')").is("22023");
    assert_eq!(client.one::<String>("SELECT hilo_nextkey('s')"), "a7/2");
    cluster.finish();
}
