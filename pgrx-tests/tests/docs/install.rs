//! docs/install.md works as printed: hilo comes to a server, with a restart or without, and goes
//! again. The next server continues with the very next number.

use std::fs;
use std::path::{Path, PathBuf};

use hilo_tests::{ClientExt, Cluster, blocks};

const AT_START: &str = "shared_preload_libraries = 'hilo'";
const IN_SESSIONS: &str = "ALTER DATABASE shop SET session_preload_libraries = 'hilo'";

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The SQL of a section of the page, block by block.
#[track_caller]
fn section(heading: &str) -> Vec<String> {
    let page = fs::read_to_string(root("docs/install.md")).expect("cannot read the page");
    let said = [AT_START, IN_SESSIONS].iter().all(|line| page.contains(line));
    assert!(said, "the page does not say how to load hilo");
    let section = page.split("\n## ").find(|section| section.starts_with(heading));
    let found = blocks(section.expect("the page has the section"), "sql");
    assert!(!found.is_empty(), "{heading} has no SQL");
    found
}

/// A server that knows nothing of hilo, with the database that the page speaks of.
fn shop() -> Cluster {
    let cluster = Cluster::builder().preload(false).start();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE shop_owner; CREATE ROLE \"Counter Clerk\"");
    admin.run("CREATE DATABASE shop OWNER shop_owner");
    cluster
}

fn restart_with(cluster: &Cluster, libraries: &str) {
    cluster.configure("shared_preload_libraries", libraries);
    cluster.restart();
}

/// Creates the extension, uses it in each way that the page knows a way back from, and goes back.
fn there_and_back(cluster: &Cluster, in_one_transaction: bool) {
    let run = |blocks: &[String]| blocks.iter().for_each(|block| cluster.restore("shop", block));
    run(&section("Creating the extension"));
    let mut owner = cluster.connect("shop");
    owner.run(
        "SET ROLE shop_owner;
         CREATE TABLE invoices (id serial PRIMARY KEY, no integer GENERATED ALWAYS AS IDENTITY);
         INSERT INTO invoices DEFAULT VALUES;
         CREATE TABLE \"Old Orders\" (\"Id\" bigint DEFAULT hilo_nextval('orders/old')) PARTITION BY RANGE (\"Id\");
         CREATE TABLE first_part PARTITION OF \"Old Orders\" DEFAULT;
         SELECT hilo_create('orders/old', start_value => 100, increment => -1, min_value => -1000, max_value => 100);
         SELECT hilo_adopt('invoices', 'id'), hilo_adopt('invoices', 'no');
         INSERT INTO invoices DEFAULT VALUES;
         INSERT INTO \"Old Orders\" SELECT FROM generate_series(1, 7);
         SELECT hilo_create('ticket', data_type => 'integer'), hilo_create('unused'),
                hilo_create('bill', gapless => true);
         SELECT hilo_grant('ticket', 'Counter Clerk', 'USAGE'), hilo_grant('bill', 'public', 'SELECT')",
    );
    assert_eq!(owner.draw("ticket", 50).len(), 50);
    assert_eq!(owner.draw("bill", 5), [1, 2, 3, 4, 5]);
    // It returns what is left of its slice of tickets.
    cluster.close(owner);
    run(&section("Upgrading"));

    let removing = section("Removing");
    let (steps, settings) = removing.split_at(removing.len() - 1);
    assert_eq!(steps.len(), 3, "{steps:?}");
    match in_one_transaction {
        true => run(&[format!("BEGIN;\n{}COMMIT;", steps.concat())]),
        false => run(steps),
    }
    run(settings);

    let mut client = cluster.connect("shop");
    let left = "SELECT (SELECT count(*) FROM pg_extension WHERE extname = 'hilo')
                     + (SELECT count(*) FROM pg_namespace WHERE nspname IN ('_hilo', 'hilo'))
                     + (SELECT count(*) FROM pg_proc WHERE proname LIKE 'hilo%')
                     + (SELECT count(*) FROM pg_db_role_setting WHERE setconfig::text LIKE '%hilo%')";
    assert_eq!(client.one::<i64>(left), 0);
    client.run("SET ROLE shop_owner");
    assert_eq!(client.one::<i64>("INSERT INTO orders DEFAULT VALUES RETURNING id"), 3);
    let both = "INSERT INTO invoices DEFAULT VALUES RETURNING id || ' ' || no";
    assert_eq!(client.one::<String>(both), "3 3");
    let old = "INSERT INTO \"Old Orders\" DEFAULT VALUES RETURNING \"Id\"";
    assert_eq!(client.one::<i64>(old), 93);
    client.run("SET ROLE \"Counter Clerk\"");
    assert_eq!(client.one::<i64>("SELECT nextval('ticket_seq')"), 51);
    assert_eq!(client.one::<i64>("SELECT last_value FROM bill_seq"), 6);
    client.run("SET ROLE shop_owner");
    for (sequence, next) in [("ticket_seq", 52), ("unused_seq", 1), ("bill_seq", 6)] {
        assert_eq!(client.one::<i64>(&format!("SELECT nextval('{sequence}')")), next, "{sequence}");
    }
}

