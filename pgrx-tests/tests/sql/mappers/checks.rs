//! The findings of hilo_check of sequences with a source, and of their counters.

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

/// The object of the finding that says this.
fn finding(client: &mut Client, says: &str) -> Option<String> {
    let rows = client.query("SELECT object FROM hilo_check() WHERE what LIKE $1", &[&says]);
    let rows = rows.expect("hilo_check");
    assert!(rows.len() < 2, "{says}: {} findings", rows.len());
    rows.first().map(|row| row.get(0))
}

/// A source says of its counter that it was changed, and hilo_check says so after a minute.
#[test]
fn a_changed_counter_is_found() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE SEQUENCE counter; SELECT hilo_attach('s', 'counter')");
    client.draw("s", 100);
    let says = "its source has failed % the counter has another INCREMENT, CYCLE or CACHE than %";
    client.run("ALTER SEQUENCE counter CYCLE");
    let draw = "SELECT count(hilo_nextval('s')) FROM generate_series(1, 1000000)";
    client.refusal(draw).says("the counter has another INCREMENT, CYCLE or CACHE");
    assert!(finding(&mut client, says).is_some(), "calls fail");
    let age = "SET check_function_bodies = off; UPDATE _hilo.hilo_source SET failing_since = now() - interval '2 minutes'";
    wait_until("its age is written", LONG, || client.batch_execute(age).is_ok());
    assert_eq!(finding(&mut client, says).expect(says), "sequence \"s\"");
    client.run("ALTER SEQUENCE counter NO CYCLE");
    wait_until("it is asked again", LONG, || finding(&mut client, says).is_none());
    cluster.finish();
}

/// Rows beyond what a counter has given are found; rows of others who draw from it are none.
#[test]
fn a_counter_behind_the_rows_is_found() {
    let cluster = Cluster::with_hilo();
    for (mapper, increment, per_number) in
        [("core", 1, 1), ("efcore", 20, 1), ("hibernate", 20, 1), ("hibernate-hilo", 1, 20)]
    {
        let mut client = cluster.connect("postgres");
        // Names of its own: what is dropped beside it, its source may be drawing from.
        client.run(&format!("CREATE SCHEMA \"{mapper}\"; SET search_path = \"{mapper}\", public"));
        client.run(&format!(
            "CREATE SEQUENCE counter INCREMENT BY {increment};
             SELECT hilo_create('{mapper}', block_size => 20);
             SELECT hilo_attach('{mapper}', 'counter', '{mapper}');
             CREATE TABLE t (id bigint PRIMARY KEY DEFAULT hilo_nextval('{mapper}'))"
        ));
        client.run(&format!(
            "INSERT INTO t SELECT FROM generate_series(1, 30);
             INSERT INTO t SELECT nextval('counter') * {per_number} FROM generate_series(1, 9)"
        ));
        let says = format!(
            "its value % is yet to come from %, the counter of hilo sequence \"{mapper}\"%"
        );
        let says = says.as_str();
        assert_eq!(finding(&mut client, says), None, "{mapper}");
        client.run("INSERT INTO t VALUES (777777)");
        assert!(finding(&mut client, says).is_some(), "{mapper}");
        client.run(&format!("SELECT setval('counter', 777777 / {per_number} + 1)"));
        assert_eq!(finding(&mut client, says), None, "{mapper}");
        client.run("INSERT INTO t SELECT FROM generate_series(1, 3000)");
    }
    cluster.finish();
}

/// An integer column whose counter is near its end is found, and one that is narrower than that.
#[test]
fn an_integer_column_near_its_end_is_found() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SEQUENCE near AS integer START 2000000000; CREATE SEQUENCE wide START 2000000000;
         SELECT hilo_attach('near', 'near'), hilo_attach('wide', 'wide');
         CREATE TABLE a (id integer DEFAULT hilo_nextval('near'));
         CREATE TABLE b (id integer DEFAULT hilo_nextval('wide'))",
    );
    client.run("INSERT INTO a DEFAULT VALUES; INSERT INTO b DEFAULT VALUES");
    let object = finding(&mut client, "93.% of its values are reserved, %").expect("near");
    assert_eq!(object, "sequence \"near\"");
    let says = "hilo sequence \"wide\" continues to %, which the column's type cannot hold";
    let object = finding(&mut client, says).expect(says);
    assert_eq!(object, "column public.b.id");
    client.run("SELECT hilo_alter('wide', data_type => 'integer')");
    assert_eq!(finding(&mut client, says), None);
    cluster.finish();
}

/// Sequences whose sources compute different blocks of one counter are found.
#[test]
fn two_ways_to_read_one_counter_are_found() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SEQUENCE a INCREMENT BY 20; CREATE SEQUENCE b INCREMENT BY 20;
         CREATE TABLE mt_hilo (entity_name varchar PRIMARY KEY, hi_value bigint);
         SELECT hilo_create('m' || i, block_size => 20 + i / 3) FROM generate_series(1, 3) i;
         SELECT hilo_attach('one', 'a', 'efcore'), hilo_attach('two', 'a', 'doctrine'),
                hilo_attach('b1', 'b', 'efcore');
         SET quote_all_identifiers = on; SELECT hilo_attach('b2', 'b', 'hibernate');
         RESET quote_all_identifiers;
         SELECT hilo_attach('m1', 'mt_hilo', 'marten', 'x'),
                hilo_attach('m2', 'mt_hilo', 'marten', 'y'),
                hilo_attach('m3', 'mt_hilo', 'marten', 'x')",
    );
    let found = "SELECT object || ': ' || what FROM hilo_check() WHERE what LIKE '%come twice'";
    assert_eq!(
        client.all::<String>(found),
        [
            "sequence \"b1\": it takes blocks of 20 from its counter as \"efcore\", and sequence \
             \"b2\" blocks of 20 as \"hibernate\": values come twice",
            "sequence \"m1\": it takes blocks of 20 from its counter as \"marten\", and sequence \
             \"m3\" blocks of 21 as \"marten\": values come twice",
        ]
    );
    cluster.finish();
}

/// A source that has failed for long is found, and its error by its owner; also one whose answers
/// are refused.
#[test]
fn a_source_that_fails_for_long_is_found() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE ROLE shop LOGIN; GRANT CREATE ON SCHEMA public TO shop; GRANT INSERT ON hilo_sequences TO shop;
         CREATE ROLE watcher LOGIN IN ROLE pg_monitor",
    );
    let mut shop = cluster.connect_as("shop", "postgres");
    shop.run("SELECT hilo_create('s', source => 'SELECT 1 / 0::bigint, 1::bigint')");
    shop.refusal("SELECT hilo_nextval('s')").says("division by zero");
    let says = "its source has failed % times since %";
    assert!(finding(&mut client, says).is_some(), "calls fail");
    let age = "SET check_function_bodies = off; UPDATE _hilo.hilo_source SET failing_since = now() - interval '2 minutes'";
    wait_until("its age is written", LONG, || client.batch_execute(age).is_ok());
    assert_eq!(finding(&mut client, says).expect(says), "sequence \"s\"");
    assert!(finding(&mut shop, &format!("{says}: division by zero")).is_some());
    let mut watcher = cluster.connect_as("watcher", "postgres");
    assert!(
        finding(
            &mut watcher,
            &format!("{says}: role shop, which owns the sequence, sees the error%")
        )
        .is_some()
    );
    cluster.finish();
}
