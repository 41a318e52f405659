//! The life of a lease, and how it ends.

use hilo_tests::{ClientExt, Cluster, LONG, assert_unique, wait_until};

use super::{
    assert_explained, gap, gaps, give_back, has, lease, wait_until_back, wait_until_filed,
};

/// Leases and draws never get the same value, and what comes back is served before anything new.
#[test]
fn what_comes_back_is_served_before_anything_new() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('orders')");
    let first = lease(&mut client, "'orders', 100, 'app-1'");
    assert_eq!((first.first, first.last, first.count), (1, 100, 100));
    let second = lease(&mut client, "'orders', 100, 'app-2'");
    let mut seen = [first.first_values(40), second.values(), client.draw("orders", 50)].concat();
    assert_unique("orders", &seen);
    assert_eq!(give_back(&mut client, &first, 41), 60);
    wait_until_back(&mut client, 41);
    // Another lease takes no more than one range.
    let third = lease(&mut client, "'orders', 1000");
    assert_eq!((third.first, third.last), (41, 100));
    assert_eq!(give_back(&mut client, &third, 51), 50);
    wait_until_back(&mut client, 51);
    let next = cluster.connect("postgres").draw("orders", 50);
    assert_eq!(next, (51..=100).collect::<Vec<_>>());
    seen.extend(third.first_values(10));
    seen.extend(next);
    assert_eq!(gaps(&mut client, "orders"), []);
    assert_eq!(give_back(&mut client, &second, second.last + 1), 0);
    drop(client);
    assert_explained(&cluster, "orders", &seen);
    cluster.finish();
}

/// A lease ends once. Whatever comes later is refused, changes nothing, and says what happened.
#[test]
fn a_lease_ends_once() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let unknown = "8b6a5a52-4c53-4d2c-8f0f-3a3d6b0a7f10";
    for call in [
        "hilo_lease_return('{}', 3)",
        "hilo_lease_return('{}')",
        "hilo_lease_renew('{}', '1h')",
        "hilo_lease_revoke('{}')",
    ] {
        let call = |token: &str| format!("SELECT {}", call.replace("{}", token));
        client.refusal(&call(unknown)).is("42704").says("is not open").details("never taken");
        // Within one transaction the row is still there, and says more.
        let taken = lease(&mut client, "'s', 10");
        client.run(&format!("BEGIN; SELECT hilo_lease_return('{}', {})", taken.token, taken.first));
        client.refusal(&call(&taken.token)).is("42704").details("It was returned at").helps();
        client.run("ROLLBACK");
        client.run(&format!("BEGIN; SELECT hilo_lease_revoke('{}')", taken.token));
        client.refusal(&call(&taken.token)).is("42704").details("It was revoked at").helps();
        client.run("ROLLBACK");
        assert_eq!(give_back(&mut client, &taken, taken.first + 2), taken.count - 2);
        wait_until_filed(&mut client);
        client.refusal(&call(&taken.token)).is("42704").helps();
    }
    assert_eq!(gaps(&mut client, "s"), []);
    cluster.finish();
}

/// The first value not used must be one of the lease, or the one behind its last.
#[test]
fn only_a_value_of_the_lease_ends_it() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', increment => 5)");
    let taken = lease(&mut client, "'s', 10");
    assert_eq!((taken.first, taken.last), (1, 46));
    for next in [-4, 0, 2, 47, 56, i64::MIN, i64::MAX] {
        let call = format!("SELECT hilo_lease_return('{}', {next})", taken.token);
        client.refusal(&call).is("22023").details("1 to 46 in steps of 5").helps();
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 1);
    assert_eq!(give_back(&mut client, &taken, 51), 0);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 0);
    let taken = lease(&mut client, "'s', 10");
    assert_eq!(client.one::<i64>(&format!("SELECT hilo_lease_return('{}')", taken.token)), 10);
    cluster.finish();
}

