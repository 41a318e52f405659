//! An alteration that does not renumber never touches the position: the session that makes it draws the same
//! values as every other session. One that renumbers is served from its commit on.

use std::thread;

use hilo_tests::{
    Client, ClientExt, Cluster, LONG, Mode, assert_accounted, assert_unique, wait_until,
};

/// The options that can be altered without renumbering.
const KEEPING: [&str; 9] = [
    "max_value => 1000000",
    "min_value => -5",
    "data_type => 'integer'",
    "ordered => true",
    "block_size => 50",
    "slice_size => 3",
    "key_format => 'K{value}'",
    "start_value => 2",
    "description => 'of orders'",
];

/// A sequence for each of these, of which a session has drawn 1.
fn with_a_sequence_for_each() -> Cluster {
    let cluster = Cluster::builder().config("hilo.worker_idle_timeout", "1h").start_with_hilo();
    let mut client = cluster.connect("postgres");
    for number in 0..KEEPING.len() {
        client.run(&format!("SELECT hilo_create('s{number}')"));
        assert_eq!(client.draw(&format!("s{number}"), 1), [1]);
    }
    cluster
}

/// Sessions that have each altered one of the sequences and drawn five values, and not ended their
/// transactions, with these.
fn altering(cluster: &Cluster) -> Vec<(Client, Vec<i64>)> {
    let alter = |(number, change): (usize, &&str)| {
        let mut client = cluster.connect("postgres");
        client.run(&format!("BEGIN; SELECT hilo_alter('s{number}', {change})"));
        let drawn = client.draw(&format!("s{number}"), 5);
        (client, drawn)
    };
    KEEPING.iter().enumerate().map(alter).collect()
}

/// Every sequence continues with the number after the last that was drawn of it, and nothing is lost.
fn assert_all_continue(cluster: &Cluster, altered: &[Vec<i64>]) {
    let mut client = cluster.connect("postgres");
    for (number, drawn) in altered.iter().enumerate() {
        let change = KEEPING[number];
        assert_eq!(drawn, &[2, 3, 4, 5, 6], "{change}");
        assert_eq!(client.draw(&format!("s{number}"), 3), [7, 8, 9], "after {change}");
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
}

/// Promises 1 and 5: a fast stop while alterations are open.
#[test]
fn left_open_at_a_fast_stop() {
    let cluster = with_a_sequence_for_each();
    let (_open, drawn): (Vec<Client>, Vec<_>) = altering(&cluster).into_iter().unzip();
    cluster.restart();
    assert_all_continue(&cluster, &drawn);
    cluster.finish();
}

/// Promise 1: a crash while alterations are open.
#[test]
fn left_open_at_a_crash() {
    let cluster = with_a_sequence_for_each();
    let altered = altering(&cluster);
    cluster.stop(Mode::Immediate);
    cluster.start();
    let mut client = cluster.connect("postgres");
    for (number, (_, drawn)) in altered.into_iter().enumerate() {
        let name = format!("s{number}");
        assert_unique(KEEPING[number], &[drawn, client.draw(&name, 300)].concat());
    }
    cluster.finish();
}

/// Promises 1 and 5: rolled back, and the worker terminated before anybody draws again.
#[test]
fn rolled_back_before_the_worker_is_terminated() {
    let cluster = with_a_sequence_for_each();
    let mut drawn = Vec::new();
    for (mut client, values) in altering(&cluster) {
        client.run("ROLLBACK");
        cluster.close(client);
        drawn.push(values);
    }
    cluster.terminate_worker("postgres");
    assert_all_continue(&cluster, &drawn);
    cluster.finish();
}

/// Promises 1 and 5: rolled back in a database from which no session had drawn before, and a fast stop.
#[test]
fn rolled_back_where_no_worker_was() {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('s')");
    let mut client = cluster.connect("postgres");
    client.run("BEGIN; SELECT hilo_alter('s', max_value => 1000)");
    assert_eq!(client.draw("s", 2), [1, 2]);
    client.run("ROLLBACK");
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.draw("s", 2), [3, 4]);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}

/// Promise 1: on one node of several, whose numbers are disjoint.
#[test]
fn rolled_back_on_a_node_of_several() {
    let cluster = Cluster::builder().node(0, 2).start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s'), hilo_create('other')");
    client.draw("other", 1);
    client.run("BEGIN; SELECT hilo_alter('s', max_value => 1000000000)");
    let mut seen = client.draw("s", 1_500);
    client.run("ROLLBACK");
    seen.extend(client.draw("s", 500));
    seen.extend(cluster.connect("postgres").draw("s", 500));
    assert_unique("s", &seen);
    cluster.finish();
}

