//! `hilo_check` compares this node with those that answer.

use std::time::{Duration, Instant};

use hilo_tests::{Client, ClientExt, Cluster, Mode};

use super::{NOTHING, by_hand, findings, three};

fn has(complaints: &[String], severity: &str, words: &[&str]) -> bool {
    complaints
        .iter()
        .any(|found| found.starts_with(severity) && words.iter().all(|word| found.contains(word)))
}

fn finish(nodes: Vec<(Cluster, Client)>) {
    nodes.into_iter().for_each(|(cluster, _)| cluster.finish());
}

/// A difference between two nodes is found on both; what may be served twice is an error.
#[test]
fn differences() {
    let mut nodes = three();
    for name in ["same", "base", "step", "order"] {
        nodes[0].1.run(&format!("SELECT * FROM hilo_create_on_all_nodes('{name}')"));
    }
    by_hand(&mut nodes[1].1);
    nodes[1].1.run("SELECT hilo_alter('base', restart_with => 5000)");
    nodes[1].1.run("SELECT hilo_alter('step', increment => 10, restart_with => 1)");
    nodes[1].1.run("SELECT hilo_alter('order', ordered => true)");
    nodes[1].1.run("SELECT hilo_create('only here')");
    let complaints =
        [findings(&mut nodes[0].1), findings(&mut nodes[1].1), findings(&mut nodes[2].1)];
    for (at, complaints) in complaints.iter().enumerate() {
        assert!(
            has(complaints, "error", &["sequence \"base\"", "from 5000", "from 1 "]),
            "{at}: {complaints:?}"
        );
        assert!(
            has(complaints, "error", &["sequence \"step\"", "increment differs"]),
            "{at}: {complaints:?}"
        );
        assert!(
            has(complaints, "warning", &["sequence \"order\"", "ordered differs"]),
            "{at}: {complaints:?}"
        );
        assert!(!has(complaints, "", &["\"same\""]), "{at}: {complaints:?}");
        let words = if at == 1 { "lacks 1 sequences" } else { "has 1 sequences" };
        assert!(has(complaints, "warning", &[words, "only here"]), "{at}: {complaints:?}");
    }
    nodes[2].0.configure("hilo.node_count", "16");
    nodes[2].0.restart();
    nodes[2].1 = nodes[2].0.connect("postgres");
    let complaints = findings(&mut nodes[0].1);
    assert!(
        has(&complaints, "warning", &["hilo.node_count is 16", "here it is 8"]),
        "{complaints:?}"
    );
    finish(nodes);
}

/// A node that does not answer is a finding of its own, and hilo_check neither fails nor waits for long.
#[test]
fn a_node_that_does_not_answer() {
    let mut nodes = three();
    nodes[0].1.run("SELECT * FROM hilo_create_on_all_nodes('s')");
    nodes[2].0.stop(Mode::Fast);
    nodes[1].1.run("BEGIN; LOCK TABLE _hilo.sequence");
    let began = Instant::now();
    let complaints = findings(&mut nodes[0].1);
    assert!(began.elapsed() < Duration::from_secs(30));
    let host = |at: usize| nodes[at].0.socket_directory().display().to_string();
    assert!(has(&complaints, "warning", &[&host(2), "could not ask it"]), "{complaints:?}");
    assert!(has(&complaints, "warning", &[&host(1), "lock timeout"]), "{complaints:?}");
    nodes[1].1.run("ROLLBACK");
    // One that hangs, for good.
    nodes[0].1.run(
        "CREATE OR REPLACE FUNCTION pg_catalog.run_command_on_all_nodes(
             command text, parallel boolean DEFAULT true, give_warning_for_connection_errors boolean DEFAULT false,
             OUT nodeid integer, OUT success boolean, OUT result text
         ) RETURNS SETOF record LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); END'",
    );
    let complaints = findings(&mut nodes[0].1);
    assert!(has(&complaints, "warning", &["Citus", "have not answered within"]), "{complaints:?}");
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
    assert!(has(&complaints, "warning", &["Citus", "no node"]), "{complaints:?}");
    finish(nodes);
}

/// A row whose number another node is yet to serve is found where that node answers. Rows with
/// numbers that it has reserved are no danger.
#[test]
fn rows_beyond_what_a_node_has_reserved() {
    let mut nodes = three();
    nodes[0].1.run("SELECT * FROM hilo_create_on_all_nodes('s')");
    let served = nodes[1].1.draw("s", 2_000);
    let client = &mut nodes[0].1;
    client.run("CREATE TABLE t (id bigint PRIMARY KEY DEFAULT hilo_nextval('s'))");
    for value in served {
        client.run(&format!("INSERT INTO t VALUES ({value})"));
    }
    // A stripe of no node.
    client.run(&format!("INSERT INTO t VALUES ({})", 1_000_000_i64 * 8192 + 7 * 1024 + 3));
    assert_eq!(findings(client), NOTHING);
    let beyond = 1_000_000_i64 * 8192 + 1024 + 3;
    client.run(&format!("INSERT INTO t VALUES ({beyond})"));
    let complaints = findings(client);
    let value = format!("value {beyond} is yet to be served by node 1");
    assert!(has(&complaints, "warning", &["column public.t.id", &value]), "{complaints:?}");
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    finish(nodes);
}

