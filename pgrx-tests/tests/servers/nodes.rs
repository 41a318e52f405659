//! Several servers serve the numbers of the same sequences, and none of them twice.

use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, Seen, Way, wait_until};

fn node(id: usize, count: usize) -> Cluster {
    Cluster::builder().node(id, count).start_with_hilo()
}

fn nodes(count: usize) -> Vec<Cluster> {
    (0..count).map(|id| node(id, count)).collect()
}

/// Makes a server apply other settings, which an open session shows.
fn reload(cluster: &Cluster, client: &mut Client, settings: &[(&str, &str)]) {
    settings.iter().for_each(|(name, value)| cluster.configure(name, value));
    cluster.reload();
    for (name, value) in settings {
        let taken = format!("SELECT current_setting('{name}') = '{value}'");
        wait_until("sessions have the settings", LONG, || client.one::<bool>(&taken));
    }
}

/// Draws one number at a time until one `is_new`, and returns that, or until a call is refused. A server whose
/// settings have changed serves as the node that it was until its worker has applied them too.
fn as_new_node(
    client: &mut Client,
    name: &str,
    seen: &Seen,
    is_new: impl Fn(i64) -> bool,
) -> Option<i64> {
    let (mut session, mut last) = (seen.session(), None);
    let call = format!("SELECT hilo_nextval('{name}')");
    wait_until("the server is the new node", LONG, || {
        last = client.query_one(&call, &[]).ok().map(|row| row.get(0));
        last.inspect(|value| session.saw(&[*value]));
        last.is_none_or(&is_new)
    });
    last
}

/// Draws until `stop` is set.
fn load(cluster: &Cluster, name: &str, seen: &Seen, stop: &AtomicBool) {
    let mut client = cluster.connect("postgres");
    client.run("SET hilo.reserve_timeout = '60s'");
    let mut session = seen.session();
    while !stop.load(Relaxed) {
        session.saw(&client.draw(name, 50));
    }
}

/// Without any connection between them, three nodes never serve the same number, rising or falling.
/// They serve by rate or in fixed blocks, one by one, as ranges or as hi.
#[test]
fn nodes_serve_disjoint_numbers() {
    let clusters = nodes(3);
    let seen = [Seen::new(Way::Rising), Seen::new(Way::Falling), Seen::new(Way::Rising)];
    let blocks = Seen::new(Way::Rising);
    for cluster in &clusters {
        let mut client = cluster.connect("postgres");
        client.run(
            "SELECT hilo_create('rising'), hilo_create('falling', increment => -3),
                    hilo_create('blocks', block_size => 100, start_value => 7)",
        );
        for (name, seen) in ["rising", "falling", "blocks"].into_iter().zip(&seen) {
            seen.session().saw(&client.draw(name, 5_000));
        }
        let mut session = seen[2].session();
        session.saw(
            &client.all::<i64>(
                "SELECT generate_series(first, last) FROM hilo_nextrange('blocks', 700)",
            ),
        );
        drop(session);
        let his = client.all::<i64>("SELECT hilo_next_hi('blocks') FROM generate_series(1, 30)");
        for hi in his {
            blocks.session().saw(&(0..100).map(|lo| 7 + hi * 100 + lo).collect::<Vec<_>>());
        }
    }
    seen[2].session().saw(&blocks.in_order());
    seen.iter().for_each(Seen::assert_unique);
    assert_eq!(seen[0].count(), 15_000);
    clusters.into_iter().for_each(Cluster::finish);
}

/// An id that does not fit the number of nodes is refused, whatever is asked for, and says so.
#[test]
fn an_id_that_does_not_fit_is_refused() {
    let cluster = node(0, 2);
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('there'), hilo_nextval('there')");
    reload(&cluster, &mut client, &[("hilo.node_id", "2")]);
    client.run("SET hilo.auto_create = on");
    for call in [
        "hilo_create('new')",
        "hilo_nextval('new')",
        "hilo_setval('there', 100)",
        "hilo_alter('there', restart_with => 100)",
    ] {
        client.refusal(&format!("SELECT {call}")).is("F0000").says("hilo.node_id = 2").helps();
    }
    let mut other = cluster.connect("postgres");
    other.refusal("SELECT hilo_nextval('there')").is("F0000").says("hilo.node_id = 2");
    reload(&cluster, &mut client, &[("hilo.node_id", "0")]);
    assert!(other.draw("there", 1)[0] > 1);
    cluster.finish();
}