/// A library that is still in memory does nothing, and a start without the library finds nothing
/// missing.
fn without_hilo(cluster: Cluster) {
    restart_with(&cluster, "");
    let mut client = cluster.connect("shop");
    assert_eq!(client.one::<i64>("INSERT INTO orders DEFAULT VALUES RETURNING id"), 4);
    client.refusal("SELECT hilo_nextval('orders')").is("42883");
    cluster.finish();
}

/// Loaded at the server's start, and removed step by step.
#[test]
fn with_a_restart() {
    let cluster = shop();
    restart_with(&cluster, "hilo");
    there_and_back(&cluster, false);
    without_hilo(cluster);
}

/// The image of hilo's files alone, mounted beside a server that has none of them.
#[test]
fn from_an_image_of_the_extension() {
    let cluster = Cluster::builder().preload(false).start();
    if cluster.version() < 18 {
        cluster.finish();
        return;
    }
    let dockerfile = fs::read_to_string(root("Dockerfile")).expect("cannot read Dockerfile");
    let stage = dockerfile.split("\nFROM ").find(|stage| stage.starts_with("scratch AS extension"));
    let (image, mut client) = (cluster.file("image"), cluster.connect("postgres"));
    for line in stage.expect("a stage").lines() {
        let Some((from, to)) =
            line.strip_prefix("COPY --from=build ").and_then(|line| line.split_once(' '))
        else {
            continue;
        };
        let setting = if from.ends_with("/lib/") { "PKGLIBDIR" } else { "SHAREDIR" };
        let here: String =
            client.one(&format!("SELECT setting FROM pg_config WHERE name = '{setting}'"));
        let here = Path::new(&here).join(if to == "/lib/" { "" } else { "extension" });
        let to = image.join(to.trim_start_matches('/'));
        fs::create_dir_all(&to).expect("a directory");
        let files =
            fs::read_dir(here).expect("a directory").map(|file| file.expect("a file").path());
        for file in files.filter(|file| {
            file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"hilo"))
        }) {
            fs::copy(&file, to.join(file.file_name().expect("a name"))).expect("cannot copy it");
        }
    }
    // The server's own libraries are behind it, and its extensions nowhere.
    let [share, lib] = ["share", "lib"].map(|name| image.join(name).display().to_string());
    cluster.configure("extension_control_path", &share);
    cluster.configure("dynamic_library_path", &format!("{lib}:$libdir"));
    restart_with(&cluster, "hilo");
    let mut client = cluster.connect("postgres");
    client.run("CREATE EXTENSION hilo");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval(hilo_create('s'))"), 1);
    cluster.finish();
}

/// Loaded by sessions of a server that keeps running, and removed in one transaction.
#[test]
fn without_a_restart() {
    let cluster = shop();
    if cluster.version() < 17 {
        cluster.finish();
        return;
    }
    cluster.connect("postgres").run(IN_SESSIONS);
    there_and_back(&cluster, true);
    without_hilo(cluster);
}
