//! How many statements it takes when the server refuses something, or has no room or no time.

use std::time::Duration;

use hilo_client::Client;
use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

use super::proxy::{Fault, Proxy};
use super::{builder, config, open_leases, runtime};

/// One of many that the role may not use fails alone, in the one statement that brings all others.
#[test]
fn one_of_many_that_is_refused_costs_no_statement() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run(
        "SELECT hilo_create('s' || n) FROM generate_series(1, 500) n; SELECT hilo_create('secret');
         CREATE ROLE app LOGIN; SELECT hilo_grant('s' || n, 'app', 'UPDATE') FROM generate_series(1, 500) n",
    );
    let runtime = runtime();
    for place in [0, 250, 500] {
        let mut config = config(&cluster);
        config.user("app");
        let connecting = Client::builder(config).patience(LONG).connect();
        let client = runtime.block_on(connecting).expect("a client");
        let mut names: Vec<String> = (1..=500).map(|n| format!("s{n}")).collect();
        names.insert(place, "secret".into());
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let error = runtime.block_on(client.warm_up(&names)).expect_err("one is secret");
        assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{error:?}");
        wait_until("the others have come", LONG, || client.stats().refills == 500);
        let statements = client.stats().statements;
        assert!(statements <= 2, "{statements} at {place}");
        runtime.block_on(client.shutdown()).expect("all comes back");
    }
    assert_eq!(open_leases(&mut connection), 0);
    cluster.finish();
}

/// A server that is too slow for many leases in one statement gets fewer at a time, until it answers in time.
#[test]
fn a_server_that_is_slow_is_not_flooded() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s' || n) FROM generate_series(1, 1000) n");
    let proxy = Proxy::to(&cluster);
    let runtime = runtime();
    let connecting = Client::builder(proxy.config()).patience(LONG).timeout(Duration::from_secs(2));
    let client = runtime.block_on(connecting.connect()).expect("a client");
    // A name and a size are some twenty bytes.
    proxy.set(Fault::Slow(6_000));
    let names: Vec<String> = (1..=1000).map(|n| format!("s{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    runtime.block_on(client.warm_up(&names)).expect("values");
    let stats = client.stats();
    assert!((1..=10).contains(&stats.failures), "{stats:?}");
    assert!(stats.statements <= 30, "{stats:?}");
    proxy.set(Fault::None);
    let returned = runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(returned.leases, 1000);
    assert_eq!(open_leases(&mut connection), 0);
    cluster.finish();
}

/// One of many is locked, for which a statement waits longer than `statement_timeout` allows: the others come without it, and it
/// when it is free. (`hilo_refill` waits 100 ms for a lock, so the limit is shorter.)
#[test]
fn what_the_server_cancels_is_made_smaller() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run(
        "SELECT hilo_create('s' || n) FROM generate_series(1, 200) n; SELECT hilo_create('locked');
         CREATE ROLE app LOGIN; SELECT hilo_grant_all('app', 'UPDATE'); ALTER ROLE app SET statement_timeout = '80ms'",
    );
    let runtime = runtime();
    let mut config = config(&cluster);
    config.user("app");
    let connecting = Client::builder(config).patience(LONG).connect();
    let client = runtime.block_on(connecting).expect("a client");
    connection.run("BEGIN; SELECT hilo_setval('locked', 5000, false)");
    let mut names: Vec<String> = (1..=200).map(|n| format!("s{n}")).collect();
    names.insert(100, "locked".into());
    let warming = runtime.spawn({
        let client = client.clone();
        async move { client.warm_up(&names.iter().map(String::as_str).collect::<Vec<_>>()).await }
    });
    wait_until("the others have come", LONG, || client.stats().refills == 200);
    let stats = client.stats();
    assert!(stats.overloads > 0 && stats.failures == 0 && stats.statements <= 60, "{stats:?}");
    connection.run("COMMIT");
    runtime.block_on(warming).expect("it ends").expect("values");
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    cluster.finish();
}

/// The longest times that can be said are as good as none.
#[test]
fn no_time_is_too_long() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    let runtime = runtime();
    let most = Duration::MAX;
    let longest = builder(&cluster).buffer(most).ttl(most).patience(most).timeout(most);
    let client = runtime.block_on(longest.connect()).expect("a client");
    let values = runtime.block_on(super::draw(&client.sequence("s"), 300));
    assert_eq!(values, (1..=300).collect::<Vec<_>>());
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    cluster.finish();
}
