//! A lease is a range of values that leaves the server. Nobody else gets one of them, whatever
//! happens to the holder or to the server. Each value is served, free, leased or a gap at any time.

mod accidents;
mod advance;
mod basics;
mod bounds;
mod client;
mod client_memory;
mod concurrency;
mod copies;
mod definitions;
mod expiry;
mod filing;
mod hilo_clients;
mod leased;
mod privileges;
mod refill;
mod revocation;
mod rollback;
mod thick_clients;
mod transfer;

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

/// The leases that `hilo_lease` returned.
#[derive(Clone, Debug)]
struct Lease {
    token: String,
    first: i64,
    last: i64,
    increment: i64,
    count: i64,
}

impl Lease {
    /// All its values.
    fn values(&self) -> Vec<i64> {
        self.first_values(self.count)
    }

    /// Its first `count` values.
    fn first_values(&self, count: i64) -> Vec<i64> {
        (0..count).map(|at| self.first + at * self.increment).collect()
    }
}

/// Takes a lease with these arguments of `hilo_lease`.
#[track_caller]
fn lease(client: &mut Client, arguments: &str) -> Lease {
    let sql =
        format!("SELECT lease::text, first, last, increment, count FROM hilo_lease({arguments})");
    let row = client.query_one(&sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let lease = Lease {
        token: row.get(0),
        first: row.get(1),
        last: row.get(2),
        increment: row.get(3),
        count: row.get(4),
    };
    assert_eq!(lease.last, lease.first + (lease.count - 1) * lease.increment, "{lease:?}");
    lease
}

/// Returns a lease, of which the values before `next` were used.
#[track_caller]
fn give_back(client: &mut Client, lease: &Lease, next: i64) -> i64 {
    client.one(&format!("SELECT hilo_lease_return('{}', {next})", lease.token))
}

/// The gaps of a sequence, with their reasons. Ranges that touch are one: as rows they are if they
/// came about in the same hour.
fn gaps(client: &mut Client, name: &str) -> Vec<(i64, i64, String)> {
    let sql = "SELECT first, last, reason FROM hilo_gaps WHERE name = $1 ORDER BY first";
    let rows = client.query(sql, &[&name]).expect("the gaps can be read");
    let mut gaps: Vec<(i64, i64, String)> = Vec::new();
    for row in rows {
        let (first, last, reason): (i64, i64, String) = (row.get(0), row.get(1), row.get(2));
        match gaps.last_mut() {
            Some(before) if (before.1 + 1, &before.2) == (first, &reason) => before.1 = last,
            _ => gaps.push((first, last, reason)),
        }
    }
    gaps
}

/// Whether a gap, or what it is a part of, is among those that [`gaps`] returns.
fn has(known: &[(i64, i64, String)], gap: &(i64, i64, String)) -> bool {
    known.iter().any(|known| known.2 == gap.2 && known.0 <= gap.0 && gap.1 <= known.1)
}

/// A gap as [`gaps`] returns it.
fn gap(first: i64, last: i64, reason: &str) -> (i64, i64, String) {
    (first, last, reason.to_owned())
}

/// Waits until the worker has filed all leases that have ended.
#[track_caller]
fn wait_until_filed(client: &mut Client) {
    let due = "SELECT count(*) FROM _hilo.hilo_lease WHERE due_at <= clock_timestamp()";
    wait_until("the worker has filed the leases", LONG, || client.one::<i64>(due) == 0);
}

/// Waits until memory has what came back from a lease, from its value `first` on. The worker takes it up after it has filed
/// the lease.
#[track_caller]
fn wait_until_back(client: &mut Client, first: i64) {
    let back =
        format!("SELECT count(*) FROM hilo_blocks WHERE tier = 'returned' AND first = {first}");
    wait_until("it is in memory", LONG, || client.one::<i64>(&back) == 1);
}

/// Restarts the server, and fails unless each number up to the position is in one place. It was
/// `used`, is free, is leased, or is a gap. The sequence begins at 1, in steps of 1.
#[track_caller]
fn assert_explained(cluster: &Cluster, name: &str, used: &[i64]) {
    cluster.restart();
    let mut client = cluster.connect("postgres");
    let row = format!("(SELECT id FROM _hilo.hilo_definition WHERE name = '{name}')");
    let mut parts: Vec<(i64, i64, String)> =
        used.iter().map(|&value| (value, value, "used".to_owned())).collect();
    for sql in [
        format!(
            "SELECT first_index + 1, end_index, 'free ' || incarnation FROM _hilo.hilo_free_range WHERE sequence = {row}"
        ),
        format!("SELECT first, last, reason FROM hilo_gaps WHERE name = '{name}'"),
        format!("SELECT first, last, 'leased' FROM hilo_leases WHERE name = '{name}'"),
        format!(
            "SELECT next_index + 1, end_index, 'returned' FROM _hilo.hilo_lease WHERE sequence = {row} AND ended = 'returned' AND next_index < end_index"
        ),
    ] {
        let rows = client.query(&sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        parts.extend(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))));
    }
    parts.sort();
    let mut next = 1;
    for (first, last, what) in &parts {
        assert_eq!(*first, next, "{name}: {first} to {last} is {what}; of {parts:?}");
        next = last + 1;
    }
    let position: i64 = client
        .one(&format!("SELECT next_index + 1 FROM _hilo.hilo_position WHERE sequence = {row}"));
    assert_eq!(next, position, "{name}: {parts:?}");
}