/// A node without a position joins the numbering that the others have, whatever it is configured
/// to. It is refused where that has no stripe for it. A server that becomes another node lets go of
/// what it held, also in sessions that are open.
#[test]
fn a_node_joins_the_numbering_that_is_there() {
    let cluster = node(0, 2);
    let seen = Seen::new(Way::Rising);
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('joined', start_value => 100, block_size => 64)");
    client.run("SELECT hilo_setval('joined', 1000)");
    let first = client.draw("joined", 300);
    assert_eq!(first[0], 1001);
    seen.session().saw(&first);

    reload(&cluster, &mut client, &[("hilo.node_count", "9"), ("hilo.node_id", "1")]);
    let mut fresh = cluster.connect("postgres");
    let second = as_new_node(&mut fresh, "joined", &seen, |value| value > 1000 + 1024);
    assert_eq!(second, Some(1001 + 1024), "the second stripe of the first one's numbering");
    seen.session().saw(&fresh.draw("joined", 300));
    seen.session().saw(&client.draw("joined", 300));

    reload(&cluster, &mut client, &[("hilo.node_id", "2")]);
    let refused = |client: &mut Client, call: &str| {
        client
            .refusal(&format!("SELECT {call}"))
            .is("55000")
            .says("hilo.node_count = 2")
            .hints("restart_with");
    };
    let mut fresh = cluster.connect("postgres");
    assert_eq!(as_new_node(&mut fresh, "joined", &seen, |_| false), None);
    refused(&mut fresh, "hilo_nextval('joined')");
    refused(&mut fresh, "hilo_alter('joined', increment => 2)");

    reload(&cluster, &mut client, &[("hilo.node_id", "0")]);
    seen.session().saw(&client.draw("joined", 300));
    let rows = "SELECT count(DISTINCT (base, nodes, stripe)) FROM _hilo.hilo_position";
    assert_eq!(client.one::<i64>(rows), 1);
    seen.assert_unique();
    cluster.finish();
}

/// The same where hilo_advance or hilo_sync is the first use of a sequence on a node.
#[test]
fn a_node_joins_the_numbering_where_it_continues() {
    let cluster = node(0, 2);
    let seen = [Seen::new(Way::Rising), Seen::new(Way::Rising)];
    let names = ["advanced", "synced"];
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE t (id bigint); INSERT INTO t VALUES (1500)");
    for (name, seen) in names.into_iter().zip(&seen) {
        client.run(&format!(
            "SELECT hilo_create('{name}', start_value => 100, block_size => 64);
             SELECT hilo_setval('{name}', 1000)",
        ));
        seen.session().saw(&client.draw(name, 2_000));
    }
    reload(&cluster, &mut client, &[("hilo.node_count", "9"), ("hilo.node_id", "1")]);
    let mut fresh = cluster.connect("postgres");
    for call in ["hilo_advance('advanced', 1500)", "hilo_sync('synced', 't', 'id')"] {
        let next: i64 = fresh.one(&format!("SELECT {call}"));
        assert_eq!(next, 1001 + 1024, "the second stripe of the first one's numbering: {call}");
    }
    for (name, seen) in names.into_iter().zip(&seen) {
        as_new_node(&mut fresh, name, seen, |value| (value - 1001) / 1024 % 2 == 1);
        seen.session().saw(&fresh.draw(name, 2_000));
        seen.assert_unique();
    }
    let rows = "SELECT count(DISTINCT (base, nodes, stripe)) FROM _hilo.hilo_position";
    assert_eq!(client.one::<i64>(rows), 1);

    reload(&cluster, &mut client, &[("hilo.node_id", "2")]);
    let mut fresh = cluster.connect("postgres");
    let refusal = fresh.refusal("SELECT hilo_advance('advanced', 9000)");
    refusal.is("55000").says("hilo.node_count = 2").hints("restart_with");
    cluster.finish();
}

/// Promise 5: what hilo_advance leaves out is a gap, also as the first use of a sequence on a node.
#[test]
fn what_a_new_node_leaves_out_is_a_gap() {
    let cluster = node(0, 2);
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('jumped', start_value => 1, block_size => 64)");
    client.draw("jumped", 1);
    reload(&cluster, &mut client, &[("hilo.node_id", "1")]);
    let mut fresh = cluster.connect("postgres");
    let next: i64 = fresh.one("SELECT hilo_advance('jumped', 9000)");
    let gaps: Vec<String> =
        fresh.all("SELECT first || '-' || last || ' ' || reason FROM hilo_gaps ORDER BY first");
    let stripes: Vec<String> =
        (1..=next / 2048).map(|at| format!("{}-{} altered", at * 2048 - 1023, at * 2048)).collect();
    assert_eq!((next, gaps), (9217, stripes));
    // A sequence that the transaction has made leaves nothing out.
    fresh.run(
        "SET hilo.on_every_node = on; BEGIN; SELECT hilo_create('new'), hilo_advance('new', 9000); COMMIT",
    );
    assert_eq!(fresh.one::<i64>("SELECT count(*) FROM hilo_gaps WHERE name = 'new'"), 0);
    cluster.finish();
}