/// Promise 1: rolled back while all places among the active sequences are taken.
#[test]
fn rolled_back_while_every_place_is_taken() {
    const PLACES: usize = 16;
    let cluster =
        Cluster::builder().config("hilo.max_sequences", &PLACES.to_string()).start_with_hilo();
    let mut holder = cluster.connect("postgres");
    holder.run(&format!("SELECT hilo_create('s' || n) FROM generate_series(0, {PLACES}) AS n"));
    for number in 1..=PLACES {
        holder.draw(&format!("s{number}"), 3);
    }
    let mut client = cluster.connect("postgres");
    client.run("BEGIN; SELECT hilo_alter('s0', max_value => 1000000)");
    let mut seen = client.draw("s0", 5);
    client.run("ROLLBACK");
    drop(holder);
    seen.extend(client.draw("s0", 5));
    seen.extend(cluster.connect("postgres").draw("s0", 5));
    assert_unique("s0", &seen);
    cluster.finish();
}

/// Promises 1 and 5: alterations rolled back while the worker starts and ends, because no other session is
/// connected.
#[test]
fn rolled_back_while_the_worker_leaves() {
    let cluster = Cluster::builder()
        .config("hilo.worker_idle_timeout", "0")
        .config("hilo.max_sequences", "150000")
        .start_with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('s')");
    let mut seen = Vec::new();
    for round in 0..40 {
        let mut client = cluster.connect("postgres");
        client.run(&format!("BEGIN; SELECT hilo_alter('s', max_value => {})", 1_000_000 + round));
        seen.extend(client.draw("s", 5));
        client.run("ROLLBACK");
        drop(client);
        seen.extend(cluster.connect("postgres").draw("s", 5));
    }
    assert_unique("s", &seen);
    cluster.restart();
    assert_accounted(&mut cluster.connect("postgres"), "s", &seen);
    cluster.finish();
}

/// Promises 1 and 5: savepoints, commits and rollbacks of alterations beside sessions that come, draw
/// and go, while the worker is terminated again and again.
#[test]
fn beside_others_that_draw() {
    let cluster = Cluster::builder()
        .config("hilo.max_slice_size", "4")
        .config("hilo.max_block_size", "64")
        .config("hilo.worker_idle_timeout", "10ms")
        .config("hilo.reserve_timeout", "60s")
        .start_with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('s')");
    let mut seen = thread::scope(|scope| {
        let drawing = || {
            let mut seen = Vec::new();
            for round in 0..20 {
                let mut client = cluster.connect("postgres");
                seen.extend(client.draw("s", 1 + round % 10));
            }
            seen
        };
        let altering = || {
            let mut seen = Vec::new();
            for round in 0..20 {
                let mut client = cluster.connect("postgres");
                let alter = format!("SELECT hilo_alter('s', max_value => {})", 1_000_000 + round);
                client.run(&format!("BEGIN; {alter}"));
                seen.extend(client.draw("s", 1 + round % 40));
                client.run("SAVEPOINT deep");
                client.run(&alter);
                seen.extend(client.draw("s", 7));
                if round % 2 == 0 {
                    client.run("ROLLBACK TO deep");
                    seen.extend(client.draw("s", 3));
                }
                client.run(if round % 3 == 0 { "COMMIT" } else { "ROLLBACK" });
            }
            seen
        };
        let mut sessions: Vec<_> = (0..2).map(|_| scope.spawn(drawing)).collect();
        sessions.extend((0..2).map(|_| scope.spawn(altering)));
        let mut operator = cluster.connect("postgres");
        while !sessions.iter().all(|session| session.is_finished()) {
            operator.run(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
                  WHERE backend_type = 'hilo worker'",
            );
        }
        let ended = sessions.into_iter().map(|session| session.join().expect("it was served"));
        ended.flatten().collect::<Vec<i64>>()
    });
    assert_unique("s", &seen);
    seen.extend(cluster.connect("postgres").draw("s", 100));
    cluster.restart();
    assert_accounted(&mut cluster.connect("postgres"), "s", &seen);
    cluster.finish();
}

