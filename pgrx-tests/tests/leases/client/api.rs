//! The things that a program may do with a client beside drawing from it.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use hilo_client::tokio_postgres::{Config, NoTls};
use hilo_client::{Client, ConnectError, Connecting, Connection, Connector, blocking};
use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

use super::{config, draw, losses, open_leases, poll_once, runtime, serve, wait_until_filed};

/// Where the server leases less than was asked for, there are several ranges, which have all values together.
#[test]
fn ranges_have_exactly_what_was_asked_for() {
    let (cluster, mut connection, runtime, client) =
        serve("SELECT hilo_create('s', increment => -10)");
    // A range that comes back is leased in pieces.
    connection.run("SELECT hilo_lease_return((hilo_lease('s', 70)).lease)");
    wait_until_filed(&mut connection);
    let s = client.sequence("s");
    let ranges = runtime.block_on(s.next_ranges(1_000)).expect("values");
    assert!(ranges.len() > 1, "{ranges:?}");
    let values: Vec<i64> = ranges.iter().copied().flatten().collect();
    let counted: usize = ranges.iter().map(|range| range.into_iter().len()).sum();
    assert_eq!((values.len(), counted), (1_000, 1_000));
    assert!(ranges.iter().all(|range| range.values().last() == Some(range.last)), "{ranges:?}");
    runtime.block_on(client.shutdown()).expect("all comes back");
    wait_until_filed(&mut connection);
    hilo_tests::assert_unique("s", &values);
    assert_eq!(connection.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}

/// A call that is dropped before it is ready, as `select!` does with it, takes nothing.
#[test]
fn a_call_that_is_dropped_takes_nothing() {
    let (cluster, mut connection, runtime, client) = serve("SELECT hilo_create('s')");
    let s = client.sequence("s");
    let mut seen = Vec::new();
    runtime.block_on(async {
        for round in 0..400 {
            let mut calls: Vec<_> = (0..8).map(|_| s.next()).collect();
            for call in &mut calls {
                if let std::task::Poll::Ready(value) = poll_once(call).await {
                    seen.push(value.expect("a value"));
                }
            }
            drop(calls);
            let mut key = Box::pin(s.next_key());
            if let std::task::Poll::Ready(key) = poll_once(&mut key).await {
                let key = key.expect("a key");
                seen.push(key.rsplit('/').next().expect("a value").parse().expect("a number"));
            }
            let mut range = Box::pin(s.next_range(50));
            if let std::task::Poll::Ready(range) = poll_once(&mut range).await {
                seen.extend(range.expect("a range"));
            }
            if round % 20 == 19 {
                seen.push(s.next().await.expect("a value"));
            }
        }
    });
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    assert_eq!(losses(&mut connection, "s", &seen), []);
    cluster.finish();
}

/// A name that is forgotten gives its leases back; while somebody has a handle, it is not.
#[test]
fn a_name_can_be_forgotten() {
    let (cluster, mut connection, runtime, client) =
        serve("SELECT hilo_create('s' || n) FROM generate_series(1, 50) n");
    let mut seen = vec![Vec::new(); 51];
    for (n, seen) in seen.iter_mut().enumerate().skip(1) {
        let name = format!("s{n}");
        let s = client.sequence(&name);
        seen.extend(runtime.block_on(draw(&s, 5)));
        assert!(!client.forget(&name), "somebody has it");
        drop(s);
        wait_until("it is forgotten", LONG, || client.forget(&name));
        assert!(!client.forget(&name), "twice");
    }
    assert!(client.stats().sequences < 50, "places are used again: {:?}", client.stats());
    // The name begins again, with other values.
    seen[7].extend(runtime.block_on(draw(&client.sequence("s7"), 200)));
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    for n in [1, 7, 50] {
        assert_eq!(losses(&mut connection, &format!("s{n}"), &seen[n]), [], "s{n}");
    }
    cluster.finish();
}

/// Connections of a pool of one.
struct Pool {
    config: Config,
    lent: Arc<AtomicUsize>,
    broken: Arc<Mutex<Option<tokio::task::JoinHandle<()>>>>,
}

impl Connector for Pool {
    fn connect(&self) -> Connecting<'_, Connection, ConnectError> {
        Box::pin(async {
            if self.lent.fetch_add(1, SeqCst) == 1 {
                return Err("the pool is empty".into());
            }
            let (client, connection) = self.config.connect(NoTls).await?;
            let task = tokio::spawn(async { drop(connection.await) });
            *self.broken.lock().unwrap() = Some(task);
            Ok(Box::new(Arc::new(client)) as Connection)
        })
    }
}

/// A client can have its connections from elsewhere, and asks for another one when one breaks.
#[test]
fn a_pool_lends_the_connection() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    let (lent, broken) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None)));
    let pool = Pool { config: config(&cluster), lent: lent.clone(), broken: broken.clone() };
    let runtime = runtime();
    let connecting = Client::builder(Config::new()).patience(LONG).connect_through(pool);
    let client = runtime.block_on(connecting).expect("a client");
    let s = client.sequence("s");
    let mut seen = runtime.block_on(draw(&s, 10));
    broken.lock().unwrap().take().expect("it was lent").abort();
    seen.extend(runtime.block_on(draw(&s, 1_000)));
    assert_eq!(seen, (1..=1_010).collect::<Vec<_>>());
    assert_eq!(lent.load(SeqCst), 3, "the second time there was none");
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    cluster.finish();
}

/// Threads that know nothing of async draw from a client that does it for them, by an address in one line.
#[test]
fn threads_can_block() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    let url =
        format!("host={} user=postgres dbname=postgres", cluster.socket_directory().display());
    let client = blocking::Client::connect(&url).expect("a client");
    let seen: Vec<i64> = std::thread::scope(|scope| {
        let draw = |_| {
            let s = client.sequence("s");
            scope.spawn(move || {
                let mut seen: Vec<i64> = (0..500).map(|_| s.next().expect("a value")).collect();
                seen.extend(s.next_range(20).expect("a range"));
                seen.extend(s.next_ranges(30).expect("ranges").into_iter().flatten());
                let key = s.next_key().expect("a key");
                seen.push(key.rsplit('/').next().expect("a value").parse().expect("a number"));
                seen
            })
        };
        let threads: Vec<_> = (0..4).map(draw).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    });
    assert_eq!(seen.len(), 4 * 551);
    client.shutdown().expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    assert_eq!(losses(&mut connection, "s", &seen), []);
    let error = blocking::Client::connect("nowhere at all").expect_err("no address");
    assert!(error.to_string().contains("invalid"), "{error}");
    cluster.finish();
}