/// A server that was alone and is told to be one of two does not begin again at the start.
#[test]
fn a_single_server_that_becomes_a_node_repeats_nothing() {
    let cluster = node(0, 1);
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('alone')");
    let seen = Seen::new(Way::Rising);
    seen.session().saw(&client.draw("alone", 100));
    reload(&cluster, &mut client, &[("hilo.node_count", "2"), ("hilo.node_id", "1")]);
    let mut fresh = cluster.connect("postgres");
    assert_eq!(as_new_node(&mut fresh, "alone", &seen, |_| false), None);
    fresh.refusal("SELECT hilo_nextval('alone')").is("55000").says("hilo.node_count = 1").helps();
    fresh
        .refusal("SELECT hilo_setval('alone', 50)")
        .is("55000")
        .says("node 0 has reserved")
        .helps();
    fresh.run("SELECT hilo_setval('alone', 1000)");
    assert_eq!(fresh.draw("alone", 1), [1001 + 1024]);
    assert_eq!(seen.in_order()[..100], (1..=100).collect::<Vec<_>>());
    seen.assert_unique();
    cluster.finish();
}

/// Values that a transaction has served from its own definition are written down as those of the
/// node that it was. So they are where the server becomes another one before the commit.
#[test]
fn a_transaction_stays_the_node_that_it_began_as() {
    let cluster = node(0, 2);
    let mut client = cluster.connect("postgres");
    let seen = Seen::new(Way::Rising);
    client.run("BEGIN; SELECT hilo_create('created')");
    seen.session().saw(&client.draw("created", 100));
    reload(&cluster, &mut client, &[("hilo.node_id", "1")]);
    client.run("COMMIT");
    seen.session().saw(&client.draw("created", 100));
    reload(&cluster, &mut client, &[("hilo.node_id", "0")]);
    seen.session().saw(&cluster.connect("postgres").draw("created", 100));
    seen.assert_unique();
    assert_eq!(seen.in_order()[100], 101, "the first node continues where its transaction stood");
    cluster.finish();
}

/// A renumbering is of the row of the node that it began as. The numbers of the node that the
/// server has become meanwhile are served on, and none is lost.
#[test]
fn a_renumbering_of_another_node_leaves_this_one_alone() {
    for known in [true, false] {
        let cluster = node(0, 2);
        let mut client = cluster.connect("postgres");
        client.run("SELECT hilo_create('s')");
        let seen = Seen::new(Way::Rising);
        if known {
            reload(&cluster, &mut client, &[("hilo.node_id", "1")]);
            seen.session().saw(&client.draw("s", 10));
            reload(&cluster, &mut client, &[("hilo.node_id", "0")]);
            drop(client);
            cluster.restart();
            client = cluster.connect("postgres");
        }
        client.run("BEGIN; SELECT hilo_setval('s', 1000000)");
        let mut other = cluster.connect("postgres");
        reload(&cluster, &mut other, &[("hilo.node_id", "1")]);
        let mut witness = cluster.connect("postgres");
        thread::scope(|scope| {
            let seen = &seen;
            let pid = other.backend_pid();
            let drawn = scope.spawn(move || {
                let mut session = seen.session();
                session.saw(&other.draw("s", 20));
                (other, session)
            });
            wait_until("the call waits or is served", LONG, || {
                drawn.is_finished() || witness.sees_waiting(pid)
            });
            client.run("COMMIT");
            let (mut other, mut session) = drawn.join().expect("it has drawn");
            session.saw(&other.draw("s", 5_000));
        });
        seen.assert_unique();
        drop(client);
        drop(witness);
        cluster.restart();
        let lost: i64 = cluster.connect("postgres").one(
            "SELECT (next_index
                - (SELECT coalesce(sum(end_index - first_index), 0) FROM _hilo.hilo_free_range f
                    WHERE f.node = 1 AND f.epoch = p.epoch AND f.incarnation = 0)
                - (SELECT coalesce(sum(count), 0) FROM _hilo.hilo_gap g WHERE g.node = 1))::bigint
               FROM _hilo.hilo_position p WHERE node = 1",
        );
        assert_eq!(
            lost,
            seen.in_order().len() as i64,
            "each number of node 1 is served, free or recorded"
        );
        cluster.finish();
    }
}

