//! hilo_check finds a row that the sequence will still reach, through any plain index on the
//! column. It reports no other row.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, Ends, LONG, Mode, wait_until};

/// The values that are reported, with their columns.
fn findings(client: &mut Client) -> Vec<String> {
    client.all(
        "SELECT object || ' ' || substring(what FROM '-?\\d+') FROM hilo_check() WHERE object LIKE 'column%' ORDER BY 1",
    )
}

fn none() -> Vec<String> {
    Vec::new()
}

#[test]
fn through_any_plain_index() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('up', data_type => 'smallint'), hilo_create('down', data_type => 'smallint', increment => -1)");
    for (sequence, beyond, least) in [("up", "30000", "-30000"), ("down", "-30000", "30000")] {
        for kind in ["smallint", "integer", "bigint"] {
            for index in ["(id)", "(id DESC)", "(id NULLS FIRST)", "(id DESC NULLS LAST, n)"] {
                client.run(&format!(
                    "CREATE TABLE rows (id {kind} DEFAULT hilo_nextval('{sequence}'), n integer);
                     CREATE INDEX ON rows {index}"
                ));
                assert_eq!(findings(&mut client), none(), "empty");
                client.run(&format!("INSERT INTO rows VALUES (NULL, 1), (NULL, 2), ({least}, 3)"));
                assert_eq!(findings(&mut client), none(), "{sequence} {kind} {index}");
                client.run(&format!("INSERT INTO rows VALUES ({beyond}, 4), (NULL, 5)"));
                let expected = format!("column public.rows.id {beyond}");
                assert_eq!(findings(&mut client), [expected], "{sequence} {kind} {index}");
                client.run("DELETE FROM rows WHERE n = 4");
                assert_eq!(findings(&mut client), none(), "deleted");
                client.run("BEGIN; DROP TABLE rows; COMMIT");
            }
        }
    }
    // Where there is no such index, the last pages of the table are read, and hilo_check says so.
    client.run(
        "CREATE TABLE rows (id bigint DEFAULT hilo_nextval('up'), n integer, text text) WITH (autovacuum_enabled = off);
         INSERT INTO rows VALUES (31000), (30000), (31000); DELETE FROM rows WHERE id = 31000",
    );
    let partly = "SELECT count(*) FROM hilo_check() WHERE what LIKE '%only the end of the table was looked at'";
    for index in ["(n, id)", "(id) WHERE n IS NULL", "((id + 0))", "USING hash (id)"] {
        client.run(&format!("CREATE INDEX one ON rows {index}"));
        assert_eq!(findings(&mut client), ["column public.rows.id 30000"], "{index}");
        assert_eq!(client.one::<i64>(partly), 1);
        client.run("DROP INDEX one");
    }
    // A row fills a page.
    client.run(
        "INSERT INTO rows SELECT -n, n, repeat('x', 1900) || 'x' FROM generate_series(1, 31 * 4) n",
    );
    let pages = "SELECT pg_relation_size('rows') / current_setting('block_size')::int";
    assert!(client.one::<i64>(pages) <= 32);
    assert_eq!(findings(&mut client), ["column public.rows.id 30000"]);
    client
        .run("INSERT INTO rows SELECT -n, n, repeat('x', 1900) FROM generate_series(1, 40 * 4) n");
    assert!(client.one::<i64>(pages) > 64);
    assert_eq!(findings(&mut client), none(), "only the end is read");
    client.run("INSERT INTO rows VALUES (29000), (32001), (28000)");
    assert_eq!(findings(&mut client), ["column public.rows.id 32001"]);
    client.run("TRUNCATE rows; INSERT INTO rows VALUES (30000)");
    client.run("CREATE INDEX ON rows (id, n); ALTER TABLE rows ENABLE ROW LEVEL SECURITY");
    assert_eq!(findings(&mut client), none(), "row level security");
    client.run("ALTER TABLE rows DISABLE ROW LEVEL SECURITY");
    assert_eq!(findings(&mut client), ["column public.rows.id 30000"]);
    cluster.finish();
}

