//! A Rust client serves leased values from its own memory, without waiting for the server in steady
//! state. Each value is served once, whatever happens to the client, to the server and to the
//! connection between them.

mod api;
mod basics;
mod callers;
mod closing;
pub mod commit;
mod documents;
mod outages;
mod process;
pub mod proxy;
mod refusals;
mod room;
mod sharing;
mod stored;
mod tls;

use std::pin::Pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::task::Poll;

use hilo_client::{Builder, Client, Sequence};
use hilo_tests::{Client as Connection, ClientExt, Cluster, LONG, wait_until};
use tokio::runtime::Runtime;
use tokio_postgres::Config;

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// A runtime in which nothing happens unless the test waits for something.
fn one_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Polls a future once.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
}

/// Runs a part of a test in a thread of its own, and fails the test if it does not end.
fn must_end(work: impl FnOnce() + Send + 'static) {
    let (ended, end) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        let _ = ended.send(());
    });
    if let Err(RecvTimeoutError::Timeout) = end.recv_timeout(LONG) {
        panic!("it has not ended");
    }
    thread.join().expect("it works");
}

fn config(cluster: &Cluster) -> Config {
    let mut config = Config::new();
    config.host_path(cluster.socket_directory()).user("postgres").dbname("postgres");
    config
}

/// A client that a test waits for longer than for anything else.
pub fn builder(cluster: &Cluster) -> Builder {
    Client::builder(config(cluster)).patience(LONG)
}

/// A server on which `statement` has run, a connection to it, and a client in a runtime of its own.
fn serve(statement: &str) -> (Cluster, Connection, Runtime, Client) {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run(statement);
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
    (cluster, connection, runtime, client)
}

/// The next `count` values.
pub async fn draw(sequence: &Sequence, count: usize) -> Vec<i64> {
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        let value = sequence.next().await;
        values.push(value.unwrap_or_else(|error| panic!("{error:?} after {values:?}")));
    }
    values
}

/// How many leases are open.
pub fn open_leases(connection: &mut Connection) -> i64 {
    connection.one("SELECT count(*) FROM hilo_leases")
}

/// Waits until the worker has filed all leases that have ended.
#[track_caller]
fn wait_until_filed(connection: &mut Connection) {
    let due = "SELECT count(*) FROM _hilo.hilo_lease WHERE ended IS NOT NULL";
    wait_until("the worker has filed the leases", LONG, || connection.one::<i64>(due) == 0);
}

/// The values missing of a sequence of which exactly `seen` was seen, and will not be served: each
/// range with its reason.
#[track_caller]
fn losses(connection: &mut Connection, name: &str, seen: &[i64]) -> Vec<(i64, i64, String)> {
    hilo_tests::assert_unique(name, seen);
    connection.run("CREATE TEMP TABLE seen (value bigint)");
    connection.execute("INSERT INTO seen SELECT unnest($1::bigint[])", &[&seen]).expect("values");
    let sql = "SELECT first, last, reason FROM hilo_find_gaps($1::text, 'seen', 'value')
                WHERE reason NOT IN ('slice', 'current', 'standby', 'returned', 'free') ORDER BY first";
    let rows = connection.query(sql, &[&name]).expect("the gaps can be found");
    let lost = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    connection.run("DROP TABLE seen");
    lost
}
