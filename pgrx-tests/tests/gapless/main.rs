//! Promise 7: the committed values of a gapless sequence have no holes, whatever becomes of the transactions that
//! drew the others.
//!
//! Each test inserts what it draws into a table whose column is unique, in the transaction that
//! draws. It demands that the committed values are exactly 1 … n.

mod definitions;
mod dumps;
mod faults;
mod isolation;
mod one_session;
mod prepared;
mod refusals;
mod savepoints;
mod sessions;

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

/// A table that draws from the gapless sequence `invoices`, in the database `postgres`.
const INVOICES: &str = "SELECT hilo_create('invoices', gapless => true);
    CREATE TABLE invoices (id bigint PRIMARY KEY DEFAULT hilo_nextval('invoices'), note text)";

const INSERT: &str = "INSERT INTO invoices DEFAULT VALUES";

fn with_invoices() -> Cluster {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run(INVOICES);
    cluster
}

/// Fails unless the table has exactly the values from 1 on, `count` of them, and the position is right behind them.
fn assert_gapless(client: &mut Client, count: i64) {
    assert_table(client, "invoices", count);
}

/// The same for a table and a sequence of any name.
fn assert_table(client: &mut Client, name: &str, count: i64) {
    let found = client.all::<i64>(&format!("SELECT id FROM {name} ORDER BY id"));
    assert_eq!(found, (1..=count).collect::<Vec<_>>(), "{name}");
    let reserved =
        format!("SELECT coalesce(max_reserved, 0) FROM hilo_sequences WHERE name = '{name}'");
    assert_eq!(client.one::<i64>(&reserved), count, "the position of {name}");
    let missing = format!("SELECT count(*) FROM hilo_find_gaps('{name}', '{name}', 'id')");
    assert_eq!(client.one::<i64>(&missing), 0, "hilo_find_gaps('{name}')");
}

/// How many invoices are committed.
fn count(client: &mut Client) -> i64 {
    client.one("SELECT count(*) FROM invoices")
}

/// Waits until the backend waits for a lock.
fn wait_for_lock(cluster: &Cluster, pid: i32) {
    let mut admin = cluster.connect("postgres");
    let waits = format!(
        "SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = {pid} AND wait_event_type = 'Lock'"
    );
    wait_until("the session waits for the lock", LONG, || admin.one(&waits));
}

/// Runs `sql` in another thread, and waits until it waits for a lock.
fn block(cluster: &Cluster, sql: &str) -> std::thread::JoinHandle<Client> {
    let mut client = cluster.connect("postgres");
    let (pid, sql) = (client.backend_pid(), sql.to_owned());
    let thread = std::thread::spawn(move || {
        client.run(&sql);
        client
    });
    wait_for_lock(cluster, pid);
    thread
}
