//! Functions that mallory has planted, which a call of hilo's could prefer: none of them runs.

use std::io::Write;

use hilo_tests::planted::{OF_HILO, assert_it_would, assert_none_ran, make_typed, plant, plants};
use hilo_tests::{Client, ClientExt, Cluster};

use super::victims;

const NONE: [&str; 0] = [];

const EVERYTHING: &str = include_str!("everything.sql");

const MAPPERS: [&str; 16] = [
    "core",
    "efcore",
    "doctrine",
    "hibernate",
    "hibernate-pooled-lo",
    "hibernate-pooled-old",
    "hibernate-hilo",
    "hibernate-legacy-hilo",
    "hibernate-table",
    "hibernate-table-pooled-lo",
    "hibernate-table-hilo",
    "hibernate-table-old",
    "nhibernate",
    "nhibernate-pooled",
    "nhibernate-table",
    "marten",
];

/// A server with database `centre`, of which the others have a branch, and the roles.
fn server() -> Cluster {
    let cluster = Cluster::builder()
        .config("max_worker_processes", "24")
        .config("max_locks_per_transaction", "256")
        .preload(true)
        .start();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE mallory LOGIN; CREATE ROLE clerk LOGIN; CREATE ROLE guest");
    admin.run("CREATE DATABASE centre");
    let mut centre = cluster.connect("centre");
    centre.run("CREATE EXTENSION hilo; SELECT hilo_create('orders', start_value => 1000000)");
    cluster
}

/// Gives mallory her schema, and a place in front of each session's search_path.
fn let_in(admin: &mut Client, schema: &str) {
    admin.run(&format!(
        "CREATE SCHEMA trap AUTHORIZATION mallory; GRANT USAGE ON SCHEMA trap TO PUBLIC;
         CREATE SCHEMA IF NOT EXISTS {schema};
         GRANT ALL ON SCHEMA public, {schema} TO mallory; GRANT USAGE ON SCHEMA {schema} TO PUBLIC;
         DO $$ BEGIN EXECUTE pg_catalog.format('ALTER DATABASE %I SET search_path = trap, public, {schema}',
                                               pg_catalog.current_database()); END $$"
    ));
}

/// Plants in each schema where she may.
fn plant_all(admin: &mut Client, schema: &str, plants_here: &[String]) {
    let mut schemas = vec!["trap", "public"];
    if schema != "public" {
        schemas.push(schema);
    }
    for place in schemas {
        let made = plant(admin, place, plants_here);
        assert!(made > 2000, "only {made} functions were planted in {place}");
    }
}

/// The statements of the file, for the extension in this schema.
fn statements(schema: &str) -> Vec<String> {
    let lines = EVERYTHING.lines().filter(|line| !line.starts_with("--"));
    let text = lines.collect::<Vec<_>>().join("\n").replace('@', schema);
    text.split(";\n").map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
}

/// Runs everything that hilo has, as a superuser and as a role without rights.
fn use_everything(cluster: &Cluster, database: &str, schema: &str, planted: &[String]) {
    let mut admin = cluster.connect(database);
    plant(&mut admin, "pg_temp", planted);
    let at = cluster.socket_directory().display();
    admin.run(&format!(
        "CREATE EXTENSION dblink;
         CREATE SERVER centre FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '{at}', dbname 'centre');
         CREATE USER MAPPING FOR postgres SERVER centre OPTIONS (user 'postgres')"
    ));
    let dblink = "p.proname LIKE 'dblink%' AND p.probin IS NOT NULL";
    let of_dblink = plants(&mut admin, dblink, false);
    plant(&mut admin, "public", &of_dblink);
    for statement in statements(schema) {
        admin.run(&statement);
    }
    for statement in admin.all::<String>("SELECT fix FROM typed.hilo_check() WHERE fix IS NOT NULL")
    {
        admin.run(&statement);
    }
    // An error that is told and not raised would hide what had been called.
    let failed = "SELECT concat_ws(': ', name, last_error) FROM SCHEMA.hilo_stat_sources WHERE last_error IS NOT NULL";
    assert_eq!(admin.all::<String>(&failed.replace("SCHEMA", schema)), NONE);
    let report: String = admin.one("SELECT typed.hilo_report()");
    assert!(!report.contains("is not unique") && !report.contains("does not exist"), "{report}");
    let left = "SELECT fix FROM typed.hilo_check() WHERE fix IS NOT NULL";
    assert_eq!(admin.all::<String>(left), NONE);
    let mut clerk = cluster.connect_as("clerk", database);
    clerk.run(
        "INSERT INTO public.serials (n) VALUES (5); INSERT INTO public.always (n) VALUES (5);
         INSERT INTO public.two (n) VALUES (5); INSERT INTO shop.three (n) VALUES (5);
         SELECT count(typed.hilo_nextval('steps')) FROM generate_series(1, 100)",
    );
    for (client, table) in [(&mut clerk, "serials"), (&mut admin, "always")] {
        let sql = format!("COPY public.{table} (n) FROM STDIN");
        let mut copy = client.copy_in(&sql).expect("COPY begins");
        copy.write_all(b"1\n2\n3\n").expect("rows are sent");
        copy.finish().expect("COPY ends");
    }
}

