//! Things that a role without rights cannot reach, change or block: the catalog, the settings, the
//! worker and other roles' sequences; and malformed input.

use std::io::Write;

use hilo_tests::{Client, ClientExt, Cluster};

/// The role mallory, who owns the database shop and may create in its schema public. The extension
/// and a sequence `orders` there, which are the superuser's.
fn shop(cluster: &Cluster) -> Client {
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE mallory LOGIN");
    admin.run("CREATE DATABASE shop OWNER mallory");
    let mut admin = cluster.connect("shop");
    admin.run(
        "CREATE EXTENSION hilo; GRANT CREATE ON SCHEMA public TO mallory; GRANT INSERT ON hilo_sequences TO mallory; SELECT hilo_create('orders')",
    );
    admin
}

const TABLES: [&str; 6] = ["definition", "position", "free_range", "gap", "lease", "privilege"];

/// Whoever has no privilege neither reads nor writes nor locks nor changes the tables, nor what is
/// in schema _hilo, nor the extension. Default privileges of who creates the extension make no
/// difference.
#[test]
fn the_catalog_is_closed() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE mallory LOGIN; CREATE ROLE clerk LOGIN");
    admin.run("CREATE DATABASE shop OWNER mallory");
    let mut admin = cluster.connect("shop");
    // The owner of the database reads the tables, for its dumps: see servers/owner_dumps.rs.
    let mut clerk = cluster.connect_as("clerk", "shop");
    for role in ["PUBLIC", "mallory"] {
        admin.run(&format!(
            "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {role}; ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO {role}"
        ));
    }
    admin.run("CREATE EXTENSION hilo; SELECT hilo_create('orders'), hilo_nextval('orders')");
    let let_in: Vec<String> = admin.all(
        "SELECT DISTINCT a.grantee::regrole::text FROM pg_class c, aclexplode(c.relacl) a
          WHERE c.relnamespace = '_hilo'::regnamespace AND a.grantee <> c.relowner
            AND NOT (c.relname IN ('hilo_finding', 'hilo_visible', 'hilo_upstream', 'hilo_facade_part', 'hilo_counter_query', 'hilo_loss', 'hilo_mapper', 'hilo_core_feed', 'hilo_open_lease') AND a.grantee = 0 AND a.privilege_type = 'SELECT')
            AND NOT (a.grantee = 'pg_database_owner'::regrole AND a.privilege_type = 'SELECT')",
    );
    // Who was let in by name is; hilo_check says so.
    assert_eq!(let_in, ["mallory"]);
    let revoke: String = admin.one("SELECT fix FROM hilo_check() WHERE object = 'role mallory'");
    admin.run(&revoke);
    admin.run(
        "REVOKE ALL ON SCHEMA _hilo, public FROM mallory; REVOKE SELECT ON ALL TABLES IN SCHEMA _hilo FROM mallory",
    );
    assert_eq!(admin.one::<i64>("SELECT count(*) FROM hilo_check() WHERE object LIKE 'role%'"), 0);
    let mut mallory = cluster.connect_as("mallory", "shop");
    mallory.run("CREATE SCHEMA trap; GRANT ALL ON SCHEMA trap TO clerk; CREATE FUNCTION trap.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'");
    for table in TABLES {
        for sql in [
            "SELECT * FROM _hilo.hilo_{t}",
            "SELECT * FROM _hilo.hilo_{t} FOR UPDATE",
            "INSERT INTO _hilo.hilo_{t} DEFAULT VALUES",
            "UPDATE _hilo.hilo_{t} SET {c} = 1",
            "DELETE FROM _hilo.hilo_{t}",
            "TRUNCATE _hilo.hilo_{t}",
            "COPY _hilo.hilo_{t} TO STDOUT",
            "COPY _hilo.hilo_{t} FROM STDIN",
            "BEGIN; LOCK _hilo.hilo_{t} IN ACCESS SHARE MODE",
            "BEGIN; LOCK _hilo.hilo_{t}",
            "ALTER TABLE _hilo.hilo_{t} ADD x int",
            "ALTER TABLE _hilo.hilo_{t} OWNER TO mallory",
            "ALTER TABLE _hilo.hilo_{t} DISABLE TRIGGER ALL",
            "CREATE TRIGGER t BEFORE UPDATE ON _hilo.hilo_{t} FOR EACH ROW EXECUTE FUNCTION trap.f()",
            "CREATE RULE r AS ON UPDATE TO _hilo.hilo_{t} DO INSTEAD NOTHING",
            "CREATE POLICY p ON _hilo.hilo_{t}",
            "ALTER TABLE _hilo.hilo_{t} ENABLE ROW LEVEL SECURITY",
            "CREATE INDEX ON _hilo.hilo_{t} ({c})",
            "CREATE TABLE trap.heir () INHERITS (_hilo.hilo_{t})",
            "CREATE TABLE trap.keyed (x bigint REFERENCES _hilo.hilo_{t})",
            "DROP TABLE _hilo.hilo_{t}",
            "GRANT ALL ON _hilo.hilo_{t} TO mallory",
            "COMMENT ON TABLE _hilo.hilo_{t} IS ''",
            "REINDEX TABLE _hilo.hilo_{t}",
            "CLUSTER _hilo.hilo_{t}",
        ] {
            // This table has no key to refer to.
            if table == "gap" && sql.contains("REFERENCES") {
                continue;
            }
            let column = if table == "definition" { "id" } else { "sequence" };
            clerk.refusal(&sql.replace("{t}", table).replace("{c}", column)).is("42501");
            clerk.run("ROLLBACK");
        }
    }
    for sql in [
        "SELECT * FROM _hilo.hilo_readable",
        "SELECT * FROM _hilo.hilo_reserved",
        "SELECT * FROM _hilo.hilo_state",
        "CREATE TABLE _hilo.mine ()",
        "CREATE FUNCTION _hilo.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TYPE _hilo.mine AS (a int)",
        "DROP SCHEMA _hilo CASCADE",
        "ALTER SCHEMA _hilo RENAME TO other",
        "ALTER SCHEMA _hilo OWNER TO mallory",
        "DROP EXTENSION hilo",
        "ALTER EXTENSION hilo UPDATE",
        "ALTER EXTENSION hilo SET SCHEMA trap",
        "ALTER EXTENSION hilo ADD TABLE trap.t",
        "CREATE OR REPLACE FUNCTION hilo_lastval() RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
        "ALTER FUNCTION hilo_lastval() OWNER TO mallory",
        "DROP FUNCTION hilo_lastval()",
        "CREATE OR REPLACE VIEW hilo_sequences AS SELECT 1",
        "DROP VIEW hilo_sequences",
        "INSERT INTO hilo_sequences DEFAULT VALUES",
        "ALTER TYPE hilo_sequence OWNER TO mallory",
        "DROP TYPE hilo_sequence CASCADE",
        "CREATE FUNCTION trap.nextval(hilo_sequence) RETURNS bigint LANGUAGE c AS 'hilo', 'hilo_nextval_wrapper'",
        "CREATE OPERATOR CLASS trap.ops DEFAULT FOR TYPE hilo_sequence USING btree AS STORAGE text",
    ] {
        // The owner of the database is that of schema public, and fails later.
        let outcome = mallory.batch_execute(sql);
        let refused = outcome.expect_err(sql);
        let sqlstate = refused.code().expect("a report").code();
        assert!(
            ["42501", "42P17", "42P01", "42P16", "2BP01", "55000"].contains(&sqlstate),
            "{sql}: {refused:?}"
        );
    }
    // A warning: the owner of the database has nothing to give away.
    mallory.run(
        "GRANT CREATE ON SCHEMA _hilo TO clerk; GRANT SELECT ON _hilo.hilo_definition TO clerk",
    );
    clerk.refusal("SELECT * FROM _hilo.hilo_definition").is("42501").says("hilo_definition");
    assert_eq!(admin.one::<i64>("SELECT hilo_nextval('orders')"), 2);
    cluster.finish();
}

