//! A lease counts from its commit: nothing is served before the server has said that it is
//! committed. A lease that nobody knows of is asked for again, by its name.

use hilo_client::{Client, Error, Sequence};
use hilo_tests::{Client as Connection, ClientExt, Cluster, LONG, wait_until};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::proxy::{Fault, Proxy};
use super::{draw, losses, open_leases, runtime, wait_until_filed};

/// A server with sequence `s`, and a client that reaches it through a proxy.
pub fn behind_a_proxy() -> (Cluster, Connection, Proxy, Runtime, Client) {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    let proxy = Proxy::to(&cluster);
    let runtime = runtime();
    let connecting = Client::builder(proxy.config()).patience(LONG).connect();
    let client = runtime.block_on(connecting).expect("a client");
    (cluster, connection, proxy, runtime, client)
}

/// The rows of a lease have arrived, and the commit is missing: nobody gets a value.
#[test]
fn nothing_is_served_before_the_commit() {
    let (cluster, mut connection, proxy, runtime, client) = behind_a_proxy();
    let s = client.sequence("s");
    let waiting = before_the_commit(&mut connection, &proxy, &runtime, &s);
    proxy.set(Fault::None);
    assert_eq!(runtime.block_on(waiting).expect("it ends").expect("a value"), 1);
    let more = runtime.block_on(draw(&s, 200));
    assert_eq!(more, (2..=201).collect::<Vec<_>>());
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    cluster.finish();
}

/// A caller who waits for the first value of a sequence, whose lease is held up before its commit.
pub fn before_the_commit(
    connection: &mut Connection,
    proxy: &Proxy,
    runtime: &Runtime,
    s: &Sequence,
) -> JoinHandle<Result<i64, Error>> {
    proxy.set(Fault::HoldSync);
    let waiting = runtime.spawn({
        let s = s.clone();
        async move { s.next().await }
    });
    wait_until("the statement has run", LONG, || proxy.fault() == Fault::Held);
    // The rows have arrived: give a client that serves too early the time to do so.
    for _ in 0..20 {
        connection.run("SELECT 1");
        assert_eq!(s.try_next().expect("no error"), None, "before the commit");
    }
    assert_eq!(open_leases(connection), 0);
    waiting
}

/// The answer is lost after the commit: the client asks again, for the same leases, and nothing is lost.
#[test]
fn a_lost_answer_costs_a_second_question() {
    let (cluster, mut connection, proxy, runtime, client) = behind_a_proxy();
    let s = client.sequence("s");
    proxy.set(Fault::CutBeforeReady);
    let mut seen = runtime.block_on(draw(&s, 300));
    assert_eq!(client.stats().failures, 1);
    assert_eq!(seen[0], 1, "the first lease came with the second answer");
    let range = runtime.block_on(async {
        proxy.set(Fault::CutBeforeReady);
        s.next_range(10_000).await.expect("a range")
    });
    assert_eq!((range.count, client.stats().failures), (10_000, 2));
    seen.extend(range);
    // Again in the middle, where returns get lost too: they are not made twice.
    proxy.set(Fault::CutBeforeReady);
    wait_until("the connection is cut", LONG, || {
        seen.extend(runtime.block_on(draw(&s, 100)));
        client.stats().failures == 3
    });
    seen.extend(runtime.block_on(draw(&s, 100)));
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    let gaps = "SELECT concat_ws(' ', first, last, reason) FROM hilo_gaps";
    assert_eq!(connection.all::<String>(gaps), Vec::<String>::new());
    cluster.finish();
}

/// The connection is cut before the commit: the values are a gap, which nobody gets.
#[test]
fn a_lease_that_was_rolled_back_is_a_gap() {
    let (cluster, mut connection, proxy, runtime, client) = behind_a_proxy();
    let s = client.sequence("s");
    proxy.set(Fault::CutBeforeSync);
    let seen = runtime.block_on(draw(&s, 100));
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    let lost = losses(&mut connection, "s", &seen);
    assert!(
        lost.iter().all(|(.., reason)| reason == "discarded" || reason == "leased"),
        "{lost:?}"
    );
    cluster.finish();
}

/// Statements that return used-up leases are lost again and again: what was served of those is never served again.
#[test]
fn a_return_that_is_lost_does_not_bring_back_what_was_served() {
    let (cluster, mut connection, proxy, runtime, client) = behind_a_proxy();
    let s = client.sequence("s");
    let mut seen = runtime.block_on(draw(&s, 100));
    for lost in 0..4 {
        // Some of these are lost after the commit, some before it; several in a row.
        let faults = [Fault::CutBeforeSync, Fault::CutBeforeSync, Fault::CutBeforeReady];
        for fault in faults {
            let failures = client.stats().failures;
            proxy.set(fault);
            wait_until("the connection is cut", LONG, || {
                while seen.len() % 50 != 49
                    && let Some(value) = s.try_next().expect("no error")
                {
                    seen.push(value);
                }
                seen.extend(s.try_next().expect("no error"));
                client.stats().failures > failures || proxy.fault() == Fault::None
            });
        }
        seen.extend(runtime.block_on(draw(&s, 300)));
        assert_eq!(
            seen.len(),
            seen.iter().collect::<std::collections::BTreeSet<_>>().len(),
            "{lost}"
        );
    }
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    seen.extend(connection.draw("s", 3000));
    let lost = losses(&mut connection, "s", &seen);
    let explained = |reason: &str| ["discarded", "revoked"].contains(&reason);
    assert!(lost.iter().all(|(.., reason)| explained(reason)), "{lost:?}");
    cluster.finish();
}
