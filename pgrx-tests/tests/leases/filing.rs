//! The worker files leases that have ended, however many there are, and whatever is in the way of some of them. Callers do
//! not wait for that, and what comes back is served.

use hilo_tests::{Client, ClientExt, Cluster, LONG, assert_unique, wait_until};

use super::{assert_explained, gap, gaps, give_back, lease, wait_until_filed};

/// Takes `count` leases of a sequence, in several transactions.
fn take_many(client: &mut Client, name: &str, count: i64, arguments: &str) {
    for _ in 0..count / 5_000 {
        client.run(&format!(
            "SELECT count(l.lease) FROM generate_series(1, 5000) n, LATERAL hilo_lease('{name}', 2 + n * 0, {arguments}) l"
        ));
    }
}

/// Uses a sequence for the first time, again and again, until the leases are filed. Fails unless the worker reserves their
/// blocks in between.
fn draws_while_filing(client: &mut Client, others: &mut std::ops::RangeFrom<i32>, all: i64) {
    let left = "SELECT count(*) FROM _hilo.hilo_lease WHERE due_at <= clock_timestamp()";
    let mut between = Vec::new();
    wait_until("the worker has filed the leases", LONG, || {
        let other = others.next().expect("there is another number");
        assert_eq!(client.draw(&format!("other{other}"), 1), [1]);
        between.push(client.one::<i64>(left));
        between.last() == Some(&0)
    });
    assert!(between.iter().any(|now| (1..all).contains(now)), "left at each block: {between:?}");
}

/// A deployment that died, or whose leases are revoked: one sequence has thousands of leases that end at the same moment.
#[test]
fn thousands_that_end_at_once_hold_up_nobody() {
    const ALL: i64 = 20_000;
    // Without it, each first use waits for the worker.
    let cluster = Cluster::builder().config("hilo.prefetch", "off").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s'); SET hilo.auto_create = on");
    let mut others = 1..;
    take_many(&mut client, "s", ALL, "'app'");
    assert_eq!(client.one::<i64>("SELECT hilo_lease_revoke(holder => 'app')"), ALL);
    draws_while_filing(&mut client, &mut others, ALL);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM _hilo.hilo_lease"), 0);
    let lost = |reason: &str| {
        format!(
            "SELECT coalesce(sum(count), 0)::bigint FROM hilo_gaps WHERE name = 's' AND reason = '{reason}'"
        )
    };
    assert_eq!(client.one::<i64>(&lost("revoked")), 2 * ALL);
    // The same for leases that expire.
    take_many(&mut client, "s", ALL, "'app', '1 hour'");
    client.run("SELECT count(hilo_lease_renew(lease, '1ms')) FROM hilo_leases");
    lease(&mut client, "'s', 1, ttl => '1ms'");
    draws_while_filing(&mut client, &mut others, ALL);
    assert_eq!(client.one::<i64>(&lost("expired")), 2 * ALL + 1);
    // And for those that come back: their rests are one free range.
    take_many(&mut client, "s", ALL, "'app'");
    let first: i64 = client.one("SELECT min(first) FROM hilo_leases");
    client.run("SELECT hilo_lease_return(lease) FROM hilo_leases");
    draws_while_filing(&mut client, &mut others, ALL);
    assert!(client.draw("s", 40_000).contains(&first));
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    assert!(
        client.one::<i64>("SELECT count(*) FROM _hilo.hilo_free_range WHERE incarnation = 0") < 100
    );
    cluster.finish();
}

/// At the end of a sequence, what comes back is served, also if the worker could not file it at once.
#[test]
fn what_comes_back_to_an_exhausted_sequence_is_served() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', max_value => 100, block_size => 100)");
    let all = lease(&mut client, "'s', 100");
    assert_eq!(all.count, 100);
    client.refusal("SELECT hilo_nextval('s')").is("2200H");
    let mut locker = cluster.connect("postgres");
    locker.run("BEGIN; LOCK TABLE _hilo.hilo_gap IN SHARE MODE");
    assert_eq!(give_back(&mut client, &all, 51), 50);
    // The worker has tried to reserve, and given up.
    client.run("SET hilo.reserve_timeout = '500ms'");
    client.refusal("SELECT hilo_nextval('s')").is("55P03");
    locker.run("COMMIT");
    wait_until_filed(&mut client);
    client.run("RESET hilo.reserve_timeout");
    assert_eq!(client.draw("s", 50), (51..=100).collect::<Vec<_>>());
    client.refusal("SELECT hilo_nextval('s')").is("2200H");
    cluster.finish();
}