/// Without INSERT on hilo_sequences nothing is created, by call or by first use; the refusals tell no more than core's.
#[test]
fn nothing_is_created_without_the_right() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE mallory LOGIN; CREATE SEQUENCE known; REVOKE ALL ON SEQUENCE known FROM PUBLIC; SELECT hilo_create('known'), hilo_setval('known', 4242)");
    let mut mallory = cluster.connect_as("mallory", "postgres");
    mallory.run("SET hilo.auto_create = on");
    for sql in [
        "SELECT hilo_nextval('new')",
        "SELECT hilo_create('new')",
        "SELECT hilo_nextkey('new')",
        "SELECT hilo_nextvals('new', 2)",
    ] {
        mallory.refusal(sql).is("42501").says("permission denied to create hilo sequences");
    }
    assert_eq!(admin.one::<i64>("SELECT count(*) FROM _hilo.hilo_definition"), 1);
    mallory.run("SET hilo.auto_create = off");
    for (core, ours) in [
        ("SELECT nextval('{s}')", "SELECT hilo_nextval('{s}')"),
        ("SELECT currval('{s}')", "SELECT hilo_currval('{s}')"),
        ("SELECT setval('{s}', 0)", "SELECT hilo_setval('{s}', 0)"),
        ("ALTER SEQUENCE {s} RESTART", "SELECT hilo_alter('{s}', restart_with => 0)"),
        ("DROP SEQUENCE {s}", "SELECT hilo_drop('{s}')"),
        ("ALTER SEQUENCE {s} RENAME TO known", "SELECT hilo_rename('{s}', 'known')"),
    ] {
        let known = mallory.refusal(&core.replace("{s}", "known")).is("42501");
        let known = (known, mallory.refusal(&ours.replace("{s}", "known")).is("42501"));
        for refusal in [&known.0, &known.1] {
            let report = format!("{:?}", refusal.report());
            assert!(
                !report.contains("4242") && !report.contains("9223372036854775807"),
                "{report}"
            );
        }
        mallory.refusal(&core.replace("{s}", "unknown")).is("42P01");
        mallory.refusal(&ours.replace("{s}", "unknown")).is("42704");
    }
    cluster.finish();
}

