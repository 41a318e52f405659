//! The faults in a parallel query that draws: calls in a worker, waits of the leader, a worker that
//! is killed.

use std::collections::HashSet;

use hilo_tests::{ClientExt, Cluster, LONG, SimpleQueryMessage, assert_unique, wait_until};

use crate::parallel::{CALLS, ROWS, assert_parallel, cluster, eager};

/// A caller that is declared PARALLEL SAFE by mistake is refused in a worker, and nothing is left of the attempt.
#[test]
fn a_function_that_is_called_safe_by_mistake_is_refused_in_a_worker() {
    let cluster = cluster();
    let mut client = eager(&cluster);
    let mut seen = client.draw("s", 10);
    client.run("SELECT hilo_create('blocks', block_size => 10)");
    for (at, (call, _)) in CALLS.iter().enumerate() {
        let rows = call.contains("nextvals(");
        let call =
            if rows { format!("(SELECT max(v) FROM {call} AS v)") } else { (*call).to_owned() };
        client.run(&format!(
            "CREATE FUNCTION wrong_{at}(n integer) RETURNS text LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS
                 $$ BEGIN RETURN {call}; END $$"
        ));
        let sql = format!("SELECT wrong_{at}(n) FROM t WHERE n % 2 = 0");
        client
            .refusal(&sql)
            .is("25000")
            .says("in a parallel worker")
            .details("session")
            .hints("PARALLEL RESTRICTED");
        client.run(&format!("ALTER FUNCTION wrong_{at} PARALLEL RESTRICTED"));
        assert_parallel(&mut client, &sql, &format!("wrong_{at}("));
    }
    // No place and no slice is held but this session's.
    let me = client.backend_pid();
    let holders: Vec<i32> = client.all("SELECT pid FROM hilo_stat_backends GROUP BY pid");
    assert!(holders.iter().all(|pid| *pid == me), "{holders:?} beside {me}");
    seen.extend(client.draw("s", 100));
    assert_unique("s", &seen);
    assert!(seen.is_sorted());
    // Where it does run in the leader, what defines is refused as well: a transaction cannot write meanwhile.
    for define in [
        "hilo_create('new' || n)",
        "hilo_create('s', if_not_exists => true)",
        "hilo_setval('s', n)",
        "hilo_alter('s', ordered => true)",
        "hilo_rename('s', 'other')",
        "hilo_drop('s')",
        "hilo_grant('s', 'public', 'USAGE')",
        "hilo_set_owner('s', 'postgres')",
        "hilo_apply('{\"hilo\": 1, \"sequences\": []}')",
    ] {
        client.run(&format!(
            "CREATE OR REPLACE FUNCTION defines(n integer) RETURNS text LANGUAGE plpgsql PARALLEL RESTRICTED AS
                 $$ BEGIN PERFORM {define}; RETURN n; END $$"
        ));
        let sql = "SELECT defines(n) FROM t WHERE n % 2 = 0";
        client
            .refusal(sql)
            .is("25000")
            .says("during a parallel operation")
            .hints("PARALLEL UNSAFE");
        client.run("ALTER FUNCTION defines PARALLEL SAFE");
        client
            .refusal(sql)
            .is("25000")
            .says("during a parallel operation")
            .hints("PARALLEL UNSAFE");
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), 2);
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('s')"), seen.last().unwrap() + 1);
    cluster.finish();
}

/// The waits of a leader end as they do elsewhere, and the session goes on.
#[test]
fn a_leader_that_waits_can_be_stopped() {
    let cluster = cluster();
    let mut client = eager(&cluster);
    client.run("SELECT hilo_create('dry', block_size => 10)");
    let mut seen = client.draw("dry", 1);
    let sql = "CREATE TABLE kept AS SELECT hilo_nextval('dry') AS id FROM t WHERE n % 2 = 0";
    let mut locker = cluster.connect("postgres");
    locker.run("BEGIN; LOCK TABLE _hilo.hilo_position");
    client.run("SET statement_timeout = '300ms'");
    client.refusal(sql).is("57014");
    client.run("RESET statement_timeout; SET hilo.reserve_timeout = '300ms'");
    client.refusal(sql).is("55P03").says("timed out");
    client.run("RESET hilo.reserve_timeout");
    let pid = client.backend_pid();
    let stopper = std::thread::spawn({
        let mut watcher = cluster.connect("postgres");
        move || {
            wait_until("the leader waits", LONG, || watcher.sees_waiting(pid));
            // Not by a cancel request: the postmaster sends the signal twice for one, so that the second may come when
            // the next statement has begun.
            watcher.run(&format!("SELECT pg_cancel_backend({pid})"));
        }
    });
    client.refusal(sql).is("57014");
    stopper.join().expect("it cancels");
    locker.run("ROLLBACK");
    // An error of a row that a worker scans, in the middle of the draws.
    client.refusal(&format!("{sql} AND 1 / (n - {ROWS} + 2) < 2")).is("22012");
    client.run(sql);
    seen.extend(client.all::<i64>("SELECT id FROM kept"));
    assert_unique("dry", &seen);
    cluster.close(client);
    let mut client = eager(&cluster);
    let workers = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'";
    wait_until("no worker is left", LONG, || client.one::<i64>(workers) == 0);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_stat_backends"), 0);
    cluster.finish();
}

