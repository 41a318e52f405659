//! A sequence that the server refuses fails alone, and its callers get the server's words.

use hilo_client::{Client, Error};
use hilo_tests::{ClientExt, Cluster, LONG};

use super::{builder, config, draw, losses, open_leases, runtime, serve, wait_until_filed};

/// Locks the leases of a holder.
const LOCK: &str =
    "SELECT count(*) FROM (SELECT FROM _hilo.hilo_lease WHERE holder = $1 FOR UPDATE) locked";

/// Among others in one statement.
#[test]
fn one_that_is_refused_does_not_fail_the_others() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run(
        "SELECT hilo_create('s' || n) FROM generate_series(1, 50) n;
         SELECT hilo_create('cycling', max_value => 10, cycle => true), hilo_create('spent', max_value => 2),
                hilo_create('secret'), hilo_nextrange('spent', 2);
         CREATE ROLE app LOGIN; SELECT hilo_grant('s' || n, 'app', 'UPDATE') FROM generate_series(1, 50) n;
         SELECT hilo_grant('cycling', 'app', 'ALL'), hilo_grant('spent', 'app', 'UPDATE')",
    );
    let runtime = runtime();
    let mut config = config(&cluster);
    config.user("app");
    let connecting = Client::builder(config).patience(LONG).connect();
    let client = runtime.block_on(connecting).expect("a client");
    let good: Vec<String> = (1..=50).map(|n| format!("s{n}")).collect();
    let bad = [("nothing", "42704"), ("cycling", "0A000"), ("spent", "2200H"), ("secret", "42501")];
    let names = good.iter().map(String::as_str).chain(bad.iter().map(|(name, _)| *name));
    let calls: Vec<_> = names
        .map(|name| {
            let sequence = client.sequence(name);
            runtime.spawn(async move { (sequence.name().to_owned(), sequence.next().await) })
        })
        .collect();
    for call in calls {
        let (name, result) = runtime.block_on(call).expect("it ends");
        match bad.iter().find(|(bad, _)| *bad == name) {
            // The rollback of a statement of first leases makes a gap.
            None => assert!(result.expect("a value") >= 1, "{name}"),
            Some((_, code)) => {
                let error = result.expect_err(&name);
                assert!(
                    matches!(&error, Error::Refused { sequence, .. } if **sequence == *name),
                    "{error:?}"
                );
                assert_eq!(error.code().map(|code| code.code()), Some(*code), "{error:?}");
                let report = error.report().expect("the server's");
                assert_eq!(
                    (error.detail(), error.hint()),
                    (report.detail.clone(), report.hint.clone())
                );
                assert!(report.detail.is_some() || report.hint.is_some(), "{report:?}");
                assert!(error.to_string().contains(&report.message), "{error}");
            }
        }
    }
    // It is asked again for every caller, and succeeds when the reason is gone.
    connection.run("SELECT hilo_create('nothing'), hilo_grant('nothing', 'app', 'UPDATE')");
    let nothing = client.sequence("nothing");
    let mut value = None;
    hilo_tests::wait_until("it is there", LONG, || {
        value = runtime.block_on(nothing.next()).ok();
        value.is_some()
    });
    assert_eq!(value, Some(1));
    runtime.block_on(client.shutdown()).expect("all comes back");
    cluster.finish();
}

