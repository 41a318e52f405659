//! The server is killed, or a standby is promoted, at each point of a lease's life.

use hilo_tests::{Client, ClientExt, Cluster, LONG, Mode, assert_unique, wait_until};

use super::{assert_explained, gap, gaps, give_back, has, lease, wait_until_filed};

/// Leaves out of the values of `s` those that are recorded as lost in a crash.
fn leave_out_lost(client: &mut Client, used: &mut Vec<i64>) {
    let lost: Vec<_> = gaps(client, "s").into_iter().filter(|gap| gap.2 == "crash").collect();
    used.retain(|value| !lost.iter().any(|(first, last, _)| (first..=last).contains(&value)));
}

/// A crash while the transaction is open, after its commit, after the return, and after the worker has filed it.
#[test]
fn a_crash_at_any_point_repeats_nothing_and_explains_everything() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let mut used = client.draw("s", 5);
    let kept = lease(&mut client, "'s', 10");
    client.run("BEGIN");
    lease(&mut client, "'s', 10");
    cluster.crash(cluster.wait_for_worker("postgres"));
    let mut client = cluster.connect_when_up("postgres");
    used.extend(client.draw("s", 5));
    // A range that was taken and not committed is lost with the memory that held it.
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 1);
    assert_eq!(give_back(&mut client, &kept, kept.first + 4), 6);
    used.extend(kept.first_values(4));
    let revoked = lease(&mut client, "'s', 10");
    client.run(&format!("SELECT hilo_lease_revoke('{}')", revoked.token));
    cluster.crash(cluster.wait_for_worker("postgres"));
    let mut client = cluster.connect_when_up("postgres");
    used.extend(client.draw("s", 5));
    wait_until_filed(&mut client);
    let known = gaps(&mut client, "s");
    assert!(has(&known, &gap(revoked.first, revoked.last, "revoked")), "{known:?}");
    let open = lease(&mut client, "'s', 10");
    cluster.crash(cluster.wait_for_worker("postgres"));
    let mut client = cluster.connect_when_up("postgres");
    used.extend(client.draw("s", 200));
    used.extend(open.values());
    assert_unique("s", &used);
    assert_eq!(give_back(&mut client, &open, open.last + 1), 0);
    wait_until_filed(&mut client);
    drop(client);
    // Values that a crash loses may have been served.
    cluster.restart();
    let mut client = cluster.connect("postgres");
    leave_out_lost(&mut client, &mut used);
    drop(client);
    assert_explained(&cluster, "s", &used);
    cluster.finish();
}

/// A range that an open transaction has leased is accounted for with every reservation of others,
/// so that a crash finds it.
#[test]
fn a_crash_explains_what_an_open_transaction_had_taken_long_ago() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 100)");
    let mut used = client.draw("s", 5);
    client.run("BEGIN");
    let lost = lease(&mut client, "'s', 10");
    let mut other = cluster.connect("postgres");
    let kept = lease(&mut other, "'s', 10");
    for _ in 0..20 {
        used.extend(other.draw("s", 200));
    }
    let settled: i64 = other.one("SELECT max(settled_index) FROM _hilo.hilo_position");
    assert!(settled > lost.last, "the worker has accounted for what lies beyond the lease");
    cluster.crash(cluster.wait_for_worker("postgres"));
    let mut client = cluster.connect_when_up("postgres");
    used.extend(client.draw("s", 5));
    let known = gaps(&mut client, "s");
    let found = known.iter().filter(|gap| gap.0 <= lost.first && lost.last <= gap.1);
    assert_eq!(found.map(|gap| gap.2.as_str()).collect::<Vec<_>>(), ["crash"], "{known:?}");
    let leased = known.iter().filter(|gap| gap.0 <= kept.last && kept.first <= gap.1);
    assert_eq!(leased.count(), 0, "{kept:?} is leased: {known:?}");
    used.extend(kept.values());
    assert_unique("s", &used);
    cluster.finish();
}