/// An argument that is out of range or missing is refused before anything is taken.
#[test]
fn bad_arguments_are_refused() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s'), hilo_create('cycling', max_value => 10, cycle => true),
                hilo_create('ordered', ordered => true), hilo_create('gapless', gapless => true)",
    );
    for (call, state) in [
        ("hilo_lease('s', 0)", "22023"),
        ("hilo_lease('s', -1)", "22023"),
        ("hilo_lease('s', 1000000001)", "22023"),
        ("hilo_lease('s', NULL)", "22023"),
        ("hilo_lease(NULL, 1)", "22023"),
        ("hilo_lease('s', 1, ttl => '0')", "22023"),
        ("hilo_lease('s', 1, ttl => '-1 second')", "22023"),
        ("hilo_lease('nothing', 1)", "42704"),
        ("hilo_lease('cycling', 1)", "0A000"),
        ("hilo_lease('ordered', 1)", "0A000"),
        ("hilo_lease('gapless', 1)", "0A000"),
        ("hilo_lease_return(NULL)", "22023"),
        ("hilo_lease_renew(NULL, '1h')", "22023"),
        ("hilo_lease_revoke()", "22023"),
    ] {
        client.refusal(&format!("SELECT {call}")).is(state).helps();
    }
    let taken = lease(&mut client, "'s', 5");
    assert_eq!(taken.first, 1, "nothing was taken before");
    let renew = format!("SELECT hilo_lease_renew('{}', '-1h')", taken.token);
    client.refusal(&renew).is("22023").helps();
    client.run("BEGIN READ ONLY");
    client.refusal("SELECT hilo_lease('s', 1)").is("25006");
    client.run("ROLLBACK");
    cluster.finish();
}

/// The result tells a client all that it needs, and the view what others may know.
#[test]
fn the_result_and_the_view_say_the_same() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('plain'), hilo_create('keys', key_format => 'K-{server}{value:04}');
         SET hilo.server_prefix = 'North/'",
    );
    let row = client
        .query_one(
            "SELECT key_format, server_prefix, expires_at IS NULL, suggested FROM hilo_lease('plain', 7, 'app')",
            &[],
        )
        .expect("a lease");
    assert_eq!(row.get::<_, &str>(0), "{name}/{server}{value}");
    assert_eq!(row.get::<_, &str>(1), "North/");
    assert!(row.get::<_, bool>(2));
    assert!(row.get::<_, i64>(3) > 0);
    let format: String =
        client.one("SELECT key_format FROM hilo_lease('keys', 7, ttl => '1 hour')");
    assert_eq!(format, "K-{server}{value:04}");
    let shown = client.all::<String>(
        "SELECT concat_ws(' ', name, coalesce(holder, '-'), usename, first, last, count,
                          expires_at - leased_at, node_id)
           FROM hilo_leases WHERE lease IS NOT NULL AND client_addr IS NULL ORDER BY name",
    );
    assert_eq!(shown, ["keys - postgres 1 7 7 01:00:00 0", "plain app postgres 1 7 7 0"]);
    let blocks = "SELECT count(*) FROM hilo_blocks WHERE tier = 'leased'";
    assert_eq!(client.one::<i64>(blocks), 0);
    client.run("BEGIN; SELECT hilo_lease('plain', 5)");
    assert_eq!(client.one::<i64>(blocks), 1);
    client.run("COMMIT");
    assert_eq!(client.one::<i64>(blocks), 0);
    cluster.finish();
}

