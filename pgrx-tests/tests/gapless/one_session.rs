//! One session: what commits counts, what rolls back does not.

use hilo_tests::{ClientExt, Cluster};

use super::{INSERT, assert_gapless, assert_table, with_invoices};

#[test]
fn a_rollback_gives_its_values_to_the_next_transaction() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(INSERT);
    for _ in 0..3 {
        client.run(&format!("BEGIN; {INSERT}; {INSERT}; ROLLBACK"));
        assert_gapless(&mut client, 1);
    }
    client.run(&format!("BEGIN; {INSERT}; {INSERT}; COMMIT; {INSERT}"));
    assert_gapless(&mut client, 4);
    client.refusal("INSERT INTO invoices SELECT hilo_nextval('invoices') + 1 / (5 - n) FROM generate_series(3, 9) n").is("22012");
    assert_gapless(&mut client, 4);
    let drawn: i64 = client.one("INSERT INTO invoices DEFAULT VALUES RETURNING id");
    assert_eq!(drawn, 5);
    cluster.finish();
}

/// All functions that draw count the same values.
#[test]
fn every_way_to_draw() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    let draw = "INSERT INTO invoices SELECT hilo_nextvals('invoices', 3);
        INSERT INTO invoices SELECT n FROM hilo_nextrange('invoices', 4) r, generate_series(r.first, r.last, r.increment) n;
        INSERT INTO invoices VALUES (hilo_key_value('invoices', hilo_nextkey('invoices')));
        INSERT INTO invoices SELECT hilo_nextval('invoices') FROM generate_series(1, 1000);
        INSERT INTO invoices SELECT hilo_nextvals('invoices', 100) LIMIT 10";
    client.run(&format!("BEGIN; {draw}; ROLLBACK"));
    assert_gapless(&mut client, 0);
    client.run(draw);
    assert_gapless(&mut client, 1018);
    client.run(&format!("BEGIN; {draw}; COMMIT"));
    assert_gapless(&mut client, 2036);
    let key: String = client.one("SELECT hilo_nextkey('invoices')");
    assert_eq!(key, "invoices/2037");
    client.run("BEGIN; SELECT hilo_nextkey('invoices')");
    let mut fresh = cluster.connect("postgres");
    fresh.run("SET lock_timeout = '100ms'");
    fresh.refusal("SELECT hilo_nextkey('invoices')").is("55P03");
    client.run("ROLLBACK; DELETE FROM invoices WHERE id > 2036");
    cluster.finish();
}

/// A cursor draws as it is read. A row that it did not read was not drawn.
#[test]
fn a_cursor_and_a_limit() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(
        "BEGIN; DECLARE c CURSOR FOR SELECT hilo_nextval('invoices') FROM generate_series(1, 100)",
    );
    for expected in 1..=5 {
        let id: i64 = client.one("FETCH 1 FROM c");
        assert_eq!(id, expected);
        client.run(&format!("INSERT INTO invoices VALUES ({id})"));
    }
    client.run("COMMIT");
    assert_gapless(&mut client, 5);
    // A holdable cursor reads its rest when the transaction ends: that counts as drawn.
    client.run("BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT hilo_nextval('invoices') FROM generate_series(1, 3)");
    client.run("COMMIT; INSERT INTO invoices SELECT 5 + n FROM generate_series(1, 3) n");
    assert_eq!(client.all::<i64>("FETCH ALL FROM h"), [6, 7, 8]);
    assert_gapless(&mut client, 8);
    cluster.finish();
}

/// currval and lastval are what they were before, because the value may be another transaction's by then.
#[test]
fn a_rollback_takes_currval_and_lastval_back() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('plain')");
    let current = "SELECT hilo_currval('invoices')";
    client.run(&format!("BEGIN; {INSERT}"));
    assert_eq!(client.one::<i64>(current), 1);
    client.run("ROLLBACK");
    client.refusal(current).is("55000");
    client.refusal("SELECT hilo_lastval()").is("55000");
    client.run("SELECT hilo_nextval('plain')");
    client.run(&format!("BEGIN; {INSERT}; SAVEPOINT here; {INSERT}"));
    assert_eq!(client.one::<i64>(current), 2);
    assert_eq!(client.one::<i64>("SELECT hilo_lastval()"), 2);
    client.run("ROLLBACK TO here");
    assert_eq!(client.one::<i64>(current), 1);
    assert_eq!(client.one::<i64>("SELECT hilo_lastval()"), 1);
    client.run(&format!("{INSERT}; {INSERT}; COMMIT"));
    assert_eq!(client.one::<i64>(current), 3);
    client.run("SELECT hilo_nextval('plain')");
    client.run(&format!("BEGIN; {INSERT}; ROLLBACK"));
    assert_eq!(client.one::<i64>(current), 3);
    assert_eq!(client.one::<i64>("SELECT hilo_lastval()"), 2, "that of the plain sequence again");
    client.run("DISCARD ALL");
    client.refusal(current).is("55000");
    client.run(INSERT);
    assert_gapless(&mut client, 4);
    cluster.finish();
}