/// Promise 5: a hundred sequences altered in one transaction continue with their very next numbers.
#[test]
fn of_a_hundred_sequences_at_once() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s' || n, data_type => 'integer') FROM generate_series(1, 100) AS n",
    );
    let draw = "SELECT hilo_nextval(name) FROM hilo_sequences, generate_series(1, 3) AS n
                 ORDER BY name, n";
    let three = |first: i64| -> Vec<i64> { [first, first + 1, first + 2].repeat(100) };
    assert_eq!(client.all::<i64>(draw), three(1));
    client.run("SELECT hilo_alter(name, data_type => 'bigint') FROM hilo_sequences");
    assert_eq!(client.all::<i64>(draw), three(4));
    client.run("BEGIN; SELECT hilo_alter(name, max_value => 1000) FROM hilo_sequences");
    assert_eq!(client.all::<i64>(draw), three(7));
    client.run("ROLLBACK");
    assert_eq!(client.all::<i64>(draw), three(10));
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_gaps"), 0);
    cluster.finish();
}

/// No other session waits for an open alteration, not even for a new block.
#[test]
fn others_do_not_wait() {
    let cluster = with_a_sequence_for_each();
    let mut altered = altering(&cluster);
    let mut other = cluster.connect("postgres");
    for (number, (client, drawn)) in altered.iter_mut().enumerate() {
        let name = format!("s{number}");
        drawn.push(1);
        drawn.extend(other.draw(&name, 5_000));
        drawn.extend(client.draw(&name, 50));
        client.run(if number % 2 == 0 { "COMMIT" } else { "ROLLBACK" });
        drawn.extend(client.draw(&name, 50));
        drawn.extend(other.draw(&name, 50));
        assert_unique(KEEPING[number], drawn);
    }
    cluster.finish();
}

/// Narrower bounds hold at once for who sets them; rolled back, they have held for nobody else and
/// nothing that lies beyond them is lost.
#[test]
fn narrower_bounds_hold_at_once() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let mut other = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    assert_eq!(client.draw("s", 3), [1, 2, 3]);
    client.run("BEGIN; SELECT hilo_alter('s', max_value => 5)");
    assert_eq!(client.draw("s", 2), [4, 5]);
    client.run("SAVEPOINT end_of_it");
    client.refusal("SELECT hilo_nextval('s')").is("2200H");
    client.run("ROLLBACK TO end_of_it");
    let mut seen = vec![1, 2, 3, 4, 5];
    seen.extend(other.draw("s", 100));
    client.run("ROLLBACK");
    seen.extend(client.draw("s", 100));
    drop((client, other));
    cluster.restart();
    assert_accounted(&mut cluster.connect("postgres"), "s", &seen);
    cluster.finish();
}

/// Promise 5: whoever is refused a value by narrower bounds of its own takes none. The values of a
/// session that draws meanwhile have no hole.
#[test]
fn narrower_bounds_take_nothing_from_others() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let mut other = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', ordered => true)");
    assert_eq!(client.draw("s", 3), [1, 2, 3]);
    client.run("BEGIN; SELECT hilo_alter('s', max_value => 5)");
    let mut seen = other.draw("s", 3);
    thread::scope(|scope| {
        let refused = scope.spawn(|| {
            client.run(
                "DO $$ BEGIN FOR i IN 1..1000 LOOP
                     BEGIN
                         PERFORM hilo_nextval('s');
                         RAISE 'it was served';
                     EXCEPTION WHEN sqlstate '2200H' THEN NULL;
                     END;
                 END LOOP; END $$",
            );
        });
        while !refused.is_finished() {
            seen.extend(other.draw("s", 10_000));
        }
    });
    let hole = seen.iter().zip(4..).find(|(value, next)| **value != *next);
    assert_eq!(hole, None, "a value that nobody was given");
    cluster.finish();
}

/// A minimum that was raised and not committed hides what another session has returned below it, and nothing
/// above it. Rolled back, it hides nothing.
#[test]
fn a_raised_minimum_hides_only_what_lies_below() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s')");
    let mut gone = cluster.connect("postgres");
    assert_eq!(gone.draw("s", 20).last(), Some(&20));
    let beyond = cluster.connect("postgres").draw("s", 20)[0];
    assert!(beyond > 26, "{beyond}");
    cluster.close(gone);
    client.run("BEGIN; SELECT hilo_alter('s', min_value => 25, start_value => 25)");
    assert_eq!(client.draw("s", 2), [25, 26]);
    client.run("ROLLBACK");
    assert_eq!(cluster.connect("postgres").draw("s", 4), [21, 22, 23, 24]);
    cluster.finish();
}