/// Arguments that no server needs to see.
#[test]
fn bad_arguments_are_refused() {
    let cluster = Cluster::with_hilo();
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
    let s = client.sequence("s");
    for n in [0, -1, i64::MIN, 1_000_000_001] {
        assert!(
            matches!(runtime.block_on(s.next_range(n)), Err(Error::Count(count)) if count == n)
        );
        assert!(matches!(s.try_next_range(n), Err(Error::Count(_))));
    }
    for name in ["", "a\nb", &"x".repeat(300)] {
        let error = runtime.block_on(client.sequence(name).next()).expect_err("no such name");
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    }
    // No text of the server can have NUL: others in the same statement would be refused with it.
    let nul = client.sequence("a\0b");
    let calls = runtime.block_on(async {
        let calls = [nul.next().await.err(), nul.next_key().await.err()];
        [calls[0].clone(), calls[1].clone(), nul.next_range(5).await.err(), nul.try_next().err()]
    });
    for error in calls {
        assert!(matches!(&error, Some(Error::Name(name)) if **name == *"a\0b"), "{error:?}");
    }
    let warming = runtime.block_on(client.warm_up(&["s", "a\0b"]));
    assert_eq!(
        warming.expect_err("no name").to_string(),
        "a name must not have a NUL character: \"a\\0b\""
    );
    let named = runtime.block_on(builder(&cluster).name("a\0b").connect());
    assert!(matches!(named, Err(Error::Name(_))), "{named:?}");
    let plain = Cluster::builder().preload(true).start();
    let error = runtime.block_on(builder(&plain).connect()).expect_err("no extension");
    assert!(matches!(error, Error::NotInstalled), "{error:?}");
    assert!(error.hint().expect("a hint").contains("CREATE EXTENSION"));
    cluster.finish();
    plain.finish();
}

/// While one caller's sequence is drawn, the errors of another cost it nothing.
#[test]
fn what_is_refused_costs_the_others_nothing() {
    let (cluster, _, runtime, client) = serve("SELECT hilo_create('s')");
    let (s, nothing) = (client.sequence("s"), client.sequence("nothing"));
    let mut seen = Vec::new();
    for _ in 0..20 {
        assert!(runtime.block_on(nothing.next()).is_err());
        seen.extend(runtime.block_on(draw(&s, 50)));
    }
    assert_eq!(seen, (1..=1000).collect::<Vec<_>>(), "nothing was lost in a rollback");
    runtime.block_on(client.shutdown()).expect("all comes back");
    cluster.finish();
}

/// A sequence that somebody renumbers in an open transaction holds up its own callers, until they lose patience, and nobody
/// else's.
#[test]
fn a_sequence_that_is_locked_holds_up_nobody_else() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('locked'), hilo_create('s')");
    let runtime = runtime();
    let patience = std::time::Duration::from_secs(4);
    let client =
        runtime.block_on(builder(&cluster).patience(patience).connect()).expect("a client");
    let (locked, s) = (client.sequence("locked"), client.sequence("s"));
    connection.run("BEGIN; SELECT hilo_setval('locked', 5000, false)");
    let waiting = runtime.spawn({
        let locked = locked.clone();
        async move { locked.next().await }
    });
    hilo_tests::wait_until("it has been refused", LONG, || client.stats().errors > 0);
    let seen = runtime.block_on(draw(&s, 500));
    assert_eq!(seen.len(), 500);
    let error = runtime.block_on(waiting).expect("it ends").expect_err("it is locked");
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    assert_eq!(error.code().map(|code| code.code()), Some("55P03"), "{error:?}");
    connection.run("COMMIT");
    let mut value = None;
    hilo_tests::wait_until("it is free", LONG, || {
        value = runtime.block_on(locked.next()).ok();
        value.is_some()
    });
    assert_eq!(value, Some(5000));
    runtime.block_on(client.shutdown()).expect("all comes back");
    cluster.finish();
}

/// Somebody holds the rows of a client's leases in an open transaction, as a revoke or an import
/// does. Refills of all sequences go on, over one connection, and what could not be returned goes
/// back later.
#[test]
fn a_lease_that_is_locked_holds_up_nobody() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    let mut other = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s'), hilo_create('t')");
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).name("shop").connect()).expect("a client");
    let (s, t) = (client.sequence("s"), client.sequence("t"));
    let mut seen = runtime.block_on(draw(&s, 10));
    other.run("BEGIN");
    let locked: i64 = other.query_one(LOCK, &[&client.holder()]).expect("it may").get(0);
    assert!(locked > 0);
    // The locked leases are used up, and so on their way back.
    seen.extend(runtime.block_on(draw(&s, 2_000)));
    let of_t = runtime.block_on(draw(&t, 2_000));
    assert_eq!(of_t.len(), 2_000);
    assert_eq!(client.stats().failures, 0, "no statement has lost its answer");
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shop'";
    assert_eq!(connection.one::<i64>(sessions), 1);
    other.run("ROLLBACK");
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    assert_eq!(losses(&mut connection, "s", &seen), []);
    cluster.finish();
}

