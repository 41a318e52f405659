//! No value comes twice, whatever becomes of transactions, sessions and the server.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, assert_unique, wait_until};
use postgres::Error;

use super::{cluster, gaps, lease};

/// The steps of a session in one transaction. It returns the values that are its own from the
/// commit on.
fn work(client: &mut Client, way: u32) -> Result<Vec<i64>, Error> {
    let mut transaction = client.transaction()?;
    let mut values = Vec::new();
    let row = match way % 4 {
        0 => transaction.query_one("SELECT hilo_nextval('s'), 1::bigint", &[])?,
        1 => transaction.query_one("SELECT first, count FROM hilo_nextrange('s', 7)", &[])?,
        2 => transaction.query_one("SELECT first, count FROM hilo_lease('s', 9, 'x')", &[])?,
        _ => {
            // A lease whose rest goes back.
            let taken = "SELECT lease::text, first FROM hilo_lease('s', 20, 'x')";
            let row = transaction.query_one(taken, &[])?;
            let (name, first): (String, i64) = (row.get(0), row.get(1));
            let back = format!(
                "SELECT {first}::bigint, 3::bigint, hilo_lease_return('{name}', {first} + 3)"
            );
            // A part of a free range may be smaller.
            match transaction.savepoint("part")?.query_one(&back, &[]) {
                Ok(row) => row,
                Err(error) if error.code().is_some_and(|code| code.code() == "22023") => {
                    return Ok(values);
                }
                Err(error) => return Err(error),
            }
        }
    };
    let (first, count): (i64, i64) = (row.get(0), row.get(1));
    values.extend(first..first + count);
    match way % 7 {
        0 => transaction.rollback()?,
        _ => return transaction.commit().map(|()| values),
    }
    Ok(Vec::new())
}

/// Draws in sessions of its own until it is told to end. A range of a commit that failed belongs to
/// nobody.
fn draw(cluster: &Cluster, ended: &AtomicBool, seen: &Mutex<Vec<i64>>) {
    while !ended.load(Relaxed) {
        let Ok(mut client) = cluster.try_connect("postgres", "postgres") else { continue };
        while !ended.load(Relaxed) && !client.is_closed() {
            match work(&mut client, fastrand::u32(..)) {
                Ok(values) => seen.lock().unwrap().extend(values),
                Err(error) => assert!(client.is_closed() || error.code().is_some(), "{error:?}"),
            }
        }
    }
}

/// Sessions of every kind draw, roll back, lease and return, while some are killed and the server is, twice.
#[test]
fn no_value_comes_twice_through_rollbacks_kills_and_crashes() {
    let (cluster, mut client) = cluster();
    cluster.expect_crash();
    // A commit that is not flushed would be lost in a crash.
    cluster.configure("synchronous_commit", "off");
    cluster.reload();
    client.run("SELECT hilo_create('s')");
    let (ended, seen) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| draw(&cluster, &ended, &seen));
        }
        for round in 1..=3 {
            wait_until("they draw", LONG, || seen.lock().unwrap().len() >= 1500 * round);
            cluster.connect_when_up("postgres").run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                  WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.5",
            );
            if round < 3 {
                wait_until("they draw", LONG, || seen.lock().unwrap().len() >= 1500 * round + 500);
                cluster.kill9_postmaster();
                cluster.start();
            }
        }
        ended.store(true, Relaxed);
    });
    let seen = seen.into_inner().unwrap();
    assert_unique("s", &seen);
    let mut client = cluster.connect_when_up("postgres");
    client.run("CREATE TABLE seen (id bigint); CREATE INDEX ON seen (id)");
    client.execute("INSERT INTO seen SELECT unnest($1::bigint[])", &[&seen]).expect("values");
    let free = "SELECT count(*) FROM seen JOIN _hilo.hilo_unused u ON id BETWEEN first_value AND last_value";
    assert_eq!(client.one::<i64>(free), 0, "what is in use is free");
    let beyond = "SELECT count(*) FROM seen JOIN _hilo.hilo_definition ON seen.id >= next_value";
    assert_eq!(client.one::<i64>(beyond), 0, "the counter lies behind what it has served");
    cluster.finish();
}

/// A gapless sequence has no holes, whoever rolls back.
#[test]
fn committed_values_have_no_holes() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('g', gapless => true); CREATE TABLE t (id bigint)");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = cluster.connect("postgres");
                for way in 0..60 {
                    let end = if way % 3 == 0 { "ROLLBACK" } else { "COMMIT" };
                    client.run(&format!("BEGIN; INSERT INTO t SELECT hilo_nextval('g'); {end}"));
                }
            });
        }
    });
    assert_eq!(client.all::<i64>("SELECT id FROM t ORDER BY id"), (1..=160).collect::<Vec<_>>());
    cluster.finish();
}

