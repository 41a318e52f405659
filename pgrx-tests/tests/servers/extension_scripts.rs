//! Sequences that the script of another extension creates: they belong to it, and a dump of the database restores them
//! and all others.

use hilo_tests::extension::install_script;
use hilo_tests::{Client, ClientExt, Cluster, run};

/// Installs an extension of this name, whose script makes three sequences. It draws `seeds` numbers of one, and a column
/// owns another.
fn install(name: &str, seeds: i32) {
    install_script(
        &format!("{name}.control"),
        &format!(
            "default_version = '1.0'\nrequires = hilo\nrelocatable = false\nschema = {name}\n"
        ),
    );
    install_script(
        &format!("{name}--1.0.sql"),
        &format!(
            "SELECT public.hilo_default_grant('public', 'SELECT', '{name}/%');
             SELECT public.hilo_create('{name}/orders'), public.hilo_grant('{name}/orders', 'public', 'USAGE');
             CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT public.hilo_nextval('{name}/orders'));
             SELECT pg_catalog.pg_extension_config_dump('orders', '');
             SELECT public.hilo_create('{name}/kinds');
             CREATE TABLE kinds (id bigint PRIMARY KEY DEFAULT public.hilo_nextval('{name}/kinds'), seed boolean DEFAULT false);
             SELECT pg_catalog.pg_extension_config_dump('kinds', 'WHERE NOT seed');
             INSERT INTO kinds (seed) SELECT true FROM generate_series(1, {seeds});
             CREATE TABLE owned (id bigint PRIMARY KEY DEFAULT public.hilo_nextval('{name}/owned'));
             SELECT public.hilo_create('{name}/owned', owned_by => '{name}.owned.id');
             SELECT pg_catalog.pg_extension_config_dump('owned', '');"
        ),
    );
}

/// A database `shop` with the extension, rows in its tables, and a sequence of somebody else's.
fn shop(cluster: &Cluster, name: &str) -> Client {
    cluster.connect("postgres").run("CREATE DATABASE shop");
    let mut client = cluster.connect("shop");
    client.run(&format!(
        "CREATE EXTENSION hilo; CREATE SCHEMA {name}; CREATE EXTENSION {name};
         CREATE TABLE other (id bigserial PRIMARY KEY); SELECT hilo_adopt('other', 'id')"
    ));
    for table in ["orders", "kinds", "owned"] {
        client.run(&format!("INSERT INTO {name}.{table} SELECT FROM generate_series(1, 10)"));
    }
    client.run("INSERT INTO other SELECT FROM generate_series(1, 10)");
    client
}

/// Every column continues behind its rows.
#[track_caller]
fn assert_numbered(client: &mut Client, name: &str, tables: &[&str]) {
    for table in tables.iter().map(|table| format!("{name}.{table}")).chain(["other".into()]) {
        let last: i64 = client.one(&format!("SELECT max(id) FROM {table}"));
        let next: i64 = client.one(&format!("INSERT INTO {table} DEFAULT VALUES RETURNING id"));
        assert!(next > last && last >= 10, "{table}: {next} after {last}");
    }
}

fn definitions(client: &mut Client) -> Vec<String> {
    client.all(
        "SELECT concat_ws(' ', d.id, d.name, d.owned_by, d.extension, s.privileges)
           FROM _hilo.hilo_definition d
           LEFT JOIN LATERAL (SELECT string_agg(p.privilege, ',' ORDER BY p.privilege) AS privileges FROM _hilo.hilo_privilege p
                               WHERE p.sequence = d.id) s ON true
          ORDER BY d.name",
    )
}

