//! The extension can be created in a schema of its own. It works there as in any other.

use hilo_tests::{Client, ClientExt, Cluster};

const SCHEMAS: [&str; 2] = ["numbers", "hilo"];

/// The database `shop`, with the extension in `schema`, and a role that may use it.
fn shop(cluster: &Cluster, schema: &str) -> Client {
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE clerk LOGIN; CREATE ROLE shop_owner");
    admin.run("CREATE DATABASE shop");
    let mut client = cluster.connect("shop");
    client.run(&format!(
        "CREATE SCHEMA {schema}; CREATE EXTENSION hilo SCHEMA {schema};
         GRANT USAGE, CREATE ON SCHEMA {schema} TO clerk; GRANT CREATE ON SCHEMA public TO clerk; GRANT INSERT ON {schema}.hilo_sequences TO clerk;
         SELECT {schema}.hilo_create('secret', block_size => 10)"
    ));
    client
}

/// Sequences are created, used and shown, with the name of the schema or a search_path; nothing is in public.
#[test]
fn it_is_used_with_a_qualified_name_or_a_search_path() {
    for schema in SCHEMAS {
        let cluster = Cluster::builder().preload(true).start();
        let mut admin = shop(&cluster, schema);
        let public = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace";
        assert_eq!(admin.one::<i64>(public), 0);
        let mut clerk = cluster.connect_as("clerk", "shop");
        clerk.run(&format!(
            "SELECT {schema}.hilo_create('orders');
             CREATE TABLE orders (id bigint DEFAULT {schema}.hilo_nextval('orders'));
             INSERT INTO orders SELECT FROM generate_series(1, 5)"
        ));
        assert_eq!(clerk.one::<i64>("INSERT INTO orders DEFAULT VALUES RETURNING id"), 6);
        clerk.refusal("SELECT hilo_nextval('orders')").is("42883");
        clerk.run(&format!("SET search_path = public, {schema}"));
        assert_eq!(clerk.one::<i64>("SELECT hilo_nextval('orders')"), 7);
        assert_eq!(clerk.all::<String>("SELECT name::text FROM hilo_sequences"), ["orders"]);
        clerk.run("SELECT hilo_rename('orders', 'renamed')");
        assert_eq!(clerk.one::<i64>("INSERT INTO orders DEFAULT VALUES RETURNING id"), 8);
        clerk.refusal("SELECT hilo_drop('renamed')").is("2BP01");
        clerk.run("SELECT hilo_drop('renamed', cascade => true)");
        admin.run(&format!("SET search_path = {schema}"));
        assert_eq!(
            admin.all::<String>("SELECT what FROM hilo_check() WHERE what NOT LIKE 'with f%'"),
            [] as [&str; 0]
        );
        cluster.finish();
    }
}

/// All roles may use schema _hilo, and see and change no more than by the views. They read neither the
/// tables nor, through the functions behind the views, the sequences of others.
#[test]
fn usage_of_the_internal_schema_shows_no_more_than_the_views() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = shop(&cluster, "hilo");
    admin.run("SELECT hilo.hilo_create('open'); SELECT hilo.hilo_grant('open', 'clerk', 'SELECT')");
    let draw =
        "SELECT hilo.hilo_nextval('secret'), hilo.hilo_nextval('open') FROM generate_series(1, 3)";
    admin.run(draw);
    let mut clerk = cluster.connect_as("clerk", "shop");
    for (function, most) in
        [("hilo_stat_slots", 1), ("hilo_stat_slices", 1), ("hilo_stat_ranges", 9)]
    {
        let sequences = format!("SELECT DISTINCT sequence FROM _hilo.{function}() ORDER BY 1");
        let open = "SELECT id FROM _hilo.hilo_definition WHERE name = 'open'";
        assert_eq!(clerk.all::<i64>(&sequences), admin.all::<i64>(open), "{function}");
        assert_eq!(admin.all::<i64>(&sequences).len(), 2, "{function}");
        assert!(clerk.all::<i64>(&sequences).len() <= most);
    }
    for table in ["definition", "position", "free_range", "gap", "lease", "privilege"] {
        clerk.refusal(&format!("SELECT * FROM _hilo.hilo_{table}")).is("42501");
        clerk.refusal(&format!("DELETE FROM _hilo.hilo_{table}")).is("42501");
    }
    for view in ["readable", "reserved"] {
        clerk.refusal(&format!("SELECT * FROM _hilo.hilo_{view}")).is("42501");
    }
    clerk.refusal("DELETE FROM _hilo.hilo_readable").is("42501");
    clerk.refusal("DROP TABLE _hilo.hilo_position").is("42501");
    clerk.refusal("ALTER SCHEMA hilo RENAME TO taken").is("42501");
    clerk.refusal("ALTER SCHEMA _hilo RENAME TO taken").is("42501");
    cluster.finish();
}

