//! Backups without a superuser: the owner of a database dumps it, and restores it as far as Postgres lets a role that is
//! no superuser.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use hilo_tests::example::LAYOUTS;
use hilo_tests::{Client, ClientExt, Cluster, blocks, run};

const DEFINITIONS: &str = "SELECT s::text FROM (SELECT name, owner, data_type, start_value, increment, min_value, max_value, ordered,
        gapless, key_format, owned_by FROM hilo_sequences ORDER BY name) s
    UNION ALL SELECT p::text FROM (SELECT * FROM hilo_privileges ORDER BY 1, 2, 3) p";

/// A database that belongs to shop_owner, as docs/install.md makes it, with hilo in `schema`; and what its sequences
/// have served. One of them belongs to another role.
fn shop(cluster: &Cluster, schema: &str) -> BTreeSet<i64> {
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE shop_owner LOGIN CREATEDB; CREATE ROLE clerk LOGIN");
    admin.run("CREATE DATABASE shop OWNER shop_owner");
    admin.run(&format!("ALTER DATABASE shop SET search_path = public, {schema}"));
    let mut owner = cluster.connect_as("shop_owner", "shop");
    owner.run(&format!(
        "CREATE SCHEMA IF NOT EXISTS {schema}; CREATE EXTENSION hilo SCHEMA {schema};
         SELECT hilo_create('orders'), hilo_create('steps', increment => 7, start_value => 3, key_format => 'S-{{value}}');
         SELECT hilo_grant('steps', 'clerk', 'USAGE');
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), customer text);
         CREATE TABLE invoices (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
         SELECT hilo_adopt('invoices', 'id');
         INSERT INTO orders (customer) SELECT 'Ada' FROM generate_series(1, 100);
         INSERT INTO invoices SELECT FROM generate_series(1, 30);"
    ));
    cluster.connect("shop").run("SELECT hilo_create('secret'), hilo_set_owner('secret', 'clerk')");
    owner.draw("steps", 40).into_iter().collect()
}

fn owners_dump(cluster: &Cluster, options: &[&str]) -> PathBuf {
    let file = cluster.file("shop.dump");
    let mut dump = cluster.tool("pg_dump", "shop");
    run(dump.arg("--username=shop_owner").args(options).arg("--file").arg(&file));
    file
}

fn create(cluster: &Cluster, database: &str, schema: &str) {
    let mut admin = cluster.connect("postgres");
    admin.run(&format!("CREATE DATABASE {database} OWNER shop_owner"));
    admin.run(&format!("ALTER DATABASE {database} SET search_path = public, {schema}"));
}

/// Every column continues behind its rows.
#[track_caller]
fn assert_numbered(client: &mut Client) {
    let orders: i64 = client.one("INSERT INTO orders (customer) VALUES ('Grace') RETURNING id");
    let invoices: i64 = client.one("INSERT INTO invoices DEFAULT VALUES RETURNING id");
    assert!(orders > 100 && invoices > 30, "{orders}, {invoices}");
}

/// In each format, and whatever else is asked for. Other roles' sequences are in it too, and a superuser restores all
/// of it exactly.
#[test]
fn the_owner_dumps_the_database_without_a_grant() {
    for schema in LAYOUTS {
        let cluster = Cluster::builder().preload(true).start();
        let steps = shop(&cluster, schema);
        for options in
            [&["--format=plain"][..], &["--format=plain", "--inserts"], &["--format=tar"]]
        {
            owners_dump(&cluster, options);
        }
        let file = owners_dump(&cluster, &["--format=custom"]);
        create(&cluster, "restored", schema);
        run(cluster
            .tool("pg_restore", "restored")
            .args(["--exit-on-error", "-d", "restored"])
            .arg(file));
        let mut restored = cluster.connect("restored");
        let definitions = restored.all::<String>(DEFINITIONS);
        assert_eq!(definitions, cluster.connect("shop").all::<String>(DEFINITIONS));
        assert!(definitions.iter().any(|line| line.contains("secret")), "{definitions:?}");
        assert!(restored.draw("steps", 40).iter().all(|value| !steps.contains(value)));
        assert_numbered(&mut restored);
        cluster.finish();
    }
}

