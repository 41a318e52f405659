//! A Rust client, where hilo can refuse what hilo_lite cannot. All other tests of clients run against both.

use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

use super::client::commit::{before_the_commit, behind_a_proxy};
use super::client::proxy::Fault;
use super::client::{builder, draw, open_leases, runtime};

/// The sequence is renumbered before the commit of a lease, which fails: the client takes another
/// lease, and serves only that. In hilo_lite the lease has locked the sequence, so nobody can.
#[test]
fn a_commit_that_fails_brings_another_lease() {
    for renumber in [
        "SELECT hilo_setval('s', 5000, false)",
        "SELECT hilo_drop('s'), hilo_create('s', start_value => 5000)",
    ] {
        let (cluster, mut connection, proxy, runtime, client) = behind_a_proxy();
        let s = client.sequence("s");
        let waiting = before_the_commit(&mut connection, &proxy, &runtime, &s);
        connection.run(renumber);
        proxy.set(Fault::None);
        let value = runtime.block_on(waiting).expect("it ends").expect("another lease");
        assert!(value >= 5000, "{value} after {renumber}");
        let more = runtime.block_on(draw(&s, 200));
        assert!(more.iter().all(|value| *value > 5000), "{more:?}");
        runtime.block_on(client.shutdown()).expect("all comes back");
        assert_eq!(open_leases(&mut connection), 0);
        cluster.finish();
    }
}

/// When the leases in open transactions are as many as the server has places for, it gets a
/// statement now and then. It does not get one for each sequence. hilo_lite has no such limit.
#[test]
fn a_server_without_room_is_not_flooded() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run(
        "SELECT hilo_create('s' || n) FROM generate_series(1, 1000) n; SELECT hilo_create('other')",
    );
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
    connection.run("BEGIN");
    let all = "SELECT count(*) FROM generate_series(1, 16384) n, LATERAL hilo_lease('other', 1 + n * 0) l";
    assert_eq!(connection.one::<i64>(all), 16384);
    let names: Vec<String> = (1..=1000).map(|n| format!("s{n}")).collect();
    let warming = runtime.spawn({
        let (client, names) = (client.clone(), names.clone());
        async move { client.warm_up(&names.iter().map(String::as_str).collect::<Vec<_>>()).await }
    });
    wait_until("the client has tried", LONG, || client.stats().statements >= 4);
    connection.run("ROLLBACK");
    runtime.block_on(warming).expect("it ends").expect("values");
    let statements = client.stats().statements;
    assert!(statements <= 200, "{statements}");
    runtime.block_on(client.shutdown()).expect("all comes back");
    cluster.finish();
}
