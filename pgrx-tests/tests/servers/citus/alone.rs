//! One node of several neither begins, restarts nor moves a sequence by itself: the others would serve the same numbers.
//! The advice that errors and `hilo_check` give instead is followed here to the letter, and leads
//! to no number twice.

use hilo_tests::{Client, ClientExt, Cluster, assert_unique};

use super::{
    FOLLOWS, NOTHING, Nodes, all_serve, by_hand, create, findings, finish, join_all, server, three,
    three_nodes,
};

/// The statement that a HINT or a finding has for all nodes.
#[track_caller]
fn statement(advice: &str) -> String {
    let from = advice.find("SELECT * FROM run_command_on_all_nodes").expect(advice);
    let to = from + advice[from..].find("$$)").expect(advice) + 3;
    advice[from..to].to_owned()
}

/// A table on each node, whose column owns the sequence.
fn tables(nodes: &mut Nodes) {
    for (_, client) in nodes {
        client.run(
            "CREATE TABLE t (id bigint PRIMARY KEY DEFAULT hilo_nextval('s'));
             SELECT hilo_alter('s', owned_by => 't.id')",
        );
    }
}

/// Promise 1: after an import every statement that comes to mind is refused on one node, and names the one for all.
#[test]
fn a_move_is_refused_and_the_hint_moves_all() {
    let (mut nodes, mut seen) = three_nodes(2_000);
    tables(&mut nodes);
    nodes[0].1.run("INSERT INTO t SELECT generate_series(60001, 66560)");
    let mut advice = String::new();
    for sql in [
        "SELECT hilo_setval('s', 66560)",
        "SELECT hilo_alter('s', restart_with => 66561)",
        "SELECT hilo_advance('s', 66560)",
        "SELECT hilo_sync('s', 't', 'id')",
    ] {
        let refusal = nodes[0].1.refusal(sql).is("55000").says("one node of several");
        advice = statement(refusal.report().hint().unwrap_or_default());
        assert!(advice.contains("hilo_advance('s', 66560)"), "{advice}");
    }
    nodes[0].1.refusal("TRUNCATE t RESTART IDENTITY").is("55000").helps();
    let to_do: Vec<String> =
        nodes[0].1.all("SELECT what_to_do FROM hilo_check() WHERE object = 'column public.t.id'");
    assert!(to_do.iter().any(|to_do| statement(to_do) == advice), "{to_do:?}");
    for _ in 0..2 {
        let worked = format!("SELECT bool_and(success) FROM ({advice}) r");
        assert!(nodes[1].1.one::<bool>(&worked));
    }
    for (_, client) in &mut nodes {
        let new = client.draw("s", 1_000);
        assert!(new[0] > 66_560, "{new:?}");
        seen.extend(new);
    }
    all_serve(nodes, seen);
}

/// Promise 1: a node that is left out serves its own numbers, whatever the others were moved past.
#[test]
fn an_advance_keeps_each_node_to_its_own_stripes() {
    let (mut nodes, mut seen) = three_nodes(1_500);
    for (at, to) in [(0, 3_100), (2, 40_000)] {
        by_hand(&mut nodes[at].1);
        nodes[at].1.run(&format!("SELECT hilo_advance('s', {to})"));
        seen.extend(nodes[at].1.draw("s", 3_000));
    }
    all_serve(nodes, seen);
}

/// Promise 1: a node that lacks a renumbering of the others does not begin with it by itself,
/// whatever it is asked. hilo_check says what gives it their numbering.
#[test]
fn a_beginning_is_refused_and_the_hint_joins_the_others() {
    let (mut nodes, mut seen) = three_nodes(2_000);
    for (_, client) in &mut nodes {
        by_hand(client);
        client.run("SELECT hilo_alter('s', restart_with => 44033)");
        client.run("RESET hilo.on_every_node");
    }
    nodes.push(server(&FOLLOWS));
    join_all(&mut nodes);
    let new = &mut nodes[3].1;
    new.run("CREATE TABLE t (id bigint PRIMARY KEY DEFAULT hilo_nextval('s')); SET hilo.auto_create = on");
    new.run("CREATE TABLE c (id bigserial)");
    for sql in [
        "SELECT hilo_create('s')",
        "SELECT hilo_nextval('s')",
        "SELECT * FROM hilo_create_missing()",
        "SELECT * FROM hilo_apply('{\"hilo\": 1, \"sequences\": [{\"name\": \"s\"}]}')",
        "SELECT hilo_adopt('c', 'id', 's')",
    ] {
        let refusal = new.refusal(sql);
        refusal
            .is("55000")
            .says("cannot begin hilo sequence \"s\"")
            .hints("hilo_create_on_all_nodes");
    }
    let to_do: String =
        new.one("SELECT what_to_do FROM hilo_check() WHERE object = 'column public.t.id'");
    assert!(to_do.contains("hilo_create_on_all_nodes"), "{to_do}");
    assert_eq!(create(new), ["create", "exists", "exists", "exists"]);
    for (_, client) in &mut nodes {
        seen.extend(client.draw("s", 3_000));
    }
    all_serve(nodes, seen);
}

