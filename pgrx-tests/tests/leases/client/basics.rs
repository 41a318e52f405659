//! The values that a client gives, and those it leaves behind.

use std::collections::BTreeSet;

use hilo_client::{Client, Error, Stats};
use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

use super::proxy::{Fault, Proxy};
use super::{builder, draw, losses, open_leases, runtime, serve, wait_until_filed};

/// Every value comes once, whoever draws, and after a shutdown all is served or back.
#[test]
fn after_a_shutdown_all_is_served_or_back() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('orders')");
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).name("sorter").connect()).expect("a client");
    let orders = client.sequence("orders");
    let mut seen = runtime.block_on(draw(&orders, 1000));
    let holders: BTreeSet<String> =
        connection.all("SELECT holder FROM hilo_leases").into_iter().collect();
    assert_eq!(holders, BTreeSet::from([client.holder().to_owned()]));
    assert!(client.holder().starts_with("sorter/"));
    let returned = runtime.block_on(client.shutdown()).expect("all comes back");
    assert!(returned.values > 0 && returned.leases > 0, "{returned:?}");
    assert_eq!(runtime.block_on(client.shutdown()).expect("the same again"), returned);
    assert!(matches!(runtime.block_on(orders.next()), Err(Error::Closed)));
    assert!(matches!(orders.try_next(), Err(Error::Closed)));
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    seen.extend(connection.draw("orders", 100));
    assert_eq!(losses(&mut connection, "orders", &seen), []);
    cluster.finish();
}

/// A second of all calls at most waits: the others only touch memory.
#[test]
fn a_hit_does_not_reach_the_server() {
    let (cluster, _, runtime, client) = serve("SELECT hilo_create('s')");
    let sequence = client.sequence("s");
    assert_eq!(sequence.try_next().expect("it is on its way"), None);
    wait_until("a value has come", LONG, || sequence.try_next().expect("no error").is_some());
    let left = client.stats().left;
    let before: Stats = client.stats();
    for _ in 0..left / 4 {
        assert!(sequence.try_next().expect("no error").is_some());
    }
    let after = client.stats();
    assert_eq!(after.hits - before.hits, left / 4);
    assert_eq!((after.waits, after.errors), (0, 0));
    assert_eq!(client.sequence_stats()[0].hits, after.hits);
    runtime.block_on(client.shutdown()).expect("all comes back");
    cluster.finish();
}

/// Descending sequences, steps, bounds and both ends of bigint.
#[test]
fn every_kind_of_sequence() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run(&format!(
        "SELECT hilo_create('down', increment => -1), hilo_create('tens', increment => 10, start_value => 5),
                hilo_create('few', max_value => 7),
                hilo_create('top', start_value => {}), hilo_create('bottom', start_value => {}, increment => -1,
                                                                    min_value => {})",
        i64::MAX - 99,
        i64::MIN + 99,
        i64::MIN
    ));
    let runtime = runtime();
    // Each has a client of its own: a lease of a few values that is refused undoes those that are taken with it.
    let first = |name: &str, count| {
        let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
        let sequence = client.sequence(name);
        let values = runtime.block_on(draw(&sequence, count));
        if ["few", "top", "bottom"].contains(&name) {
            let error = runtime.block_on(sequence.next()).expect_err("nothing is left");
            assert_eq!(error.code().map(|code| code.code()), Some("2200H"), "{error:?}");
            assert!(error.hint().is_some() || error.detail().is_some(), "{error:?}");
        }
        runtime.block_on(client.shutdown()).expect("all comes back");
        values
    };
    assert_eq!(first("down", 200), (1..=200).map(|at| -at).collect::<Vec<_>>());
    assert_eq!(first("tens", 200), (0..200).map(|at| 5 + 10 * at).collect::<Vec<_>>());
    assert_eq!(first("few", 7), (1..=7).collect::<Vec<_>>());
    // No lease gets the last value of bigint.
    assert_eq!(first("top", 99), (i64::MAX - 99..i64::MAX).collect::<Vec<_>>());
    assert_eq!(first("bottom", 99), (i64::MIN + 1..=i64::MIN + 99).rev().collect::<Vec<_>>());
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    assert_eq!(losses(&mut connection, "few", &(1..=7).collect::<Vec<_>>()), []);
    cluster.finish();
}

/// Somebody who may create functions in a schema that the client looks into cannot have it call
/// them, whatever their arguments. It would lend them its privileges.
#[test]
fn a_client_calls_only_what_it_means() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    for (function, result) in [
        (
            "hilo_lease(text, bigint, text, interval, uuid)",
            "TABLE (lease uuid, first bigint, last bigint, increment bigint, count bigint, expires_at timestamptz,
                    key_format text, server_prefix text, suggested bigint)",
        ),
        ("hilo_lease_revoke(lease uuid)", "bigint"),
        ("hilo_lease_revoke(holder text)", "bigint"),
        ("hilo_lease_return(uuid, integer)", "bigint"),
        ("hilo_refill(uuid[], bigint[], uuid[], text[], bigint[], uuid[], text)", "SETOF record"),
        ("unnest(uuid[])", "SETOF uuid"),
        ("unnest(text[])", "SETOF text"),
        ("unnest(bigint[])", "SETOF bigint"),
        ("make_interval(secs double precision)", "interval"),
    ] {
        connection.run(&format!(
            "CREATE FUNCTION public.{function} RETURNS {result} LANGUAGE plpgsql AS
             'BEGIN RAISE ''this is not the function that was meant''; END'"
        ));
    }
    let proxy = Proxy::to(&cluster);
    let runtime = runtime();
    let connecting = Client::builder(proxy.config()).patience(LONG).ttl(LONG).connect();
    let client = runtime.block_on(connecting).expect("a client");
    // A lease to ask for again: its answer is lost.
    proxy.set(Fault::CutBeforeReady);
    let seen = runtime.block_on(draw(&client.sequence("s"), 300));
    let lease = "SELECT hilo_lease('s'::hilo_sequence, 5, $1)";
    connection.execute(lease, &[&client.holder()]).expect("a lease that it has not heard of");
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    hilo_tests::assert_unique("s", &seen);
    cluster.finish();
}
