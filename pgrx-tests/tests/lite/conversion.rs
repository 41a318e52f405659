//! From hilo_lite to hilo in one transaction: no value comes twice, and open leases stay open.

use hilo_tests::extension::create_lite;
use hilo_tests::{Client, ClientExt, Cluster, assert_unique};

use super::{drop_additions, lease, script};

pub fn convert(cluster: &Cluster, database: &str) {
    let script = script("hilo_lite_to_hilo.sql");
    cluster.restore(database, &format!("BEGIN;\n{script}\nCOMMIT;\n"));
}

/// A sequence with values that were served, leased, returned, revoked and renumbered, and all that it has served.
fn fill(client: &mut Client) -> (Vec<i64>, String, i64, i64) {
    client.run(
        "CREATE ROLE app; SELECT hilo_create('s', increment => 10, start_value => 7, key_format => 'S{value}');
         SELECT hilo_create('down', increment => -3), hilo_create('g', gapless => true, start_value => 100),
                hilo_create('moved'), hilo_create('spent', max_value => 3), hilo_nextrange('spent', 3);
         SELECT hilo_setval('moved', 5000), hilo_grant('s', 'app', 'UPDATE'), hilo_grant('s', 'public', 'USAGE');
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), key text DEFAULT hilo_nextkey('s'))",
    );
    let mut seen = client.draw("s", 4);
    let (open, first, last) = lease(client, "'s', 10, 'shop', '1 hour'");
    seen.extend((first..=last).step_by(10));
    let (returned, from, _) = lease(client, "'s', 10");
    client.run(&format!("SELECT hilo_lease_return('{returned}', {from} + 40)"));
    seen.extend((from..from + 40).step_by(10));
    let (revoked, ..) = lease(client, "'s', 20");
    client.run(&format!("SELECT hilo_lease_revoke('{revoked}')"));
    seen.extend(client.draw("s", 2));
    (seen, open, first, last)
}

#[test]
fn positions_and_open_leases_go_on_in_hilo() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = cluster.connect("postgres");
    create_lite(&mut client, "public");
    let (mut seen, open, first, last) = fill(&mut client);
    drop_additions(&mut client);
    let before =
        client.all::<String>("SELECT concat_ws(' ', name, first, last, reason) FROM hilo_gaps");
    convert(&cluster, "postgres");
    let mut client = cluster.connect("postgres");
    assert_eq!(
        client.one::<i64>("SELECT count(*) FROM pg_extension WHERE extname = 'hilo_lite'"),
        0
    );
    let after =
        client.all::<String>("SELECT concat_ws(' ', name, first, last, reason) FROM hilo_gaps");
    assert_eq!(after, before);
    assert_eq!(client.draw("down", 2), [-1, -4]);
    assert_eq!(client.draw("g", 2), [100, 101]);
    assert_eq!(client.draw("moved", 2), [5001, 5002]);
    client.refusal("SELECT hilo_nextval('spent')").is("2200H");
    // Defaults, keys, privileges and bounds are those that they were.
    client.run("INSERT INTO t DEFAULT VALUES");
    let row = client.query_one("SELECT id, key FROM t", &[]).expect("a row");
    let key: String = row.get(1);
    seen.extend([row.get::<_, i64>(0), key[1..].parse::<i64>().expect("a number")]);
    client.run("SET ROLE app");
    seen.extend(client.draw("s", 20));
    client.run("RESET ROLE");
    // The lease is renewed and revoked as before; what comes back is a gap.
    client.run(&format!("SELECT hilo_lease_renew('{open}', '2 hours')"));
    let held = "SELECT concat_ws(' ', holder, first, last, count) FROM hilo_leases";
    assert_eq!(client.all::<String>(held), [format!("shop {first} {last} 10")]);
    let returned = format!("SELECT hilo_lease_return('{open}', {first} + 50)");
    assert_eq!(client.one::<i64>(&returned), 0);
    seen.extend(client.draw("s", 500));
    assert_unique("s", &seen);
    let wrong = "SELECT object || ': ' || what FROM hilo_check()
                  WHERE severity = 'error' AND object NOT LIKE 'setting %' AND object NOT LIKE '%spent%'";
    assert_eq!(client.all::<String>(wrong), Vec::<String>::new());
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    seen.extend(client.draw("s", 500));
    assert_unique("s", &seen);
    cluster.finish();
}

/// Where a view needs hilo_lite, nothing happens; and hilo cannot be created beside it.
#[test]
fn what_cannot_be_converted_stays_as_it_is() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = cluster.connect("postgres");
    create_lite(&mut client, "public");
    drop_additions(&mut client);
    client.run("SELECT hilo_create('s')");
    client.refusal("CREATE EXTENSION hilo");
    client.run("CREATE VIEW v AS SELECT hilo_nextval('s')");
    let script = script("hilo_lite_to_hilo.sql");
    client.refusal(&format!("BEGIN; {script}; COMMIT")).is("2BP01");
    client.run("ROLLBACK");
    assert_eq!(client.draw("s", 2), [1, 2]);
    cluster.finish();
}

/// Sequences whose counters lie at odd places: at an end, at the very ends of bigint, and below where they began. hilo serves
/// from each what hilo_lite would, or refuses it, and its positions are no indexes below 0.
#[test]
fn odd_positions_go_on_in_hilo() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = cluster.connect("postgres");
    create_lite(&mut client, "public");
    drop_additions(&mut client);
    client.run(
        "SELECT hilo_create('cycle', max_value => 3, cycle => true), hilo_nextrange('cycle', 3),
                hilo_create('turned', increment => -1, min_value => -3, cycle => true), hilo_nextrange('turned', 2),
                hilo_create('back', start_value => 1000), hilo_setval('back', 5),
                hilo_create('narrow'), hilo_nextrange('narrow', 10), hilo_alter('narrow', max_value => 5),
                hilo_create('top', start_value => 9223372036854775806), hilo_nextval('top'),
                hilo_create('bottom', increment => -1, start_value => -9223372036854775807), hilo_nextval('bottom')",
    );
    convert(&cluster, "postgres");
    let mut client = cluster.connect("postgres");
    client.run("SET statement_timeout = '20s'");
    assert_eq!(
        client.one::<i64>("SELECT count(*) FROM _hilo.hilo_position WHERE next_index < 0"),
        0
    );
    assert_eq!(client.draw("cycle", 4), [1, 2, 3, 1]);
    assert_eq!(client.draw("turned", 2), [-3, -1]);
    assert_eq!(client.draw("back", 2), [6, 7]);
    client.refusal("SELECT hilo_nextval('narrow')").is("2200H");
    assert_eq!(client.draw("top", 1), [i64::MAX]);
    client.refusal("SELECT hilo_nextval('top')").is("2200H");
    assert_eq!(client.draw("bottom", 1), [i64::MIN]);
    client.refusal("SELECT hilo_nextval('bottom')").is("2200H");
    cluster.finish();
}
