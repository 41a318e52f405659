//! The fate of leases when their sequence is altered, renamed, set, restarted or dropped.

use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

use super::{
    Lease, assert_explained, gap, gaps, give_back, has, lease, wait_until_back, wait_until_filed,
};

/// Open leases outlive whatever renumbers the sequence, and their rests are not served again.
#[test]
fn a_renumbered_sequence_serves_no_rest() {
    for change in [
        "SELECT hilo_setval('s', 1000)",
        "SELECT hilo_alter('s', restart_with => 1001)",
        "SELECT hilo_alter('s', increment => 2)",
        "SELECT hilo_alter('s', cycle => true)",
        "SELECT hilo_alter('s', gapless => true)",
        "SELECT hilo_advance('s', 1000)",
    ] {
        let cluster = Cluster::with_hilo();
        let mut client = cluster.connect("postgres");
        client.run("SELECT hilo_create('s')");
        let [back, revoked, open] = [(); 3].map(|()| lease(&mut client, "'s', 10"));
        let early = lease(&mut client, "'s', 10");
        assert_eq!(give_back(&mut client, &early, 33), 8);
        client.run(change);
        assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 3, "{change}");
        assert_eq!(give_back(&mut client, &back, 4), 0, "{change}");
        client.run(&format!("SELECT hilo_lease_revoke('{}')", revoked.token));
        wait_until_filed(&mut client);
        let known = gaps(&mut client, "s");
        for expected in [gap(4, 10, "altered"), gap(11, 20, "revoked")] {
            assert!(has(&known, &expected), "{change}: {known:?}");
        }
        // The return was filed before the change, and was a free range, or after it.
        let rest: i64 = known
            .iter()
            .filter(|gap| (33..=40).contains(&gap.0))
            .map(|gap| gap.1 - gap.0 + 1)
            .sum();
        assert!(rest >= 8, "{change}: {known:?}");
        let next = client.draw("s", 50);
        let mut taken = open.values().into_iter().chain(1..=40);
        assert!(taken.all(|value| !next.contains(&value)), "{change}: {next:?}");
        cluster.finish();
    }
}

/// A lease whose transaction is open when another session's renumbering or drop of the sequence
/// commits cannot commit. Nobody waits.
#[test]
fn a_renumbering_ends_leases_that_have_not_committed() {
    for change in
        ["SELECT hilo_setval('s', 1000)", "SELECT hilo_advance('s', 500)", "SELECT hilo_drop('s')"]
    {
        let cluster = Cluster::with_hilo();
        let mut client = cluster.connect("postgres");
        client.run("SELECT hilo_create('s')");
        let mut other = cluster.connect("postgres");
        client.run("BEGIN");
        lease(&mut client, "'s', 10");
        other.run(&format!("BEGIN; {change}; COMMIT"));
        client.refusal("COMMIT").is("40001").helps();
        if change.contains("drop") {
            continue;
        }
        // It is explained once.
        wait_until("the gap is recorded", LONG, || {
            let mut client = cluster.connect("postgres");
            client.run("SELECT hilo_nextval('s')");
            has(&gaps(&mut client, "s"), &gap(1, 10, "altered"))
        });
        drop((client, other));
        cluster.restart();
        let mut client = cluster.connect("postgres");
        let first = gaps(&mut client, "s").iter().filter(|gap| gap.0 <= 10).count();
        assert_eq!(first, 1, "{change}");
        cluster.finish();
    }
}

/// A renumbering or a drop that is rolled back ends no lease, nor does a dry run, whose transaction
/// is always rolled back.
#[test]
fn what_is_rolled_back_ends_no_lease() {
    let cluster = Cluster::with_hilo();
    let (mut client, mut other) = (cluster.connect("postgres"), cluster.connect("postgres"));
    client.run("SELECT hilo_create('s')");
    for change in [
        "SELECT hilo_setval('s', 1000)",
        "SELECT hilo_alter('s', increment => 2)",
        "SELECT hilo_advance('s', 500)",
        "SELECT hilo_drop('s')",
        r#"SELECT hilo_apply('{"hilo": 1, "sequences": [{"name": "s", "increment": 3}]}', dry_run => true)"#,
        r#"SELECT hilo_apply('{"hilo": 1, "sequences": []}', prune => true, dry_run => true)"#,
    ] {
        client.run("BEGIN");
        let [_, lost] = [(); 2].map(|()| {
            client.run("SAVEPOINT a");
            lease(&mut client, "'s', 10")
        });
        client.run("ROLLBACK TO a");
        other.run(&format!("BEGIN; {change}; ROLLBACK"));
        client.run("COMMIT");
        wait_until("the other one is written off", LONG, || {
            client.run("SELECT 1");
            gaps(&mut client, "s").iter().any(|gap| (gap.0..=gap.1).contains(&lost.first))
        });
    }
    drop((client, other));
    assert_explained(&cluster, "s", &[]);
    cluster.finish();
}