/// Values that the sequence can never have are nobody's concern: beyond its bounds, or between its steps.
#[test]
fn values_that_never_come() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('low', max_value => 1000), hilo_create('tens', increment => 10), hilo_create('high', min_value => 500, increment => -1, max_value => 1000);
         CREATE TABLE low (id bigint PRIMARY KEY DEFAULT hilo_nextval('low'));
         CREATE TABLE tens (id bigint PRIMARY KEY DEFAULT hilo_nextval('tens'));
         CREATE TABLE high (id bigint PRIMARY KEY DEFAULT hilo_nextval('high'));
         INSERT INTO low VALUES (1001), (281474976710956), (9223372036854775807);
         INSERT INTO tens SELECT n FROM generate_series(100000, 100100) AS n WHERE n % 10 <> 1;
         INSERT INTO high VALUES (499), (-9223372036854775808)",
    );
    assert_eq!(findings(&mut client), none());
    client.run("INSERT INTO low VALUES (998); INSERT INTO tens VALUES (100051); INSERT INTO high VALUES (501)");
    assert_eq!(
        findings(&mut client),
        ["column public.high.id 501", "column public.low.id 998", "column public.tens.id 100051"]
    );
    cluster.finish();
}

/// Where several nodes serve a sequence, a row is a danger if this node is yet to serve its number.
#[test]
fn on_one_node_of_several() {
    let cluster = Cluster::builder()
        .config("hilo.node_id", "0")
        .config("hilo.node_count", "2")
        .config("hilo.on_every_node", "on")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    // Stripes of 1024: this node's are 1 to 1024, 2049 to 3072, and so on.
    client.run(
        "SELECT hilo_create('orders');
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'));
         INSERT INTO orders DEFAULT VALUES;
         INSERT INTO orders SELECT n FROM generate_series(2000, 200000) AS n WHERE (n - 1) / 1024 % 2 = 1",
    );
    assert_eq!(findings(&mut client), none(), "the other node is ahead");
    client.run("INSERT INTO orders VALUES (90200)");
    assert_eq!(findings(&mut client), ["column public.orders.id 90200"]);
    let to_do = "SELECT what_to_do FROM hilo_check() WHERE object LIKE 'column%'";
    let to_do: String = client.one(to_do);
    assert!(to_do.contains("hilo_advance('orders', 90200)"), "{to_do}");
    client.run("DELETE FROM orders WHERE id = 90200; INSERT INTO orders VALUES (900000000001)");
    assert_eq!(findings(&mut client), ["column public.orders.id 900000000001"]);
    cluster.finish();
}

/// A sequence that was set back is behind its column until it has served what the column holds, however far it
/// is reserved.
#[test]
fn reserved_beyond_the_column() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders', block_size => 10000); CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'));
         INSERT INTO orders SELECT FROM generate_series(1, 1000)",
    );
    assert_eq!(findings(&mut client), none());
    client.run("SELECT hilo_setval('orders', 500)");
    assert_eq!(findings(&mut client), ["column public.orders.id 1000"]);
    client.refusal("INSERT INTO orders DEFAULT VALUES").is("23505");
    assert!(client.one::<i64>("SELECT next_index FROM _hilo.hilo_position") >= 10_000);
    assert_eq!(findings(&mut client), ["column public.orders.id 1000"]);
    let finding = "SELECT severity || ': ' || what FROM hilo_check() WHERE object = 'column public.orders.id'";
    assert_eq!(
        client.one::<String>(finding),
        "error: its value 1000 is yet to be served by hilo sequence \"orders\": inserts will fail or repeat it"
    );
    let fix: String =
        client.one("SELECT fix FROM hilo_check() WHERE object = 'column public.orders.id'");
    let typed = "SELECT public.hilo_sync('orders'::public.hilo_sequence, 'public.orders'::pg_catalog.regclass, 'id'::pg_catalog.name);";
    assert_eq!(fix, typed);
    assert_eq!(client.one::<i64>(&fix), 1001);
    assert_eq!(findings(&mut client), none());
    assert_eq!(client.one::<i64>("INSERT INTO orders DEFAULT VALUES RETURNING id"), 1001);

    // Without the advice, it is a finding until the last of the values has been served.
    client.run("SELECT hilo_setval('orders', 998)");
    for _ in 999..=1001 {
        assert_eq!(findings(&mut client), ["column public.orders.id 1001"]);
        client.refusal("INSERT INTO orders DEFAULT VALUES").is("23505");
    }
    assert_eq!(findings(&mut client), none());
    cluster.finish();
}