/// The owner of the database reads the catalog for that, and nobody else; nobody writes to it.
#[test]
fn the_grant_is_the_owners_and_to_read() {
    let cluster = Cluster::builder().preload(true).start();
    shop(&cluster, "public");
    let mut owner = cluster.connect_as("shop_owner", "shop");
    let mut clerk = cluster.connect_as("clerk", "shop");
    let tables = owner.all::<String>(
        "SELECT c::regclass::text FROM pg_extension e, unnest(extconfig) c WHERE extname = 'hilo' ORDER BY 1",
    );
    assert!(tables.len() >= 7, "{tables:?}");
    for table in &tables {
        owner.run(&format!("SELECT * FROM {table}"));
        clerk.refusal(&format!("SELECT * FROM {table}")).is("42501");
        for change in [
            "SELECT * FROM {t} FOR UPDATE",
            "DELETE FROM {t}",
            "TRUNCATE {t}",
            "COPY {t} FROM STDIN",
            "ALTER TABLE {t} ADD x int",
            "ALTER TABLE {t} OWNER TO shop_owner",
            "ALTER TABLE {t} DISABLE TRIGGER ALL",
            "ALTER TABLE {t} ENABLE ROW LEVEL SECURITY",
            "CREATE TRIGGER t BEFORE UPDATE ON {t} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "CREATE RULE r AS ON UPDATE TO {t} DO INSTEAD NOTHING",
            "CREATE POLICY p ON {t}",
            "CREATE TABLE heir () INHERITS ({t})",
            "COMMENT ON TABLE {t} IS ''",
            "REINDEX TABLE {t}",
            "CLUSTER {t}",
            "DROP TABLE {t}",
        ] {
            owner.refusal(&change.replace("{t}", table)).is("42501");
        }
        let updates =
            format!("SELECT has_any_column_privilege('{table}', 'UPDATE, INSERT, REFERENCES')");
        assert!(!owner.one::<bool>(&updates), "{table}");
        owner.refusal(&format!("INSERT INTO {table} SELECT * FROM {table}")).is("42501");
        owner.refusal(&format!("BEGIN; LOCK TABLE {table}")).is("42501");
        owner.run("ROLLBACK");
    }
    cluster.connect("postgres").run("ALTER DATABASE shop OWNER TO clerk");
    owner.refusal(&format!("SELECT * FROM {}", tables[0])).is("42501");
    clerk.run(&format!("SELECT * FROM {}", tables[0]));
    let mut dump = cluster.tool("pg_dump", "shop");
    let said = dump.args(["--username=shop_owner", "--file=/dev/null"]).output().expect("it runs");
    assert!(String::from_utf8_lossy(&said.stderr).contains("permission denied"), "{said:?}");
    cluster.finish();
}

/// As docs/operations.md says: without the rows of hilo's tables, which only a superuser may write. Definitions come from
/// an export, and positions from a script.
#[test]
fn the_owner_restores_definitions_and_positions() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
    let page = fs::read_to_string(page).expect("cannot read the page");
    let block = blocks(&page, "sql")
        .into_iter()
        .find(|block| block.starts_with("SELECT format('SELECT * FROM hilo_apply"));
    let block = block.expect("the page has the file");
    let statements: Vec<&str> = block.split(";\n").filter(|part| !part.is_empty()).collect();
    assert_eq!(statements.len(), 2);
    for schema in LAYOUTS {
        let cluster = Cluster::builder().preload(true).start();
        let steps = shop(&cluster, schema);
        let mut owner = cluster.connect_as("shop_owner", "shop");
        // Positions without a use: behind what core's sequences have served, and where the owner wants them.
        owner.run(
            "CREATE TABLE late (id serial); INSERT INTO late SELECT FROM generate_series(1, 20);
             DELETE FROM late; SELECT hilo_adopt('late', 'id');
             SELECT hilo_create('set'), hilo_setval('set', 700);
             SELECT hilo_create('set gapless', gapless => true), hilo_setval('set gapless', 70);
             SELECT hilo_create('narrow', block_size => 1000)",
        );
        let mut other = cluster.connect_as("shop_owner", "shop");
        other.draw("narrow", 400);
        owner.run("SELECT hilo_alter('narrow', max_value => 500, block_size => 100)");
        let reserved = "SELECT max_reserved IS NULL FROM hilo_sequences WHERE name = 'narrow'";
        assert!(owner.one::<bool>(reserved));
        let file = owners_dump(&cluster, &["--format=custom"]);
        let sequences: String =
            statements.iter().flat_map(|sql| owner.all::<String>(sql)).collect();

        create(&cluster, "copy", schema);
        let mut restore = cluster.tool("pg_restore", "copy");
        let options = [
            "--username=shop_owner",
            "--no-owner",
            "--exclude-schema=_hilo",
            "--exit-on-error",
            "-d",
            "copy",
        ];
        run(restore.args(options).arg(file));
        let mut copy = cluster.connect_as("shop_owner", "copy");
        copy.run(&sequences);
        assert_eq!(copy.all::<String>(DEFINITIONS), owner.all::<String>(DEFINITIONS));
        assert!(copy.draw("steps", 40).iter().all(|value| !steps.contains(value)));
        // Its blocks went beyond its new bound, so all of its numbers may have been served.
        copy.refusal("SELECT hilo_nextval('narrow')").is("2200H");
        for (name, next) in [("late_id_seq", 21), ("set", 701), ("set gapless", 71)] {
            assert_eq!(copy.draw(name, 1), [next], "{name}");
        }
        assert_numbered(&mut copy);
        let found = copy.all::<String>("SELECT what FROM hilo_check() WHERE object LIKE 'column%'");
        assert_eq!(found, [""; 0]);
        cluster.finish();
    }
}