/// Settings of the server are not a role's to change, in its session, for itself or for its database.
#[test]
fn settings_are_the_superusers() {
    let cluster = Cluster::with_hilo();
    let mut admin = shop(&cluster);
    let mut mallory = cluster.connect_as("mallory", "shop");
    let own = ["hilo.auto_create", "hilo.on_every_node", "hilo.reserve_timeout"];
    for (name, value) in admin
        .query("SELECT name, setting FROM pg_settings WHERE name LIKE 'hilo.%'", &[])
        .unwrap()
        .iter()
        .map(|row| (row.get::<_, String>(0), row.get::<_, String>(1)))
    {
        let quoted = name.replace('.', ".\"") + "\""; // window is a keyword
        for sql in [
            "SET {n} = '{v}'",
            "ALTER ROLE mallory SET {n} = '{v}'",
            "ALTER DATABASE shop SET {n} = '{v}'",
        ] {
            let outcome =
                mallory.batch_execute(&sql.replace("{n}", &quoted).replace("{v}", &value));
            assert_eq!(outcome.is_ok(), own.contains(&name.as_str()), "{sql} {name}: {outcome:?}");
        }
        mallory.refusal(&format!("ALTER SYSTEM SET {quoted} = '{value}'")).is("42501");
    }
    cluster.finish();
}

