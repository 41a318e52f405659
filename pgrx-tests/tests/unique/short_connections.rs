//! Short connections leave few gaps.

use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

/// A thousand connections that take one value each leave no gap, where core's sequences leave one at
/// each connection as soon as they cache.
#[test]
fn a_thousand_short_connections_leave_no_gap() {
    const CONNECTIONS: i64 = 1_000;
    let cluster = Cluster::with_hilo();
    let mut keeper = cluster.connect("postgres");
    keeper.run(
        "SELECT hilo_create('hilo');
         CREATE SEQUENCE cache_1 CACHE 1; CREATE SEQUENCE cache_20 CACHE 20;
         CREATE SEQUENCE cache_100 CACHE 100",
    );
    let mut seen: [Vec<i64>; 4] = Default::default();
    for _ in 0..CONNECTIONS {
        let mut client = cluster.connect("postgres");
        let row = client
            .query_one(
                "SELECT hilo_nextval('hilo'), nextval('cache_1'), nextval('cache_20'), nextval('cache_100')",
                &[],
            )
            .expect("each has a next value");
        seen.iter_mut().enumerate().for_each(|(at, seen)| seen.push(row.get(at)));
    }
    println!(
        "| {CONNECTIONS} connections, one value each | last value | numbers lost |\n| --- | ---: | ---: |"
    );
    let names = ["hilo", "core, CACHE 1", "core, CACHE 20", "core, CACHE 100"];
    for (name, seen) in names.iter().zip(&mut seen) {
        seen.sort_unstable();
        let last = seen.last().expect("there are values");
        println!("| {name} | {last} | {} |", last - CONNECTIONS);
    }
    // One that has waited for a block takes two values, and returns one at its end.
    let sessions = "SELECT count(*) FROM hilo_stat_backends";
    wait_until("all have ended", LONG, || keeper.one::<i64>(sessions) == 0);
    let returned: i64 = keeper.one("SELECT in_returned FROM hilo_stat_sequences");
    let [mut seen, ..] = seen;
    seen.extend(keeper.draw("hilo", returned as usize));
    seen.sort_unstable();
    assert_eq!(seen, (1..=CONNECTIONS + returned).collect::<Vec<_>>());
}
