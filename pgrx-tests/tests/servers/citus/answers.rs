//! Nodes that do not answer, or not in time, and calls for many sequences.

use std::time::{Duration, Instant};

use hilo_tests::{Client, ClientExt, Mode, assert_unique};

use super::{NOTHING, create, findings, finish, three};

fn has(complaints: &[String], words: &[&str]) -> bool {
    complaints
        .iter()
        .any(|found| found.starts_with("warning") && words.iter().all(|word| found.contains(word)))
}

/// A node that does not answer is a finding of its own, and hilo_check neither fails nor waits for long.
#[test]
fn a_node_that_does_not_answer() {
    let mut nodes = three();
    create(&mut nodes[0].1, "'s'");
    nodes[2].0.stop(Mode::Fast);
    let began = Instant::now();
    let complaints = findings(&mut nodes[0].1);
    assert!(began.elapsed() < Duration::from_secs(30));
    let host = nodes[2].0.socket_directory().display().to_string();
    assert!(has(&complaints, &[&host, "could not ask it"]), "{complaints:?}");
    // One that hangs, for good.
    nodes[0].1.run(
        "CREATE OR REPLACE FUNCTION pg_catalog.run_command_on_all_nodes(
             command text, parallel boolean DEFAULT true, give_warning_for_connection_errors boolean DEFAULT false,
             OUT nodeid integer, OUT success boolean, OUT result text
         ) RETURNS SETOF record LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); END'",
    );
    let complaints = findings(&mut nodes[0].1);
    assert!(has(&complaints, &["Citus", "have not answered within"]), "{complaints:?}");
    assert_eq!(nodes[0].1.draw("s", 1).len(), 1, "the session goes on");
    // A cancellation of the user's own is one.
    nodes[0].1.run("SET statement_timeout = 100");
    nodes[0].1.refusal("SELECT * FROM hilo_check()").is("57014");
    nodes[0].1.run("RESET statement_timeout");
    let function = "CREATE OR REPLACE FUNCTION pg_catalog.run_command_on_all_nodes(
             command text, parallel boolean DEFAULT true, give_warning_for_connection_errors boolean DEFAULT false,
             OUT nodeid integer, OUT success boolean, OUT result text
         ) RETURNS SETOF record LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'no node'; END$$";
    nodes[0].1.run(function);
    let complaints = findings(&mut nodes[0].1);
    assert!(has(&complaints, &["Citus", "no node"]), "{complaints:?}");
    finish(nodes);
}

/// A node that could read, and then waits for a lock, is named.
#[test]
fn a_node_that_cannot_write() {
    let mut nodes = three();
    nodes[1].1.run("BEGIN; LOCK TABLE _hilo.hilo_definition IN SHARE MODE");
    let host = nodes[1].0.socket_directory().display().to_string();
    let refusal = nodes[0].1.refusal("SELECT * FROM hilo_create_on_all_nodes('s')");
    refusal.is("55000").details(&host).details("lock timeout").hints("call it again");
    nodes[1].1.run("ROLLBACK");
    assert_eq!(create(&mut nodes[0].1, "'s'"), ["exists", "create", "exists"]);
    finish(nodes);
}

/// Many sequences take one call, which completes what is there.
#[test]
fn many_at_once() {
    let mut nodes = three();
    create(&mut nodes[0].1, "'many 7'");
    let sql = "SELECT action, count(*) FROM hilo_create_on_all_nodes(
                   ARRAY(SELECT 'many ' || n FROM generate_series(1, 150) n)) GROUP BY 1 ORDER BY 1";
    let done = |client: &mut Client| -> Vec<(String, i64)> {
        let rows = client.query(sql, &[]).expect("they are created");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    assert_eq!(done(&mut nodes[0].1), [("create".into(), 447), ("exists".into(), 3)]);
    assert_eq!(done(&mut nodes[0].1), [("exists".into(), 450)]);
    let mut seen = Vec::new();
    for (_, client) in &mut nodes {
        seen.extend(client.draw("many 150", 2_000));
        assert_eq!(findings(client), NOTHING);
    }
    nodes[0].1.refusal("SELECT * FROM hilo_create_on_all_nodes(ARRAY['a', NULL])").is("22023");
    assert_unique("many 150", &seen);
    finish(nodes);
}