/// Postgres refuses the owner a table that forces its policies on the owner. The rows of hilo are
/// dumped all the same, and the restored columns continue behind rows that were hidden.
#[test]
fn forced_policies_hide_rows_and_no_numbers() {
    for schema in LAYOUTS {
        let cluster = Cluster::builder().preload(true).start();
        let steps = shop(&cluster, schema);
        let mut owner = cluster.connect_as("shop_owner", "shop");
        owner.run(
            "CREATE TABLE hidden (id bigserial, who text);
             CREATE POLICY few ON hidden USING (who = 'owner') WITH CHECK (true);
             CREATE POLICY few ON orders USING (id <= 10) WITH CHECK (true);
             ALTER TABLE hidden ENABLE ROW LEVEL SECURITY; ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
             ALTER TABLE hidden FORCE ROW LEVEL SECURITY; ALTER TABLE orders FORCE ROW LEVEL SECURITY",
        );
        cluster.connect("shop").run("INSERT INTO hidden VALUES (500, 'somebody')");
        // All rows count when a column moves, and when it moves back.
        owner.run("SELECT hilo_adopt('hidden', 'id')");
        let insert = "INSERT INTO hidden (who) VALUES ('owner') RETURNING id";
        assert_eq!(owner.one::<i64>(insert), 501);
        owner.run("SELECT hilo_release('hidden', 'id'); SELECT hilo_adopt('hidden', 'id')");
        assert_eq!(owner.one::<i64>(insert), 502);

        let mut dump = cluster.tool("pg_dump", "shop");
        let said = dump.args(["--username=shop_owner", "--file=/dev/null"]).output();
        let said = said.expect("it runs").stderr;
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("row-level security policy for table \"hidden\""), "{said}");
        let file = owners_dump(&cluster, &["--format=custom", "--enable-row-security"]);
        create(&cluster, "copy", schema);
        let mut restore = cluster.tool("pg_restore", "copy");
        run(restore.args(["--exit-on-error", "--enable-row-security", "-d", "copy"]).arg(file));
        let mut copy = cluster.connect("copy");
        let definitions = copy.all::<String>(DEFINITIONS);
        assert_eq!(definitions, cluster.connect("shop").all::<String>(DEFINITIONS));
        assert_eq!(copy.all::<i64>("SELECT id FROM hidden ORDER BY 1"), [501, 502]);
        assert_eq!(copy.one::<i64>("SELECT count(*) FROM orders"), 10);
        assert!(copy.one::<i64>(insert) > 502);
        assert_numbered(&mut copy);
        assert!(copy.draw("steps", 40).iter().all(|value| !steps.contains(value)));
        cluster.finish();
    }
}

/// A dump of the tables' schema alone, by a role that may read no table of hilo's.
#[test]
fn a_schema_is_dumped_and_restored_by_itself() {
    for schema in LAYOUTS {
        let cluster = Cluster::builder().preload(true).start();
        shop(&cluster, schema);
        let mut admin = cluster.connect("shop");
        admin.run("REVOKE ALL ON ALL TABLES IN SCHEMA _hilo FROM pg_database_owner");
        let file = owners_dump(&cluster, &["--format=custom", "--schema=public"]);
        create(&cluster, "copy", schema);
        let mut copy = cluster.connect_as("shop_owner", "copy");
        copy.run(&format!(
            "CREATE SCHEMA IF NOT EXISTS {schema}; CREATE EXTENSION hilo SCHEMA {schema}"
        ));
        let mut restore = cluster.tool("pg_restore", "copy");
        run(restore
            .args(["--username=shop_owner", "--schema=public", "--exit-on-error", "-d", "copy"])
            .arg(file));
        copy.refusal("INSERT INTO orders (customer) VALUES ('Ada')")
            .is("42704")
            .hints("hilo_create");
        let missing =
            "SELECT relation::text || ' ' || next_value FROM hilo_create_missing() ORDER BY 1";
        assert_eq!(copy.all::<String>(missing), ["invoices 31", "orders 101"]);
        assert_numbered(&mut copy);
        cluster.finish();
    }
}
