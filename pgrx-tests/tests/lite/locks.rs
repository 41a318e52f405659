//! Whoever holds a sequence holds up nobody else, and nobody waits in a circle.

use std::thread;

use hilo_tests::{ClientExt, assert_unique};
use postgres::error::SqlState;

use super::{cluster, lease};

/// A refill says of a sequence that is locked that it is, and does all the rest; so it does of what it refuses.
#[test]
fn a_refill_does_what_it_can() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('s' || n) FROM generate_series(1, 5) n");
    let (of_locked, ..) = lease(&mut client, "'s2', 10");
    let (of_free, ..) = lease(&mut client, "'s3', 10");
    let mut other = cluster.connect("postgres");
    other.run("BEGIN; SELECT hilo_nextval('s2')");
    let refill = format!(
        "SELECT concat_ws(' ', kind, name, first, count, sqlstate,
                          CASE WHEN kind = 'leased' AND lease IS NULL THEN 'none' END) FROM hilo_refill(
             returns => '{{{of_locked},{of_free}}}', nexts => '{{5,5}}',
             renewals => '{{{of_locked},00000000-0000-0000-0000-000000000000}}', ttl => '1 hour',
             names => '{{s1,s2,nothing,s3}}', sizes => '{{10,10,10,-1}}')"
    );
    let rows = client.all::<String>(&refill);
    let expected = [
        "returned 55P03",
        "returned 6",
        "renewed",
        "renewed 42704",
        "leased s1 1 10",
        "leased s2 55P03 none",
        "leased nothing 42704 none",
        "leased s3 22023 none",
    ];
    assert_eq!(rows, expected);
    other.run("ROLLBACK");
    client.refusal("SELECT hilo_refill(returns => ARRAY[gen_random_uuid()])").is("22023").helps();
    client.refusal("SELECT hilo_refill(names => '{s1}', sizes => '{NULL}')").is("22023").helps();
    cluster.finish();
}

/// Somebody holds a lease's row: its return fails by itself, at once.
#[test]
fn a_lease_that_is_locked_is_not_waited_for() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('s')");
    let (name, ..) = lease(&mut client, "'s', 10, 'x'");
    let mut other = cluster.connect("postgres");
    other.run("BEGIN; SELECT FROM _hilo.hilo_lease FOR UPDATE");
    client.refusal(&format!("SELECT hilo_lease_return('{name}', 5)")).is("55P03").helps();
    client.refusal(&format!("SELECT hilo_lease_renew('{name}', '1 h')")).is("55P03").helps();
    assert_eq!(lease(&mut client, "'s', 10").1, 11);
    other.run("ROLLBACK");
    assert_eq!(client.one::<i64>(&format!("SELECT hilo_lease_return('{name}', 5)")), 6);
    cluster.finish();
}

/// Refills of the same sequences, in any order, wait for each other and never in a circle.
#[test]
fn refills_in_any_order_do_not_deadlock() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('s' || n) FROM generate_series(1, 40) n");
    let seen: Vec<(String, i64)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = cluster.connect("postgres");
                    let mut seen = Vec::new();
                    let mut held: Vec<(String, i64)> = Vec::new();
                    while seen.len() < 12 * 40 {
                        let (names, nexts): (Vec<_>, Vec<_>) = held.iter().cloned().unzip();
                        let sql = "SELECT kind, name, lease::text, first, last, sqlstate
                                     FROM (SELECT array_agg('s' || n ORDER BY random()) AS names
                                             FROM generate_series(1, 40) n) AS n,
                                          hilo_refill($1::text[]::uuid[], $2, '{}', names, array_fill(5::bigint, '{40}'))";
                        let rows = match client.query(sql, &[&names, &nexts]) {
                            // As PostgreSQL reports a lock_timeout that ends just when it gets the lock.
                            Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => continue,
                            rows => rows.expect("a refill"),
                        };
                        held.clear();
                        for row in rows {
                            // Where the machine is busy, the locks may not be free in time.
                            let refused: Option<String> = row.get("sqlstate");
                            assert!(refused.is_none_or(|state| state == "55P03"));
                            let (kind, first): (String, Option<i64>) = (row.get("kind"), row.get("first"));
                            if kind == "leased" && first.is_some() {
                                let (first, last): (i64, i64) = (row.get("first"), row.get("last"));
                                seen.extend((first..=last).map(|value| (row.get("name"), value)));
                                held.push((row.get("lease"), last + 1));
                            }
                        }
                    }
                    seen
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    });
    assert!(seen.len() >= 6 * 12 * 40);
    for n in 1..=40 {
        let name = format!("s{n}");
        let values: Vec<i64> =
            seen.iter().filter(|(of, _)| *of == name).map(|(_, value)| *value).collect();
        assert_unique(&name, &values);
    }
    cluster.finish();
}