/// In each way to dump and restore, all sequences are there, with the ids, owners and grants of the dumped database.
#[test]
fn a_dump_restores_sequences_of_extensions_and_all_others() {
    install("shopx", 5);
    let cluster = Cluster::builder().preload(true).start();
    let expected = definitions(&mut shop(&cluster, "shopx"));
    assert_eq!(expected.iter().filter(|line| line.contains("shopx")).count(), 3);
    let archive = cluster.file("shop.dump");
    run(cluster.tool("pg_dump", "shop").args(["--format=custom", "--file"]).arg(&archive));
    let scripts = [&["--inserts"][..], &["--clean", "--if-exists"]];
    let scripts = scripts.map(|options| cluster.pg_dump("shop", options));
    let parts = ["--schema-only", "--data-only"].map(|part| cluster.pg_dump("shop", &[part]));
    let check = |database: &str, fill: &dyn Fn(&str)| {
        cluster.connect("postgres").run(&format!("CREATE DATABASE {database}"));
        fill(database);
        let mut copy = cluster.connect(database);
        assert_eq!(definitions(&mut copy), expected, "{database}");
        let positions: i64 = copy.one("SELECT count(*) FROM _hilo.hilo_position");
        assert_eq!(positions, 4, "{database}");
        assert_numbered(&mut copy, "shopx", &["orders", "kinds", "owned"]);
        let grants: i64 = copy.one("SELECT count(*) FROM hilo_default_privileges");
        assert_eq!(grants, 1, "{database}");
    };
    for (database, options) in
        [("custom", &[][..]), ("single", &["--single-transaction"]), ("jobs", &["--jobs=3"])]
    {
        check(database, &|database| {
            let mut restore = cluster.tool("pg_restore", database);
            run(restore.args(["--exit-on-error", "-d", database]).args(options).arg(&archive));
        });
    }
    check("inserts", &|database| cluster.restore(database, &scripts[0]));
    check("clean", &|database| {
        cluster.restore(database, &scripts[1]);
        cluster.restore(database, &scripts[1]);
    });
    check("parts", &|database| parts.iter().for_each(|part| cluster.restore(database, part)));
    cluster.finish();
}

/// The script may have more rows of its own by now. No number that it draws in the restored database is served again.
#[test]
fn a_restored_position_lies_beyond_what_the_script_has_drawn() {
    install("seedx", 5);
    let cluster = Cluster::builder().preload(true).start();
    shop(&cluster, "seedx").run("DELETE FROM seedx.kinds WHERE NOT seed");
    let archive = cluster.file("shop.dump");
    run(cluster.tool("pg_dump", "shop").args(["--format=custom", "--file"]).arg(&archive));
    install("seedx", 2000);
    for (database, options) in
        [("custom", &[][..]), ("single", &["--single-transaction"]), ("jobs", &["--jobs=3"])]
    {
        cluster.connect("postgres").run(&format!("CREATE DATABASE {database}"));
        let mut restore = cluster.tool("pg_restore", database);
        run(restore.args(["--exit-on-error", "-d", database]).args(options).arg(&archive));
        assert_numbered(&mut cluster.connect(database), "seedx", &["kinds"]);
    }
    cluster.finish();
}

/// It goes with the extension, as a sequence of core's does, and not without it. The extension can be created again.
#[test]
fn a_sequence_of_an_extension_is_dropped_with_it() {
    install("memberx", 5);
    let cluster = Cluster::builder().preload(true).start();
    let mut client = shop(&cluster, "memberx");
    let names = "SELECT name::text FROM hilo_sequences ORDER BY 1";
    let drop = "SELECT hilo_drop('memberx/orders', cascade => true)";
    client.refusal(drop).is("2BP01").says("extension memberx requires it").hints("drop extension");
    client.run("CREATE TABLE uses (id bigint DEFAULT hilo_nextval('memberx/orders'), n int)");
    let refusal = client.refusal("DROP EXTENSION memberx").is("2BP01");
    refusal.details("column id of table uses").hints("CASCADE");
    client.run("BEGIN; SAVEPOINT s; DROP EXTENSION memberx CASCADE; ROLLBACK TO s; COMMIT");
    assert_eq!(client.all::<String>(names).len(), 4);
    client.run("INSERT INTO uses (n) VALUES (1)");
    client.run("DROP EXTENSION memberx CASCADE");
    assert_eq!(client.all::<String>(names), ["other_id_seq"]);
    client.run("INSERT INTO uses (n) VALUES (1); CREATE EXTENSION memberx");
    assert_eq!(client.one::<i64>("INSERT INTO memberx.orders DEFAULT VALUES RETURNING id"), 1);
    client.run("DROP SCHEMA memberx CASCADE");
    assert_eq!(client.all::<String>(names), ["other_id_seq"]);
    client.run("CREATE SCHEMA memberx; CREATE EXTENSION memberx");
    client.run("DROP EXTENSION hilo CASCADE");
    cluster.finish();
}