/// Whatever the owner of a database sets for it, its worker serves as always: dense, durable, in time.
#[test]
fn settings_of_a_database_do_not_reach_its_worker() {
    let cluster = Cluster::with_hilo();
    let mut admin = shop(&cluster);
    admin.run("GRANT pg_signal_backend TO mallory");
    let mut mallory = cluster.connect_as("mallory", "shop");
    mallory.run("CREATE SCHEMA trap; CREATE FUNCTION trap.int8eq(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT 1/0 = 1'");
    let settings = [
        ("search_path", "trap, public"),
        ("exit_on_error", "on"),
        ("statement_timeout", "1"),
        ("lock_timeout", "1"),
        // In force from PostgreSQL 17 on, for those who connect as well.
        ("transaction_timeout", "1000"),
        ("idle_in_transaction_session_timeout", "1"),
        ("idle_session_timeout", "1000000"),
        ("default_transaction_read_only", "on"),
        ("default_transaction_isolation", "serializable"),
        ("default_transaction_deferrable", "on"),
        ("role", "mallory"),
        ("row_security", "off"),
        ("synchronous_commit", "off"),
        ("default_table_access_method", "nothing"),
        ("default_tablespace", "nothing"),
        ("temp_tablespaces", "nothing"),
        ("client_encoding", "sql_ascii"),
        ("application_name", "mine"),
        ("quote_all_identifiers", "on"),
        ("work_mem", "64"),
        ("maintenance_work_mem", "1024"),
        ("enable_indexscan", "off"),
        ("default_toast_compression", "pglz"),
        ("DateStyle", "german"),
        ("check_function_bodies", "off"),
        ("session_authorization", "mallory"),
        ("vacuum_cost_delay", "100"),
        ("bytea_output", "escape"),
        ("timezone", "Asia/Tokyo"),
    ];
    let mut set = Vec::new();
    for (name, value) in settings {
        // Not each is there in every version, nor for everybody to set.
        if mallory
            .batch_execute(&format!(
                "ALTER DATABASE shop SET {name} = {}",
                if name == "search_path" { value.to_owned() } else { format!("'{value}'") }
            ))
            .is_ok()
        {
            set.push(name);
        }
    }
    assert!(set.len() >= 15 && set.contains(&"exit_on_error") && set.contains(&"role"), "{set:?}");
    drop(mallory);
    drop(admin);
    cluster.restart();
    // In a session with all of these but those that make it useless to a test.
    let mut admin = cluster.connect("shop");
    admin.run("RESET ROLE; SET ROLE postgres; SET statement_timeout = 0; SET lock_timeout = 0; SET default_transaction_read_only = off; SET exit_on_error = off");
    let _ = admin.batch_execute("SET transaction_timeout = 0");
    admin.run(
        "SET search_path = public; SET idle_in_transaction_session_timeout = 0; SET hilo.auto_create = on",
    );
    let values: Vec<i64> = (0..3_000).map(|_| admin.one("SELECT hilo_nextval('orders')")).collect();
    assert_eq!(values, (1..=3_000).collect::<Vec<_>>());
    assert_eq!(admin.one::<i64>("SELECT hilo_nextval('by itself')"), 1);
    admin.run("SELECT hilo_setval('orders', 10000)");
    assert_eq!(admin.one::<i64>("SELECT hilo_nextval('orders')"), 10_001);
    // An error in the worker, which does not wait for long for somebody's lock, is caught, and it stays.
    let pid: i32 = admin.one(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'hilo worker' AND datname = 'shop'",
    );
    admin.run("BEGIN; SELECT hilo_create('held')");
    let mut other = cluster.connect("shop");
    other.run("SET default_transaction_deferrable = off; SET exit_on_error = off; SET ROLE postgres; SET statement_timeout = 0; SET hilo.reserve_timeout = 300; SET hilo.auto_create = on; SET search_path = public");
    let _ = other.batch_execute("SET transaction_timeout = 0");
    other.refusal("SELECT hilo_nextval('held')").is("55P03");
    assert_eq!(admin.one::<i32>("SELECT pid FROM pg_stat_activity WHERE backend_type = 'hilo worker' AND datname = 'shop'"), pid);
    admin.run("COMMIT");
    assert_eq!(other.one::<i64>("SELECT hilo_nextval('held')"), 1);
    // A role that may signal backends may not signal the worker, which runs as a superuser.
    let mut mallory = cluster.connect_as("mallory", "postgres");
    mallory.refusal(&format!("SELECT pg_terminate_backend({pid})")).is("42501");
    cluster.finish();
}

