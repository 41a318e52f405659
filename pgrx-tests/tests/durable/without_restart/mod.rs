//! From PostgreSQL 17 on, hilo needs no restart of the server. Its memory comes with the first
//! call, or with the sessions that load the library when they begin. Functions that need the
//! library in all sessions are refused until it is there.

mod memory;
mod versions;
mod who_loads;

use std::fs;

use hilo_tests::{
    Builder, Client, ClientExt, Cluster, LONG, Load, Mode, Source, assert_unique, wait_until,
};

/// A server that does not know of hilo, with the extension created; `None`: it needs a restart for it.
fn bare_server() -> Option<Cluster> {
    bare_server_with(Cluster::builder())
}

fn bare_server_with(builder: Builder) -> Option<Cluster> {
    let cluster = builder.preload(false).start();
    if cluster.version() < 17 {
        // `bad_input.rs` and `messages.rs` have what such a server answers.
        cluster.finish();
        return None;
    }
    cluster.connect("postgres").run("CREATE EXTENSION hilo");
    Some(cluster)
}

fn has_loaded(client: &mut Client) -> bool {
    // A setting of the library's is known where the library is loaded.
    client.one("SELECT count(*) = 1 FROM pg_settings WHERE name = 'hilo.max_sequences'")
}

/// A cluster that loads hilo in all sessions of database `postgres`. The columns of its tables
/// `owner` and `always` depend on that, and the columns of table `t` do not. `None`: it needs a
/// restart.
fn with_dependent_columns() -> Option<Cluster> {
    let cluster = bare_server()?;
    cluster
        .connect("postgres")
        .run("ALTER DATABASE postgres SET session_preload_libraries = 'hilo'");
    cluster.connect("postgres").run(
        "CREATE TABLE owner (id bigserial PRIMARY KEY);
         CREATE TABLE always (id bigint GENERATED ALWAYS AS IDENTITY);
         CREATE TABLE t (id integer PRIMARY KEY);
         SELECT hilo_adopt('owner', 'id'), hilo_adopt('always', 'id')",
    );
    Some(cluster)
}

/// Statements of all kinds that drop a relation, or replace one by another.
const DROPS: [&str; 8] = [
    "CREATE TABLE other (id integer, gone integer); ALTER TABLE other DROP gone; DROP TABLE other",
    "BEGIN; CREATE TEMP TABLE temporary (id integer) ON COMMIT DROP; COMMIT",
    "CREATE TEMP TABLE temporary (id integer); DROP TABLE temporary",
    "VACUUM FULL t",
    "CLUSTER t USING t_pkey",
    "ALTER TABLE t ALTER id TYPE bigint; ALTER TABLE t ALTER id TYPE integer",
    "CREATE MATERIALIZED VIEW m AS SELECT 1 AS one; REFRESH MATERIALIZED VIEW m; DROP MATERIALIZED VIEW m",
    "TRUNCATE t RESTART IDENTITY; ALTER TABLE t OWNER TO CURRENT_USER",
];

/// The first call is all that a server needs. Sessions share what is in memory, and give back what they have not used.
#[test]
fn the_first_call_is_enough() {
    let Some(cluster) = bare_server() else { return };
    let mut one = cluster.connect("postgres");
    assert!(!has_loaded(&mut one));
    one.run("SELECT hilo_create('s')");
    let mut seen = one.draw("s", 10);
    let mut two = cluster.connect("postgres");
    seen.extend(two.draw("s", 10));
    seen.extend(one.draw("s", 10));
    assert_unique("s", &seen);
    assert!(has_loaded(&mut two));
    assert_eq!(one.one::<i64>("SELECT count(*) FROM hilo_stat_backends"), 2);
    drop((one, two));
    cluster.restart();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    seen.extend(client.draw("s", 100));
    assert_unique("s", &seen);
    cluster.finish();
}

/// A session's first call may be in an item of FROM: each row gets values of its own, as in `memoize.rs`.
#[test]
fn the_first_call_may_be_a_join() {
    let Some(cluster) = bare_server() else { return };
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s'); CREATE TABLE orders AS SELECT i AS id, 1 + i % 3 AS n FROM generate_series(1, 1000) AS i;
         ANALYZE orders",
    );
    for item in [
        "hilo_nextvals('s', o.n) AS v",
        "hilo_lease('s', o.n) AS x (v) WHERE first + last > 0 AND count = n AND first + increment > 1 AND last > 0 AND increment > 0",
        "LATERAL (SELECT hilo_nextkey('s') AS v FROM generate_series(1, o.n)) AS x",
    ] {
        let mut client = cluster.connect("postgres");
        let sql = format!("SELECT count(*) = count(DISTINCT v) FROM orders AS o, {item}");
        assert!(client.one::<bool>(&sql), "{item}");
    }
    cluster.finish();
}