/// The same for leases that the worker files with many others.
#[test]
fn a_return_to_an_exhausted_sequence_is_not_overlooked_behind_others() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('many'), hilo_create('s', max_value => 100, block_size => 100)");
    take_many(&mut client, "many", 10_000, "'app'");
    let all = lease(&mut client, "'s', 100");
    client.refusal("SELECT hilo_nextval('s')").is("2200H");
    client.run(&format!(
        "BEGIN; SELECT hilo_lease_revoke(holder => 'app'), hilo_lease_return('{}', 51); COMMIT",
        all.token
    ));
    // It waits until the worker has come to that lease.
    assert_eq!(client.draw("s", 50), (51..=100).collect::<Vec<_>>());
    client.refusal("SELECT hilo_nextval('s')").is("2200H");
    cluster.finish();
}

/// A fault with the leases of one sequence, which lasts, keeps no other from being filed, and neither does what was
/// rolled back.
#[test]
fn a_fault_with_one_sequence_is_that_sequence_s() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create(name) FROM unnest(ARRAY['bad', 'good']) name");
    client.run("SELECT hilo_lease('bad', 1) FROM generate_series(1, 2)");
    // From here on, no sequence gets a second gap with the same reason.
    client.run("CREATE UNIQUE INDEX fault ON _hilo.hilo_gap (sequence, reason)");
    // Between two gaps there is a value that stays leased: else they would be one.
    let bad = [10, 1, 10].map(|count| lease(&mut client, &format!("'bad', {count}")));
    let good = lease(&mut client, "'good', 10");
    client.run(&format!("SELECT hilo_lease_revoke('{}')", bad[0].token));
    wait_until_filed(&mut client);
    client.run(&format!(
        "SELECT hilo_lease_revoke(lease::uuid) FROM unnest(ARRAY['{}', '{}']) lease",
        bad[2].token, good.token
    ));
    let recorded = "SELECT string_agg(concat_ws(' ', s.name, first_value, reason), ', ' ORDER BY s.name, first_value)
                      FROM _hilo.hilo_gap JOIN _hilo.hilo_definition s ON sequence = s.id";
    let is = |expected: &str| {
        let mut client = cluster.connect("postgres");
        wait_until("the others are filed", LONG, || {
            client.one::<Option<String>>(recorded).as_deref() == Some(expected)
        });
    };
    is("bad 3 revoked, good 1 revoked");
    // A return that is rolled back. The first of each is written off alone.
    client.run("BEGIN; SELECT hilo_lease('bad', 10); ROLLBACK");
    is("bad 3 revoked, bad 24 discarded, good 1 revoked");
    lease(&mut client, "'bad', 1");
    client.run("BEGIN; SELECT hilo_lease('bad', 1)");
    client.run("SELECT hilo_lease('good', 10); ROLLBACK");
    is("bad 3 revoked, bad 24 discarded, good 1 revoked, good 11 discarded");
    // Callers are served.
    client.draw("bad", 2_000);
    client.draw("good", 2_000);
    client.run("DROP INDEX _hilo.fault");
    is(
        "bad 3 revoked, bad 14 revoked, bad 24 discarded, bad 35 discarded, good 1 revoked, good 11 discarded",
    );
    cluster.finish();
}

/// Sequences whose positions another transaction has locked are passed over, however many they are.
#[test]
fn a_lock_on_many_positions_keeps_no_other_lease_from_being_filed() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s' || n) FROM generate_series(1, 600) n");
    client.run("SELECT hilo_lease('s' || n, 2, 'app') FROM generate_series(1, 600) n");
    let mut locker = cluster.connect("postgres");
    locker.run(
        "BEGIN;
         SELECT 1 FROM _hilo.hilo_position p JOIN _hilo.hilo_definition s ON s.id = p.sequence WHERE name <> 's600' FOR UPDATE OF p",
    );
    client.run("SELECT hilo_lease_renew(lease, '1ms') FROM hilo_leases");
    let left = "SELECT count(*) FROM _hilo.hilo_lease";
    wait_until("the one that is free is filed", LONG, || client.one::<i64>(left) == 599);
    locker.run("COMMIT");
    wait_until("the others are filed", LONG, || client.one::<i64>(left) == 0);
    cluster.finish();
}

/// Leases whose rows are locked, as by a transaction that renews them, keep no later one of their sequence from being
/// filed.
#[test]
fn a_lock_on_many_leases_keeps_no_other_from_being_filed() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 10000)");
    // Enough for all that follows is in memory.
    client.run("SELECT hilo_nextval('s')");
    // The worker can file nothing until the rows are locked.
    let mut holder = cluster.connect("postgres");
    holder.run("BEGIN; LOCK TABLE _hilo.hilo_gap IN SHARE MODE");
    client.run("SELECT hilo_lease('s', 2, 'renewed', '1ms') FROM generate_series(1, 400) n");
    let mut locker = cluster.connect("postgres");
    locker.run("BEGIN; SELECT 1 FROM _hilo.hilo_lease FOR UPDATE");
    lease(&mut client, "'s', 2, ttl => '1ms'");
    holder.run("COMMIT");
    let left = "SELECT count(*) FROM _hilo.hilo_lease";
    wait_until("the one that nobody has locked is filed", LONG, || client.one::<i64>(left) == 400);
    locker.run("COMMIT");
    wait_until("the others are filed", LONG, || client.one::<i64>(left) == 0);
    cluster.finish();
}