/// A dump restores the schema, the extension in it, and the sequences.
#[test]
fn it_is_dumped_and_restored() {
    for schema in SCHEMAS {
        let cluster = Cluster::builder().preload(true).start();
        let mut client = shop(&cluster, schema);
        client.run(&format!(
            "SET search_path = {schema}; SELECT hilo_grant('secret', 'clerk', 'USAGE'); SELECT hilo_create('orders');
             CREATE TABLE public.orders (id bigint DEFAULT hilo_nextval('orders'));
             INSERT INTO public.orders SELECT FROM generate_series(1, 5)"
        ));
        let dump = cluster.pg_dump("shop", &[]);
        cluster.connect("postgres").run("CREATE DATABASE restored");
        cluster.restore("restored", &dump);
        let mut clerk = cluster.connect_as("clerk", "restored");
        assert!(clerk.one::<i64>(&format!("SELECT {schema}.hilo_nextval('secret')")) >= 1);
        let mut restored = cluster.connect("restored");
        assert!(restored.one::<i64>("INSERT INTO orders DEFAULT VALUES RETURNING id") > 5);
        let schema_only = |database: &str| -> Vec<String> {
            let dump = cluster.pg_dump(database, &["--schema-only"]);
            // The two keys against injected psql commands are random.
            let lines = dump.lines().filter(|line| !line.contains("restrict "));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(schema_only("restored"), schema_only("shop"));
        cluster.finish();
    }
}

/// DROP EXTENSION leaves the schema that the user made, and the extension can be created there again; DROP
/// SCHEMA … CASCADE drops both. Sessions that have drawn before draw from the new one.
#[test]
fn it_goes_with_its_schema_and_the_schema_stays_without_it() {
    for schema in SCHEMAS {
        let cluster = Cluster::builder().preload(true).start();
        let mut client = shop(&cluster, schema);
        let next = format!("SELECT {schema}.hilo_nextval('secret')");
        let mut another = cluster.connect("shop");
        another.run(&next);
        client.refusal(&format!("DROP SCHEMA {schema}")).is("2BP01");
        client.run("DROP EXTENSION hilo");
        let left = "SELECT nspname::text FROM pg_namespace WHERE nspname IN ('_hilo', 'hilo', 'numbers') ORDER BY 1";
        assert_eq!(client.all::<String>(left), [schema]);
        client.run(&format!(
            "CREATE EXTENSION hilo SCHEMA {schema}; SELECT {schema}.hilo_create('secret')"
        ));
        assert_eq!(another.one::<i64>(&next), 1);
        client.run(&format!("DROP SCHEMA {schema} CASCADE"));
        assert_eq!(client.all::<String>(left), [] as [&str; 0]);
        client.run("CREATE EXTENSION hilo SCHEMA public; SELECT hilo_create('secret')");
        assert_eq!(another.one::<i64>("SELECT hilo_nextval('secret')"), 1);
        cluster.finish();
    }
}

/// Postgres creates no schema for an extension. hilo creates _hilo itself, and uses none that it finds: not even an empty one.
#[test]
fn a_schema_is_neither_made_up_nor_adopted() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = cluster.connect("postgres");
    client.refusal("CREATE EXTENSION hilo SCHEMA hilo").is("3F000");
    client.run("CREATE SCHEMA hilo; CREATE TABLE hilo.hilo_sequences (id int)");
    client.refusal("CREATE EXTENSION hilo SCHEMA hilo").is("42P07");
    client.run("DROP TABLE hilo.hilo_sequences; CREATE SCHEMA _hilo");
    client
        .refusal("CREATE EXTENSION hilo SCHEMA hilo")
        .is("42P06")
        .says("\"_hilo\" already exists");
    client.run("DROP SCHEMA _hilo; CREATE EXTENSION hilo SCHEMA hilo");
    cluster.finish();
}

