//! A savepoint that is rolled back, or a PL/pgSQL block that fails, gives its values back.

use hilo_tests::{ClientExt, Cluster};

use super::{INSERT, assert_gapless, assert_table, with_invoices};

#[test]
fn a_rolled_back_savepoint_gives_its_values_back() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(&format!(
        "BEGIN; {INSERT}; SAVEPOINT a; {INSERT}; SAVEPOINT b; {INSERT}; ROLLBACK TO b; {INSERT};
         RELEASE a; SAVEPOINT c; {INSERT}; SAVEPOINT d; {INSERT}; ROLLBACK TO c; {INSERT}; COMMIT"
    ));
    assert_gapless(&mut client, 4);
    // Several levels at once, after some were released.
    client.run(&format!(
        "BEGIN; SAVEPOINT a; {INSERT}; SAVEPOINT b; {INSERT}; SAVEPOINT c; {INSERT}; RELEASE b; {INSERT}; ROLLBACK TO a;
         {INSERT}; COMMIT"
    ));
    assert_gapless(&mut client, 5);
    cluster.finish();
}

/// If the lock was taken within the savepoint, its rollback releases it, and others draw in between.
#[test]
fn the_lock_goes_with_the_savepoint_that_took_it() {
    let cluster = with_invoices();
    let (mut client, mut other) = (cluster.connect("postgres"), cluster.connect("postgres"));
    other.run("SET lock_timeout = '10s'");
    client.run(&format!(
        "BEGIN; SAVEPOINT a; SAVEPOINT b; {INSERT}; RELEASE b; {INSERT}; ROLLBACK TO a"
    ));
    other.run(INSERT);
    client.run(&format!("{INSERT}; SAVEPOINT c; {INSERT}; ROLLBACK TO c"));
    // The lock was taken outside the last savepoint.
    other.run("SET lock_timeout = '100ms'");
    other.refusal(INSERT).is("55P03");
    client.run(&format!("{INSERT}; COMMIT"));
    other.run(INSERT);
    assert_gapless(&mut client, 4);
    cluster.finish();
}

#[test]
fn a_block_with_exceptions_gives_its_values_back() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(
        "DO $$ BEGIN
             FOR n IN 1..2000 LOOP
                 BEGIN
                     INSERT INTO invoices DEFAULT VALUES;
                     IF n % 3 = 0 THEN RAISE EXCEPTION 'no'; END IF;
                 EXCEPTION WHEN raise_exception THEN NULL; END;
             END LOOP;
         END $$",
    );
    assert_gapless(&mut client, 1334);
    cluster.finish();
}

/// Thousands of blocks within each other, and a rollback in the middle of them.
#[test]
fn deep_nesting() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE FUNCTION dive(depth int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO invoices DEFAULT VALUES;
             IF depth > 0 THEN
                 PERFORM dive(depth - 1);
                 IF depth = 50 THEN RAISE EXCEPTION 'no'; END IF;
             END IF;
         EXCEPTION WHEN raise_exception THEN INSERT INTO invoices DEFAULT VALUES; END $$",
    );
    client.run("SET max_stack_depth = '2MB'; SELECT dive(99)");
    // From 99 to 51, and once more in the handler of 50.
    assert_gapless(&mut client, 50);
    let mut script = String::from("BEGIN;");
    for depth in 0..3_000 {
        script += &format!("SAVEPOINT s{depth}; {INSERT};");
    }
    client.run(&format!("{script} ROLLBACK TO s1000; {INSERT}; COMMIT"));
    assert_gapless(&mut client, 50 + 1001);
    cluster.finish();
}

/// Many sequences at once, each with values of several levels.
#[test]
fn many_sequences_in_one_transaction() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE TABLE drawn (tenant int, id bigint, UNIQUE (tenant, id));
         SELECT hilo_create('tenant/' || n, gapless => true) FROM generate_series(1, 500) n;
         CREATE FUNCTION draw(low int, high int) RETURNS void LANGUAGE sql AS
             $$INSERT INTO drawn SELECT n, hilo_nextval('tenant/' || n) FROM generate_series(low, high) n$$",
    );
    client.run(
        "BEGIN; SELECT draw(1, 500); SAVEPOINT a; SELECT draw(1, 300); ROLLBACK TO a; SELECT draw(200, 500);
         SAVEPOINT b; SELECT draw(400, 500); RELEASE b; SAVEPOINT c; SELECT draw(1, 500); ROLLBACK TO c; COMMIT",
    );
    client.run("BEGIN; SELECT draw(1, 500); ROLLBACK; SELECT draw(1, 500)");
    let expected = "SELECT count(*) FROM (
            SELECT tenant FROM drawn GROUP BY tenant
            HAVING max(id) = count(*) AND min(id) = 1
               AND count(*) = 2 + (tenant >= 200)::int + (tenant >= 400)::int) t";
    assert_eq!(client.one::<i64>(expected), 500);
    cluster.finish();
}