/// The postmaster is killed with leases in every state, and no worker has accounted for any of them.
#[test]
fn what_memory_had_not_told_the_catalog_stays_leased() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 1000)");
    let all: Vec<_> = (0..5).map(|_| lease(&mut client, "'s', 100")).collect();
    cluster.kill9_postmaster();
    cluster.start();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 5);
    // Before anything has been drawn, and so before the takeover.
    client.run(&format!("SELECT hilo_lease_revoke('{}')", all[1].token));
    assert_eq!(give_back(&mut client, &all[2], all[2].first + 50), 50);
    let values = client.draw("s", 2000);
    let mut used =
        [values, all[0].values(), all[2].first_values(50), all[3].values(), all[4].values()]
            .concat();
    assert_unique("s", &used);
    wait_until_filed(&mut client);
    used.retain(|value| !(1..=50).contains(&(value - all[2].first + 1)) || *value <= all[2].last);
    assert_eq!(gaps(&mut client, "s").iter().filter(|gap| gap.2 == "revoked").count(), 1);
    for kept in [0, 3, 4] {
        assert_eq!(give_back(&mut client, &all[kept], all[kept].last + 1), 0);
    }
    wait_until_filed(&mut client);
    drop(client);
    assert_explained(&cluster, "s", &used);
    cluster.finish();
}

/// A standby is promoted. A range that was leased before stays leased. Its rest is not served again,
/// since the old primary may have taken it back and served it.
#[test]
fn a_promoted_standby_serves_nothing_of_earlier_leases() {
    let primary = Cluster::with_hilo();
    let mut client = primary.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let first = lease(&mut client, "'s', 100");
    let used = first.first_values(10);
    let standby = primary.clone_by_base_backup();
    let second = lease(&mut client, "'s', 100");
    primary.wait_for_replay(&standby);
    // The primary takes it back and serves it, which the standby does not learn.
    standby.connect("postgres").run("ALTER SYSTEM SET primary_conninfo = 'host=/nowhere'");
    standby.connect("postgres").run("SELECT pg_reload_conf()");
    wait_until("the standby has lost its primary", LONG, || {
        client.one::<i64>("SELECT count(*) FROM pg_stat_replication") == 0
    });
    assert_eq!(give_back(&mut client, &first, 11), 90);
    wait_until_filed(&mut client);
    let mut seen = client.draw("s", 300);
    let lost = lease(&mut client, "'s', 100");
    seen.extend(used);
    seen.extend(lost.values());
    seen.extend(second.values());
    primary.kill9_postmaster();
    standby.promote();
    let mut client = standby.connect("postgres");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 2);
    let token = &lost.token;
    client.refusal(&format!("SELECT hilo_lease_return('{token}')")).is("42704").helps();
    assert_eq!(give_back(&mut client, &first, 11), 0, "nothing comes back");
    assert_eq!(give_back(&mut client, &second, second.first), 0, "nothing comes back");
    wait_until_filed(&mut client);
    let known = gaps(&mut client, "s");
    for expected in [gap(11, 100, "restored"), gap(second.first, second.last, "restored")] {
        assert!(has(&known, &expected), "{expected:?} is not in {known:?}");
    }
    seen.extend(client.draw("s", 2_000));
    // From here on the leases are this server's own.
    let own = lease(&mut client, "'s', 100");
    seen.extend(own.first_values(10));
    assert_eq!(give_back(&mut client, &own, own.first + 10), 90);
    wait_until_filed(&mut client);
    seen.extend(client.draw("s", 200));
    assert_unique("s", &seen);
}