/// Crashes of all kinds under load: no value twice, as with a library that the server loads.
#[test]
fn nothing_comes_twice_after_a_crash() {
    let Some(cluster) = bare_server() else { return };
    let sources = Source::three_kinds(&cluster);
    let load = Load { reconnect: true, ..Load::sixteen_sessions(2) };
    load.run_during(&cluster, &sources, || {
        let faults: [&dyn Fn(); 3] = [
            &|| cluster.crash(cluster.wait_for_worker("postgres")),
            &|| {
                cluster.kill9_postmaster();
                cluster.start();
            },
            &|| {
                cluster.stop(Mode::Fast);
                cluster.start();
            },
        ];
        for (done, fault) in faults.iter().enumerate() {
            wait_until("another quarter has been drawn", 3 * LONG, || {
                Source::count_seen(&sources) >= load.total() * (done + 1) / 4
            });
            fault();
        }
    });
    sources.iter().for_each(Source::assert_kept);
}

/// A session that has not loaded the library may drop what hilo uses: the extension, a role, a
/// database. A worker that comes after that has nothing to do with what was in memory.
#[test]
fn drops_by_sessions_that_know_nothing_of_hilo() {
    let Some(cluster) = bare_server() else { return };
    let mut client = cluster.connect("postgres");
    client.run("CREATE ROLE app LOGIN; SELECT hilo_create('s'); SELECT hilo_set_owner('s', 'app')");
    let mut seen = client.draw("s", 10);
    wait_until("the worker has recorded the role", LONG, || {
        client.one::<i64>("SELECT count(*) FROM pg_shdepend WHERE refobjid = 'app'::regrole") > 0
    });
    let mut stranger = cluster.connect("postgres");
    stranger.refusal("DROP ROLE app").is("2BP01");
    seen.extend(client.draw("s", 10));
    assert_unique("s", &seen);
    stranger.run("DROP EXTENSION hilo CASCADE");
    assert!(!has_loaded(&mut stranger));
    client.refusal("SELECT hilo_nextval('s')").is("42883");
    stranger.run("CREATE EXTENSION hilo; SELECT hilo_create('s')");
    let mut seen = Vec::new();
    for client in [&mut client, &mut stranger, &mut cluster.connect("postgres")] {
        seen.extend(client.draw("s", 1000));
    }
    assert_unique("s", &seen);
    assert_eq!(seen.iter().min(), Some(&1));
    stranger.run("CREATE DATABASE shop");
    let mut shop = cluster.connect("shop");
    shop.run("CREATE EXTENSION hilo; SELECT hilo_create('s'); SELECT hilo_nextval('s')");
    drop(shop);
    let mut stranger = cluster.connect("postgres");
    stranger.run("DROP DATABASE shop WITH (FORCE)");
    stranger.run("CREATE DATABASE shop");
    let mut shop = cluster.connect("shop");
    shop.run("CREATE EXTENSION hilo; SELECT hilo_create('s')");
    assert_eq!(shop.draw("s", 1), [1]);
    cluster.finish();
}

/// The same with a restored extension, whose sequences have the ids that those in memory have.
/// Ranges that memory has of the former ones are neither served nor written to these.
#[test]
fn a_restore_after_a_drop_by_a_session_that_knows_nothing_of_hilo() {
    let Some(cluster) = bare_server() else { return };
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 1000)");
    let mut seen = client.draw("s", 10);
    let dump = cluster.pg_dump("postgres", &[]);
    let mut stranger = cluster.connect("postgres");
    stranger.run("DROP EXTENSION hilo CASCADE; DROP SCHEMA IF EXISTS hilo CASCADE");
    assert!(!has_loaded(&mut stranger));
    cluster.restore("postgres", &dump);
    let mut late = cluster.connect("postgres");
    for _ in 0..3 {
        for client in [&mut client, &mut stranger, &mut late] {
            seen.extend(client.draw("s", 500));
        }
    }
    drop((client, stranger, late));
    cluster.restart();
    seen.extend(cluster.connect("postgres").draw("s", 3000));
    assert_unique("s", &seen);
    cluster.finish();
}