/// Servers without Citus are compared by their summaries, which a client carries; and completed by them.
#[test]
fn summaries_of_other_servers() {
    let north = Cluster::builder().node(0, 4).start_with_hilo();
    let south = Cluster::builder().node(1, 4).start_with_hilo();
    let twin = Cluster::builder().node(0, 4).start_with_hilo();
    let summary = |cluster: &Cluster| -> String {
        cluster.connect("postgres").one("SELECT hilo_node_summary()::text")
    };
    let compare = |cluster: &Cluster, other: &str| -> Vec<String> {
        let quoted = other.replace('\'', "''");
        cluster.connect("postgres").all(&format!(
            "SELECT severity || ': ' || object || ': ' || what FROM hilo_compare('{quoted}')"
        ))
    };
    let apply = |cluster: &Cluster, other: &str| {
        let sql = format!("SELECT count(*) FROM hilo_apply('{}')", other.replace('\'', "''"));
        cluster.connect("postgres").query_one(&sql, &[]).map(|row| row.get::<_, i64>(0))
    };
    let mut client = north.connect("postgres");
    client.run(
        "SELECT hilo_create('it''s', start_value => 50), hilo_alter('it''s', restart_with => 7000)",
    );
    let of_north = summary(&north);
    assert_eq!(compare(&north, &of_north), NOTHING, "its own");
    assert!(has(&compare(&south, &of_north), "warning", &["node 0", "has 1 sequences"]));
    assert_eq!(apply(&south, &of_north).unwrap(), 1);
    assert_eq!(apply(&south, &of_north).unwrap(), 0, "there is nothing left to do");
    assert_eq!(compare(&south, &of_north), NOTHING);
    assert_eq!(compare(&north, &summary(&south)), NOTHING);
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('it''s')"), 7000);
    let mut other = south.connect("postgres");
    assert_eq!(other.one::<i64>("SELECT hilo_nextval('it''s')"), 8024);
    // A copy of a server, or one that was given the same id.
    twin.connect("postgres").run("SELECT hilo_create('it''s')");
    assert!(has(&compare(&twin, &of_north), "error", &["node 0", "as that of this server"]));
    let refusal = twin
        .connect("postgres")
        .refusal(&format!("SELECT hilo_apply('{}')", of_north.replace('\'', "''")));
    refusal.is("55000").says("another server").helps();
    // A server on which it was created another time.
    other.run("SELECT hilo_drop('it''s'), hilo_create('it''s')");
    assert!(has(&compare(&south, &of_north), "error", &["from 7000", "from 1 "]));
    let refusal = apply(&south, &of_north).unwrap_err();
    assert_eq!(refusal.code().map(|code| code.code()), Some("55000"));
    other
        .refusal("SELECT * FROM hilo_compare('{\"hilo\": 1, \"sequences\": []}')")
        .is("22023")
        .helps();
    other.refusal("SELECT * FROM hilo_compare(NULL)").is("22023");
    for cluster in [north, south, twin] {
        cluster.finish();
    }
}

/// A server that was given another id serves by the numbering that it knows, as a copy with an id of its own does. If the
/// others have renumbered the sequence since, hilo_compare says so before it has drawn, and hilo_apply tells it.
#[test]
fn a_server_with_another_id() {
    let north = Cluster::builder().node(0, 4).start_with_hilo();
    let south = Cluster::builder().node(1, 4).start_with_hilo();
    let mut client = north.connect("postgres");
    client.run("SELECT hilo_create('s'), hilo_create('same')");
    let of_north: String = client.one("SELECT hilo_node_summary()::text");
    let mut other = south.connect("postgres");
    other.run(&format!("SELECT * FROM hilo_apply('{of_north}')"));
    let mut seen = client.draw("s", 3_000);
    seen.extend(other.draw("s", 3_000));
    south.configure("hilo.node_id", "2");
    south.restart();
    client.run("SELECT hilo_alter('s', restart_with => 50000)");
    let of_north: String = client.one("SELECT hilo_node_summary()::text");
    let compare = format!(
        "SELECT severity || ': ' || object || ': ' || what FROM hilo_compare('{of_north}')"
    );
    let apply = format!("SELECT action || ' ' || name FROM hilo_apply('{of_north}')");
    let mut other = south.connect("postgres");
    let complaints: Vec<String> = other.all(&compare);
    assert!(has(&complaints, "error", &["sequence \"s\"", "from 1 ", "from 50000"]));
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    let of_south: String = other.one("SELECT hilo_node_summary()::text");
    let complaints: Vec<String> =
        client.all(&format!("SELECT what FROM hilo_compare('{of_south}')"));
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert_eq!(other.all::<String>(&apply), ["number s"]);
    assert_eq!(other.all::<String>(&compare), NOTHING);
    assert_eq!(other.one::<i64>("SELECT hilo_nextval('s')"), 50_000 + 2 * 1024);
    seen.extend(other.draw("s", 3_000));
    seen.extend(client.draw("s", 3_000));
    hilo_tests::assert_unique("s", &seen);
    assert_eq!(other.one::<i64>("SELECT hilo_nextval('same')"), 1 + 2 * 1024);
    north.finish();
    south.finish();
}
