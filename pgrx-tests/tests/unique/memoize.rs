//! A value that hilo's functions return to a row comes to that row only: the planner keeps nothing
//! of it for later rows.

use hilo_tests::{Client, ClientExt, Cluster};

/// A thousand orders, each with one of three numbers of lines.
const ORDERS: &str = "CREATE TABLE orders AS SELECT i AS id, 1 + i % 3 AS n FROM generate_series(1, 1000) AS i; ANALYZE orders";
/// Functions of the user's. One may not be kept and has nothing to do with hilo, one calls hilo
/// inside, and one may be kept.
const OF_THE_USER: &str = "
    CREATE FUNCTION slow(n integer) RETURNS SETOF bigint LANGUAGE plpgsql AS
        $$ BEGIN RETURN QUERY SELECT generate_series(1::bigint, n); END $$;
    CREATE FUNCTION lines(n integer) RETURNS SETOF bigint LANGUAGE plpgsql AS
        $$ BEGIN FOR i IN 1..n LOOP RETURN NEXT hilo_nextval('s'); END LOOP; END $$;
    CREATE FUNCTION up_to(n integer) RETURNS SETOF bigint STABLE LANGUAGE plpgsql AS
        $$ BEGIN RETURN QUERY SELECT generate_series(1::bigint, n); END $$";

/// Items of FROM that give out values in a column `v` for each order.
const ITEMS: [&str; 12] = [
    "hilo_nextvals('s', o.n) AS v",
    "_hilo.hilo_lease('s', o.n) AS x (v) WHERE first + last > 0 AND count = n AND increment > 0",
    "hilo_nextrange('s', o.n) AS x (v) WHERE v + last > 0 AND count = n AND v + increment > 1 AND last + increment > 1",
    "hilo_lease('s', o.n) AS x (v) WHERE first + last > 0 AND count = n AND first + increment > 1 AND last > 0 AND increment > 0",
    "LATERAL (SELECT hilo_nextval('s') AS v FROM generate_series(1, o.n)) AS x",
    "LATERAL (SELECT hilo_nextkey('s') AS v FROM generate_series(1, o.n)) AS x",
    "LATERAL (VALUES (hilo_nextval('s'), o.n), (hilo_nextval('s'), o.n)) AS x (v)",
    "LATERAL (SELECT hilo_nextval('s') AS v, o.n UNION ALL SELECT hilo_nextval('s'), o.n) AS x",
    "LATERAL (WITH x AS (SELECT hilo_nextval('s') AS v FROM generate_series(1, o.n)) SELECT v FROM x) AS y",
    "LATERAL (SELECT v + random() * 0 AS v FROM drawn WHERE drawn.n <= o.n) AS x",
    "unnest(ARRAY[(SELECT hilo_nextval('s') + 0 * o.n), (SELECT hilo_nextval('s') + 0 * o.n), (SELECT hilo_nextval('s') + 0 * o.n)]) AS v",
    "ROWS FROM (generate_series(1, o.n), hilo_nextvals('s', o.n)) AS x (i, v)",
];

fn plan(client: &mut Client, item: &str) -> String {
    client.all::<String>(&format!("EXPLAIN SELECT o.id, v FROM orders AS o, {item}")).join("\n")
}

/// How many rows there are, and how many values in them.
fn values(client: &mut Client, item: &str) -> (i64, i64) {
    let sql = format!("SELECT count(*), count(DISTINCT v) FROM orders AS o, {item}");
    let row = client.query_one(&sql, &[]).unwrap_or_else(|error| panic!("{item}: {error:?}"));
    (row.get(0), row.get(1))
}

/// Each row gets values of its own, though many rows ask for the same.
#[test]
fn what_an_item_of_from_gives_out_comes_to_one_row() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(ORDERS);
    client.run("SELECT hilo_create('s'); CREATE VIEW drawn AS SELECT i AS n, hilo_nextval('s') AS v FROM generate_series(1, 3) AS i");
    for item in ITEMS {
        assert!(!plan(&mut client, item).contains("Memoize"), "{}", plan(&mut client, item));
        let (rows, values) = values(&mut client, item);
        assert_eq!(rows, values, "{item}");
    }
    cluster.finish();
}

/// Items that call no function of hilo's: what is in them is the user's.
const OTHERS: [&str; 8] = [
    "slow(o.n) AS v",
    "lines(o.n) AS v",
    "up_to(o.n) AS v",
    "LATERAL (SELECT i AS v FROM generate_series(1, o.n) AS i) AS x",
    "LATERAL (SELECT nextval('core') AS v FROM generate_series(1, o.n)) AS x",
    "LATERAL (VALUES (random(), o.n), (clock_timestamp()::text::float, o.n)) AS x (v)",
    "ROWS FROM (slow(o.n), generate_series(1, o.n)) AS x (v, i)",
    "unnest(ARRAY[(SELECT count(*) FROM slow(o.n)), (SELECT nextval('core') + o.n)]) AS v",
];

/// Who calls none of hilo's functions in an item of FROM gets the plan that core makes, byte for
/// byte.
#[test]
fn the_plans_of_others_are_what_they_are_without_hilo() {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("CREATE DATABASE other");
    let mut client = cluster.connect("other");
    client.run(ORDERS);
    client.run(OF_THE_USER);
    client.run("CREATE SEQUENCE core");
    let plans = |client: &mut Client| OTHERS.map(|item| plan(client, item));
    let without = plans(&mut client);
    assert!(without.iter().filter(|plan| plan.contains("Memoize")).count() >= 7, "{without:?}");
    client.run("CREATE EXTENSION hilo; SELECT hilo_create('s')");
    assert_eq!(plans(&mut client), without);
    assert!(!plan(&mut client, ITEMS[0]).contains("Memoize"));
    assert_eq!(plans(&mut cluster.connect("other")), without);
    cluster.finish();
}