/// A session that has loaded hilo makes no memory for what has nothing to do with it, whether the database has the
/// extension or not.
#[test]
fn memory_is_made_for_hilo_only() {
    let builder = Cluster::builder().config("dynamic_shared_memory_type", "mmap");
    let Some(cluster) = bare_server_with(builder) else { return };
    cluster.configure("session_preload_libraries", "hilo");
    cluster.restart();
    let segments = || {
        let files = fs::read_dir(cluster.data_directory().join("pg_dynshmem")).unwrap();
        files.map(|file| file.unwrap().metadata().map_or(0, |file| file.len())).max().unwrap_or(0)
    };
    cluster.connect("postgres").run("CREATE DATABASE empty");
    for database in ["postgres", "empty"] {
        let mut client = cluster.connect(database);
        assert!(has_loaded(&mut client));
        client.run("CREATE TABLE t (id integer PRIMARY KEY)");
        for statements in DROPS {
            statements.split("; ").for_each(|statement| client.run(statement));
        }
        if database == "empty" {
            client.run("DROP EXTENSION plpgsql; CREATE EXTENSION plpgsql");
        }
        client.run("CREATE DATABASE other");
        client.run("DROP DATABASE other");
        assert!(segments() < 4 << 20, "{database}: {} bytes", segments());
    }
    cluster.connect("postgres").run("SELECT hilo_create('s'), hilo_nextval('s')");
    assert!(segments() > 4 << 20, "{} bytes", segments());
    cluster.finish();
}

/// Replication changes definitions in a process that draws no number. Each change reaches the sessions, also if it is
/// the first thing of hilo that its process does.
#[test]
fn what_replication_changes_reaches_memory() {
    let start = |id| bare_server_with(Cluster::builder().logical().node(id, 2));
    let (Some(publisher), Some(subscriber)) = (start(0), start(1)) else { return };
    for cluster in [&publisher, &subscriber] {
        cluster.connect("postgres").run("CREATE ROLE clerk LOGIN");
    }
    let mut there = publisher.connect("postgres");
    there.run("CREATE PUBLICATION own FOR TABLE _hilo.hilo_definition, _hilo.hilo_position, _hilo.hilo_privilege");
    there.run(
        "SELECT hilo_create('told', block_size => 100), hilo_nextval('told'), hilo_grant('told', 'clerk', 'USAGE')",
    );
    subscriber.subscribe("own", &publisher, "own", "");
    let mut here = subscriber.connect("postgres");
    let mut clerk = subscriber.connect_as("clerk", "postgres");
    let mut apply = |change: &str| {
        let mut admin = subscriber.connect("postgres");
        admin.run("ALTER SUBSCRIPTION own DISABLE");
        let process = "SELECT count(*) FROM pg_stat_subscription WHERE pid IS NOT NULL";
        wait_until("the process has ended", LONG, || admin.one::<i64>(process) == 0);
        there.run(change);
        admin.run("ALTER SUBSCRIPTION own ENABLE");
        publisher.wait_for_apply("own");
    };
    for client in [&mut here, &mut clerk] {
        client.draw("told", 1);
        assert!(!client.one::<String>("SELECT hilo_nextkey('told')").starts_with('T'));
    }
    apply("SELECT hilo_revoke('told', 'clerk', 'USAGE')");
    clerk.refusal("SELECT hilo_nextval('told')").is("42501");
    apply("SELECT hilo_grant('told', 'clerk', 'USAGE')");
    clerk.draw("told", 1);
    apply("SELECT hilo_alter('told', key_format => 'T-{value:05}', slice_size => 7)");
    for client in [&mut here, &mut clerk] {
        assert!(client.one::<String>("SELECT hilo_nextkey('told')").starts_with("T-0"));
    }
    apply("SELECT hilo_rename('told', 'renamed'), hilo_create('told')");
    for client in [&mut here, &mut clerk] {
        client.draw("renamed", 1);
    }
    clerk.refusal("SELECT hilo_nextval('told')").is("42501");
    apply("SELECT hilo_drop('renamed')");
    here.refusal("SELECT hilo_nextval('renamed')").is("42704");
    subscriber.finish();
    publisher.finish();
}
