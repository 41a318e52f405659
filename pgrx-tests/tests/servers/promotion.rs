//! A promoted standby takes positions over.

use hilo_tests::{ClientExt, Cluster, LONG, Load, Source, assert_unique, wait_until};

/// No value that a client saw on a primary with a synchronous standby is served again after the
/// primary was killed and the standby promoted.
#[test]
fn a_promoted_synchronous_standby_repeats_nothing() {
    let primary = Cluster::with_hilo();
    let sources = Source::three_kinds(&primary);
    let standby = primary.clone_synchronously();
    let load = Load { sessions: 4, values: 20_000, ..Load::sixteen_sessions(5) };
    load.run(&primary, &sources);
    primary.kill9_postmaster();
    standby.promote();
    load.run(&standby, &sources);
    sources.iter().for_each(Source::assert_kept);
}

/// An asynchronous standby may lack reservations that were served from. It has a timeline of its own
/// after its promotion, so hilo.failover_skip values are skipped, once, and recorded.
#[test]
fn a_promoted_asynchronous_standby_skips_what_it_may_lack() {
    let primary = Cluster::builder().config("hilo.failover_skip", "5000").start_with_hilo();
    let mut client = primary.connect("postgres");
    client.run("SELECT hilo_create('lagging', block_size => 100)");
    client.run("SELECT hilo_nextval('lagging') FROM generate_series(1, 250)");
    let standby = primary.clone_by_base_backup();
    primary.wait_for_replay(&standby);
    let replayed: i64 = standby
        .connect("postgres")
        .one("SELECT max_reserved FROM hilo_sequences WHERE name = 'lagging'");
    primary.kill9_postmaster();
    standby.promote();
    let mut client = standby.connect("postgres");
    assert_eq!(
        client.one::<i64>("SELECT hilo_nextval('lagging')"),
        replayed + 5_000 + 1,
        "the next value is the one behind what was skipped"
    );
    assert_eq!(
        client.one::<i64>(
            "SELECT last FROM hilo_gaps WHERE name = 'lagging' AND reason = 'restored' AND count >= 5000"
        ),
        replayed + 5_000
    );
    drop(client);
    standby.restart();
    let mut client = standby.connect("postgres");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('lagging')"), replayed + 5_000 + 2);
}

/// The values that a promotion skips by default cover what a server reserves ahead, also where its
/// blocks are small.
#[test]
fn a_promoted_standby_that_lagged_repeats_nothing_of_small_blocks() {
    let primary = Cluster::with_hilo();
    let mut client = primary.connect("postgres");
    let names = ["plain", "ordered"];
    client.run(
        "SELECT hilo_create('plain', block_size => 100),
                hilo_create('ordered', block_size => 100, ordered => true)",
    );
    let mut seen = names.map(|name| client.draw(name, 10));
    let standby = primary.clone_by_base_backup();
    primary.wait_for_replay(&standby);
    let mut lagging = standby.connect("postgres");
    lagging.run("ALTER SYSTEM SET primary_conninfo = 'host=/nowhere'");
    lagging.run("SELECT pg_reload_conf()");
    wait_until("the standby has lost its primary", LONG, || {
        client.one::<i64>("SELECT count(*) FROM pg_stat_replication") == 0
    });
    for (name, seen) in names.iter().zip(&mut seen) {
        seen.extend(client.draw(name, 5_000));
    }
    primary.kill9_postmaster();
    standby.promote();
    let mut client = standby.connect("postgres");
    for (name, seen) in names.iter().zip(&mut seen) {
        seen.extend(client.draw(name, 10_000));
        assert_unique(name, seen);
    }
    standby.finish();
}

/// A standby that is promoted before it has heard of the promotion of its own primary skips what that
/// one had skipped, too.
#[test]
fn a_second_promotion_repeats_nothing_of_the_first() {
    let primary = Cluster::with_hilo();
    primary.connect("postgres").run("SELECT hilo_create('twice')");
    let second = primary.clone_by_base_backup();
    primary.wait_for_replay(&second);
    primary.kill9_postmaster();
    second.promote();
    let third = second.clone_by_base_backup();
    second.wait_for_replay(&third);
    let mut lagging = third.connect("postgres");
    lagging.run("ALTER SYSTEM SET primary_conninfo = 'host=/nowhere'");
    lagging.run("SELECT pg_reload_conf()");
    let mut client = second.connect("postgres");
    wait_until("the standby has lost its primary", LONG, || {
        client.one::<i64>("SELECT count(*) FROM pg_stat_replication") == 0
    });
    let mut seen = client.draw("twice", 1_000);
    second.kill9_postmaster();
    third.promote();
    seen.extend(third.connect("postgres").draw("twice", 1_000));
    assert_unique("twice", &seen);
}