/// Makes a façade for each mapper, lets mallory plant beside its functions, and runs the mapper.
fn use_facades(cluster: &Cluster, database: &str) {
    let mut admin = cluster.connect(database);
    for mapper in MAPPERS {
        let schema = format!("\"f {mapper}\"");
        admin.run(&format!("CREATE SCHEMA {schema}; GRANT ALL ON SCHEMA {schema} TO mallory"));
        admin.run(&format!("SELECT typed.hilo_facade('f {mapper}', '{mapper}')"));
        let of_facade =
            plants(&mut admin, &format!("p.pronamespace = '{schema}'::regnamespace"), false);
        plant(&mut admin, &schema, &of_facade);
        let sequence = match mapper {
            "hibernate-legacy-hilo" | "nhibernate" => "hibernate_unique_key",
            _ => "cars",
        };
        let uses = match mapper {
            "nhibernate" => format!(
                "BEGIN; UPDATE {schema}.hibernate_unique_key SET next_hi = next_hi + 1; COMMIT;
                 SELECT {schema}.nextval('hibernate_unique_key'::text)"
            ),
            "marten" => format!(
                "SELECT {schema}.mt_get_next_hi('cars'::varchar);
                 SELECT * FROM {schema}.mt_hilo;
                 UPDATE {schema}.mt_hilo SET hi_value = hi_value + 3 WHERE entity_name = 'cars'"
            ),
            table if table.contains("table") => {
                let step = if table.ends_with("hilo") { 1 } else { 50 };
                format!(
                    "UPDATE {schema}.hibernate_sequences SET next_val = next_val + {step} WHERE sequence_name = 'cars'"
                )
            }
            _ => format!("SELECT {schema}.nextval('{sequence}'::text)"),
        };
        admin.run(&uses);
    }
}

/// The functions lie in the extension's schema, in public, in one of mallory's that each session has
/// before them, and in the temporary one. A superuser and a role without rights use everything.
#[test]
fn none_that_is_planted_afterwards_runs() {
    for schema in ["hilo", "public"] {
        let cluster = server();
        cluster.connect("postgres").run("CREATE DATABASE shop");
        let mut admin = cluster.connect("shop");
        let_in(&mut admin, schema);
        admin.run(&format!("CREATE EXTENSION hilo SCHEMA {schema}"));
        make_typed(&mut admin, schema);
        let planted = plants(&mut admin, OF_HILO, false);
        plant_all(&mut admin, schema, &planted);
        use_everything(&cluster, "shop", schema, &planted);
        use_facades(&cluster, "shop");
        assert_eq!(victims(&mut admin), NONE);
        assert_none_ran(&cluster);
        let careless = format!("SELECT {schema}.hilo_advance('orders', 7)");
        assert_it_would(&cluster, &mut admin, &careless);
        cluster.finish();
    }
}

/// The owner of a database plants them in the schema of the extension, and elsewhere, before she creates it. A
/// superuser then uses everything.
#[test]
fn none_that_is_planted_before_the_install_runs() {
    for schema in ["hilo", "public"] {
        let cluster = server();
        let planted = plants(&mut cluster.connect("centre"), OF_HILO, true);
        cluster.connect("postgres").run("CREATE DATABASE shop");
        let mut admin = cluster.connect("shop");
        let_in(&mut admin, schema);
        admin.run(&format!(
            "ALTER SCHEMA {schema} OWNER TO mallory; ALTER DATABASE shop OWNER TO mallory"
        ));
        plant_all(&mut admin, schema, &planted);
        let mut mallory = cluster.connect_as("mallory", "shop");
        mallory.run(&format!("CREATE EXTENSION hilo SCHEMA {schema}"));
        assert_eq!(victims(&mut admin), NONE);
        make_typed(&mut admin, schema);
        use_everything(&cluster, "shop", schema, &planted);
        use_facades(&cluster, "shop");
        assert_eq!(victims(&mut admin), NONE);
        assert_none_ran(&cluster);
        cluster.finish();
    }
}