/// Where values are missing in a table, hilo_find_gaps says that they are leased, or what became of the lease.
#[test]
fn find_gaps_knows_of_leases() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s'); CREATE TABLE t (id bigint PRIMARY KEY)");
    let all: Vec<_> = (0..4).map(|_| lease(&mut client, "'s', 10, 'app'")).collect();
    let mut other = cluster.connect("postgres");
    other.run("BEGIN");
    assert_eq!(lease(&mut other, "'s', 10").first, 41);
    client.run(&format!(
        "SELECT hilo_lease_revoke('{}'), hilo_lease_return('{}', 24), hilo_lease_renew('{}', '1ms');
         INSERT INTO t VALUES (21), (22)",
        all[1].token, all[2].token, all[3].token
    ));
    let found = "SELECT string_agg(concat_ws(' ', first, last, reason), ', ' ORDER BY first)
                   FROM hilo_find_gaps('s', 't', 'id') WHERE first <= 50";
    let is = |expected: &[&str]| {
        let mut client = cluster.connect("postgres");
        wait_until("the lease has expired", LONG, || {
            let now = client.one::<String>(found);
            expected.iter().all(|part| now.contains(part))
        });
    };
    let (unknown, free) = ("23 23 rolled back, deleted or unknown", "24 30");
    is(&["1 10 leased", "11 20 revoked", unknown, free, "31 40 expired", "41 50 leased"]);
    wait_until_filed(&mut client);
    is(&["1 10 leased", "11 20 revoked", unknown, free, "31 40 expired", "41 50 leased"]);
    other.run("ROLLBACK");
    wait_until("the rollback is written off", LONG, || {
        has(&gaps(&mut client, "s"), &gap(41, 50, "discarded"))
    });
    is(&["41 50 discarded"]);
    cluster.finish();
}

/// A value that is drawn beside it does not make the next lease wait.
#[test]
fn a_lease_does_not_wait_for_what_others_have_drawn() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let waits = "SELECT waits FROM hilo_stat_sequences";
    let ready = "SELECT in_current + in_standby >= 1000 FROM hilo_stat_sequences";
    lease(&mut client, "'s', 1000");
    let before = client.one::<i64>(waits);
    for _ in 0..5 {
        wait_until("the worker keeps as much ready", LONG, || client.one::<bool>(ready));
        client.draw("s", 300);
        wait_until("the worker keeps as much ready", LONG, || client.one::<bool>(ready));
        assert_eq!(lease(&mut client, "'s', 1000").count, 1000);
    }
    assert_eq!(client.one::<i64>(waits), before, "waits");
    cluster.finish();
}

/// Many sequences in one statement cost one commit, and the next such statement waits for none of them.
#[test]
fn many_in_one_statement_cost_one_commit_and_no_wait() {
    const COUNT: i64 = 300;
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(&format!("SELECT hilo_create('t' || n) FROM generate_series(1, {COUNT}) n"));
    let all = format!(
        "SELECT count(DISTINCT l.lease), sum(l.count)::bigint FROM generate_series(1, {COUNT}) n,
                LATERAL hilo_lease('t' || n, 100, 'bulk') l"
    );
    let waits = "SELECT coalesce(sum(waits), 0)::bigint FROM hilo_stat_sequences";
    let ready = "SELECT count(*) FROM hilo_stat_sequences WHERE in_current + in_standby >= 100";
    for round in 0..3 {
        let before = client.one::<i64>(waits);
        let xids = "SELECT count(DISTINCT xmin::text) FROM _hilo.hilo_lease WHERE holder = 'bulk'";
        let row = client.query_one(&all, &[]).expect("the leases");
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (COUNT, COUNT * 100));
        assert_eq!(client.one::<i64>(xids), round + 1, "all rows are of one transaction");
        if round > 0 {
            assert_eq!(client.one::<i64>(waits) - before, 0, "waits in round {round}");
        }
        wait_until("the worker keeps as much ready", LONG, || client.one::<i64>(ready) == COUNT);
    }
    let revoked = "SELECT hilo_lease_revoke(holder => 'bulk')";
    assert_eq!(client.one::<i64>(revoked), 3 * COUNT);
    assert_eq!(client.one::<i64>(revoked), 0);
    let lost = "SELECT sum(count)::bigint FROM hilo_gaps WHERE reason = 'revoked'";
    assert_eq!(client.one::<i64>(lost), 3 * COUNT * 100);
    wait_until_filed(&mut client);
    assert_eq!(client.one::<i64>(lost), 3 * COUNT * 100);
    cluster.finish();
}