/// Where several nodes serve a sequence, a change of its numbers names the first one; bounds alone change
/// where it stands, without moving a stripe.
#[test]
fn a_change_of_the_numbers_says_where_they_begin() {
    let cluster = node(1, 2);
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('shared')");
    let seen = Seen::new(Way::Rising);
    let mut session = seen.session();
    session.saw(&client.draw("shared", 100));
    for change in ["increment => 2", "cycle => true"] {
        let call = format!("SELECT hilo_alter('shared', {change})");
        client.refusal(&call).is("55000").says("several nodes").hints("restart_with");
    }
    client.run("SELECT hilo_alter('shared', max_value => 2000)");
    session.saw(&client.draw("shared", 100));
    client.run("SELECT hilo_alter('shared', max_value => 1000000, ordered => true)");
    session.saw(&client.draw("shared", 1_000));
    assert_eq!(seen.count(), 1_200);
    let own = |value: &i64| (value - 1) / 1024 % 2 == 1;
    drop(session);
    assert!(seen.in_order().iter().all(own), "all of the second stripes, as before");

    for call in [
        "hilo_setval('shared', 1500)",
        "hilo_setval('shared', 1, false)",
        "hilo_alter('shared', restart_with => 1500)",
        "hilo_alter('shared', increment => -1, restart_with => 5000)",
    ] {
        client.refusal(&format!("SELECT {call}")).is("55000").says("node 1 has reserved").helps();
    }
    client.run("SELECT hilo_alter('shared', increment => 10, restart_with => 20000)");
    assert_eq!(client.draw("shared", 2), [20000 + 10240, 20000 + 10250]);
    client.run("SELECT hilo_setval('shared', 100000)");
    assert_eq!(client.draw("shared", 1), [100010 + 10240]);
    client.run("SELECT hilo_setval('shared', 200000, false)");
    let back = "SELECT hilo_alter('shared', restart_with => 20000)";
    client.refusal(back).is("55000").says("node 1 has reserved up to 200000");
    client.run("SELECT hilo_setval('shared', 200000, false)");
    assert_eq!(client.draw("shared", 1), [200000 + 10240]);
    cluster.finish();
}

/// hilo_setval continues after its value on all nodes alike, also at the last value and around a cycle.
#[test]
fn setval_means_the_same_on_every_node() {
    let clusters = nodes(2);
    let seen = Seen::new(Way::Rising);
    for cluster in &clusters {
        let mut client = cluster.connect("postgres");
        client.run(
            "SELECT hilo_create('set'), hilo_create('small', data_type => 'smallint'),
                    hilo_create('round', max_value => 5000, cycle => true)",
        );
        client.run("SELECT hilo_setval('set', 777)");
        seen.session().saw(&client.draw("set", 3_000));
        client.run("SELECT hilo_setval('small', 32767)");
        client.refusal("SELECT hilo_nextval('small')").is("2200H");
        client.run("SELECT hilo_setval('round', 5000)");
    }
    let values = seen.in_order();
    assert_eq!(values[0], 778);
    assert_eq!(values[..2048], (778..778 + 2048).collect::<Vec<_>>(), "none is left out");
    seen.assert_unique();
    let mut round = clusters.iter().map(|cluster| cluster.connect("postgres").draw("round", 1)[0]);
    assert_eq!((round.next(), round.next()), (Some(1), Some(1025)));
    drop(round);
    clusters.into_iter().for_each(Cluster::finish);
}

/// Two nodes become three as docs/multi-node.md says, while sessions draw from all of them.
#[test]
fn node_count_is_raised_under_load() {
    const BEYOND: i64 = 10_000_000;
    let mut clusters = nodes(2);
    clusters.push(node(2, 3));
    for cluster in &clusters[..2] {
        cluster.connect("postgres").run("SELECT hilo_create('raised')");
    }
    let seen = Seen::new(Way::Rising);
    let stop = AtomicBool::new(false);
    let all = |clusters: &[Cluster], sql: &str| {
        clusters.iter().for_each(|cluster| cluster.connect("postgres").run(sql));
    };
    let more = |count: usize| {
        let before = seen.count();
        wait_until("more numbers are drawn", LONG, || seen.count() >= before + count);
    };
    thread::scope(|scope| {
        for cluster in &clusters[..2] {
            for _ in 0..2 {
                scope.spawn(|| load(cluster, "raised", &seen, &stop));
            }
        }
        more(20_000);
        all(&clusters[..2], &format!("SELECT hilo_alter('raised', max_value => {})", BEYOND - 1));
        more(20_000);
        for cluster in &clusters[..2] {
            reload(cluster, &mut cluster.connect("postgres"), &[("hilo.node_count", "3")]);
        }
        more(20_000);
        let renumber = format!(
            "SELECT hilo_alter('raised', restart_with => {BEYOND}, max_value => 9223372036854775807)"
        );
        all(&clusters[..1], &renumber);
        more(20_000);
        all(&clusters[2..], &format!("SELECT hilo_create('raised', start_value => {BEYOND})"));
        scope.spawn(|| load(&clusters[2], "raised", &seen, &stop));
        more(20_000);
        all(&clusters[1..2], &renumber);
        more(20_000);
        stop.store(true, Relaxed);
    });
    let values = seen.in_order();
    assert!(values[0] < BEYOND && values[values.len() - 1] > BEYOND);
    seen.assert_unique();
    clusters.into_iter().for_each(Cluster::finish);
}
