//! A range that is leased out is in the statistics, whether a sequence is active or not, and is
//! cheap to read.

use hilo_tests::{ClientExt, Cluster};

/// `leased` has the values of the open leases that are committed, of idle sequences too: not of those that were returned,
/// revoked, or have expired.
#[test]
fn leased_values_are_counted() {
    let cluster = Cluster::with_hilo();
    let (mut client, mut other) = (cluster.connect("postgres"), cluster.connect("postgres"));
    client.run("SELECT hilo_create('parcels'), hilo_create('none')");
    let mut leased = |view: &str, expected: i64| {
        let sql = format!("SELECT leased FROM {view} WHERE name = 'parcels'");
        assert_eq!(other.one::<i64>(&sql), expected, "{view}");
    };
    let lease = |count: i64| format!("SELECT lease::text FROM hilo_lease('parcels', {count})");
    let first: String = client.one(&lease(10));
    let second: String = client.one(&lease(20));
    client.run("SELECT hilo_lease('parcels', 40, ttl => '1 microsecond'); SELECT hilo_lease('parcels', 80, ttl => '1 day')");
    leased("hilo_stat_sequences", 110);
    client.run(&format!("BEGIN; SELECT hilo_lease_return('{first}'), hilo_lease('parcels', 1000)"));
    leased("hilo_stat_sequences", 110);
    client.run("ROLLBACK");
    client.run(&format!("SELECT hilo_lease_return('{first}', NULL)"));
    leased("hilo_stat_sequences", 100);
    client.run(&format!("SELECT hilo_lease_revoke('{second}')"));
    leased("hilo_stat_sequences", 80);
    leased("hilo_sequences", 80);
    let none = "SELECT leased FROM hilo_sequences WHERE name = 'none'";
    assert_eq!(client.one::<i64>(none), 0);
    drop((client, other));
    cluster.restart();
    let mut client = cluster.connect("postgres");
    let idle = "SELECT leased FROM hilo_sequences WHERE name = 'parcels'";
    assert_eq!(client.one::<i64>(idle), 80);
    cluster.finish();
}

/// Reading the sequences with their leases takes one pass over each, however many there are of both.
#[test]
fn leases_are_read_once() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s' || n) FROM generate_series(1, 300) n");
    client.run("SELECT hilo_lease('s' || n, 10, 'h' || m) FROM generate_series(1, 300) n, generate_series(1, 3) m");
    for view in ["hilo_sequences", "hilo_stat_sequences"] {
        let explain = format!(
            "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT name, leased FROM {view}"
        );
        let plan = cluster.psql("postgres", &explain);
        let scans: Vec<&str> =
            plan.lines().filter(|line| line.contains(" on hilo_lease")).collect();
        assert!(matches!(scans[..], [scan] if scan.contains("loops=1")), "{view}\n{plan}");
        let leased: Vec<i64> = client.all(&format!("SELECT DISTINCT leased FROM {view}"));
        assert_eq!(leased, [30], "{view}");
    }
    // Who does not ask for them does not read them.
    let plan = cluster.psql("postgres", "EXPLAIN SELECT name, max_reserved FROM hilo_sequences");
    assert!(!plan.contains("lease"), "{plan}");
    cluster.finish();
}