/// The commands of docs/install.md lead to functions that every role finds, in every new session.
#[test]
fn it_is_created_as_the_page_says() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/install.md");
    let page = std::fs::read_to_string(file).expect("cannot read the page");
    let block = page.split("```sql\n").find(|text| text.starts_with("CREATE SCHEMA hilo;"));
    let commands = block.and_then(|text| text.split("```").next()).expect("the block is there");
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE clerk LOGIN; CREATE ROLE shop_owner LOGIN");
    for creator in ["postgres", "shop_owner"] {
        admin.run("DROP DATABASE IF EXISTS shop");
        admin.run("CREATE DATABASE shop OWNER shop_owner");
        cluster.connect_as(creator, "shop").run(commands);
        let mut owner = cluster.connect_as("shop_owner", "shop");
        owner.run("SELECT hilo_create('orders'), hilo_grant('orders', 'clerk', 'USAGE')");
        assert_eq!(cluster.connect_as("clerk", "shop").draw("orders", 2), [1, 2], "{creator}");
    }
    cluster.finish();
}

/// A schema that is renamed takes the extension along. Nothing is called that another role puts under the old name.
#[test]
fn its_schema_is_renamed() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = shop(&cluster, "numbers");
    admin.run(
        "ALTER SCHEMA numbers RENAME TO \"new \"\" %s\"; CREATE SCHEMA numbers AUTHORIZATION clerk; SET ROLE clerk;
         CREATE TABLE numbers.hilo_default_privileges (a int); CREATE TABLE numbers.hilo_leases (a int);
         CREATE DOMAIN numbers.hilo_sequence AS text; RESET ROLE; SET search_path = \"new \"\" %s\", public",
    );
    let document =
        r#"{"hilo": 1, "sequences": [{"name": "s"}, {"name": "secret", "increment": 2}]}"#;
    let actions =
        admin.all::<String>(&format!("SELECT action FROM hilo_apply('{document}', true)"));
    assert_eq!(actions, ["create", "alter"]);
    admin.run("SELECT hilo_transfer('s', 5, 'receiver', gen_random_uuid())");
    admin.run("CREATE TABLE t (id serial)");
    admin.refusal("SELECT hilo_adopt_on_all_nodes('t', 'id')").is("0A000").says("Citus");
    assert_eq!(admin.one::<String>("SHOW search_path"), "\"new \"\" %s\", public");
    cluster.finish();
}

/// Uses all that could look for the schema by its name.
fn use_all(client: &mut Client, schema: &str) {
    client.run(&format!("SET search_path = public, {schema}"));
    client.run(
        "INSERT INTO orders DEFAULT VALUES; EXECUTE draw;
         SELECT hilo_nextval('secret'), hilo_nextkey('secret'); SELECT hilo_create_missing();
         SELECT count(hilo_nextval('branch')), count(hilo_nextval('of core')) FROM generate_series(1, 3000);
         SELECT hilo_create('short'); SELECT hilo_rename('short', 'long'); SELECT hilo_drop('long');
         SELECT hilo_refill(names => '{secret}', sizes => '{3}', holder => 'app');
         SELECT hilo_refill(returns => ARRAY(SELECT lease FROM hilo_leases WHERE holder = 'app'),
                            nexts => ARRAY(SELECT first FROM hilo_leases WHERE holder = 'app'));
         SELECT hilo_lease('secret', 5, 'other'); SELECT hilo_lease_revoke(holder => 'other');
         SELECT hilo_transfer('secret', 5, 'receiver', gen_random_uuid());
         SELECT hilo_apply(hilo_export()), hilo_compare(jsonb_set(hilo_node_summary(), '{node,server}', '\"another\"'));
         SELECT hilo_find_gaps('orders', 'orders', 'id'); SELECT hilo_sync('orders', 'orders', 'id');
         SELECT façade.nextval('cars'::text); SELECT length(hilo_report());
         CREATE TABLE later (id serial); SELECT hilo_adopt('later', 'id'); INSERT INTO later DEFAULT VALUES;
         SELECT hilo_adopt_all('public'); SELECT hilo_release('later', 'id'); DROP TABLE later;
         COPY orders (n) FROM PROGRAM 'echo 1'; TRUNCATE orders RESTART IDENTITY",
    );
    let errors = "SELECT object || ': ' || what FROM hilo_check() WHERE severity = 'error' AND object NOT LIKE 'setting %'";
    assert_eq!(client.all::<String>(errors), [] as [&str; 0]);
}