/// A lease that commits before a renumbering does stays its holder's, and is no gap; one whose
/// transaction fails meanwhile is a gap, once.
#[test]
fn leases_that_end_before_a_renumbering_commits() {
    let cluster = Cluster::with_hilo();
    let (mut client, mut other) = (cluster.connect("postgres"), cluster.connect("postgres"));
    client.run("SELECT hilo_create('s')");
    for change in ["SELECT hilo_setval('s', 1000)", "SELECT hilo_drop('s')"] {
        client.run("BEGIN");
        let kept = lease(&mut client, "'s', 10");
        client.run("SAVEPOINT a");
        let lost = lease(&mut client, "'s', 10");
        other.run(&format!("BEGIN; {change}"));
        client.run("ROLLBACK TO a; COMMIT");
        other.run("COMMIT");
        if change.contains("drop") {
            break;
        }
        other.run("SELECT hilo_nextval('s')");
        let known = gaps(&mut client, "s");
        assert!(has(&known, &gap(lost.first, lost.last, "altered")), "{known:?}");
        assert!(known.iter().all(|gap| gap.0 > kept.last), "{known:?}");
        assert_eq!(give_back(&mut client, &kept, 4), 0);
        wait_until_filed(&mut client);
        assert!(has(&gaps(&mut client, "s"), &gap(4, kept.last, "altered")));
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_lease"), 0);
    cluster.finish();
}

/// A transaction may lease what it has created, set or altered, and set what it has leased from.
#[test]
fn in_the_transaction_that_defines() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("BEGIN; SELECT hilo_create('s')");
    let first = lease(&mut client, "'s', 10");
    client.run("SAVEPOINT a");
    let lost = lease(&mut client, "'s', 10");
    client.run("ROLLBACK TO a");
    let second = lease(&mut client, "'s', 10");
    client.run("COMMIT");
    assert_eq!([first.first, lost.first, second.first], [1, 11, 21]);
    assert_eq!(gaps(&mut client, "s"), [gap(11, 20, "discarded")]);
    assert_eq!(client.draw("s", 1), [31]);
    assert_eq!(give_back(&mut client, &first, 11), 0);
    assert_eq!(give_back(&mut client, &second, 31), 0);
    wait_until_filed(&mut client);
    drop(client);
    let used: Vec<i64> = (1..=10).chain(21..=31).collect();
    assert_explained(&cluster, "s", &used);
    let mut client = cluster.connect("postgres");
    // Both the lease and the new numbering commit.
    client.run("BEGIN");
    let before = lease(&mut client, "'s', 10");
    client.run("SELECT hilo_setval('s', 5000)");
    let after = lease(&mut client, "'s', 10");
    client.run("COMMIT");
    assert_eq!((before.first, after.first), (32, 5001));
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 2);
    assert!(gaps(&mut client, "s").iter().all(|gap| gap.1 < 32 || gap.0 > 41));
    assert_eq!(client.draw("s", 1), [5011]);
    // Or neither.
    client.run("BEGIN");
    let before = lease(&mut client, "'s', 10");
    client.run("SELECT hilo_setval('s', 9000); ROLLBACK");
    wait_until("the rollback is written off", LONG, || {
        client.run("SELECT hilo_nextval('s')");
        has(&gaps(&mut client, "s"), &gap(before.first, before.last, "discarded"))
    });
    cluster.finish();
}

/// A rename changes nothing, other bounds keep what is leased, and a drop ends its leases.
#[test]
fn rename_alter_and_drop() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let taken = lease(&mut client, "'s', 10, 'app'");
    client
        .run("SELECT hilo_rename('s', 't'), hilo_alter('t', max_value => 2000, block_size => 10)");
    assert_eq!(client.one::<String>("SELECT name FROM hilo_leases"), "t");
    assert_eq!(give_back(&mut client, &taken, 6), 5);
    wait_until_back(&mut client, 6);
    assert_eq!(client.draw("t", 6)[..5], [6, 7, 8, 9, 10]);
    // The rest of a sequence that has become ordered is lost: it never goes back.
    let taken = lease(&mut client, "'t', 10");
    client.run("SELECT hilo_alter('t', ordered => true)");
    give_back(&mut client, &taken, taken.first + 5);
    wait_until_filed(&mut client);
    assert_eq!(gaps(&mut client, "t"), [gap(taken.first + 5, taken.last, "discarded")]);
    client.run("SELECT hilo_alter('t', ordered => false)");
    let dropped = lease(&mut client, "'t', 10, ttl => '1 hour'");
    client.run("SELECT hilo_drop('t')");
    let late = format!("SELECT hilo_lease_return('{}')", dropped.token);
    client.refusal(&late).is("42704").helps();
    assert_eq!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_lease"), 0);
    client.run("SELECT hilo_create('t')");
    assert_eq!(lease(&mut client, "'t', 10").first, 1);
    cluster.finish();
}