/// The worker learns from the session that a lease ends, when the transaction commits. So it cannot be prepared, unless all
/// that it has done with leases is rolled back to a savepoint.
#[test]
fn a_transaction_that_ends_a_lease_cannot_be_prepared() {
    let cluster = Cluster::builder().config("max_prepared_transactions", "5").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let taken = lease(&mut client, "'s', 10");
    let calls = [
        "hilo_lease_return('{}', 5)",
        "hilo_lease_renew('{}', '1s')",
        "hilo_lease_renew('{}', NULL)",
        "hilo_lease_revoke('{}')",
    ];
    for call in calls.map(|call| call.replace("{}", &taken.token)) {
        client.run(&format!("BEGIN; SELECT {call}"));
        client.refusal("PREPARE TRANSACTION 'p'").is("0A000").helps();
        client.run(&format!(
            "BEGIN; SAVEPOINT a; SELECT {call}; ROLLBACK TO a; PREPARE TRANSACTION 'p'"
        ));
        client.run("COMMIT PREPARED 'p'");
        client.run(&format!("BEGIN; SAVEPOINT a; SELECT {call}; RELEASE a"));
        client.refusal("PREPARE TRANSACTION 'p'").is("0A000").helps();
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 1);
    // A change that was released with a savepoint is announced.
    client.run(&format!(
        "BEGIN; SAVEPOINT a; SELECT hilo_lease_renew('{}', '1ms'); RELEASE a; COMMIT",
        taken.token
    ));
    wait_until("it is filed", LONG, || {
        client.one::<i64>("SELECT count(*) FROM _hilo.hilo_lease") == 0
    });
    assert_eq!(gaps(&mut client, "s"), [gap(1, 10, "expired")]);
    drop(client);
    assert_explained(&cluster, "s", &[]);
    cluster.finish();
}

/// Serializable transactions that end different leases have nothing to do with each other.
#[test]
fn serializable_transactions_end_different_leases() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    for call in
        ["hilo_lease_return('{}', 3)", "hilo_lease_renew('{}', '1h')", "hilo_lease_revoke('{}')"]
    {
        let tokens = [(); 2].map(|()| lease(&mut client, "'s', 2").token);
        let mut sessions = [(); 2].map(|()| cluster.connect("postgres"));
        for session in &mut sessions {
            session.run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT hilo_currval('s') FROM (SELECT hilo_nextval('s')) n");
        }
        for (session, token) in sessions.iter_mut().zip(&tokens) {
            let next = client
                .one::<i64>(&format!("SELECT first FROM hilo_leases WHERE lease = '{token}'"));
            let call = call.replace("{}", token).replace(", 3)", &format!(", {next})"));
            session.run(&format!("SELECT {call}"));
        }
        for session in &mut sessions {
            session.run("SELECT hilo_lease('s', 1); COMMIT");
        }
    }
    cluster.finish();
}

/// An old snapshot keeps every row that there ever was. The worker does not visit them again with each lease that it files,
/// and with each sequence that takes the place of another.
#[test]
fn an_old_snapshot_makes_no_later_lease_or_eviction_dearer() {
    const TURNS: i64 = 200;
    const OTHERS: i64 = 40;
    let cluster = Cluster::builder().config("hilo.max_sequences", "16").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(&format!(
        "SELECT hilo_create('s'), count(hilo_create('other' || n)) FROM generate_series(1, {OTHERS}) n"
    ));
    let mut old = cluster.connect("postgres");
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    let mut used = Vec::new();
    for turn in 0..TURNS {
        let taken = lease(&mut client, "'s', 10, ttl => '1 hour'");
        // It may be the rest of another.
        let half = taken.count / 2;
        assert_eq!(give_back(&mut client, &taken, taken.first + half), taken.count - half);
        used.extend(taken.first_values(half));
        client.draw(&format!("other{}", 1 + turn * 7 % OTHERS), 1);
    }
    assert_unique("s", &used);
    wait_until_filed(&mut client);
    drop((client, old));
    assert_explained(&cluster, "s", &used);
    // All processes have told the statistics then. Each look at a lease, a range or a position reads some rows.
    let read: i64 = cluster.connect("postgres").one(
        "SELECT sum(idx_tup_read)::bigint FROM pg_stat_all_indexes WHERE schemaname = '_hilo'",
    );
    assert!(read < 60 * TURNS, "{read} rows for {TURNS} leases and as many sequences");
    cluster.finish();
}