/// A parallel worker that is killed takes the server with it, as any process does; nothing comes twice after that.
#[test]
fn nothing_comes_twice_after_a_parallel_worker_was_killed() {
    let cluster = cluster();
    cluster.expect_crash();
    let mut seen: HashSet<i64> = HashSet::new();
    for _ in 0..3 {
        let mut client = eager(&cluster);
        let first = client.draw("s", 1)[0];
        assert!(seen.insert(first), "{first} twice");
        let leader = client.backend_pid();
        let running = std::thread::spawn(move || {
            let mut read: Vec<i64> = Vec::new();
            let sql = "COPY (SELECT hilo_nextval('s') FROM t WHERE pg_sleep(0.001) IS NOT NULL) TO STDOUT";
            let Ok(out) = client.copy_out(sql) else { return read };
            let mut lines = std::io::BufReader::new(out);
            let mut line = String::new();
            while std::io::BufRead::read_line(&mut lines, &mut line).is_ok_and(|n| n > 0) {
                read.push(line.trim().parse().expect("a number"));
                line.clear();
            }
            read
        });
        let mut admin = cluster.connect("postgres");
        let worker = format!(
            "SELECT a.pid FROM pg_stat_activity AS a JOIN hilo_stat_backends AS b ON b.pid = a.leader_pid
              WHERE backend_type = 'parallel worker' AND leader_pid = {leader} AND last_value > {first} + 2000
              ORDER BY a.pid LIMIT 1"
        );
        let mut pids = Vec::new();
        wait_until("the leader of a parallel worker has drawn", LONG, || {
            pids = admin.all::<i32>(&worker);
            !pids.is_empty()
        });
        cluster.kill9(pids[0]);
        for value in running.join().expect("the client ends") {
            assert!(seen.insert(value), "{value} twice");
        }
        drop(admin);
        wait_until("the server is back", LONG, || {
            cluster.try_connect("postgres", "postgres").is_ok_and(|mut client| {
                client.simple_query("SELECT 1").is_ok_and(|rows| {
                    rows.iter().any(|row| matches!(row, SimpleQueryMessage::Row(_)))
                })
            })
        });
    }
    assert!(seen.len() > 1000, "only {} numbers had arrived", seen.len());
    let mut client = eager(&cluster);
    for value in client.draw("s", 1000) {
        assert!(seen.insert(value), "{value} twice");
    }
    cluster.finish();
}

/// Where the query's own workers have taken all places for background workers. So that hilo's
/// worker finds none, the session waits as long as for a block, and is told what to raise.
#[test]
fn a_leader_whose_workers_have_taken_all_places_is_told() {
    let cluster = Cluster::builder().config("max_worker_processes", "3").start_with_hilo();
    let mut client = eager(&cluster);
    client.run(
        "CREATE TABLE t AS SELECT n, repeat('x', 500) AS pad FROM generate_series(1, 20000) AS n; ANALYZE t;
         SELECT hilo_create('s')",
    );
    let workers = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'hilo worker'";
    wait_until("no worker of hilo runs", LONG, || client.one::<i64>(workers) == 0);
    let sql = "CREATE TABLE numbered AS SELECT hilo_nextval('s') AS id, pad FROM t";
    client.run("SET hilo.reserve_timeout = '500ms'");
    client.refusal(sql).is("53400").details("No background worker").hints("max_worker_processes");
    assert_eq!(client.draw("s", 1), [1]);
    client.run(sql);
    assert_eq!(client.one::<i64>("SELECT max(id) FROM numbered"), 20_001);
    cluster.finish();
}