/// Wider bounds hold from the commit on, also for who sets them.
#[test]
fn wider_bounds_hold_from_the_commit_on() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', max_value => 5)");
    assert_eq!(client.draw("s", 5), [1, 2, 3, 4, 5]);
    for (end, next) in [("ROLLBACK", None), ("COMMIT", Some(6))] {
        client.run("BEGIN; SELECT hilo_alter('s', max_value => 10); SAVEPOINT end_of_it");
        client.refusal("SELECT hilo_nextval('s')").is("2200H").hints("commit");
        client.run(&format!("ROLLBACK TO end_of_it; {end}"));
        match next {
            Some(value) => assert_eq!(client.draw("s", 1), [value]),
            None => drop(client.refusal("SELECT hilo_nextval('s')").is("2200H")),
        }
    }
    assert_eq!(client.draw("s", 4), [7, 8, 9, 10]);
    cluster.finish();
}

/// Alterations that renumber, with how the sequence is created and what comes behind its 3.
const RENUMBERING: [(&str, &str, i64); 4] = [
    ("increment => 10", "max_value => 100", 13),
    ("cycle => true", "max_value => 100", 4),
    ("cycle => false", "max_value => 100, cycle => true", 4),
    ("max_value => 50", "max_value => 100, cycle => true", 4),
];

/// An alteration that renumbers is served from its commit on, after the last number served, and after
/// a rollback as before.
#[test]
fn that_renumber_are_served_from_the_commit_on() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for (number, (change, options, next)) in RENUMBERING.into_iter().enumerate() {
        let name = format!("s{number}");
        client.run(&format!("SELECT hilo_create('{name}', {options})"));
        assert_eq!(client.draw(&name, 2), [1, 2]);
        for (end, next) in [("ROLLBACK", 3), ("COMMIT", next)] {
            client.run(&format!("BEGIN; SELECT hilo_alter('{name}', {change})"));
            for call in ["nextval('{}')", "nextvals('{}', 2)", "nextrange('{}', 2)"] {
                let call = call.replace("{}", &name);
                client.run("SAVEPOINT before");
                client.refusal(&format!("SELECT hilo_{call}")).is("55000").helps();
                client.run("ROLLBACK TO before");
            }
            client.run(end);
            assert_eq!(client.draw(&name, 1), [next], "{change}, after {end}");
        }
    }
    cluster.finish();
}

/// Promises 1 and 5: whatever becomes of an alteration that renumbers, no number is served twice while others
/// draw.
#[test]
fn that_renumber_beside_others_that_draw() {
    let cluster = Cluster::builder().config("hilo.reserve_timeout", "60s").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 16)");
    let mut seen = client.draw("s", 3);
    let mut watcher = cluster.connect("postgres");
    for round in 0..10 {
        client.run(&format!("BEGIN; SELECT hilo_alter('s', increment => {})", 1 + (round + 1) % 3));
        let mut other = cluster.connect("postgres");
        let pid = other.backend_pid();
        seen.extend(thread::scope(|scope| {
            let call = scope.spawn(|| other.draw("s", 50));
            wait_until("the call waits or is served", LONG, || {
                call.is_finished() || watcher.sees_waiting(pid)
            });
            client.run(if round % 2 == 0 { "ROLLBACK" } else { "COMMIT" });
            call.join().expect("it is served")
        }));
        seen.extend(client.draw("s", 3));
    }
    assert_unique("s", &seen);
    cluster.finish();
}

/// A sequence that the transaction itself has set or restarted is served from its own numbering,
/// also when it is altered then. A value served before a ROLLBACK TO SAVEPOINT is not served again.
#[test]
fn of_a_sequence_that_the_transaction_has_set() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for (number, set) in
        ["hilo_setval('{}', 99)", "hilo_alter('{}', restart_with => 100)"].into_iter().enumerate()
    {
        let name = format!("s{number}");
        client.run(&format!("SELECT hilo_create('{name}')"));
        assert_eq!(client.draw(&name, 3), [1, 2, 3]);
        client.run(&format!("BEGIN; SELECT {}", set.replace("{}", &name)));
        let mut seen = client.draw(&name, 2);
        assert_eq!(seen, [100, 101]);
        for change in ["increment => 10", "max_value => 100000", "increment => 3", "cycle => true"]
        {
            client.run(&format!("SAVEPOINT before; SELECT hilo_alter('{name}', {change})"));
            seen.extend(client.draw(&name, 3));
            client.run("ROLLBACK TO before");
            seen.extend(client.draw(&name, 3));
        }
        client.run(&format!("SELECT hilo_alter('{name}', increment => 10)"));
        seen.extend(client.draw(&name, 3));
        client.run("COMMIT");
        seen.extend(client.draw(&name, 3));
        seen.extend(cluster.connect("postgres").draw(&name, 3));
        assert_unique(set, &seen);
    }
    cluster.finish();
}