/// DISCARD SEQUENCES is no part of the transaction, so its rollback brings back nothing.
#[test]
fn a_rollback_brings_back_nothing_discarded() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(&format!("{INSERT}; BEGIN; {INSERT}; DISCARD SEQUENCES; ROLLBACK"));
    client.refusal("SELECT hilo_currval('invoices')").is("55000");
    client.refusal("SELECT hilo_lastval()").is("55000");
    client.run(&format!("BEGIN; {INSERT}; DISCARD SEQUENCES; {INSERT}; ROLLBACK"));
    client.refusal("SELECT hilo_currval('invoices')").is("55000");
    client.refusal("SELECT hilo_lastval()").is("55000");
    cluster.finish();
}

/// The surroundings of a draw: another role, a function with SET, another search_path, a security
/// definer.
#[test]
fn whoever_draws_counts_on() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE ROLE clerk LOGIN; GRANT INSERT, SELECT ON invoices TO clerk; SELECT hilo_grant('invoices', 'clerk', 'USAGE');
         CREATE FUNCTION draw() RETURNS void LANGUAGE sql SET search_path = public, pg_temp SECURITY DEFINER
             AS 'INSERT INTO public.invoices DEFAULT VALUES';",
    );
    client.run(&format!(
        "BEGIN; {INSERT}; SET LOCAL ROLE clerk; {INSERT}; SELECT draw(); SET LOCAL search_path = public; {INSERT};
         RESET ROLE; {INSERT}; COMMIT"
    ));
    assert_gapless(&mut client, 5);
    let mut clerk = cluster.connect_as("clerk", "postgres");
    clerk.run(INSERT);
    client.run("SELECT hilo_revoke('invoices', 'clerk', 'USAGE')");
    clerk.refusal(INSERT).is("42501");
    clerk.run("SELECT draw()");
    assert_gapless(&mut client, 7);
    cluster.finish();
}

/// A large transaction draws from memory: the position is written once.
#[test]
fn a_transaction_writes_the_position_once() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    let place = "SELECT p.ctid::text FROM _hilo.hilo_position p JOIN _hilo.hilo_definition s ON s.id = p.sequence WHERE s.name = 'invoices'";
    let before: String = client.one(place);
    client.run("BEGIN; INSERT INTO invoices SELECT hilo_nextval('invoices') FROM generate_series(1, 100000)");
    assert_eq!(client.one::<String>(place), before);
    client.run("COMMIT");
    assert_ne!(client.one::<String>(place), before);
    assert_gapless(&mut client, 100_000);
    cluster.finish();
}

/// Deferred triggers draw before the position is written.
#[test]
fn a_deferred_trigger_draws() {
    let cluster = with_invoices();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE TABLE orders (n int);
         CREATE FUNCTION bill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO invoices DEFAULT VALUES; RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER bill AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION bill();",
    );
    client.run("INSERT INTO orders VALUES (1), (2)");
    client.run(&format!("BEGIN; {INSERT}; INSERT INTO orders VALUES (3); COMMIT"));
    client.run("BEGIN; INSERT INTO orders VALUES (4); ROLLBACK");
    assert_gapless(&mut client, 4);
    cluster.finish();
}

/// Steps, bounds and directions: the values are those of the definition, one after the other.
#[test]
fn increments_and_bounds() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('down', gapless => true, increment => -3, max_value => 9, min_value => 0, start_value => 9)");
    let draw = "SELECT hilo_nextval('down')";
    client.run(&format!("BEGIN; {draw}; {draw}; ROLLBACK"));
    assert_eq!((0..4).map(|_| client.one::<i64>(draw)).collect::<Vec<_>>(), [9, 6, 3, 0]);
    client.refusal(draw).is("2200H");
    client.refusal("SELECT hilo_nextrange('down', 1)").is("2200H");
    client.run("SELECT hilo_create('few', gapless => true, max_value => 3); CREATE TABLE few (id bigint UNIQUE)");
    client
        .refusal("INSERT INTO few SELECT hilo_nextval('few') FROM generate_series(1, 4)")
        .is("2200H");
    client.refusal("INSERT INTO few SELECT first FROM hilo_nextrange('few', 4)").is("2200H");
    client.run("INSERT INTO few SELECT hilo_nextvals('few', 2)");
    client.run("BEGIN; INSERT INTO few VALUES (hilo_nextval('few')); SAVEPOINT here");
    client.refusal("SELECT hilo_nextval('few')").is("2200H").says("maximum");
    client.run("ROLLBACK TO here; COMMIT");
    assert_table(&mut client, "few", 3);
    client.run(
        "SELECT hilo_alter('few', max_value => 5); INSERT INTO few SELECT hilo_nextvals('few', 2)",
    );
    assert_table(&mut client, "few", 5);
    cluster.finish();
}
