//! The page can be had wherever something can be read, and a part that cannot be read is said to be so.

use hilo_tests::{ClientExt, Cluster};

use super::{headings, page, quote, section, shop, visible_text};

/// In a read-only transaction, and on a standby, with what the standby knows.
#[test]
fn it_writes_nothing() {
    let cluster = Cluster::builder().config("wal_level", "replica").start_with_hilo();
    let mut client = shop(&cluster);
    client.run("BEGIN READ ONLY ISOLATION LEVEL SERIALIZABLE");
    assert!(visible_text(&page(&mut client)).contains("tickets"));
    client.run("COMMIT");
    let standby = cluster.clone_by_base_backup();
    cluster.wait_for_replay(&standby);
    let page = page(&mut standby.connect("postgres"));
    assert_eq!(headings(&page, "sequences").len(), 5, "{page}");
    assert!(visible_text(&page).contains("standby"));
    assert!(!visible_text(&page).contains("cannot be read"), "{page}");
    standby.finish();
    cluster.finish();
}

/// Where the server has not loaded hilo, the catalog is shown, and what is missing, and what to do.
#[test]
fn without_shared_memory_the_catalog_is_shown() {
    let cluster = Cluster::with_hilo();
    drop(shop(&cluster));
    cluster.stop(hilo_tests::Mode::Fast);
    cluster.configure("shared_preload_libraries", "");
    cluster.configure("session_preload_libraries", "");
    cluster.start();
    let mut client = cluster.connect("postgres");
    let page = page(&mut client);
    assert_eq!(headings(&page, "sequences").len(), 5, "{page}");
    assert_eq!(headings(&page, "leases"), ["sorter-7", "sorter-8"]);
    // From PostgreSQL 17 on, the first call has made the shared memory.
    if client.one::<i32>("SELECT current_setting('server_version_num')::int") < 170_000 {
        let text = visible_text(&page);
        assert!(text.contains("What is in memory cannot be read: "), "{text}");
        assert!(text.contains("shared_preload_libraries"), "{text}");
        assert!(!text.contains("The rates over time"), "the same is said twice: {text}");
    }
    cluster.finish();
}

/// A part that the role may not read, or that is locked, keeps it from no other; a statement that is canceled is canceled.
#[test]
fn a_part_that_cannot_be_read_is_said_to_be_so() {
    let cluster = Cluster::with_hilo();
    let mut admin = shop(&cluster);
    admin.run(
        "CREATE ROLE watcher LOGIN IN ROLE pg_monitor; REVOKE SELECT ON hilo_gaps FROM PUBLIC;
         REVOKE EXECUTE ON FUNCTION hilo_check() FROM PUBLIC",
    );
    let mut client = cluster.connect_as("watcher", "postgres");
    let page_of_watcher = page(&mut client);
    for (part, denied) in [("findings", "function hilo_check"), ("gaps", "view hilo_gaps")] {
        let said = format!("This part cannot be read: \npermission denied for {denied}");
        let text = visible_text(&format!("</style>{}", section(&page_of_watcher, part)));
        assert!(text.replace("\n\n", "\n").contains(&said), "{said}: {text}");
    }
    assert_eq!(headings(&page_of_watcher, "sequences").len(), 5);
    assert_eq!(headings(&page_of_watcher, "leases").len(), 2);

    admin.run("BEGIN; LOCK TABLE _hilo.hilo_gap IN ACCESS EXCLUSIVE MODE");
    let mut client = cluster.connect("postgres");
    client.run("SET lock_timeout = '20ms'");
    let page_of_locked = page(&mut client);
    let gaps = visible_text(&format!("</style>{}", section(&page_of_locked, "gaps")));
    assert!(gaps.contains("canceling statement due to lock timeout"), "{gaps}");
    assert_eq!(headings(&page_of_locked, "leases").len(), 2);
    client.run("SET lock_timeout = 0; SET statement_timeout = '50ms'");
    client.refusal("SELECT hilo_report()").is("57014");
    client.run("SET statement_timeout = 0");
    admin.run("COMMIT");
    // Nothing of a part that failed is left behind.
    assert!(!visible_text(&page(&mut client)).contains("cannot be read"));
    let setting: String =
        client.one("SELECT current_setting('search_path') || current_setting('row_security')");
    assert_eq!(setting, "\"$user\", publicon");
    cluster.finish();
}

