//! The coordinator is the centre, and the workers are its branches: one numbering for all nodes.

use std::thread;

use hilo_tests::{ClientExt, Cluster, Mode, assert_unique};

use super::{
    INSTALL, NOTHING, Nodes, bare, create, findings, finish, join, join_all, join_as, server, three,
};

/// Draws on all nodes at the same time.
fn draw(nodes: &Nodes, count: usize) -> Vec<i64> {
    let draw = |server: &Cluster| server.connect("postgres").draw("s", count);
    thread::scope(|scope| {
        let threads: Vec<_> =
            nodes.iter().map(|(server, _)| scope.spawn(move || draw(server))).collect();
        threads.into_iter().flat_map(|one| one.join().expect("a node failed")).collect()
    })
}

fn reconnect(nodes: &mut Nodes) {
    for (server, client) in nodes {
        *client = server.connect("postgres");
    }
}

/// Promise 1: one call makes the branches, and completes a later node, whatever is killed.
#[test]
fn all_nodes_serve_one_numbering() {
    let mut nodes = three();
    let client = &mut nodes[0].1;
    assert_eq!(
        create(client, r#"'s', '{"data_type": "integer", "start_value": 7}'"#),
        ["create"; 3]
    );
    assert_eq!(create(client, "'s'"), ["exists"; 3]);
    let mut seen = draw(&nodes, 3_000);
    // No stripes: the values are dense from the start on.
    assert!(seen.iter().all(|value| (7..1_000_000).contains(value)));
    nodes[0].0.kill9_postmaster();
    nodes[0].0.start();
    nodes[1].0.kill9_postmaster();
    nodes[1].0.start();
    nodes[2].0.restart();
    nodes.push(server(&[]));
    reconnect(&mut nodes);
    join_all(&mut nodes);
    nodes[3].1.refusal("SELECT hilo_nextval('s')").is("42704").hints("hilo_create_on_all_nodes");
    let complaints = findings(&mut nodes[1].1);
    let lacks = "lacks 1 sequences, such as \"s\"";
    assert!(complaints.iter().any(|found| found.contains(lacks)), "{complaints:?}");
    let actions = create(&mut nodes[0].1, "'s'");
    assert_eq!(actions, ["exists", "create", "exists", "exists"]);
    seen.extend(draw(&nodes, 3_000));
    for (_, client) in &mut nodes {
        assert_eq!(findings(client), NOTHING);
    }
    assert_unique("s", &seen);
    finish(nodes);
}

/// Promise 1: numbers are moved at the coordinator alone. A worker refuses it, and says where.
#[test]
fn a_worker_neither_begins_nor_moves() {
    let mut nodes = three();
    create(&mut nodes[0].1, "'s'");
    let mut seen = draw(&nodes, 500);
    let worker = &mut nodes[1].1;
    for sql in [
        "SELECT hilo_setval('s', 66560)",
        "SELECT hilo_advance('s', 66560)",
        "SELECT hilo_alter('s', restart_with => 66560)",
    ] {
        worker.refusal(sql).is("55000").hints("coordinator");
    }
    worker.refusal("SELECT hilo_create('own')").is("55000").hints("hilo_create_on_all_nodes");
    worker.refusal("SELECT hilo_detach('s', 1000000000)").is("55000").hints("coordinator");
    worker.refusal("SELECT * FROM hilo_create_on_all_nodes('t')").is("55000").hints("coordinator");
    worker.run("SET hilo.auto_create = on");
    worker.refusal("SELECT hilo_nextval('t')").is("55000").hints("coordinator");
    nodes[0].1.refusal("SELECT hilo_attach_server('s', NULL)").is("22023").helps();
    seen.extend(draw(&nodes, 500));
    assert_unique("s", &seen);
    finish(nodes);
}

/// Promise 1: a server that draws gets Citus, and becomes a worker. No session serves its own values any more, neither an open
/// one nor one that other sessions spare a look at the catalog.
#[test]
fn a_server_that_draws_becomes_a_worker() {
    let (cluster, mut client) = bare(&[]);
    client.run("SELECT hilo_create('s')");
    let mut open = cluster.connect("postgres");
    assert_eq!(open.draw("s", 3), [1, 2, 3]);
    client.run(INSTALL);
    assert_eq!(cluster.connect("postgres").draw("s", 1).len(), 1);
    join(&mut client, 1, &[]);
    for client in [&mut cluster.connect("postgres"), &mut open] {
        client.refusal("SELECT hilo_nextval('s')").is("55000").says("a worker of Citus");
    }
    cluster.finish();
}

/// A worker reads ahead only what it may serve: numbers of its own hold up nobody, and fill no log.
#[test]
fn a_worker_reads_no_numbers_of_its_own_ahead() {
    let (cluster, mut client) = bare(&[]);
    client.run(
        "SELECT hilo_create('s' || i, source => CASE WHEN i % 3 <> 0 THEN 'SELECT 1::bigint, 1000::bigint' END)
           FROM generate_series(1, 30) i",
    );
    client.run(INSTALL);
    join(&mut client, 1, &[]);
    for at in (1..=30).filter(|at| at % 3 != 0) {
        assert_eq!(client.draw(&format!("s{at}"), 1), [1]);
    }
    assert!(client.one::<bool>("SELECT bool_and(errors = 0) FROM hilo_stat_sequences"));
    assert!(!cluster.log().contains("could not reserve"), "{}", cluster.log());
    cluster.finish();
}

/// After an import the coordinator is moved, and a second call lets the workers forget their
/// values. So no node serves an imported one.
#[test]
fn workers_follow_a_renumbering() {
    let mut nodes = three();
    create(&mut nodes[0].1, "'s'");
    let before = draw(&nodes, 500);
    nodes[0].1.run("SELECT hilo_setval('s', 5000000)");
    for (_, client) in &mut nodes {
        let complaints = findings(client);
        let earlier = |what: &&String| what.contains("holds of an earlier numbering");
        assert_eq!(complaints.iter().filter(earlier).count(), 2, "{complaints:?}");
    }
    let none = "SELECT count(hilo_nextval('s')) FROM generate_series(1, 10000000)";
    let refusal = nodes[2].1.refusal(none);
    refusal.is("55000").says("must be attached to the coordinator of Citus again").helps();
    assert_eq!(create(&mut nodes[0].1, "'s'"), ["exists", "alter", "alter"]);
    let after = draw(&nodes, 500);
    assert!(after.iter().all(|value| *value > 5_000_000), "{after:?}");
    assert_unique("s", &[before, after].concat());
    for (_, client) in &mut nodes {
        assert_eq!(findings(client), NOTHING);
    }
    // A refusal of the coordinator has its own code, and its request is given up.
    let limit = "SELECT _hilo.hilo_answer('SELECT to_jsonb(current_setting(''lock_timeout''))') ->> 'answer'";
    assert_eq!(nodes[0].1.one::<String>(limit), "8s");
    nodes[0].1.run("SELECT hilo_drop('s')");
    let refusal = nodes[1].1.refusal(none);
    refusal.is("55000").says("has been dropped on the coordinator of Citus").helps();
    assert!(nodes[1].1.one::<bool>("SELECT most > 0 FROM _hilo.hilo_source"));
    finish(nodes);
}

/// Promise 1: a copy of a worker writes off what it finds, so the two serve different values. A
/// node that is removed gets no more, and goes on where it is added again.
#[test]
fn a_copy_of_a_worker_and_one_that_returns() {
    let mut nodes = three();
    create(&mut nodes[0].1, "'s'");
    let mut seen = draw(&nodes, 1_000);
    let clone = nodes[1].0.clone_by_base_backup();
    nodes[1].0.wait_for_replay(&clone);
    clone.promote();
    let client = clone.connect("postgres");
    nodes.push((clone, client));
    join_all(&mut nodes);
    assert_eq!(create(&mut nodes[0].1, "'s'"), ["exists"; 4]);
    seen.extend(draw(&nodes, 2_000));
    let removed = &mut nodes[2].1;
    removed.run("DELETE FROM pg_catalog.pg_dist_node");
    seen.extend(removed.draw("s", 1));
    let all = "SELECT count(hilo_nextval('s')) FROM generate_series(1, 10000000)";
    removed.refusal(all).says("the coordinator is not added to the metadata").helps();
    join_as(&mut nodes, &[0, 1, 17, 3]);
    seen.extend(draw(&nodes, 2_000));
    assert_unique("s", &seen);
    finish(nodes);
}

/// A step that cannot be done on every node is an error that names the node. Nothing is made before
/// all have answered.
#[test]
fn a_node_that_cannot() {
    let mut nodes: Vec<_> = (0..3).map(|_| server(&[])).collect();
    nodes[2].1.run("SELECT hilo_create('own'); SELECT hilo_nextval('own')");
    join_all(&mut nodes);
    nodes[2].1.refusal("SELECT hilo_nextval('own')").is("55000").hints("coordinator");
    let refusal = nodes[0].1.refusal("SELECT * FROM hilo_create_on_all_nodes('own')");
    refusal.is("55000").says("on all nodes").details("no branch of the coordinator");
    let complaints = findings(&mut nodes[1].1);
    assert!(complaints.iter().any(|what| what.contains("does not serve 1 sequences")));
    nodes[1].0.stop(Mode::Fast);
    let host = nodes[1].0.socket_directory().display().to_string();
    let refusal = nodes[0].1.refusal("SELECT * FROM hilo_create_on_all_nodes('s')");
    refusal.is("55000").details(&host).hints("call it again");
    let complaints = findings(&mut nodes[0].1);
    assert!(complaints.iter().any(|what| what.contains("could not ask it")), "{complaints:?}");
    nodes[0].1.refusal("SELECT hilo_nextval('s')").is("42704");
    nodes[1].0.start();
    nodes[1].1 = nodes[1].0.connect("postgres");
    nodes[2].1.run("SELECT hilo_drop('own')");
    let names = "ARRAY['s', 'own', 's']";
    assert_eq!(create(&mut nodes[0].1, names), ["create"; 6]);
    // The owner's grants are the same on every node.
    nodes[0].1.run("CREATE ROLE reader; SELECT hilo_grant('s', 'reader', 'SELECT')");
    let refusal = nodes[0].1.refusal("SELECT * FROM hilo_create_on_all_nodes('s')");
    refusal.is("55000").details("reader");
    nodes[1..].iter_mut().for_each(|(_, client)| client.run("CREATE ROLE reader"));
    assert_eq!(create(&mut nodes[0].1, "'s'"), ["exists", "grant", "grant"]);
    finish(nodes);
}

/// Bad input: a clear error, and nothing is created.
#[test]
fn bad_calls() {
    let mut nodes = three();
    let client = &mut nodes[0].1;
    for options in ["[]", "7", r#"{"incremnt": 1}"#, r#"{"increment": 0}"#] {
        let call = format!("SELECT * FROM hilo_create_on_all_nodes('s', '{options}')");
        client.refusal(&call).is("22023").helps();
    }
    for option in ["ordered", "cycle", "gapless"] {
        let call =
            format!(r#"SELECT * FROM hilo_create_on_all_nodes('s', '{{"{option}": true}}')"#);
        client.refusal(&call).is("0A000").helps();
    }
    client.refusal("SELECT * FROM hilo_create_on_all_nodes(NULL)").is("22023").helps();
    client.refusal("SELECT * FROM hilo_create_on_all_nodes('s', NULL)").is("22023").helps();
    client.run("BEGIN");
    client.refusal("SELECT * FROM hilo_create_on_all_nodes('s')").is("25001");
    client.run("ROLLBACK");
    client.refusal("SELECT hilo_nextval('s')").is("42704");
    finish(nodes);
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let call = "SELECT * FROM hilo_create_on_all_nodes('s')";
    client.refusal(call).is("0A000").hints("hilo_node_summary");
    cluster.finish();
}

/// A serial column of a table that Citus distributes draws from a sequence on all nodes, beyond all that it holds.
#[test]
fn a_distributed_table_is_adopted() {
    let mut nodes = three();
    let client = &mut nodes[0].1;
    client.run(
        "CREATE TABLE t (id bigserial, tenant int, name text DEFAULT 'none'); INSERT INTO t SELECT FROM generate_series(1, 9);
         INSERT INTO t VALUES (700), (281474976710657); INSERT INTO pg_catalog.pg_dist_partition VALUES ('t')",
    );
    client.refusal("SELECT hilo_adopt('t', 'id')").is("0A000").hints("hilo_adopt_on_all_nodes");
    client.refusal("SELECT hilo_adopt_on_all_nodes('t', 'zzzz')").is("42703");
    for column in ["tenant", "name"] {
        let call = format!("SELECT hilo_adopt_on_all_nodes('t', '{column}')");
        client.refusal(&call).is("0A000").helps();
    }
    client.run("BEGIN");
    client.refusal("SELECT hilo_adopt_on_all_nodes('t', 'id')").is("25001");
    client.run("ROLLBACK");
    assert_eq!(client.one::<String>("SELECT hilo_adopt_on_all_nodes('t', 'id')::text"), "t_id_seq");
    assert_eq!(client.one::<i64>("INSERT INTO t DEFAULT VALUES RETURNING id"), 701);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM pg_class WHERE relname = 't_id_seq'"), 0);
    nodes[1].1.run("CREATE TABLE t (id bigserial)");
    nodes[1].1.refusal("SELECT hilo_adopt_on_all_nodes('t', 'id')").is("42710").helps();
    let seen: Vec<i64> =
        nodes.iter_mut().flat_map(|(_, client)| client.draw("t_id_seq", 2_000)).collect();
    assert!(seen.iter().all(|value| (702..1_000_000).contains(value)));
    assert_unique("t_id_seq", &seen);
    finish(nodes);
}

/// An import into a distributed table brings ids that the coordinator is yet to give. Citus shows its rows to queries
/// only, and with them the ids that it gives on workers by itself.
#[test]
fn ids_in_a_distributed_table_are_found() {
    let mut nodes = three();
    let client = &mut nodes[0].1;
    create(client, "'s'");
    client.run(
        "CREATE TABLE t (id bigint PRIMARY KEY DEFAULT hilo_nextval('s'), other bigint DEFAULT hilo_nextval('s'));
         INSERT INTO pg_catalog.pg_dist_partition VALUES ('t')",
    );
    client.run("INSERT INTO t SELECT FROM generate_series(1, 9)");
    client.run("INSERT INTO t VALUES (281474976710657, 1)");
    assert_eq!(findings(client), NOTHING);
    client.run("INSERT INTO t VALUES (66560000, 1)");
    let found = findings(client);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("error: column public.t.id: its value 66560000"), "{found:?}");
    client.run("SELECT hilo_setval('s', 66560000)");
    create(client, "'s'");
    assert_eq!(findings(client), NOTHING);
    // Nobody is told of rows that he may not read.
    client.run("INSERT INTO t VALUES (166560000, 1); CREATE ROLE stranger LOGIN");
    client.run("SET ROLE stranger");
    assert_eq!(findings(client).iter().filter(|found| found.contains("166560000")).count(), 0);
    // Nor does a query run what other roles have put into their tables.
    client.run(
        "RESET ROLE; CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory; GRANT INSERT ON hilo_sequences TO mallory; SELECT hilo_grant('s', 'mallory', 'ALL');
         CREATE TABLE ran (by text); SET ROLE mallory;
         CREATE FUNCTION planted() RETURNS void LANGUAGE sql AS 'INSERT INTO ran VALUES (current_user)';
         CREATE FUNCTION sprung(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
             IF current_user <> 'mallory' THEN PERFORM public.planted(); END IF; RETURN $1; END $$;
         CREATE TABLE hers (id bigint PRIMARY KEY DEFAULT hilo_nextval('s'), old bigserial);
         CREATE INDEX ON hers (id) WHERE sprung(7) = 7; RESET ROLE;
         INSERT INTO pg_catalog.pg_dist_partition VALUES ('hers')",
    );
    findings(client);
    client.refusal("SELECT hilo_adopt_on_all_nodes('hers', 'old')").is("42809").helps();
    assert_eq!(client.one::<i64>("SELECT count(*) FROM ran"), 0);
    client.run("SELECT max(id) FROM hers WHERE id < 9");
    assert!(client.one::<i64>("SELECT count(*) FROM ran") > 0, "it would");
    finish(nodes);
}

/// Promise 1: a clone of the coordinator is no worker until Citus has promoted it, and the coordinator runs on.
#[test]
fn a_clone_of_the_coordinator_serves_nothing() {
    let mut nodes = three();
    create(&mut nodes[0].1, "'s'");
    let mut seen = draw(&nodes, 100);
    let clone = nodes[0].0.clone_by_base_backup();
    nodes[0].1.run(
        "INSERT INTO pg_catalog.pg_dist_node (nodeid, groupid, nodename, nodeisclone, nodeprimarynodeid)
         SELECT 900, 900, 'clone', true, nodeid FROM pg_catalog.pg_dist_node WHERE groupid = 0",
    );
    nodes[0].0.wait_for_replay(&clone);
    clone.promote();
    let mut client = clone.connect("postgres");
    let refusal = client.refusal("SELECT hilo_nextval('s')").is("55000");
    refusal.says("this server may be a clone of the coordinator").helps();
    seen.extend(nodes[0].1.draw("s", 100));
    // Whoever replaces the coordinator after all removes the clone.
    nodes[0].0.kill9_postmaster();
    client.run("DELETE FROM pg_catalog.pg_dist_node WHERE nodeisclone");
    seen.extend(client.draw("s", 100));
    assert_unique("s", &seen);
    nodes.remove(0);
    clone.finish();
    finish(nodes);
}