/// Values that a session holds, that one has returned, or that are free in the catalog are yet to
/// be served too. They may lie below values that have been served. To look takes none of it away.
#[test]
fn held_below_what_was_served() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders', slice_size => 100);
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'))",
    );
    // Each session holds the rest of a slice.
    let draw_some = |client: &mut Client| {
        client.run("INSERT INTO orders SELECT FROM generate_series(1, 300)");
        client.one::<i64>("SELECT hilo_currval('orders')")
    };
    let mut holder = cluster.connect("postgres");
    let last = draw_some(&mut holder);
    let top = draw_some(&mut client);
    assert!(top > last + 2, "{top} was drawn after {last}");
    let slices = "SELECT string_agg(b::text, ' ' ORDER BY pid) FROM hilo_stat_backends b";
    let held: String = client.one(slices);
    assert_eq!(held.matches("orders").count(), 2, "{held}");
    assert_eq!(findings(&mut client), none());
    assert_eq!(findings(&mut holder), none());
    assert_eq!(client.one::<String>(slices), held, "hilo_check took something away");

    let (next, taken) = (last + 1, last + 2);
    client.run(&format!("INSERT INTO orders VALUES ({taken})"));
    let expected = [format!("column public.orders.id {taken}")];
    assert_eq!(findings(&mut client), expected, "held by another session");
    assert_eq!(findings(&mut holder), expected, "held by this session");
    assert_eq!(client.one::<String>(slices), held, "hilo_check took something away");
    let insert = "INSERT INTO orders DEFAULT VALUES RETURNING id";
    assert_eq!(holder.one::<i64>(insert), next);
    drop(holder);
    wait_until("the session has returned its slice", LONG, || {
        client.one::<i64>("SELECT count(*) FROM hilo_stat_backends") == 1
    });
    assert_eq!(findings(&mut client), expected, "returned");
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    assert!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_free_range") > 0);
    assert_eq!(findings(&mut client), expected, "free");
    // A value that another server may have taken is written off, and not served.
    let arrive = |timeline| format!("UPDATE _hilo.hilo_position SET timeline = {timeline}");
    let timeline: i32 = client.one("SELECT timeline FROM _hilo.hilo_position");
    client.meddle(&arrive(-1));
    assert_eq!(findings(&mut client), none(), "free on another server");
    client.meddle(&arrive(timeline));
    client.refusal(insert).is("23505");
    assert_eq!(findings(&mut client), none());
    assert_eq!(client.one::<i64>(insert), taken + 1);
    cluster.finish();
}

/// A damaged file is a finding of its column, and keeps nobody from the others.
#[test]
fn an_index_without_its_file() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s'); CREATE TABLE a (id bigint PRIMARY KEY DEFAULT hilo_nextval('s'));
         CREATE TABLE b (LIKE a INCLUDING ALL); INSERT INTO a VALUES (5000); INSERT INTO b VALUES (6000)",
    );
    let file: String = client.one("SELECT pg_relation_filepath('a_pkey')");
    cluster.stop(Mode::Fast);
    std::fs::remove_file(cluster.data_directory().join(file)).expect("the index has a file");
    cluster.start();
    let mut client = cluster.connect("postgres");
    let found = "SELECT severity || ' ' || what FROM hilo_check() WHERE object LIKE 'column%' ORDER BY object";
    let found: Vec<String> = client.all(found);
    assert!(found[0].starts_with("warning its values cannot be read: could not open file"));
    assert!(found[1].starts_with("error its value 6000 is yet to be served"), "{found:?}");
    client.run("REINDEX TABLE a");
    assert_eq!(findings(&mut client), ["column public.a.id 5000", "column public.b.id 6000"]);
    cluster.finish();
}

/// A value that others are drawing and inserting all the while is no finding, in whatever way they
/// get their numbers.
#[test]
fn beside_those_who_insert() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders'); CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'));
         INSERT INTO orders SELECT FROM generate_series(1, 100000)",
    );
    let over = AtomicBool::new(false);
    let ways = [
        "INSERT INTO orders SELECT FROM generate_series(1, 100)",
        "INSERT INTO orders SELECT n FROM hilo_nextrange('orders', 500) r, generate_series(r.first, r.last) AS n",
        "BEGIN; INSERT INTO orders SELECT FROM generate_series(1, 10); ROLLBACK; INSERT INTO orders DEFAULT VALUES",
    ];
    thread::scope(|scope| {
        let over = &over;
        for way in ways {
            let cluster = &cluster;
            scope.spawn(move || {
                while !over.load(Relaxed) {
                    // Each session returns what it has not used.
                    let mut writer = cluster.connect("postgres");
                    (0..20).for_each(|_| writer.run(way));
                }
            });
        }
        let _ends = Ends(over);
        let all =
            "SELECT object || ': ' || what FROM hilo_check() WHERE object NOT LIKE 'setting f%'";
        let (mut checks, mut before, mut rounds) = (0, 0, 0);
        while checks < 20 || rounds < 10 {
            assert_eq!(client.all::<String>(all), none());
            let rows: i64 = client.one("SELECT count(*) FROM orders");
            rounds += i32::from(rows > before);
            (before, checks) = (rows, checks + 1);
        }
    });
    cluster.finish();
}
