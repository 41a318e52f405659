//! Clients, sessions and threads that draw from the same sequences.

use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;

use hilo_client::Error;
use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

use super::{builder, draw, losses, open_leases, runtime, serve, wait_until_filed};

/// Two clients and two sessions collect every value once.
#[test]
fn clients_and_sessions_collect_every_value_once() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    let runtime = runtime();
    let clients: Vec<_> =
        (0..2).map(|_| runtime.block_on(builder(&cluster).connect()).expect("a client")).collect();
    let mut seen = thread::scope(|scope| {
        let sessions: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut session = cluster.connect("postgres");
                    (0..200).flat_map(|_| session.draw("s", 37)).collect::<Vec<_>>()
                })
            })
            .collect();
        let tasks: Vec<_> = clients
            .iter()
            .flat_map(|client| [client.sequence("s"), client.sequence("s")])
            .map(|s| runtime.spawn(async move { draw(&s, 20_000).await }))
            .collect();
        let mut seen: Vec<i64> =
            sessions.into_iter().flat_map(|session| session.join().expect("it ends")).collect();
        for task in tasks {
            seen.extend(runtime.block_on(task).expect("it ends"));
        }
        seen
    });
    for client in &clients {
        runtime.block_on(client.shutdown()).expect("all comes back");
    }
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    seen.extend(connection.draw("s", 1000));
    assert_eq!(losses(&mut connection, "s", &seen), []);
    cluster.finish();
}

/// Threads draw while the client shuts down: what they got and what came back is everything, once.
#[test]
fn a_shutdown_under_fire_returns_exactly_the_rest() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    let runtime = runtime();
    let mut seen = Vec::new();
    for _ in 0..10 {
        let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
        runtime.block_on(client.warm_up(&["s"])).expect("values");
        let started = AtomicBool::new(false);
        let drawn = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let (s, started) = (client.sequence("s"), &started);
                    scope.spawn(move || {
                        let mut values = Vec::new();
                        loop {
                            match s.try_next() {
                                Ok(Some(value)) => {
                                    values.push(value);
                                    started.store(true, Relaxed);
                                }
                                Ok(None) => thread::yield_now(),
                                Err(Error::Closed) => return values,
                                Err(error) => panic!("{error:?}"),
                            }
                        }
                    })
                })
                .collect();
            wait_until("somebody draws", LONG, || started.load(Relaxed));
            runtime.block_on(client.shutdown()).expect("all comes back");
            threads
                .into_iter()
                .flat_map(|thread| thread.join().expect("it ends"))
                .collect::<Vec<_>>()
        });
        seen.extend(drawn);
    }
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    seen.extend(connection.draw("s", 500));
    assert_eq!(losses(&mut connection, "s", &seen), []);
    cluster.finish();
}