/// A lease has no more values than a failover skips: a standby that missed even the first one does not serve its values.
#[test]
fn a_large_lease_that_a_standby_missed_is_not_served_again() {
    let primary = Cluster::with_hilo();
    let mut client = primary.connect("postgres");
    client.run("SELECT hilo_create('s'), hilo_create('small', data_type => 'smallint')");
    let mut seen = client.draw("s", 1);
    let mut small = client.draw("small", 1);
    let standby = primary.clone_by_base_backup();
    primary.wait_for_replay(&standby);
    standby.connect("postgres").run("ALTER SYSTEM SET primary_conninfo = 'host=/nowhere'");
    standby.connect("postgres").run("SELECT pg_reload_conf()");
    wait_until("the standby has lost its primary", LONG, || {
        client.one::<i64>("SELECT count(*) FROM pg_stat_replication") == 0
    });
    seen.extend(lease(&mut client, "'s', 1000000000").values());
    small.extend(lease(&mut client, "'small', 30000").values());
    primary.kill9_postmaster();
    standby.promote();
    let mut client = standby.connect("postgres");
    seen.extend(client.draw("s", 1000));
    small.extend(client.draw("small", 1000));
    assert_unique("s", &seen);
    assert_unique("small", &small);
}

/// The same where the operator has set what it skips; 0 says that no standby lacks anything.
#[test]
fn a_lease_has_no_more_values_than_a_failover_is_set_to_skip() {
    for (skip, most) in [("100", 100), ("0", 1_000), ("100000000", 1_000)] {
        let primary = Cluster::builder().config("hilo.failover_skip", skip).start_with_hilo();
        let mut client = primary.connect("postgres");
        client.run("SELECT hilo_create('s')");
        assert_eq!(lease(&mut client, "'s', 1000").count, most, "{skip}");
        primary.finish();
    }
}

/// With a synchronous standby, nothing that was leased is served by the standby once it is promoted.
#[test]
fn a_promoted_synchronous_standby_repeats_nothing() {
    let primary = Cluster::with_hilo();
    primary.connect("postgres").run("SELECT hilo_create('s')");
    let standby = primary.clone_synchronously();
    let mut client = primary.connect("postgres");
    let mut seen = Vec::new();
    for round in 0..30 {
        let taken = lease(&mut client, "'s', 50");
        let used = (round % 7 * 7).min(taken.count);
        seen.extend(taken.first_values(used));
        if round % 3 > 0 {
            give_back(&mut client, &taken, taken.first + used);
        }
        seen.extend(client.draw("s", 10));
    }
    primary.kill9_postmaster();
    standby.promote();
    let mut client = standby.connect("postgres");
    for token in client.all::<String>("SELECT lease::text FROM hilo_leases") {
        assert_eq!(client.one::<i64>(&format!("SELECT hilo_lease_return('{token}')")), 0);
    }
    for _ in 0..30 {
        let taken = lease(&mut client, "'s', 50");
        seen.extend(taken.values());
        seen.extend(client.draw("s", 50));
    }
    assert_unique("s", &seen);
}

/// A clean restart keeps leases, and continues with the very next value.
#[test]
fn a_clean_restart_keeps_leases() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let taken = lease(&mut client, "'s', 10");
    for (mode, next) in [(Mode::Fast, 11), (Mode::Smart, 12)] {
        drop(client);
        cluster.stop(mode);
        cluster.start();
        client = cluster.connect("postgres");
        assert_eq!(client.draw("s", 1), [next]);
    }
    assert_eq!(give_back(&mut client, &taken, 5), 6);
    drop(client);
    assert_explained(&cluster, "s", &[1, 2, 3, 4, 11, 12]);
    cluster.finish();
}