/// From the moment a drop has the sequence, nobody leases from it. Whoever tries waits, as for a
/// sequence of core's, and finds it gone, or gets a lease after a rollback.
#[test]
fn nobody_leases_from_what_is_being_dropped() {
    for ends in ["COMMIT", "ROLLBACK"] {
        let cluster = Cluster::with_hilo();
        let mut client = cluster.connect("postgres");
        client.run("SELECT hilo_create('s')");
        let mut other = cluster.connect("postgres");
        // Values are ready, and the session knows the sequence.
        lease(&mut other, "'s', 10");
        let pid = other.one::<i32>("SELECT pg_backend_pid()");
        client.run("BEGIN");
        client.run("SELECT hilo_drop('s')");
        let leasing = std::thread::spawn(move || {
            let taken = other.query_one("SELECT count FROM hilo_lease('s', 10)", &[]);
            taken
                .map(|row| row.get::<_, i64>(0))
                .map_err(|error| error.code().map(|c| c.code().to_owned()))
        });
        let waiting =
            format!("SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = {pid}");
        let mut watcher = cluster.connect("postgres");
        wait_until("the lease waits", LONG, || watcher.one::<Option<bool>>(&waiting) == Some(true));
        client.run(ends);
        let taken = leasing.join().expect("the session ends");
        match ends {
            "COMMIT" => assert_eq!(taken, Err(Some("42704".to_owned()))),
            _ => assert_eq!(taken, Ok(10)),
        }
        let left = if ends == "COMMIT" { 0 } else { 2 };
        assert_eq!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_lease"), left, "{ends}");
        cluster.finish();
    }
}

/// A released column keeps what its leases have lost, as it keeps all gaps.
#[test]
fn a_release_keeps_what_was_leased_as_gaps() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE TABLE t (id bigserial PRIMARY KEY); SELECT hilo_adopt('t', 'id', ordered => false)",
    );
    let [open, back, revoked, used] = [(); 4].map(|()| lease(&mut client, "'t_id_seq', 100"));
    client.run("BEGIN");
    give_back(&mut client, &back, 150);
    give_back(&mut client, &used, 401);
    client.run(&format!("SELECT hilo_lease_revoke('{}')", revoked.token));
    client.run("SELECT hilo_release('t', 'id')");
    client.run("COMMIT");
    // An adoption gives them to the sequence of that column.
    client.run("SELECT hilo_adopt('t', 'id', ordered => false)");
    let mut known = gaps(&mut client, "t_id_seq");
    known.retain(|gap| gap.0 <= 400);
    let expected = [
        gap(open.first, open.last, "revoked"),
        gap(150, back.last, "altered"),
        gap(revoked.first, revoked.last, "revoked"),
    ];
    assert_eq!(known, expected);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_lease"), 0);
    let next = client.one::<i64>("INSERT INTO t DEFAULT VALUES RETURNING id");
    assert!(next > 400, "{next}");
    client.refusal(&format!("SELECT hilo_lease_return('{}')", open.token)).is("42704");
    cluster.finish();
}

/// A release ends leases whose transactions are open only when it commits, and then the column
/// keeps them as gaps, once. A lease that is committed before the release is one of those as well.
#[test]
fn a_release_ends_leases_when_it_commits() {
    let cluster = Cluster::with_hilo();
    let (mut client, mut other) = (cluster.connect("postgres"), cluster.connect("postgres"));
    client.run(
        "CREATE TABLE t (id bigserial PRIMARY KEY); SELECT hilo_adopt('t', 'id', ordered => false)",
    );
    let release = "BEGIN; SELECT hilo_release('t', 'id')";
    client.run("BEGIN");
    let kept = lease(&mut client, "'t_id_seq', 10");
    other.run(release);
    other.run("ROLLBACK");
    client.run("COMMIT");

    client.run("BEGIN");
    let void = lease(&mut client, "'t_id_seq', 10");
    let mut third = cluster.connect("postgres");
    third.run("BEGIN");
    let early = lease(&mut third, "'t_id_seq', 10");
    other.run(release);
    third.run("COMMIT");
    other.run("COMMIT");
    client.refusal("COMMIT").is("40001").helps();
    let next = client.one::<i64>("INSERT INTO t DEFAULT VALUES RETURNING id");
    assert!(next > early.last, "{next}");

    client.run("SELECT hilo_adopt('t', 'id', ordered => false)");
    let mut known = gaps(&mut client, "t_id_seq");
    known.retain(|gap| gap.0 <= early.last);
    let whole = |lease: &Lease, reason| gap(lease.first, lease.last, reason);
    let expected = [whole(&kept, "revoked"), whole(&void, "altered"), whole(&early, "revoked")];
    assert_eq!(known, expected);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_lease"), 0);
    cluster.finish();
}