/// A transaction whose snapshot is older than the counter does not draw from it.
#[test]
fn an_old_snapshot_is_refused() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('s')");
    let mut other = cluster.connect("postgres");
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        for draw in ["hilo_nextval('s')", "hilo_lease('s', 5)", "hilo_nextrange('s', 5)"] {
            client.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1"));
            client.one::<i64>("SELECT count(*) FROM hilo_leases");
            other.run("SELECT hilo_nextval('s')");
            client.refusal(&format!("SELECT {draw}")).is("40001");
            client.run("ROLLBACK");
        }
    }
    cluster.finish();
}

/// A range that a rollback takes back comes again, since nobody may have served it; a savepoint
/// does the same.
#[test]
fn what_is_rolled_back_comes_again() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('s')");
    client.run("BEGIN");
    lease(&mut client, "'s', 10");
    client.run("SAVEPOINT a");
    let (_, first, _) = lease(&mut client, "'s', 10");
    assert_eq!(first, 11);
    client.run("ROLLBACK TO a");
    assert_eq!(lease(&mut client, "'s', 10").1, 11);
    client.run("ROLLBACK");
    assert_eq!(lease(&mut client, "'s', 10").1, 1);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 1);
    cluster.finish();
}

/// The same call again returns the same lease; another role, or another sequence, is refused.
#[test]
fn a_lease_that_is_asked_for_again_is_the_same() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('s'), hilo_create('t')");
    let again = "'s', 10, 'x', '1 hour', 'ab000000-0000-4000-8000-000000000001'";
    let taken = lease(&mut client, again);
    assert_eq!(lease(&mut client, again), taken);
    assert_eq!(client.draw("s", 1), [taken.2 + 1]);
    client.refusal(&format!("SELECT hilo_lease({})", again.replace("'s'", "'t'"))).is("42710");
    client.run("CREATE ROLE other; SELECT hilo_grant('s', 'other', 'UPDATE'); SET ROLE other");
    client.refusal(&format!("SELECT hilo_lease({again})")).is("42710");
    cluster.finish();
}

/// Without a worker a lease expires by its time, and whoever leases next makes it a gap. Its values never come again.
#[test]
fn a_lease_that_has_expired_is_a_gap() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('s')");
    let (name, ..) = lease(&mut client, "'s', 10, NULL, '10 ms'");
    let (other, ..) = lease(&mut client, "'s', 10");
    wait_until("it has expired", LONG, || gaps(&mut client) == ["1 10 expired"]);
    client.refusal(&format!("SELECT hilo_lease_return('{name}', 5)")).is("42704");
    client.refusal(&format!("SELECT hilo_lease_renew('{name}', '1 h')")).is("42704");
    client.run(&format!("SELECT hilo_lease_revoke('{other}')"));
    assert_eq!(lease(&mut client, "'s', 10").1, 21);
    assert_eq!(gaps(&mut client), ["1 10 expired", "11 20 revoked"]);
    // Its name is taken, and its values stay those of the lease.
    let again = lease(&mut client, &format!("'s', 10, lease => '{name}'"));
    assert_eq!((again.1, again.2), (1, 10));
    cluster.finish();
}

/// A range that comes back is served again, unless the sequence begins again, or is narrower.
#[test]
fn the_rest_of_a_lease_comes_back_to_the_same_numbering() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('s')");
    let mut back = |change: &str, returned| {
        let (name, first, _) = lease(&mut client, "'s', 10");
        client.run(change);
        let sql = format!(
            "SELECT hilo_lease_return(lease, first + 4 * (last - first) / 9)
               FROM hilo_leases WHERE lease = '{name}'"
        );
        assert_eq!(client.one::<i64>(&sql), returned, "{change}");
        assert!(client.one::<i64>("SELECT (hilo_lease('s', 6)).first") != first);
    };
    back("SELECT 1", 6);
    back("SELECT hilo_alter('s', key_format => '{value}')", 6);
    back("SELECT hilo_setval('s', 1000)", 0);
    back("SELECT hilo_alter('s', increment => 10)", 0);
    back("SELECT hilo_alter('s', min_value => 5000, start_value => 5000, restart_with => 6000)", 0);
    cluster.finish();
}

