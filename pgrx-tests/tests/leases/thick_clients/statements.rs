//! The server's statements, as clients/protocol.md describes them.

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

fn lease(client: &mut Client, name: &str) -> (String, i64, i64) {
    let sql = format!("SELECT lease::text, first, last FROM hilo_lease('{name}', 10)");
    let row = client.query_one(&sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    (row.get(0), row.get(1), row.get(2))
}

fn give_back(client: &mut Client, lease: &str, next: &str) -> i64 {
    client.one(&format!("SELECT hilo_lease_return('{lease}', {next})"))
}

/// The page says what happens to open leases when their sequence is set back, restarted, or created
/// again. These are the events before which clients are to be closed.
#[test]
fn a_sequence_that_begins_again_serves_leased_values_too() {
    let cluster = Cluster::with_hilo();
    let (mut client, heard) = cluster.connect_listening("postgres", "postgres");
    client.run("SELECT hilo_create('set')");
    let (open, first, _) = lease(&mut client, "set");
    client.run("SELECT hilo_setval('set', 1, false)");
    let said = heard.messages();
    assert!(said.iter().any(|said| said.contains("may be served again")), "{said:?}");
    assert_eq!(client.draw("set", 1), [first]);
    assert_eq!(give_back(&mut client, &open, "NULL"), 0);

    client.run("CREATE TABLE t (id bigint); SELECT hilo_create('owned', owned_by => 't.id')");
    let (open, first, _) = lease(&mut client, "owned");
    client.run("TRUNCATE t RESTART IDENTITY");
    assert_eq!(client.draw("owned", 1), [first]);
    assert_eq!(give_back(&mut client, &open, "NULL"), 0);

    client.run("SELECT hilo_create('dropped')");
    let (open, first, _) = lease(&mut client, "dropped");
    client.run("SELECT hilo_drop('dropped'), hilo_create('dropped')");
    assert_eq!(lease(&mut client, "dropped").1, first);
    client.refusal(&format!("SELECT hilo_lease_return('{open}', 3)")).is("42704");
    cluster.finish();
}

/// A restored database knows nothing of what was leased after the dump. A range that was leased
/// before it can be renewed and ended there, and nothing of it comes back.
#[test]
fn a_restored_database_leases_later_leases_again() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE DATABASE copy");
    client.run("SELECT hilo_create('s')");
    let (before, ..) = lease(&mut client, "s");
    let (revoked, ..) = lease(&mut client, "s");
    let dump = cluster.pg_dump("postgres", &[]);
    // Beyond what was reserved at the time.
    client.run("SELECT hilo_lease('s', 1000)");
    let (after, first, last) = lease(&mut client, "s");
    cluster.restore("copy", &dump);
    let mut copy = cluster.connect("copy");
    let again = copy.draw("s", 1000);
    assert!((first..=last).all(|value| again.contains(&value)), "{first} to {last}: {again:?}");
    copy.run(&format!("SELECT hilo_lease_renew('{before}', '1 hour')"));
    assert_eq!(give_back(&mut copy, &before, "NULL"), 0);
    assert_eq!(copy.one::<i64>(&format!("SELECT hilo_lease_revoke('{revoked}')")), 1);
    let gaps =
        "SELECT count(*) FROM hilo_gaps WHERE name = 's' AND (first, last) IN ((1, 10), (11, 20))";
    wait_until("both are gaps", LONG, || copy.one::<i64>(gaps) == 2);
    copy.refusal(&format!("SELECT hilo_lease_return('{after}')")).is("42704");
    cluster.finish();
}

/// Other alterations leave open leases as they are; the next lease says what has changed.
#[test]
fn alterations_leave_open_leases_as_they_are() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for change in ["ordered => true", "gapless => true", "cycle => true"] {
        client.run("SELECT hilo_create('s')");
        let (open, first, _) = lease(&mut client, "s");
        client.run(&format!("SELECT hilo_alter('s', {change})"));
        client.refusal("SELECT hilo_lease('s', 10)").is("0A000");
        give_back(&mut client, &open, &(first + 3).to_string());
        let gap = "SELECT count(*) FROM hilo_gaps WHERE name = 's' AND (first, last) = (4, 10)";
        wait_until("the rest is a gap", LONG, || client.one::<i64>(gap) == 1);
        client.run("SELECT hilo_drop('s')");
    }
    client.run("SELECT hilo_create('s')");
    let (open, first, _) = lease(&mut client, "s");
    client.run(
        "SELECT hilo_rename('s', 't'), hilo_alter('t', max_value => 5000, key_format => '{value}')",
    );
    client.refusal("SELECT hilo_lease('s', 10)").is("42704");
    assert_eq!(give_back(&mut client, &open, &(first + 3).to_string()), 7);
    cluster.finish();
}

/// Each lease has a value behind its last, so that its holder can say that all were used.
#[test]
fn the_last_value_of_bigint_is_never_leased() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', start_value => 9223372036854775800)");
    let mut last = 0;
    while last != i64::MAX - 1 {
        let (used, _, end) = lease(&mut client, "s");
        assert!(end > last && end < i64::MAX, "{end} after {last}");
        assert_eq!(give_back(&mut client, &used, &(end + 1).to_string()), 0);
        last = end;
    }
    client.refusal("SELECT hilo_lease('s', 1)").is("2200H");
    assert_eq!(client.draw("s", 1), [i64::MAX]);
    cluster.finish();
}

/// One lease that is refused fails the statement, and what it had taken before is a gap.
#[test]
fn one_of_many_that_is_refused_fails_all() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let take = "SELECT asked.name, granted.* FROM unnest('{s,nothing}'::text[]) AS asked (name), LATERAL hilo_lease(asked.name, 10) AS granted";
    client.refusal(take).is("42704").says("nothing");
    let gap = "SELECT count(*) FROM hilo_gaps WHERE (name, first, last, reason) = ('s', 1, 10, 'discarded')";
    wait_until("what was taken is a gap", LONG, || client.one::<i64>(gap) == 1);
    // A failed transaction answers its COMMIT without an error, and has not committed.
    client.run("BEGIN");
    let (lost, ..) = lease(&mut client, "s");
    client.refusal("SELECT 1 / 0").is("22012");
    client.run("COMMIT");
    client.refusal(&format!("SELECT hilo_lease_return('{lost}')")).is("42704");
    cluster.finish();
}