/// A promotion skips by default a block of that sequence: a small one is not
/// used up by it.
#[test]
fn a_small_sequence_outlives_promotions() {
    let primary = Cluster::with_hilo();
    let mut client = primary.connect("postgres");
    client.run("SELECT hilo_create('small', data_type => 'smallint'), hilo_nextval('small')");
    let standby = primary.clone_by_base_backup();
    client.run("SELECT hilo_nextval('small')");
    primary.wait_for_replay(&standby);
    primary.kill9_postmaster();
    standby.promote();
    let next: i64 = standby.connect("postgres").one("SELECT hilo_nextval('small')");
    assert!((3..1_000).contains(&next), "{next}");
}

/// A standby refuses to serve, as core refuses nextval there, and starts no worker.
#[test]
fn a_standby_does_not_serve() {
    let primary = Cluster::with_hilo();
    primary.connect("postgres").run("SELECT hilo_create('refused')");
    let standby = primary.clone_by_base_backup();
    primary.wait_for_replay(&standby);
    let mut client = standby.connect("postgres");
    for call in
        ["hilo_nextval('refused')", "hilo_nextvals('refused', 2)", "hilo_nextrange('refused', 2)"]
    {
        client.refusal(&format!("SELECT {call}")).is("25006").says("recovery").helps();
    }
    for call in [
        "hilo_setval('refused', 5)",
        "hilo_create('another')",
        "hilo_alter('refused', increment => 2)",
        "hilo_drop('refused')",
    ] {
        client.refusal(&format!("SELECT {call}")).is("25006").says("recovery");
    }
    assert_eq!(standby.worker_pid("postgres"), None);
    assert_eq!(client.all::<String>("SELECT name::text FROM hilo_sequences"), ["refused"]);
}

/// A range that was free when a standby last heard of it may have been taken and served since.
#[test]
fn a_promoted_standby_serves_nothing_that_was_free() {
    let primary = Cluster::with_hilo();
    let mut client = primary.connect("postgres");
    client.run("SELECT hilo_create('lagging')");
    let mut first = primary.connect("postgres");
    let mut second = primary.connect("postgres");
    for _ in 0..3 {
        for session in [&mut first, &mut second] {
            session.run("SELECT hilo_nextval('lagging') FROM generate_series(1, 300)");
        }
    }
    drop(first);
    drop((second, client));
    primary.restart();
    let mut client = primary.connect("postgres");
    let free: i64 = client.one("SELECT count(*) FROM _hilo.hilo_free_range WHERE incarnation = 0");
    assert!(free > 0, "nothing is free");
    let standby = primary.clone_by_base_backup();
    primary.wait_for_replay(&standby);
    standby.connect("postgres").run("ALTER SYSTEM SET primary_conninfo = ''");
    standby.restart();
    let served = client.draw("lagging", 2_000);
    primary.kill9_postmaster();
    standby.promote();
    let again = standby.connect("postgres").draw("lagging", 2_000);
    let twice: Vec<&i64> = again.iter().filter(|value| served.contains(value)).collect();
    assert!(twice.is_empty(), "{} values twice, such as {}", twice.len(), twice[0]);
    standby.finish();
    primary.finish();
}

/// hilo_sync as the first statement after a promotion goes beyond what the standby may lack, too: where it continues is
/// not what the caller says.
#[test]
fn a_sync_after_a_promotion_skips_what_it_may_lack() {
    let primary = Cluster::builder().config("hilo.failover_skip", "5000").start_with_hilo();
    let mut client = primary.connect("postgres");
    client.run("SELECT hilo_create('lagging', block_size => 100)");
    client.run("SELECT hilo_nextval('lagging') FROM generate_series(1, 250)");
    client.run("CREATE TABLE t (id bigint DEFAULT hilo_nextval('lagging'))");
    let standby = primary.clone_by_base_backup();
    primary.wait_for_replay(&standby);
    let replayed: i64 = standby
        .connect("postgres")
        .one("SELECT max_reserved FROM hilo_sequences WHERE name = 'lagging'");
    // A value that the sequence is yet to serve, of those that the primary may have served since.
    client.run(&format!("INSERT INTO t VALUES ({replayed} + 1000)"));
    primary.wait_for_replay(&standby);
    primary.kill9_postmaster();
    standby.promote();
    let mut client = standby.connect("postgres");
    let next: i64 = client.one("SELECT hilo_sync('lagging', 't', 'id')");
    assert_eq!(next, replayed + 5_000 + 1);
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('lagging')"), next);
    standby.finish();
}
