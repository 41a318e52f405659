//! The things that callers notice of each other: nobody is forgotten, no value vanishes between two
//! of them, and whoever watches may look.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use hilo_client::{Client, Error};
use hilo_tests::{ClientExt, Cluster, LONG, wait_until};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::{
    builder, losses, must_end, one_thread, open_leases, poll_once, runtime, wait_until_filed,
};

/// A value that has come for a caller who gives up wakes one who waits.
#[test]
fn a_range_that_is_given_up_is_for_those_who_wait() {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('s'), hilo_create('t')");
    let runtime = one_thread();
    let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
    let s = client.sequence("s");
    runtime.block_on(async {
        let mut range = Box::pin(s.next_range(10));
        assert!(poll_once(&mut range).await.is_pending());
        // A statement later the range has come; nobody has looked.
        client.warm_up(&["t"]).await.expect("values");
        let mut waiting = Box::pin(s.next());
        assert!(poll_once(&mut waiting).await.is_pending());
        drop(range);
        let woken = poll_once(&mut waiting).await;
        assert!(matches!(woken, std::task::Poll::Ready(Ok(1))), "{woken:?}");
    });
    runtime.block_on(client.shutdown()).expect("all comes back");
    cluster.finish();
}

/// Who finds a value in memory has not waited, whatever it called.
#[test]
fn only_who_waits_is_counted() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
    let s = client.sequence("s");
    // No lease comes before the caller is seen to wait.
    let hold = "BEGIN; SELECT hilo_setval('s', 1000000)";
    connection.run(hold);
    let warming = runtime.spawn({
        let client = client.clone();
        async move { client.warm_up(&["s"]).await }
    });
    wait_until("the first warm-up waits", LONG, || client.stats().waits == 1);
    connection.run("ROLLBACK");
    runtime.block_on(warming).expect("it ends").expect("values");
    for _ in 0..3 {
        runtime.block_on(client.warm_up(&["s"])).expect("values");
        runtime.block_on(s.next_key()).expect("a key");
        runtime.block_on(s.next_range(3)).expect("a range");
    }
    assert_eq!(client.stats().waits, 1);
    connection.run(hold);
    let taking = runtime.spawn({
        let s = s.clone();
        async move { s.next_range(100_000).await }
    });
    wait_until("the range waits", LONG, || client.stats().waits == 2);
    connection.run("ROLLBACK");
    runtime.block_on(taking).expect("it ends").expect("a range");
    runtime.block_on(client.shutdown()).expect("all comes back");
    cluster.finish();
}

/// However many names a warm-up has, and however late their first leases come, it takes no longer than one caller waits.
#[test]
fn a_warm_up_is_as_patient_as_one_caller() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    let mut other = cluster.connect("postgres");
    connection.run("SELECT hilo_create('late'), hilo_create('never')");
    let runtime = runtime();
    let patience = Duration::from_secs(4);
    let client =
        runtime.block_on(builder(&cluster).patience(patience).connect()).expect("a client");
    connection.run("BEGIN; SELECT hilo_setval('late', 5000, false)");
    other.run("BEGIN; SELECT hilo_setval('never', 5000, false)");
    let began = Instant::now();
    let warming = runtime.spawn({
        let client = client.clone();
        async move { (client.warm_up(&["late", "never"]).await, Instant::now()) }
    });
    wait_until("half of the time is over", LONG, || began.elapsed() > patience / 2);
    let freed = Instant::now();
    connection.run("COMMIT");
    let (result, ended) = runtime.block_on(warming).expect("it ends");
    assert!(matches!(result, Err(Error::Timeout { .. })), "{result:?}");
    assert_eq!(client.stats().refills, 1, "one has come");
    // Half of its patience is more than it takes to notice that.
    assert!(ended - freed < patience, "{:?}", ended - began);
    other.run("COMMIT");
    runtime.block_on(client.shutdown()).expect("all comes back");
    cluster.finish();
}

