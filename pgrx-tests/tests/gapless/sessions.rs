//! Several sessions: their transactions follow each other on one sequence, and leave the others alone.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use hilo_tests::{ClientExt, Cluster};

use super::{INSERT, assert_gapless, assert_table, block, with_invoices};

/// Eight sessions that commit, roll back, roll savepoints back and fail, at random, in every isolation level.
#[test]
fn random_transactions_of_eight_sessions() {
    const ROUNDS: u64 = 300;
    let cluster = with_invoices();
    let committed = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for session in 0..8u64 {
            let (cluster, committed) = (&cluster, &committed);
            scope.spawn(move || {
                let mut client = cluster.connect("postgres");
                let mut state = 0x9e37_79b9_7f4a_7c15 ^ session;
                let mut random = |below: u64| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state % below
                };
                for _ in 0..ROUNDS {
                    let level = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
                    let level = level[random(3) as usize];
                    client.run(&format!("BEGIN ISOLATION LEVEL {level}"));
                    let mut drawn = 0;
                    for _ in 0..=random(3) {
                        let count = 1 + random(4) as i64;
                        let draw = format!(
                            "INSERT INTO invoices SELECT hilo_nextvals('invoices', {count})"
                        );
                        match random(4) {
                            0 => client.run(&format!("SAVEPOINT a; {draw}; ROLLBACK TO a")),
                            1 => {
                                client.run(&format!("SAVEPOINT a; {draw}; RELEASE a"));
                                drawn += count;
                            }
                            _ => {
                                client.run(&draw);
                                drawn += count;
                            }
                        }
                    }
                    match random(4) {
                        0 => client.run("ROLLBACK"),
                        1 => {
                            client.refusal("SELECT 1 / 0").is("22012");
                            client.run("ROLLBACK");
                        }
                        _ => {
                            client.run("COMMIT");
                            committed.fetch_add(drawn, Relaxed);
                        }
                    }
                }
            });
        }
    });
    let mut client = cluster.connect("postgres");
    assert_gapless(&mut client, committed.into_inner());
    cluster.finish();
}

/// Order of the commits is the order of the values: gapless implies ordered.
#[test]
fn a_later_commit_has_later_values() {
    let cluster = with_invoices();
    let mut first = cluster.connect("postgres");
    first.run(&format!("BEGIN; {INSERT}"));
    let second = block(
        &cluster,
        &format!(
            "{INSERT}; UPDATE invoices SET note = 'second' WHERE id = hilo_currval('invoices')"
        ),
    );
    first.run(&format!("{INSERT}; COMMIT"));
    let mut second = second.join().expect("it gets the next value");
    assert_eq!(second.one::<i64>("SELECT id FROM invoices WHERE note = 'second'"), 3);
    assert_gapless(&mut second, 3);
    cluster.finish();
}

/// A holder that rolls back gives its values to the one that waits.
#[test]
fn the_one_that_waits_gets_the_values_of_a_rollback() {
    let cluster = with_invoices();
    let mut first = cluster.connect("postgres");
    first.run(&format!("BEGIN; {INSERT}; {INSERT}"));
    let waiting = [block(&cluster, INSERT), block(&cluster, INSERT)];
    first.run("ROLLBACK");
    waiting.into_iter().for_each(|thread| drop(thread.join().expect("both draw")));
    assert_gapless(&mut first, 2);
    cluster.finish();
}

/// Timeouts, a cancellation and a deadlock end the wait with core's errors, and lose nothing.
#[test]
fn waits_end_as_those_for_a_row() {
    let cluster = with_invoices();
    let mut holder = cluster.connect("postgres");
    holder.run(&format!("BEGIN; {INSERT}"));
    for (setting, sqlstate) in
        [("SET lock_timeout = '100ms'", "55P03"), ("SET statement_timeout = '100ms'", "57014")]
    {
        let mut client = cluster.connect("postgres");
        client.run(setting);
        client.refusal(INSERT).is(sqlstate);
        client.run("BEGIN; SAVEPOINT a");
        client.refusal("SELECT * FROM hilo_nextrange('invoices', 5)").is(sqlstate);
        client.run("ROLLBACK TO a; COMMIT");
    }
    let mut client = cluster.connect("postgres");
    let pid = client.backend_pid();
    let thread = std::thread::spawn(move || {
        client.refusal(INSERT).is("57014");
        client
    });
    super::wait_for_lock(&cluster, pid);
    holder.run(&format!("SELECT pg_cancel_backend({pid})"));
    let mut client = thread.join().expect("it is canceled");
    holder.run("COMMIT");
    client.run(INSERT);
    assert_gapless(&mut client, 2);
    cluster.finish();
}