/// A shutdown does not wait longer than it should for a lease that somebody holds.
#[test]
fn a_shutdown_ends_in_time() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    connection.run("SELECT hilo_create('s')");
    let runtime = runtime();
    let patience = std::time::Duration::from_secs(2);
    let client =
        runtime.block_on(builder(&cluster).patience(patience).connect()).expect("a client");
    let mut seen = runtime.block_on(draw(&client.sequence("s"), 10));
    connection.run("BEGIN");
    connection.execute(LOCK, &[&client.holder()]).expect("it may");
    let error = runtime.block_on(client.shutdown()).expect_err("it is locked");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    connection.run("ROLLBACK");
    // It is open, unless the last statement that the shutdown sent was still waiting for it.
    connection
        .execute("SELECT hilo_lease_revoke(holder => $1)", &[&client.holder()])
        .expect("it may");
    wait_until_filed(&mut connection);
    seen.extend(connection.draw("s", 200));
    let lost = losses(&mut connection, "s", &seen);
    assert!(lost.iter().all(|(.., reason)| reason == "revoked"), "{lost:?}");
    cluster.finish();
}

/// Callers who give up a range take nothing with them.
#[test]
fn a_range_that_is_given_up_is_not_lost() {
    let (cluster, mut connection, runtime, client) = serve("SELECT hilo_create('s')");
    let s = client.sequence("s");
    let mut seen = runtime.block_on(draw(&s, 10));
    runtime.block_on(async {
        for round in 0..50 {
            let patience = std::time::Duration::from_micros(200 * round);
            let range = tokio::time::timeout(patience, s.next_range(10_000)).await;
            if let Ok(range) = range {
                seen.extend(range.expect("a range").values());
            }
        }
    });
    seen.extend(runtime.block_on(s.next_range(10_000)).expect("a range").values());
    runtime.block_on(client.shutdown()).expect("all comes back");
    assert_eq!(open_leases(&mut connection), 0);
    wait_until_filed(&mut connection);
    assert_eq!(losses(&mut connection, "s", &seen), []);
    cluster.finish();
}

/// The reason why a sequence was refused once is not told when it is locked later: its callers wait.
#[test]
fn an_old_refusal_is_forgotten() {
    let cluster = Cluster::with_hilo();
    let mut connection = cluster.connect("postgres");
    let runtime = runtime();
    let client = runtime.block_on(builder(&cluster).connect()).expect("a client");
    let s = client.sequence("s");
    let error = runtime.block_on(s.next()).expect_err("there is none");
    assert_eq!(error.code().map(|code| code.code()), Some("42704"), "{error:?}");
    connection.run("SELECT hilo_create('s')");
    hilo_tests::wait_until("it is there", LONG, || runtime.block_on(s.next()).is_ok());
    connection.run("BEGIN; SELECT hilo_setval('s', 5000, false)");
    let errors = client.stats().errors;
    let waiting = runtime.spawn({
        let s = s.clone();
        async move {
            loop {
                let value = s.next().await.expect("it is only locked");
                if value >= 5000 {
                    return value;
                }
            }
        }
    });
    hilo_tests::wait_until("it is locked", LONG, || client.stats().errors > errors + 1);
    connection.run("COMMIT");
    assert_eq!(runtime.block_on(waiting).expect("it ends"), 5000);
    runtime.block_on(client.shutdown()).expect("all comes back");
    cluster.finish();
}
