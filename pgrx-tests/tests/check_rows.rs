//! hilo_check finds a row that the sequence will still reach, through any plain index on the column, and reports
//! no row that it will not reach.

use hilo_tests::{Client, ClientExt, Cluster};

/// The values that are reported, with their columns.
fn found(client: &mut Client) -> Vec<String> {
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
                assert_eq!(found(&mut client), none(), "empty");
                client.run(&format!("INSERT INTO rows VALUES (NULL, 1), (NULL, 2), ({least}, 3)"));
                assert_eq!(found(&mut client), none(), "{sequence} {kind} {index}");
                client.run(&format!("INSERT INTO rows VALUES ({beyond}, 4), (NULL, 5)"));
                let expected = format!("column public.rows.id {beyond}");
                assert_eq!(found(&mut client), [expected], "{sequence} {kind} {index}");
                client.run("DELETE FROM rows WHERE n = 4");
                assert_eq!(found(&mut client), none(), "deleted");
                client.run("BEGIN; DROP TABLE rows; COMMIT");
            }
        }
    }
    // Where there is no such index, nothing is known of the rows.
    client.run(
        "CREATE TABLE rows (id bigint DEFAULT hilo_nextval('up'), n integer); INSERT INTO rows VALUES (30000)",
    );
    for index in ["(n, id)", "(id) WHERE n IS NULL", "((id + 0))", "USING hash (id)"] {
        client.run(&format!("CREATE INDEX one ON rows {index}"));
        assert_eq!(found(&mut client), none(), "{index}");
        client.run("DROP INDEX one");
    }
    client.run("CREATE INDEX ON rows (id, n); ALTER TABLE rows ENABLE ROW LEVEL SECURITY");
    assert_eq!(found(&mut client), none(), "row level security");
    client.run("ALTER TABLE rows DISABLE ROW LEVEL SECURITY");
    assert_eq!(found(&mut client), ["column public.rows.id 30000"]);
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
    assert_eq!(found(&mut client), none());
    client.run("INSERT INTO low VALUES (998); INSERT INTO tens VALUES (100051); INSERT INTO high VALUES (501)");
    assert_eq!(
        found(&mut client),
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
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    // Stripes of 1024: this node's are 1 to 1024, 2049 to 3072, and so on.
    client.run(
        "SELECT hilo_create('orders');
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'));
         INSERT INTO orders DEFAULT VALUES;
         INSERT INTO orders SELECT n FROM generate_series(2000, 200000) AS n WHERE (n - 1) / 1024 % 2 = 1",
    );
    assert_eq!(found(&mut client), none(), "the other node is ahead");
    client.run("INSERT INTO orders VALUES (90200)");
    assert_eq!(found(&mut client), ["column public.orders.id 90200"]);
    let to_do = "SELECT what_to_do FROM hilo_check() WHERE object LIKE 'column%'";
    let to_do: String = client.one(to_do);
    assert!(to_do.contains("restart_with => 90201"), "{to_do}");
    client.run("DELETE FROM orders WHERE id = 90200; INSERT INTO orders VALUES (900000000001)");
    assert_eq!(found(&mut client), ["column public.orders.id 900000000001"]);
    cluster.finish();
}

/// What others are drawing and inserting all the while is no finding.
#[test]
fn beside_those_who_insert() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders'); CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'))",
    );
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let mut writer = cluster.connect("postgres");
            std::thread::spawn(move || {
                for _ in 0..200 {
                    writer.run("INSERT INTO orders SELECT FROM generate_series(1, 100)");
                }
            })
        })
        .collect();
    while writers.iter().any(|writer| !writer.is_finished()) {
        assert_eq!(found(&mut client), none());
    }
    writers.into_iter().for_each(|writer| writer.join().expect("it inserts"));
    assert_eq!(client.one::<i64>("SELECT count(*) FROM orders"), 40_000);
    cluster.finish();
}
