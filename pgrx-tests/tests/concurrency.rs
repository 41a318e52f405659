//! Values are unique, rise within a session, and are ordered on demand.

use hilo_tests::{ClientExt, Cluster, Load, Source};

/// No value is ever returned twice, whatever is rolled back; each session sees its values rise, or
/// fall where the increment is negative; an ordered sequence keeps the order of all the calls on
/// the server.
#[test]
fn sixteen_sessions_see_no_value_twice() {
    let cluster = Cluster::with_hilo();
    let sources = Source::three_kinds(&cluster);
    let load = Load::sixteen_sessions(1);
    load.run(&cluster, &sources);
    sources.iter().for_each(Source::assert_kept);
    assert_eq!(Source::seen_of(&sources), load.total());
    cluster.finish();
}

/// What the catalog says was reserved covers all that the clients saw.
#[test]
fn nobody_sees_a_value_beyond_what_was_reserved() {
    let cluster = Cluster::with_hilo();
    let sources = Source::three_kinds(&cluster);
    Load { values: 2_000, ..Load::sixteen_sessions(2) }.run(&cluster, &sources);
    let mut client = cluster.connect("postgres");
    let mut reserved = |name: &str| {
        client.one::<i64>(&format!("SELECT max_reserved FROM hilo_sequences WHERE name = '{name}'"))
    };
    let seen = |number: usize| sources[number].seen.sorted();
    assert!(seen(0).last().unwrap() <= &reserved("adaptive"));
    assert!(seen(1).last().unwrap() <= &reserved("ordered"));
    assert!(seen(2).first().unwrap() >= &reserved("falling"));
}

/// Two hundred sequences used in turn by one session, more than it can hold slices of, serve
/// everything once: a slice that makes room loses nothing of its place.
#[test]
fn more_sequences_than_slices_serve_every_value_once() {
    let cluster = Cluster::builder().config("hilo.max_backend_slices", "8").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('tenant-' || n) FROM generate_series(1, 200) n");
    for _ in 0..3 {
        client.run(
            "CREATE TEMPORARY TABLE IF NOT EXISTS seen (tenant integer, value bigint,
                                                        PRIMARY KEY (tenant, value));
             INSERT INTO seen SELECT n, hilo_nextval('tenant-' || n)
             FROM generate_series(1, 200) n, generate_series(1, 5)",
        );
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM seen"), 3_000);
}
