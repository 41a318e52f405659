//! A lease is a range of values that leaves the server. Nobody else gets one of them, and each of them is served, free,
//! leased or a gap at any time.

mod basics;

use hilo_tests::{Client, ClientExt};

/// What `hilo_lease` returned.
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
        self.used(self.count)
    }

    /// Its first `count` values.
    fn used(&self, count: i64) -> Vec<i64> {
        (0..count).map(|at| self.first + at * self.increment).collect()
    }
}

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
fn give_back(client: &mut Client, lease: &Lease, next: i64) -> i64 {
    client.one(&format!("SELECT hilo_lease_return('{}', {next})", lease.token))
}

/// The gaps of a sequence, with their reasons.
fn gaps(client: &mut Client, name: &str) -> Vec<(i64, i64, String)> {
    let sql = "SELECT first, last, reason FROM hilo_gaps WHERE name = $1 ORDER BY first";
    let rows = client.query(sql, &[&name]).expect("the gaps can be read");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}