/// The same without Citus: what one server has is carried to the other, and neither moves alone.
#[test]
fn servers_without_citus() {
    let start = |id: &str| {
        let builder = Cluster::builder().config("hilo.node_id", id).config("hilo.node_count", "2");
        let cluster = builder.start_with_hilo();
        let client = cluster.connect("postgres");
        (cluster, client)
    };
    let mut nodes = vec![start("0"), start("1")];
    let create = "SELECT hilo_create('s')";
    for (_, client) in &mut nodes {
        client.refusal(create).is("55000").hints("hilo_apply").hints("hilo.on_every_node");
        client.refusal("SELECT hilo_nextval('s')").is("42704").hints("hilo_apply");
    }
    by_hand(&mut nodes[0].1);
    nodes[0].1.run(create);
    let mut seen = nodes[0].1.draw("s", 2_000);
    nodes[0].1.run("SELECT hilo_alter('s', restart_with => 5000); RESET hilo.on_every_node");
    let summary = super::summary(&mut nodes[0].1);
    super::tell(&mut nodes[1].1, &summary);
    for (_, client) in &mut nodes {
        seen.extend(client.draw("s", 2_000));
        client
            .refusal("SELECT hilo_setval('s', 20000)")
            .is("55000")
            .hints("hilo_advance('s', 20000)");
        by_hand(client);
        client.run("SELECT hilo_advance('s', 20000)");
        seen.extend(client.draw("s", 2_000));
    }
    assert_unique("s", &seen);
    finish(nodes);
}

/// Where the ids are those of Citus but the count is forgotten, nothing is created, the HINT says which, and the call can be repeated.
#[test]
fn a_forgotten_setting() {
    let mut nodes: Nodes = (0..3).map(|_| server(&[("hilo.node_id", "citus")])).collect();
    join_all(&mut nodes);
    let refusal = nodes[0].1.refusal("SELECT * FROM hilo_create_on_all_nodes('s')");
    refusal.is("55000").hints("hilo.node_id = 'citus'").hints("hilo.node_count");
    for (cluster, client) in &mut nodes {
        assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), 0);
        FOLLOWS.iter().for_each(|(name, value)| cluster.configure(name, value));
        cluster.restart();
        *client = cluster.connect("postgres");
    }
    assert_eq!(create(&mut nodes[0].1), ["create"; 3]);
    all_serve(nodes, Vec::new());
}

/// A node that cannot get a sequence keeps the others from getting it.
#[test]
fn nothing_is_left_behind() {
    let mut nodes = three();
    for (at, (_, client)) in nodes.iter_mut().enumerate() {
        client.run(if at < 2 { "CREATE TABLE t (id bigint)" } else { "SELECT 1" });
    }
    let sql = "SELECT * FROM hilo_create_on_all_nodes('s', '{\"owned_by\": \"public.t.id\"}')";
    nodes[1].1.refusal(sql).is("55000").details("does not exist").hints("call it again");
    let gapless = "SELECT * FROM hilo_create_on_all_nodes('s', '{\"gapless\": true}')";
    nodes[1].1.refusal(gapless).is("0A000").says("gapless").helps();
    for (_, client) in &mut nodes {
        assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), 0);
    }
    nodes[2].1.run("CREATE TABLE t (id bigint)");
    let sql = sql.replace("SELECT *", "SELECT action");
    assert_eq!(nodes[1].1.all::<String>(&sql), ["create"; 3]);
    finish(nodes);
}

/// Many sequences take one call, which completes what is there.
#[test]
fn many_at_once() {
    let mut nodes = three();
    nodes[0].1.run("SELECT * FROM hilo_create_on_all_nodes('many 7', '{\"ordered\": true}')");
    let sql = "SELECT action, count(*) FROM hilo_create_on_all_nodes(
                   ARRAY(SELECT 'many ' || n FROM generate_series(1, 150) n)) GROUP BY 1 ORDER BY 1";
    let done = |client: &mut Client| -> Vec<(String, i64)> {
        let rows = client.query(sql, &[]).expect("they are created");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    assert_eq!(done(&mut nodes[1].1), [("create".into(), 447), ("exists".into(), 3)]);
    assert_eq!(done(&mut nodes[2].1), [("exists".into(), 450)]);
    let mut seen = Vec::new();
    for (_, client) in &mut nodes {
        seen.extend(client.draw("many 150", 2_000));
        assert_eq!(findings(client), NOTHING);
        client.refusal("SELECT * FROM hilo_create_on_all_nodes(ARRAY['a', NULL])").is("22023");
    }
    assert_unique("many 150", &seen);
    finish(nodes);
}