/// Two transactions draw from two sequences in opposite order: one of them is the victim, and gives its values back.
#[test]
fn a_deadlock_has_one_victim() {
    let cluster = with_invoices();
    let mut first = cluster.connect("postgres");
    first.run(
        "SELECT hilo_create('credits', gapless => true);
         CREATE TABLE credits (id bigint UNIQUE DEFAULT hilo_nextval('credits'))",
    );
    let credit = "INSERT INTO credits DEFAULT VALUES";
    first.run(&format!("SET deadlock_timeout = '100ms'; BEGIN; {INSERT}; {INSERT}"));
    let mut second = cluster.connect("postgres");
    second.run(&format!("SET deadlock_timeout = '60s'; BEGIN; {credit}; {credit}"));
    let pid = second.backend_pid();
    let thread = std::thread::spawn(move || {
        second.run(INSERT);
        second.run("COMMIT");
    });
    super::wait_for_lock(&cluster, pid);
    first.refusal(credit).is("40P01");
    first.run("ROLLBACK");
    thread.join().expect("the other commits");
    assert_gapless(&mut first, 1);
    assert_table(&mut first, "credits", 2);
    cluster.finish();
}

/// Sequences of many tenants: whoever holds one keeps nobody from another.
#[test]
fn tenants_do_not_wait_for_each_other() {
    let cluster = Cluster::with_hilo();
    let mut holder = cluster.connect("postgres");
    holder.run(
        "SELECT hilo_create('tenant/' || n, gapless => true) FROM generate_series(1, 10000) n",
    );
    holder.run("BEGIN; SELECT hilo_nextval('tenant/' || n) FROM generate_series(1, 10000, 2) n");
    let mut other = cluster.connect("postgres");
    other.run("SET lock_timeout = '1ms'");
    let drawn =
        "SELECT sum(hilo_nextval('tenant/' || n))::bigint FROM generate_series(2, 10000, 2) n";
    for round in 1..=3 {
        assert_eq!(other.one::<i64>(drawn), round * 5000);
    }
    holder.run("ROLLBACK");
    assert_eq!(
        other.one::<i64>(
            "SELECT sum(hilo_nextval('tenant/' || n))::bigint FROM generate_series(1, 10000, 2) n"
        ),
        5000
    );
    assert_eq!(
        other.one::<i64>("SELECT count(*) FROM hilo_stat_sequences"),
        0,
        "none of them takes a slot"
    );
    cluster.finish();
}

/// A statement that changes or drops the sequence waits for the transaction that holds it, and the
/// next one sees the change.
#[test]
fn definers_wait_for_the_holder() {
    let cluster = with_invoices();
    let mut holder = cluster.connect("postgres");
    for (change, next) in [
        ("SELECT hilo_alter('invoices', max_value => 1000)", 2),
        ("SELECT hilo_setval('invoices', 1)", 2),
        ("SELECT hilo_alter('invoices', restart_with => 2)", 2),
        ("SELECT hilo_alter('invoices', key_format => 'R-{value}')", 2),
        (
            "SELECT hilo_alter('invoices', owned_by => 'invoices.id'); TRUNCATE invoices RESTART IDENTITY",
            1,
        ),
    ] {
        holder.run("TRUNCATE invoices; SELECT hilo_setval('invoices', 1, false)");
        holder.run("BEGIN; SELECT hilo_nextval('invoices')");
        let waiting = block(&cluster, change);
        holder.run("COMMIT");
        drop(waiting.join().expect("the change is made"));
        assert_eq!(holder.one::<i64>("SELECT hilo_nextval('invoices')"), next, "{change}");
    }
    holder.run("BEGIN; SELECT hilo_nextval('invoices')");
    let waiting = block(&cluster, "SELECT hilo_drop('invoices', cascade => true)");
    holder.run("COMMIT");
    drop(waiting.join().expect("it is dropped"));
    holder.refusal("SELECT hilo_nextval('invoices')").is("42704");
    cluster.finish();
}

/// Whoever waits for a transaction that changes the sequence draws by the new definition.
#[test]
fn the_one_that_waits_sees_the_change() {
    let cluster = with_invoices();
    let mut definer = cluster.connect("postgres");
    let mut warm = cluster.connect("postgres");
    for (change, next) in [
        ("SELECT hilo_alter('invoices', increment => 10)", 10),
        ("SELECT hilo_alter('invoices', increment => 1, restart_with => 50)", 50),
        ("SELECT hilo_setval('invoices', 60)", 61),
        ("SELECT hilo_alter('invoices', gapless => false)", 62),
        ("SELECT hilo_alter('invoices', gapless => true)", 63),
        (
            "SELECT hilo_drop('invoices', cascade => true), hilo_create('invoices', gapless => true, start_value => 5)",
            5,
        ),
    ] {
        if next == 10 {
            assert_eq!(warm.one::<i64>("SELECT hilo_nextval('invoices')"), 1);
            // 1 + 10 is 11; the transaction below rolls back first, so its value comes again.
            definer.run("BEGIN; SELECT hilo_nextval('invoices'); ROLLBACK");
        }
        definer.run(&format!("BEGIN; {change}"));
        let pid = warm.backend_pid();
        let thread = std::thread::spawn(move || {
            let value: i64 = warm.one("SELECT hilo_nextval('invoices')");
            (warm, value)
        });
        if !change.contains("gapless => true)") || change.contains("drop") {
            super::wait_for_lock(&cluster, pid);
        }
        definer.run("COMMIT");
        let (client, value) = thread.join().expect("it draws");
        warm = client;
        let next = if next == 10 { 11 } else { next };
        assert_eq!(value, next, "{change}");
    }
    cluster.finish();
}