/// A refused attempt on another's sequence, in a transaction that stays open, holds up no other session.
#[test]
fn a_refusal_holds_nothing() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory; GRANT INSERT ON hilo_sequences TO mallory; CREATE TABLE used (id bigint); SELECT hilo_create('orders'), hilo_nextval('orders')");
    let mut mallory = cluster.connect_as("mallory", "postgres");
    mallory.run("BEGIN");
    for sql in [
        "SELECT hilo_alter('orders', restart_with => 5)",
        "SELECT hilo_alter('orders', increment => 2)",
        "SELECT hilo_setval('orders', 5)",
        "SELECT hilo_rename('orders', 'mine')",
        "SELECT hilo_drop('orders')",
        "SELECT hilo_drop('orders', cascade => true)",
        "SELECT hilo_grant('orders', 'mallory', 'ALL')",
        "SELECT hilo_revoke('orders', 'public', 'ALL')",
        "SELECT hilo_set_owner('orders', 'mallory')",
        "SELECT hilo_nextrange('orders', 10)",
        "SELECT hilo_next_hi('orders')",
        "SELECT hilo_find_gaps('orders', 'used', 'id')",
        "SELECT hilo_stat_reset('orders')",
        "SELECT hilo_create('orders')",
        "DROP OWNED BY postgres",
        "REASSIGN OWNED BY postgres TO mallory",
        "DROP ROLE postgres",
    ] {
        mallory.run("SAVEPOINT s");
        let refused = mallory.batch_execute(sql).expect_err(sql);
        assert!(
            ["42501", "42710", "0A000"].contains(&refused.code().unwrap().code()),
            "{sql}: {refused:?}"
        );
        mallory.run("ROLLBACK TO s");
    }
    admin.run(
        "SET lock_timeout = '5s'; SELECT hilo_nextval('orders'), hilo_setval('orders', 50);
         SELECT hilo_alter('orders', increment => 2), hilo_rename('orders', 'sales'); SELECT hilo_drop('sales');
         DROP TABLE used",
    );
    mallory.run("COMMIT");
    cluster.finish();
}

/// Names that are SQL, formats, quotes or paths are names, wherever a query is built with them.
#[test]
fn hostile_names() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for (number, name) in [
        "'; DROP TABLE _hilo.hilo_definition; --",
        "%s %I %1$s %n",
        "\"",
        "\\",
        "\\'",
        "$$",
        "{name}",
        "{}",
        "NULL",
        "*",
        "a\u{2028}b",
        "-",
        "public",
        "postgres",
    ]
    .iter()
    .enumerate()
    {
        let table = format!("t{number}\"{}", name.replace('\u{2028}', "_"));
        let (quoted, relation) = (
            format!("'{}'", name.replace('\'', "''")),
            format!("\"{}\"", table.replace('"', "\"\"")),
        );
        let relation_text = relation.replace('\'', "''");
        client.run(&format!("SELECT hilo_create({quoted}); CREATE TABLE {relation} ({relation} bigint PRIMARY KEY DEFAULT hilo_nextval({quoted}))"));
        client.run(&format!("INSERT INTO {relation} DEFAULT VALUES; INSERT INTO {relation} DEFAULT VALUES; DELETE FROM {relation} WHERE {relation} = 1"));
        let column = table.replace('\'', "''");
        let gaps: Vec<i64> = client.all(&format!("SELECT first FROM hilo_find_gaps({quoted}, '{relation_text}', '{column}') WHERE reason LIKE 'rolled back%'"));
        assert_eq!(gaps, [1], "{name}");
        client.run(&format!("INSERT INTO {relation} VALUES (1000000)"));
        let fixes = "SELECT fix FROM hilo_check() WHERE fix LIKE '%.hilo_sync(%'";
        let fix: String = client.one(fixes);
        client.run(&fix);
        assert!(client.all::<String>(fixes).is_empty(), "{name}: {fix}");
        assert_eq!(client.one::<i64>(&format!("SELECT hilo_nextval({quoted})")), 1_000_001);
        client.run(&format!("SELECT hilo_rename({quoted}, {quoted} || '''x'); SELECT hilo_rename({quoted} || '''x', {quoted})"));
        client.run(&format!("SELECT hilo_grant({quoted}, 'PUBLIC', 'ALL'); INSERT INTO {relation} DEFAULT VALUES; SELECT hilo_nextkey({quoted}); DROP TABLE {relation}; SELECT hilo_drop({quoted})"));
    }
    for name in ["line\nbreak", "tab\tbed", "", "\u{7f}"] {
        client.refusal(&format!("SELECT hilo_create('{name}')")).is("22023");
    }
    // A role's name is looked up as it stands.
    client.run("CREATE ROLE \"we\"\"i'r%sd\"; SELECT hilo_create('orders'), hilo_grant('orders', 'we\"i''r%sd', 'USAGE')");
    assert_eq!(
        client.one::<String>("SELECT grantee::text FROM _hilo.hilo_privilege"),
        "\"we\"\"i'r%sd\""
    );
    client.refusal("DROP ROLE \"we\"\"i'r%sd\"").is("2BP01").says("we\"i'r%sd");
    client.refusal("SELECT hilo_grant('orders', 'postgres; DROP', 'USAGE')").is("42704");
    // PUBLIC is everybody, unless there is a role of just that name.
    client.run("CREATE ROLE \"Public\"; SELECT hilo_grant('orders', 'Public', 'SELECT'), hilo_grant('orders', 'PUBLIC', 'UPDATE')");
    let granted: Vec<String> =
        client.all("SELECT grantee || ' ' || privilege FROM _hilo.hilo_privilege WHERE privilege <> 'USAGE' ORDER BY privilege");
    assert_eq!(granted, ["\"Public\" SELECT", "public UPDATE"]);
    cluster.finish();
}