/// A privilege that was granted on one node only is found, and so is a sequence that was dropped on one node.
#[test]
fn what_was_done_on_one_node_is_found() {
    let (mut nodes, mut seen) = three_nodes(100);
    for (_, client) in &mut nodes {
        client.run("CREATE ROLE app");
    }
    nodes[1].1.run("SELECT hilo_grant('s', 'app', 'USAGE')");
    for (_, client) in &mut nodes {
        let complaints = findings(client);
        assert!(
            complaints.iter().any(|found| found.contains("privileges differ")),
            "{complaints:?}"
        );
    }
    nodes[1].1.run("SELECT hilo_revoke('s', 'app', 'USAGE'); DROP ROLE app");
    nodes[0].1.run("SELECT hilo_drop('s')");
    let refusal = nodes[0].1.refusal("SELECT * FROM hilo_create_on_all_nodes('s')").is("55000");
    let refusal = refusal.details("since a node has had the id 2").hints("hilo.on_every_node");
    assert!(refusal.report().detail().unwrap_or_default().len() < 200);
    nodes[0].1.refusal("SELECT hilo_create('s')").is("55000");
    for (at, (_, client)) in nodes.iter_mut().enumerate() {
        let create = if at == 0 { "hilo_create('s')," } else { "" };
        by_hand(client);
        client.run(&format!("SELECT {create} hilo_alter('s', restart_with => 1000000)"));
        seen.extend(client.draw("s", 2_000));
    }
    all_serve(nodes, seen);
}

/// Promise 1: the last node that got a sequence, and has drawn, drops it or loses it with all that it has. The others know that it
/// had it, so what hilo_check advises does not let it begin once more.
#[test]
fn the_highest_node_has_dropped_it() {
    for drop_it in ["SELECT hilo_drop('s')", "DROP EXTENSION hilo; CREATE EXTENSION hilo"] {
        let (mut nodes, mut seen) = three_nodes(100);
        nodes[2].1.run(drop_it);
        let complaints = findings(&mut nodes[0].1);
        assert!(
            complaints.iter().any(|found| found.contains("lacks 1 sequences")),
            "{complaints:?}"
        );
        for (_, client) in &mut nodes {
            let refusal = client.refusal("SELECT * FROM hilo_create_on_all_nodes('s')").is("55000");
            refusal.details("a node has had the id 2").hints("hilo.on_every_node");
        }
        by_hand(&mut nodes[2].1);
        nodes[2].1.run("SELECT hilo_create('s'), hilo_alter('s', restart_with => 1000000)");
        for (_, client) in &mut nodes[..2] {
            by_hand(client);
            client.run("SELECT hilo_alter('s', restart_with => 1000000)");
            seen.extend(client.draw("s", 2_000));
        }
        all_serve(nodes, seen);
    }
}

/// Where each node has bounds of its own, a node that lacks the sequence is found, and no advice leads to stripes.
#[test]
fn bounds_that_a_new_node_lacks() {
    let create = "SELECT hilo_create('s', start_value => (groupid::bigint << 48) + 1,
                       min_value => (groupid::bigint << 48) + 1, max_value => (groupid + 1::bigint) << 48)
                    FROM pg_dist_local_group";
    let mut nodes: Nodes = (0..3).map(|_| server(&[])).collect();
    join_all(&mut nodes);
    for (_, client) in &mut nodes[..2] {
        client.run(create);
    }
    for at in [0, 2] {
        let complaints = findings(&mut nodes[at].1);
        let words = "lacks 1 sequences";
        assert!(complaints.iter().any(|found| found.contains(words)), "{complaints:?}");
        let stripes = "SELECT count(*) FROM hilo_check() WHERE what_to_do ~ 'on_all_nodes' AND object ~ '^node'";
        assert_eq!(nodes[at].1.one::<i64>(stripes), 0);
    }
    nodes[2].1.refusal("SELECT hilo_nextval('s')").is("42704").hints("bounds of its own");
    nodes[2].1.run(create);
    let mut seen = Vec::new();
    for (_, client) in &mut nodes {
        client.run("SELECT hilo_setval('s', max_value - (1::bigint << 47)) FROM hilo_sequences");
        seen.extend(client.draw("s", 2_000));
        assert_eq!(findings(client), NOTHING);
    }
    assert_unique("s", &seen);
    finish(nodes);
}
