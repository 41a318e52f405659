//! COPY FROM inserts many rows at a time into tables whose defaults draw from hilo, as it does with
//! core's sequences. The way to that reaches no other statement.

mod fast;
mod other_sessions;
mod other_statements;
mod rows;
mod triggers;

use std::fmt::Display;
use std::io::Write;

use hilo_tests::{Client, ClientExt, Cluster};

/// A cluster that counts the calls of functions, and that writes no WAL but for statements.
fn cluster() -> Cluster {
    let builder = Cluster::builder().config("track_functions", "all").config("autovacuum", "off");
    let cluster = builder.config("hilo.auto_create", "off").start_with_hilo();
    cluster.connect("postgres").run("CHECKPOINT");
    cluster
}

/// Runs COPY FROM STDIN with these lines.
#[track_caller]
fn copy<T: Display>(client: &mut Client, target: &str, lines: impl IntoIterator<Item = T>) -> u64 {
    let mut copy = client.copy_in(&format!("COPY {target} FROM STDIN")).unwrap();
    for line in lines {
        writeln!(copy, "{line}").unwrap();
    }
    copy.finish().unwrap()
}

/// How often this database has called what COPY calls instead of the functions.
#[track_caller]
fn twins(client: &mut Client) -> i64 {
    calls(client, "'hilo_copy_nextval', 'hilo_copy_nextkey'")
}

/// How often it has called functions of these names.
#[track_caller]
fn calls(client: &mut Client, names: &str) -> i64 {
    client.run("SELECT pg_stat_force_next_flush()");
    client.one(&format!(
        "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_user_functions WHERE funcname IN ({names})"
    ))
}

/// The bytes of WAL that `work` writes.
fn wal(client: &mut Client, work: impl FnOnce(&mut Client)) -> f64 {
    let end = |client: &mut Client| -> f64 {
        client.one("SELECT (pg_current_wal_insert_lsn() - '0/0')::double precision")
    };
    let before = end(client);
    work(client);
    end(client) - before
}

/// The numbers in column `id` of a table rise in the order in which its rows came, which column `v` counts.
#[track_caller]
fn assert_rise(client: &mut Client, table: &str) {
    let wrong = format!(
        "SELECT count(*) FROM (SELECT id, lag(id) OVER (ORDER BY v) AS before FROM {table}) numbered
         WHERE id IS NULL OR before >= id"
    );
    assert_eq!(client.one::<i64>(&wrong), 0, "{table}");
}