/// setval, restart and alterations are undone with their savepoint, and so is what was drawn after them.
#[test]
fn a_renumbering_in_a_savepoint() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    for change in [
        "SELECT hilo_setval('invoices', 100)",
        "SELECT hilo_alter('invoices', restart_with => 70)",
        "SELECT hilo_alter('invoices', increment => 7)",
        "SELECT hilo_alter('invoices', max_value => 1000000)",
        "SELECT hilo_alter('invoices', gapless => false)",
        "SELECT hilo_alter('invoices', gapless => false); SELECT hilo_alter('invoices', gapless => true)",
        "SELECT hilo_alter('invoices', gapless => false, restart_with => 7000); SELECT hilo_nextval('invoices')",
        "SELECT hilo_drop('invoices', cascade => true)",
        "SELECT hilo_rename('invoices', 'other')",
    ] {
        let at: i64 = client.one("SELECT count(*) FROM invoices");
        let draw = "SELECT hilo_nextval('invoices')";
        let draws =
            !change.contains("gapless") && !change.contains("drop") && !change.contains("rename");
        let inside = if draws { draw } else { "SELECT 1" };
        client.run(&format!(
            "BEGIN; {INSERT}; SAVEPOINT a; {INSERT}; {change}; {inside}; ROLLBACK TO a; {INSERT};
             SAVEPOINT b; {change}; ROLLBACK TO b; SAVEPOINT c; {INSERT}; RELEASE c; COMMIT"
        ));
        assert_gapless(&mut client, at + 3);
        client.run(&format!("BEGIN; {INSERT}; {change}; {inside}; ROLLBACK; {INSERT}"));
        assert_gapless(&mut client, at + 4);
        client.run(&format!("BEGIN; {change}; ROLLBACK; {INSERT}"));
        assert_gapless(&mut client, at + 5);
    }
    cluster.finish();
}

/// A transaction that has set the sequence draws from there, in every level.
#[test]
fn draws_after_a_renumbering() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(&format!(
        "BEGIN; {INSERT}; {INSERT}; SELECT hilo_setval('invoices', 1); DELETE FROM invoices WHERE id = 2;
         {INSERT}; SAVEPOINT a; {INSERT}; ROLLBACK TO a; {INSERT}; SAVEPOINT b; SELECT hilo_setval('invoices', 3);
         {INSERT}; RELEASE b; {INSERT}; COMMIT; {INSERT}"
    ));
    assert_gapless(&mut client, 6);
    client.run(
        "BEGIN; SELECT hilo_create('own', gapless => true); CREATE TABLE own (id bigint UNIQUE DEFAULT hilo_nextval('own'));
         INSERT INTO own DEFAULT VALUES; SAVEPOINT a; INSERT INTO own DEFAULT VALUES; ROLLBACK TO a;
         INSERT INTO own DEFAULT VALUES; SELECT hilo_alter('own', max_value => 100); INSERT INTO own DEFAULT VALUES; COMMIT;
         INSERT INTO own DEFAULT VALUES",
    );
    assert_table(&mut client, "own", 4);
    // Dropped and created again under the same name, in one transaction that has drawn from both.
    client.run(
        "BEGIN; INSERT INTO own DEFAULT VALUES; SELECT hilo_drop('own', cascade => true); TRUNCATE own;
         SELECT hilo_create('own', gapless => true); INSERT INTO own VALUES (hilo_nextval('own')); COMMIT;
         INSERT INTO own VALUES (hilo_nextval('own'))",
    );
    assert_table(&mut client, "own", 2);
    cluster.finish();
}

/// Draws from two sequences in turn, single values and ranges, with savepoints between them.
#[test]
fn draws_from_two_sequences_in_turn() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('own', gapless => true); CREATE TABLE own (id bigint UNIQUE DEFAULT hilo_nextval('own'));
         CREATE FUNCTION turn(n int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
             FOR i IN 1..n LOOP
                 INSERT INTO invoices DEFAULT VALUES; INSERT INTO own DEFAULT VALUES;
                 INSERT INTO own SELECT first FROM hilo_nextrange('own', 1); INSERT INTO invoices DEFAULT VALUES;
             END LOOP; END $$",
    );
    client.run(
        "BEGIN; SELECT turn(3000); SAVEPOINT a; SELECT turn(7); ROLLBACK TO a; SELECT turn(1); COMMIT",
    );
    client.run("BEGIN; SELECT turn(5); ROLLBACK; SELECT turn(1)");
    assert_gapless(&mut client, 6004);
    assert_table(&mut client, "own", 6004);
    cluster.finish();
}
