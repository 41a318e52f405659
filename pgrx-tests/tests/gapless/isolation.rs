//! Transactions of every isolation level follow each other on the sequence, and none fails because of the number.

use hilo_tests::ClientExt;

use super::{INSERT, assert_gapless, block, with_invoices};

/// An older snapshot draws the newest number: core's UPDATE of a counter row would fail with 40001.
#[test]
fn an_old_snapshot_draws_the_newest_number() {
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let cluster = with_invoices();
        let mut old = cluster.connect("postgres");
        old.run(
            "CREATE TABLE other (n int); CREATE TABLE counter (n bigint); INSERT INTO counter VALUES (0)",
        );
        old.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM other"));
        let mut new = cluster.connect("postgres");
        new.run(&format!("BEGIN ISOLATION LEVEL {level}; {INSERT}; {INSERT}; COMMIT"));
        new.run("UPDATE counter SET n = n + 1");
        old.run(&format!("SAVEPOINT a; {INSERT}; {INSERT}"));
        let counter = "UPDATE counter SET n = n + 1 RETURNING n";
        if level == "READ COMMITTED" {
            old.run(&format!("{counter}; COMMIT"));
        } else {
            old.refusal(counter).is("40001");
            old.run(&format!("ROLLBACK TO a; {INSERT}; {INSERT}; COMMIT"));
        }
        assert_gapless(&mut new, 4);
        cluster.finish();
    }
}

/// Two transactions that wait for each other's number, begun at the same time: both commit.
#[test]
fn those_that_waited_commit_too() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let cluster = with_invoices();
        let mut first = cluster.connect("postgres");
        first.run(&format!("BEGIN ISOLATION LEVEL {level}; {INSERT}"));
        let draw = format!("BEGIN ISOLATION LEVEL {level}; {INSERT}; COMMIT");
        let waiting = [block(&cluster, &draw), block(&cluster, &draw), block(&cluster, &draw)];
        first.run(&format!("{INSERT}; COMMIT"));
        waiting.into_iter().for_each(|thread| drop(thread.join().expect("none fails")));
        assert_gapless(&mut first, 5);
        cluster.finish();
    }
}

/// Serializable transactions that also read and write each other's data fail for that, and not for
/// the number. Transactions that touch nothing in common never fail.
#[test]
fn serializable_sessions_that_share_only_the_number_never_fail() {
    const ROUNDS: i64 = 200;
    const SESSIONS: i64 = 6;
    let cluster = with_invoices();
    cluster.connect("postgres").run(
        "CREATE TABLE work (session bigint PRIMARY KEY, n bigint) WITH (fillfactor = 10);
         INSERT INTO work SELECT s, 0 FROM generate_series(0, 5) s;
         DROP TABLE invoices; CREATE TABLE invoices (id bigint NOT NULL)",
    );
    std::thread::scope(|scope| {
        for session in 0..SESSIONS {
            let cluster = &cluster;
            scope.spawn(move || {
                let mut client = cluster.connect("postgres");
                client.run("SET default_transaction_isolation = 'serializable'");
                for _ in 0..ROUNDS {
                    client.run(&format!(
                        "BEGIN; CREATE TEMP TABLE IF NOT EXISTS mine (n bigint); SELECT count(*) FROM mine;
                         INSERT INTO mine VALUES (hilo_nextval('invoices')); INSERT INTO mine VALUES ({session});
                         INSERT INTO invoices VALUES (hilo_currval('invoices')), (hilo_nextval('invoices')); COMMIT"
                    ));
                }
            });
        }
    });
    let mut client = cluster.connect("postgres");
    assert_gapless(&mut client, 2 * ROUNDS * SESSIONS);
    cluster.finish();
}

/// A number is drawn when its expression is evaluated. Core may evaluate it for a row that it then
/// does not store, and the number is missing, as docs/reference.md says. Its way to draw for a row
/// that is stored leaves none out.
#[test]
fn a_number_is_drawn_for_a_row_that_is_locked() {
    let cluster = with_invoices();
    let mut first = cluster.connect("postgres");
    first.run(
        "CREATE TABLE orders (id int PRIMARY KEY, no bigint); INSERT INTO orders VALUES (1), (2)",
    );
    let number =
        "UPDATE orders SET no = hilo_nextval('invoices') WHERE id = 1 AND no IS NULL".to_owned();
    first.run("BEGIN; UPDATE orders SET no = -1 WHERE id = 1");
    let second = block(&cluster, &number);
    first.run("COMMIT");
    let mut second = second.join().expect("it updates no row");
    assert_eq!(
        second.one::<i64>("SELECT hilo_nextval('invoices')"),
        2,
        "1 was drawn and not stored"
    );
    // With the row locked first.
    let locking =
        "WITH locked AS MATERIALIZED (SELECT id FROM orders WHERE id = 2 AND no IS NULL FOR UPDATE)
         UPDATE orders SET no = hilo_nextval('invoices') FROM locked WHERE orders.id = locked.id";
    first.run("BEGIN; UPDATE orders SET no = -1 WHERE id = 2");
    let waiting = block(&cluster, locking);
    first.run("COMMIT");
    drop(waiting.join().expect("it updates no row"));
    assert_eq!(second.one::<i64>("SELECT hilo_nextval('invoices')"), 3, "nothing was drawn");
    cluster.finish();
}