/// Whatever is altered without saying where to go on, what was served is not served again.
#[test]
fn no_alteration_repeats_a_value() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('s', start_value => 20)");
    let mut seen = client.draw("s", 10);
    for change in [
        "increment => 7",
        "increment => 2",
        "max_value => 5000",
        "min_value => 200, start_value => 200",
        "max_value => 9000",
        "data_type => 'integer'",
    ] {
        let taken = "SELECT lease::text, first, increment FROM hilo_lease('s', 5)";
        let row = client.query_one(taken, &[]).expect("a lease");
        let (name, first, step): (String, i64, i64) = (row.get(0), row.get(1), row.get(2));
        client.run(&format!("SELECT hilo_alter('s', {change})"));
        seen.push(first);
        client.run(&format!("SELECT hilo_lease_return('{name}', {first} + {step})"));
        seen.extend(client.draw("s", 5));
        seen.push(lease(&mut client, "'s', 1").1);
        client.run("SELECT hilo_lease_revoke(lease) FROM hilo_leases");
        assert_unique("s", &seen);
    }
    assert!(seen[seen.len() - 20..].iter().all(|value| *value >= 200), "{seen:?}");
    client.refusal("SELECT hilo_alter('s', increment => -1)").is("22023").helps();
    cluster.finish();
}

/// Both ends of bigint: the last value is served by hilo_nextval, and never leased, and no lease is empty.
#[test]
fn a_sequence_ends_where_bigint_ends() {
    let (cluster, mut client) = cluster();
    for (name, options, last) in [
        ("up", format!("start_value => {}", i64::MAX - 7), i64::MAX),
        (
            "down",
            format!("increment => -1, min_value => {0}, start_value => {0} + 7", i64::MIN),
            i64::MIN,
        ),
    ] {
        client.run(&format!("SELECT hilo_create('{name}', {options})"));
        let (_, first, end) = lease(&mut client, &format!("'{name}', 100"));
        assert_eq!((first.abs_diff(end), end.abs_diff(last)), (6, 1));
        client.refusal(&format!("SELECT hilo_lease('{name}', 1)")).is("2200H").helps();
        assert_eq!(client.draw(name, 1), [last]);
        client.refusal(&format!("SELECT hilo_nextval('{name}')")).is("2200H").helps();
    }
    cluster.finish();
}

/// Two transactions give two sequences' leases the same name: the later one is refused as hilo refuses it.
#[test]
fn a_name_is_given_to_one_lease() {
    let (cluster, mut client) = cluster();
    client.run("SELECT hilo_create('s'), hilo_create('t')");
    let call = |name: &str| {
        format!("SELECT hilo_lease('{name}', 5, lease => 'ab000000-0000-4000-8000-000000000001')")
    };
    client.run(&format!("BEGIN; {}", call("s")));
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            cluster.connect("postgres").refusal(&call("t")).is("42710").helps();
        });
        let mut watcher = cluster.connect("postgres");
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        wait_until("it waits", LONG, || watcher.one::<i64>(waits) == 1);
        client.run("COMMIT");
        other.join().expect("it is refused");
    });
    assert_eq!(client.draw("t", 1), [1]);
    cluster.finish();
}

/// A cycle begins again at its end, also where hilo_setval or hilo_alter leaves it there, and nothing of it is leased.
#[test]
fn a_cycle_begins_again() {
    let (cluster, mut client) = cluster();
    client.run(
        "SELECT hilo_create('up', max_value => 3, cycle => true),
                hilo_create('down', increment => -2, min_value => -5, cycle => true),
                hilo_create('turned', max_value => 2), hilo_nextrange('turned', 2)",
    );
    assert_eq!(client.draw("up", 5), [1, 2, 3, 1, 2]);
    assert_eq!(client.draw("down", 5), [-1, -3, -5, -1, -3]);
    client.refusal("SELECT hilo_nextrange('up', 4)").is("2200H").helps();
    client.refusal("SELECT hilo_lease('up', 1)").is("0A000").helps();
    client.run("SELECT hilo_setval('up', 3), hilo_alter('down', min_value => -3)");
    assert_eq!(client.draw("up", 2), [1, 2]);
    assert_eq!(client.draw("down", 2), [-1, -3]);
    client.run("SELECT hilo_alter('turned', cycle => true)");
    assert_eq!(client.draw("turned", 3), [1, 2, 1]);
    client.refusal("SELECT hilo_alter('turned', gapless => true)").is("22023").helps();
    client.run("SELECT hilo_alter('turned', cycle => false)");
    assert_eq!(client.draw("turned", 1), [2]);
    client.refusal("SELECT hilo_nextval('turned')").is("2200H");
    cluster.finish();
}
