//! A client that closes: its callers hear of it at once, and all that is open in its name ends.

use hilo_client::Error;
use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

use super::{
    builder, draw, losses, must_end, one_thread, open_leases, poll_once, runtime, serve,
    wait_until_filed,
};

/// A lease comes while the client closes: callers get an error, and do not go round in circles over what nobody may serve.
#[test]
fn callers_of_a_client_that_closes_get_an_error_at_once() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    let connecting = builder(&cluster).connect();
    must_end(move || {
        one_thread().block_on(async {
            let client = connecting.await.expect("a client");
            let s = client.sequence("s");
            let mut warm_up = Box::pin(client.warm_up(&["s", "nothing"]));
            assert!(poll_once(&mut warm_up).await.is_pending());
            while client.stats().statements < 1 {
                tokio::task::yield_now().await;
            }
            let mut shutdown = Box::pin(client.shutdown());
            while poll_once(&mut shutdown).await.is_pending() {
                assert!(matches!(s.next().await, Err(Error::Closed)));
                assert!(matches!(s.next_key().await, Err(Error::Closed)));
                assert!(matches!(s.next_range(5).await, Err(Error::Closed)));
                tokio::task::yield_now().await;
            }
        })
    });
    assert_eq!(open_leases(&mut connection), 0);
    cluster.finish();
}

/// A lease in its name of which it never heard ends too.
#[test]
fn a_shutdown_ends_what_it_never_heard_of() {
    let (cluster, mut connection, runtime, client) =
        serve("SELECT hilo_create('s'), hilo_create('unused')");
    let mut seen = runtime.block_on(draw(&client.sequence("s"), 10));
    let lease = "SELECT hilo_lease($1::text, 5, $2)";
    for name in ["s", "unused"] {
        connection.execute(lease, &[&name, &client.holder()]).expect("a lease");
    }
    assert_eq!(open_leases(&mut connection), 3);
    let returned = runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!((returned.leases, returned.refused), (1, 0));
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    seen.extend(connection.draw("s", 200));
    let lost = losses(&mut connection, "s", &seen);
    assert!(lost.iter().all(|(.., reason)| reason == "revoked"), "{lost:?}");
    assert_eq!(lost.iter().map(|(first, last, _)| last - first + 1).sum::<i64>(), 5);
    cluster.finish();
}

/// Somebody holds many leases of a client that closes: the others go back meanwhile, and these when they are free.
#[test]
fn locked_leases_do_not_keep_others_from_going_back() {
    const EACH: i64 = 20;
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection
        .run(&format!("SELECT hilo_create('s' || n) FROM generate_series(1, {}) n", 2 * EACH));
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
    let names: Vec<String> = (1..=2 * EACH).map(|n| format!("s{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    runtime.block_on(client.warm_up(&names)).expect("values");
    let mut other = cluster.connect("postgres");
    other.run("BEGIN");
    // Every second one.
    let lock =
        "SELECT count(*) FROM (SELECT FROM _hilo.hilo_lease l JOIN _hilo.hilo_definition s ON s.id = l.sequence
                 WHERE substr(s.name, 2)::int % 2 = 0 FOR UPDATE OF l) locked";
    assert_eq!(other.one::<i64>(lock), EACH);
    let closing = runtime.spawn({
        let client = client.clone();
        async move { client.shutdown().await }
    });
    wait_until("the others are back", LONG, || open_leases(&mut connection) == EACH);
    other.run("ROLLBACK");
    let returned = runtime.block_on(closing).expect("it ends").expect("all comes back");
    assert_eq!((returned.leases, returned.refused), (2 * EACH as u64, 0));
    assert_eq!(open_leases(&mut connection), 0);
    assert_eq!(connection.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}