/// All leases of a refill have one commit, and a steady load many sequences in each.
#[test]
fn many_sequences_share_a_commit() {
    let cluster = Cluster::builder().config("track_commit_timestamp", "on").start_with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s' || n) FROM generate_series(1, 500) n");
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
    let names: Vec<String> = (1..=500).map(|n| format!("s{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    runtime.block_on(client.warm_up(&names)).expect("values");
    // Subtransactions have the time of their commit.
    let commits = "SELECT DISTINCT pg_xact_commit_timestamp(xmin)::text FROM _hilo.hilo_lease";
    assert_eq!(connection.all::<String>(commits).len(), 1);
    assert_eq!(open_leases(&mut connection), 500);
    assert_eq!(client.stats().statements, 1);
    // Below the threshold all of them: one more statement, or two, since the first to be low does not wait for the last.
    for name in &names {
        runtime.block_on(draw(&client.sequence(name), 70));
    }
    wait_until("all are refilled", LONG, || client.stats().refills >= 1000);
    let statements = client.stats().statements;
    assert!(statements <= 20, "{statements}");
    let commits: Vec<String> = connection.all(commits);
    assert!(commits.len() as u64 <= statements, "{commits:?}");
    assert_eq!(client.stats().waits, 1, "only the warm-up, for all together");
    let returned = runtime.block_on(client.shutdown()).expect("all comes back");
    assert!(returned.leases >= 500, "{returned:?}");
    assert_eq!(open_leases(&mut connection), 0);
    cluster.finish();
}

/// Consecutive values come from one lease, however many they are.
#[test]
fn a_range_is_consecutive() {
    let (cluster, mut connection, runtime, client) = serve(
        "SELECT hilo_create('s'), hilo_create('tens', increment => -10, start_value => -10), hilo_create('few', max_value => 50)",
    );
    let s = client.sequence("s");
    let mut seen = runtime.block_on(draw(&s, 1));
    for n in [1, 5, 20, 1000, 100_000, 3] {
        let range = runtime.block_on(s.next_range(n)).expect("a range");
        assert_eq!((range.count, range.increment, range.last), (n, 1, range.first + n - 1));
        seen.extend(range.values());
    }
    let range = runtime.block_on(client.sequence("tens").next_range(4)).expect("a range");
    assert_eq!(range.values().collect::<Vec<_>>(), [-10, -20, -30, -40]);
    // Fewer of a small sequence, and at its end none.
    let few = client.sequence("few");
    let range = runtime.block_on(few.next_range(80)).expect("a range");
    assert!(range.first == 1 && (1..80).contains(&range.count), "{range:?}");
    let mut of_few: Vec<i64> = range.values().collect();
    of_few.extend(std::iter::from_fn(|| runtime.block_on(few.next()).ok()));
    let error = runtime.block_on(few.next_range(2)).expect_err("nothing is left");
    assert_eq!(error.code().map(|code| code.code()), Some("2200H"));
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    seen.extend(connection.draw("s", 200));
    // The refusal may have undone a lease of the same statement.
    for (name, seen) in [("s", seen), ("few", of_few)] {
        let lost = losses(&mut connection, name, &seen);
        assert!(lost.iter().all(|(.., reason)| reason == "discarded"), "{lost:?}");
    }
    cluster.finish();
}

/// Keys are those of the server: format, prefix, padding and sign.
#[test]
fn keys_are_those_of_the_server() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    cluster.configure("hilo.server_prefix", "Nord-Süd/");
    cluster.reload();
    connection.run(
        "SELECT hilo_create('plain'), hilo_create('tenants/42 ü', key_format => '{{{name}}} {value:06}-{server}'),
                hilo_create('down', increment => -3, key_format => '{value:04}')",
    );
    wait_until("the prefix is set", LONG, || {
        cluster.connect("postgres").one::<String>("SHOW hilo.server_prefix") == "Nord-Süd/"
    });
    let mut connection = cluster.connect("postgres");
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
    for name in ["plain", "tenants/42 ü", "down"] {
        let sequence = client.sequence(name);
        for _ in 0..3 {
            let key =
                runtime.block_on(sequence.next_key()).unwrap_or_else(|error| panic!("{error:?}"));
            let row = connection
                .query_one(
                    "SELECT hilo_key($1::text, hilo_key_value($1::text, $2))",
                    &[&name, &key],
                )
                .expect("a key");
            assert_eq!(row.get::<_, String>(0), key);
        }
    }
    // A prefix with which two values could have the same key: nothing is used up.
    cluster.configure("hilo.server_prefix", "A1");
    cluster.reload();
    wait_until("the prefix is set", LONG, || {
        cluster.connect("postgres").one::<String>("SHOW hilo.server_prefix") == "A1"
    });
    let other = runtime.block_on(builder(&cluster).connect()).expect("a client");
    let plain = other.sequence("plain");
    runtime.block_on(other.warm_up(&["plain"])).expect("values");
    let error = runtime.block_on(plain.next_key()).expect_err("an ambiguous prefix");
    assert!(matches!(error, Error::Keys { .. }), "{error:?}");
    assert!(error.hint().is_some() && error.detail().is_some());
    assert!(error.to_string().contains("server prefix must not end with \"1\""), "{error}");
    assert_eq!(other.stats().hits, 0);
    let refusal = cluster.connect("postgres").refusal("SELECT hilo_nextkey('plain')");
    assert_eq!(refusal.report().code().code(), "22023");
    for client in [client, other] {
        runtime.block_on(client.shutdown()).expect("all comes back");
    }
    cluster.finish();
}

/// A key has the prefix of the lease that its value is from: what is left of older leases goes back when the prefix
/// changes.
#[test]
fn keys_are_those_of_their_lease() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    cluster.configure("hilo.server_prefix", "old-");
    cluster.reload();
    connection.run("SELECT hilo_create('s', key_format => '{server}{value}')");
    wait_until("the prefix is set", LONG, || {
        cluster.connect("postgres").one::<String>("SHOW hilo.server_prefix") == "old-"
    });
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
    let s = client.sequence("s");
    assert_eq!(runtime.block_on(s.next_key()).expect("a key"), "old-1");
    let end = 1 + client.stats().left as i64;
    cluster.configure("hilo.server_prefix", "new-");
    cluster.reload();
    wait_until("the prefix is set", LONG, || {
        cluster.connect("postgres").one::<String>("SHOW hilo.server_prefix") == "new-"
    });
    // Some of the first lease are left when the second one comes.
    let draw = |count| -> Vec<String> {
        (0..count).map(|_| runtime.block_on(s.next_key()).expect("a key")).collect()
    };
    let mut drawn = draw(59);
    wait_until("the next lease has come", LONG, || client.stats().refills >= 2);
    drawn.extend(draw(300));
    let number = |key: &String| key[4..].parse::<i64>().expect("a number");
    let (old, new) = drawn.split_at(drawn.iter().take_while(|key| key.starts_with("old-")).count());
    assert!(old.iter().all(|key| number(key) <= end), "{old:?}");
    assert!(new.iter().all(|key| key.starts_with("new-")), "{new:?}");
    assert!(number(&new[0]) > end, "{} is of the lease that ends at {end}", new[0]);
    let seen: Vec<i64> = drawn.iter().map(number).collect();
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    hilo_tests::assert_unique("s", &seen);
    cluster.finish();
}

/// Threads in each other's way get lanes of their own, and every value is still accounted for.
#[test]
fn threads_with_lanes_of_their_own_lose_nothing() {
    let (cluster, mut connection, runtime, client) = serve("SELECT hilo_create('s')");
    let s = client.sequence("s");
    let mut seen: Vec<i64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (s, runtime) = (s.clone(), &runtime);
                scope.spawn(move || {
                    let mut values = Vec::new();
                    while values.len() < 50_000 {
                        match s.try_next().expect("no error") {
                            Some(value) => values.push(value),
                            None => values.push(runtime.block_on(s.next()).expect("a value")),
                        }
                    }
                    values
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    });
    assert_eq!(client.stats().hits, 400_000);
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    seen.extend(connection.draw("s", 200));
    assert_eq!(losses(&mut connection, "s", &seen), []);
    cluster.finish();
}