/// The worker is to file a lease of `s` that somebody has locked, so it files nothing, and has only
/// taken the position over. A lost range is written down at once, with the position, and once.
fn file_what_is_locked(cluster: &Cluster) -> Client {
    let mut client = cluster.connect("postgres");
    client.meddle(
        "UPDATE _hilo.hilo_lease SET expires_at = now() - interval '1 second', due_at = now() - interval '1 second'",
    );
    let mut holder = cluster.connect("postgres");
    holder.run("BEGIN; SELECT FROM _hilo.hilo_lease FOR UPDATE");
    let of_s = "SELECT id FROM _hilo.hilo_definition WHERE name = 's'";
    let life = format!("SELECT incarnation FROM _hilo.hilo_position WHERE sequence = ({of_s})");
    let before: i64 = client.one(&life);
    client.draw("other", 1);
    let lost = format!("SELECT count(*) FROM _hilo.hilo_gap WHERE sequence = ({of_s})");
    wait_until("the worker has written off what was lost", LONG, || client.one::<i64>(&lost) > 0);
    assert_ne!(
        client.one::<i64>(&life),
        before,
        "the position still names the life that has ended"
    );
    holder.run("COMMIT");
    wait_until_filed(&mut client);
    client.draw("s", 1);
    let twice = format!(
        "SELECT count(*) FROM (SELECT FROM _hilo.hilo_gap WHERE sequence = ({of_s})
          GROUP BY first_value HAVING count(*) > 1) g"
    );
    assert_eq!(client.one::<i64>(&twice), 0);
    client
}

/// A crash, and a lease that is due and locked before anybody draws.
#[test]
fn a_takeover_to_file_a_locked_lease_writes_the_loss_once() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 64), hilo_create('other')");
    let expired = lease(&mut client, "'s', 10, 'app', '1 hour'");
    let used = client.draw("s", 3);
    cluster.kill9_postmaster();
    cluster.start();
    let mut client = file_what_is_locked(&cluster);
    let known = gaps(&mut client, "s");
    assert_eq!(known, [gap(expired.first, expired.last, "expired"), gap(used[0], 64, "crash")]);
    cluster.finish();
}

/// The same after a promotion: the values that the standby may lack are skipped once.
#[test]
fn a_takeover_to_file_a_locked_lease_skips_once() {
    let primary = Cluster::builder().config("hilo.failover_skip", "5000").start_with_hilo();
    let mut client = primary.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 64), hilo_create('other')");
    lease(&mut client, "'s', 10, 'app', '1 hour'");
    let standby = primary.clone_by_base_backup();
    primary.wait_for_replay(&standby);
    primary.kill9_postmaster();
    standby.promote();
    let mut client = file_what_is_locked(&standby);
    // With what was left of the block.
    let skipped: i64 = client
        .one("SELECT sum(count)::bigint FROM hilo_gaps WHERE name = 's' AND reason = 'restored'");
    assert!((5_000..10_000).contains(&skipped), "{skipped}");
    standby.finish();
}

/// While core ignores the indexes of its catalogs, ours keep their order. Leases are filed beside older ones that are not
/// due, and a crash finds every value in one place.
#[test]
fn a_server_that_ignores_system_indexes_files_leases_and_explains_everything() {
    let cluster = Cluster::builder().config("ignore_system_indexes", "on").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let kept = lease(&mut client, "'s', 10, ttl => '1 hour'");
    lease(&mut client, "'s', 10, ttl => '1ms'");
    let returned = [(); 8].map(|()| lease(&mut client, "'s', 10"));
    wait_until_filed(&mut client);
    let mut used = Vec::new();
    // The rows of what comes back are not written in the order of the values.
    for lease in returned.iter().rev() {
        assert_eq!(give_back(&mut client, lease, lease.first + 5), 5);
        used.extend(lease.first_values(5));
        wait_until_filed(&mut client);
    }
    let mut sessions = [(); 4].map(|()| cluster.connect("postgres"));
    for count in 1..=4 {
        sessions.iter_mut().for_each(|session| used.extend(session.draw("s", count)));
    }
    drop(sessions);
    cluster.crash(cluster.wait_for_worker("postgres"));
    let mut client = cluster.connect_when_up("postgres");
    used.extend(client.draw("s", 5));
    used.extend(kept.values());
    assert_unique("s", &used);
    assert_eq!(give_back(&mut client, &kept, kept.last + 1), 0);
    wait_until_filed(&mut client);
    // Values that the crash has lost may have been served.
    leave_out_lost(&mut client, &mut used);
    drop(client);
    assert_explained(&cluster, "s", &used);
    cluster.finish();
}