/// Numbers at the limits of their types, in every direction.
#[test]
fn numbers_at_their_limits() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let [low, high] = [i64::MIN, i64::MAX];
    client.meddle(&format!(
        "SELECT hilo_create('whole', min_value => {low}, max_value => {high}, start_value => {low});
         SELECT hilo_create('down', increment => -1, min_value => {low}, max_value => {high}, start_value => {high});
         SELECT hilo_create('far', increment => {high}, max_value => {high});
         SELECT hilo_create('end', start_value => {high}, max_value => {high});
         SELECT hilo_create('tiny', max_value => 2, min_value => 1, start_value => 1);
         SELECT hilo_nextval(name) FROM unnest(ARRAY['whole', 'down', 'far', 'end', 'tiny']) AS name;
         INSERT INTO _hilo.hilo_gap SELECT id, 0, 1, {low}, {high}, {high}, 1, 'crash', t
           FROM _hilo.hilo_definition, (VALUES ('-infinity'::timestamptz), ('infinity'), ('4713-01-01 BC'), ('294276-01-01'), (now())) v (t)"
    ));
    let page = page(&mut client);
    let text = visible_text(&page);
    assert_eq!(headings(&page, "sequences").len(), 5, "{page}");
    assert!(!text.contains("cannot be read"), "{text}");
    assert!(text.contains("230,584,300,921,369,395,175"), "{text}");
    for absurd in ["NaN", "inf", "-0"] {
        let attribute = format!("=\"{absurd}");
        assert!(!page.contains(&attribute), "{absurd} in {page}");
    }
    cluster.finish();
}

/// In a database of any encoding, and for a client of any encoding.
#[test]
fn encodings() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE DATABASE latin ENCODING LATIN1 LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    );
    admin.run(
        "CREATE DATABASE bytes ENCODING SQL_ASCII LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    );
    let mut client = cluster.connect("latin");
    client.run("CREATE SCHEMA \"schöne\"; CREATE EXTENSION hilo SCHEMA \"schöne\"; SET search_path = \"schöne\"");
    client.run(&format!(
        "SELECT hilo_create('Größe'), hilo_nextval('Größe'), hilo_create({})",
        quote("ÿ<b>")
    ));
    assert_eq!(headings(&page(&mut client), "sequences"), ["Größe", "ÿ<b>"]);
    client.run("SET client_encoding = SQL_ASCII");
    assert_eq!(headings(&page(&mut client), "sequences"), ["Größe", "ÿ<b>"]);

    let mut client = cluster.connect("bytes");
    client.run("CREATE EXTENSION hilo; SELECT count(hilo_create(convert_from('\\xff3c', 'SQL_ASCII'))), hilo_create('Größe')");
    assert_eq!(headings(&page(&mut client), "sequences"), ["Größe", "\\xFF<"]);
    cluster.finish();
}

/// A function that a user has planted in the search_path is not called.
#[test]
fn nothing_planted_is_called() {
    let cluster = Cluster::with_hilo();
    let mut client = shop(&cluster);
    client.run(
        "CREATE SCHEMA trap;
         CREATE FUNCTION trap.boom(bigint, integer) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''trapped''; END';
         CREATE OPERATOR trap.> (LEFTARG = bigint, RIGHTARG = integer, FUNCTION = trap.boom);
         CREATE VIEW trap.pg_settings AS SELECT 1/0 AS name;
         CREATE VIEW trap.hilo_sequences AS SELECT 1/0 AS name;
         CREATE FUNCTION trap.current_setting(text) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''trapped''; END';
         SET search_path = trap, pg_catalog, public",
    );
    let text = visible_text(&page(&mut client));
    assert!(text.contains("tickets") && !text.contains("cannot be read"), "{text}");
    cluster.finish();
}