/// A mixed-up type loses no data: only a restore reads the name of a role or column that does not exist as none.
#[test]
fn an_unknown_role_is_an_error() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE users (role _hilo.hilo_role, place _hilo.hilo_column)");
    for (value, state) in [("'admin', NULL", "42704"), ("NULL, 'public.users.name'", "42703")] {
        let insert = format!("INSERT INTO users VALUES ({value})");
        client.refusal(&insert).is(state).details("only while a dump is restored").helps();
    }
    let mut copy = client.copy_in("COPY users FROM STDIN").unwrap();
    copy.write_all(b"admin\t-\n").unwrap();
    let refused = copy.finish().expect_err("COPY into a table of the user's is no restore");
    assert_eq!(refused.code().unwrap().code(), "42704");
    client.meddle("INSERT INTO users VALUES ('admin', 'public.users.name'), ('postgres', '-')");
    assert_eq!(
        client.all::<String>("SELECT role || ' ' || place FROM users"),
        ["- -", "postgres -"]
    );
    cluster.finish();
}

/// Bytes that are no name and no role are refused by the types' binary input, whatever they are.
#[test]
fn binary_garbage() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE garbage (name hilo_sequence, role _hilo.hilo_role)");
    // Repeatable, and as good as any.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut refused = 0;
    for round in 0..400 {
        let mut field = || -> Vec<u8> {
            let length = random() % if round % 7 == 0 { 70_000 } else { 300 };
            (0..length)
                .map(|_| if round % 3 == 0 { b' ' + (random() % 95) as u8 } else { random() as u8 })
                .collect()
        };
        let mut row = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02".to_vec();
        for field in [field(), field()] {
            row.extend((field.len() as u32).to_be_bytes());
            row.extend(field);
        }
        row.extend([0xff, 0xff]);
        let mut copy = client.copy_in("COPY garbage FROM STDIN (FORMAT binary)").unwrap();
        let sent = copy.write_all(&row).map(|()| copy.finish());
        if let Ok(Err(error)) = sent {
            let sqlstate = error.code().expect("a report").code().to_owned();
            assert!(
                ["22023", "22021", "42602", "42704", "22P03"].contains(&sqlstate.as_str()),
                "{error:?}"
            );
            refused += 1;
        }
    }
    assert!(refused > 250, "{refused}");
    // A role that was let in can be shown.
    client.run(
        "SELECT name::text, role::text FROM garbage; SELECT * FROM garbage ORDER BY name, role",
    );
    cluster.finish();
}
