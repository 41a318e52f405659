//! Sequences with a source on a server that has come from another one.

use hilo_tests::{ClientExt, Cluster, Mode, assert_unique};

/// The standby has the counters as they were before the last numbers. It draws nothing from them
/// until they are attached again.
#[test]
fn a_promoted_server_draws_from_no_counter_that_may_lack_numbers() {
    let primary = Cluster::builder().config("max_worker_processes", "20").start_with_hilo();
    let mut client = primary.connect("postgres");
    client.run(
        "CREATE SEQUENCE counter;
         CREATE TABLE mt_hilo (entity_name varchar PRIMARY KEY, hi_value bigint);
         SELECT hilo_create('marten', block_size => 20);
         SELECT hilo_attach('core', 'counter'), hilo_attach('marten', 'mt_hilo', 'marten', 'x')",
    );
    let mut seen = [client.draw("core", 100), client.draw("marten", 100)];
    let standby = primary.clone_by_base_backup();
    standby.stop(Mode::Fast);
    for (seen, name) in seen.iter_mut().zip(["core", "marten"]) {
        seen.extend(client.draw(name, 3_000));
    }
    drop(client);
    primary.stop(Mode::Immediate);
    standby.start();
    standby.promote();
    let mut client = standby.connect("postgres");
    for name in ["core", "marten"] {
        let draw = format!("SELECT hilo_nextval('{name}')");
        client.refusal(&draw).says("the counter may lack numbers");
    }
    client.run(
        "SELECT setval('counter', 1000000); UPDATE mt_hilo SET hi_value = 1000000;
         SELECT hilo_attach('core', 'counter'), hilo_attach('marten', 'mt_hilo', 'marten', 'x')",
    );
    for (seen, name) in seen.iter_mut().zip(["core", "marten"]) {
        seen.extend(client.draw(name, 1_000));
        assert_unique(name, seen);
    }
}

/// A source that replication brings is not run: the query is another server's, and so are its
/// numbers. The owner says what the source is here.
#[test]
fn a_replicated_source_is_not_run() {
    let start = || Cluster::builder().logical().own_identity().start_with_hilo();
    let (publisher, subscriber) = (start(), start());
    let mut there = publisher.connect("postgres");
    there.run(
        "CREATE SEQUENCE counter; SELECT hilo_create('before', source => 'SELECT 7::bigint, 9::bigint');
         CREATE PUBLICATION own FOR TABLE _hilo.hilo_definition, _hilo.hilo_position",
    );
    subscriber.connect("postgres").run("CREATE SEQUENCE counter");
    subscriber.subscribe("own", &publisher, "own", "");
    there.run("SELECT hilo_attach('after', 'counter')");
    let seen = there.draw("after", 100);
    publisher.wait_for_apply("own");
    let mut here = subscriber.connect("postgres");
    for name in ["before", "after"] {
        let draw = format!("SELECT hilo_nextval('{name}')");
        here.refusal(&draw).says("is on the server that it was replicated from");
    }
    let told = "SELECT what FROM hilo_check() WHERE what LIKE '2 sequences, such as \"after\", have their source%'";
    assert_eq!(here.all::<String>(told).len(), 1);
    let kept = "SELECT count(*) FROM hilo_stat_sources WHERE source LIKE '%on another server%'";
    assert_eq!(here.one::<i64>(kept), 2);
    assert!(!here.one::<bool>("SELECT is_called FROM counter"));
    two_branches_are_no_twins(&publisher, &subscriber);
    here.run("SELECT hilo_alter('after', source => 'SELECT 500000::bigint, 500000 + $2')");
    let own = here.draw("after", 10);
    assert!(own.iter().all(|value| *value >= 500_000), "{own:?}");
    there.run("SELECT hilo_alter('after', source => 'SELECT 1000000::bigint, 1000000::bigint')");
    publisher.wait_for_apply("own");
    assert_unique("after", &[seen, own, here.draw("after", 10)].concat());
    let mine = "SELECT source LIKE '%500000%' FROM hilo_stat_sources WHERE name = 'after'";
    assert!(here.one::<bool>(mine));
}

/// Both are attached to one centre, and serve beside each other.
fn two_branches_are_no_twins(publisher: &Cluster, subscriber: &Cluster) {
    publisher.connect("postgres").run("CREATE DATABASE centre TEMPLATE template0");
    let at = publisher.socket_directory().display();
    publisher.connect("centre").run("CREATE EXTENSION hilo; SELECT hilo_create('branch')");
    let mut seen = Vec::new();
    let [mut there, mut here] = [publisher, subscriber].map(|server| {
        let mut client = server.connect("postgres");
        client.run(&format!(
            "CREATE EXTENSION dblink;
             CREATE SERVER centre FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '{at}', dbname 'centre');
             CREATE USER MAPPING FOR postgres SERVER centre OPTIONS (user 'postgres');
             SELECT hilo_attach_server('branch', 'centre')"
        ));
        publisher.wait_for_apply("own");
        seen.extend(client.draw("branch", 100));
        client
    });
    for _ in 0..2 {
        seen.extend(there.draw("branch", 20_000));
        publisher.wait_for_apply("own");
        seen.extend(here.draw("branch", 20_000));
    }
    assert_unique("branch", &seen);
    assert_eq!(subscriber.log_count("another server reserves values"), 0);
    let twin = "SELECT count(*) FROM hilo_check() WHERE what LIKE '%serves the same values%'";
    assert_eq!(here.one::<i64>(twin), 0);
}