/// While key formats change, every value is used for a key of the one or of the other format, or goes back.
#[test]
fn a_key_format_that_changes_costs_no_value() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s', key_format => 'a{value}')");
    let runtime = runtime();
    let short = builder(&cluster).buffer(Duration::from_millis(100)).lease_size(32, 3_000);
    let client = runtime.block_on(short.connect()).expect("a client");
    let ended = AtomicBool::new(false);
    let mut seen = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (s, runtime, ended) = (client.sequence("s"), &runtime, &ended);
                scope.spawn(move || {
                    let mut values = Vec::new();
                    while !ended.load(Relaxed) {
                        let key = runtime.block_on(s.next_key()).expect("a key");
                        values.push(key[1..].parse::<i64>().expect("a number"));
                    }
                    values
                })
            })
            .collect();
        for round in 0..12 {
            let format = ["b{value}", "a{value}"][round % 2];
            connection.run(&format!("SELECT hilo_alter('s', key_format => '{format}')"));
            let refills = client.stats().refills;
            wait_until("leases have come", LONG, || client.stats().refills >= refills + 2);
        }
        ended.store(true, Relaxed);
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect::<Vec<_>>()
    });
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    seen.extend(connection.draw("s", 200));
    assert_eq!(losses(&mut connection, "s", &seen), []);
    cluster.finish();
}

/// Looks at a client whenever it says something.
struct Watcher(Mutex<Option<Client>>);

impl Watcher {
    fn look(&self) {
        let client = self.0.lock().expect("nobody has panicked").clone();
        if let Some(client) = client {
            client.stats();
            client.sequence_stats();
        }
    }
}

impl Subscriber for Watcher {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        of.target().starts_with("hilo_client")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        self.look();
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {
        self.look();
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The client holds no lock of its own while it calls whoever collects its events.
#[test]
fn whoever_collects_events_may_look_at_the_client() {
    let cluster = Cluster::with_hilo();
    cluster
        .connect("postgres")
        .run("SELECT hilo_create('s'), hilo_create('ordered', ordered => true)");
    let connecting = builder(&cluster).connect();
    must_end(move || {
        let runtime = one_thread();
        let client = runtime.block_on(connecting).expect("a client");
        let watcher = Watcher(Mutex::new(Some(client.clone())));
        let dispatch = tracing::Dispatch::new(watcher);
        tracing::dispatcher::with_default(&dispatch, || {
            for name in ["nothing", "ordered"] {
                runtime.block_on(client.sequence(name).next()).expect_err("it is refused");
            }
            runtime.block_on(client.sequence("s").next()).expect("a value");
            runtime.block_on(client.shutdown()).expect("all comes back");
        });
        let watcher = dispatch.downcast_ref::<Watcher>().expect("it is one");
        watcher.0.lock().expect("nobody has panicked").take();
    });
    cluster.finish();
}

/// Two sequences change places while a client holds leases of them. Under each name it serves what
/// it has of the one, and then the other. Each still gives each of its values once, as
/// clients/protocol.md says.
#[test]
fn sequences_that_change_places_give_each_value_once() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    // Odd and even numbers tell them apart.
    connection.run(
        "SELECT hilo_create('odd', increment => 2), hilo_create('even', increment => 2, start_value => 2)",
    );
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
    let names = ["odd", "even"].map(|name| client.sequence(name));
    let mut seen = Vec::new();
    let mut draw = |count| {
        names.each_ref().map(|sequence| {
            let values = runtime.block_on(super::draw(sequence, count));
            seen.extend(&values);
            values
        })
    };
    draw(10);
    let held = client.stats().left as usize / 2;
    connection.run(
        "SELECT hilo_rename('odd', 'between'); SELECT hilo_rename('even', 'odd'); SELECT hilo_rename('between', 'even')",
    );
    for (first, values) in draw(held / 2).iter().enumerate() {
        assert!(
            values.iter().all(|value| value % 2 == 1 - first as i64),
            "what is held: {values:?}"
        );
    }
    for (first, values) in draw(3 * held).iter().enumerate() {
        assert_eq!(values[2 * held] % 2, first as i64, "{values:?}");
    }
    hilo_tests::assert_unique("both", &seen);
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    cluster.finish();
}