/// Everything works on after ALTER SCHEMA … RENAME, in sessions old and new. Another role then has a
/// schema of the old name. A branch works on if the schema of its centre is renamed.
#[test]
fn a_renamed_schema_takes_everything_along() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = shop(&cluster, "numbers");
    cluster.connect("postgres").run(
        "CREATE SCHEMA hilo; CREATE EXTENSION hilo SCHEMA hilo; SELECT hilo.hilo_create('orders')",
    );
    let at = cluster.socket_directory().display();
    admin.run(&format!(
        "SET search_path = public, numbers; CREATE EXTENSION dblink SCHEMA public;
         CREATE SERVER centre FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '{at}', dbname 'postgres');
         CREATE USER MAPPING FOR postgres SERVER centre OPTIONS (user 'postgres');
         SELECT hilo_attach_server('branch', 'centre', 'orders');
         CREATE SEQUENCE counter; SELECT hilo_attach('of core', 'counter'); SELECT hilo_create('cars', block_size => 20);
         CREATE SCHEMA façade; SELECT hilo_facade('façade', 'efcore');
         CREATE TABLE orders (id bigserial, n integer); SELECT hilo_adopt('orders', 'id', 'orders');
         SELECT hilo_alter('orders', owned_by => 'public.orders.id')"
    ));
    let prepare = "PREPARE draw AS SELECT hilo_nextval('secret')";
    admin.run(prepare);
    use_all(&mut admin, "numbers");
    for (schema, next) in [("numbers", "\"new \"\" %s\""), ("\"new \"\" %s\"", "hilo")] {
        admin.run(&format!(
            "ALTER SCHEMA {schema} RENAME TO {next}; CREATE SCHEMA {schema} AUTHORIZATION clerk; SET ROLE clerk;
             CREATE TABLE {schema}.hilo_leases (a int); CREATE DOMAIN {schema}.hilo_sequence AS text;
             CREATE FUNCTION {schema}.hilo_nextval({schema}.hilo_sequence) RETURNS bigint LANGUAGE sql AS 'SELECT 1/0::bigint'; RESET ROLE"
        ));
        use_all(&mut admin, next);
        let mut other = cluster.connect("shop");
        other.run(&format!("SET search_path = {next}; {prepare}"));
        use_all(&mut other, next);
        cluster.connect("postgres").run("ALTER SCHEMA hilo RENAME TO centre");
        use_all(&mut other, next);
        cluster.connect("postgres").run("ALTER SCHEMA centre RENAME TO hilo");
        drop(other);
        drop(admin);
        cluster.restart();
        admin = cluster.connect("shop");
        admin.run(&format!("SET search_path = {next}; {prepare}"));
        use_all(&mut admin, next);
    }
    cluster.finish();
}

/// By its name the library finds everything. It is refused while the extension is there, and left alone elsewhere.
#[test]
fn the_schema_of_the_tables_keeps_its_name() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE SCHEMA _hilo; CREATE TABLE _hilo.mine ()");
    admin.refusal("CREATE EXTENSION hilo").is("42P06").says("\"_hilo\"").hints("Rename or drop");
    admin.run("ALTER SCHEMA _hilo RENAME TO former; CREATE EXTENSION hilo");
    for statement in
        ["ALTER SCHEMA _hilo RENAME TO other", "DO 'BEGIN ALTER SCHEMA _hilo RENAME TO other; END'"]
    {
        admin.refusal(statement).is("0A000").says("cannot rename").hints("can be renamed");
    }
    for statement in ["DROP SCHEMA _hilo", "DROP SCHEMA _hilo CASCADE"] {
        admin.refusal(statement).is("2BP01").hints("extension hilo");
    }
    admin.refusal("ALTER SCHEMA former RENAME TO _hilo").is("42P06");
    admin.refusal("ALTER EXTENSION hilo SET SCHEMA former").is("0A000");
    admin.run("SELECT hilo_create('orders'), hilo_nextval('orders')");
    cluster.finish();
}
