//! Citus gives a group again where its coordinator has lost count: Citus was created again, or another server is the
//! coordinator now. A node begins no stripe that another server may have served.

use hilo_tests::{Client, ClientExt, assert_unique};

use super::{
    FOLLOWS, Nodes, all_serve, create, finish, join_all, join_as, renumber, server, summary, three,
    three_nodes,
};

const CREATE: &str = "SELECT * FROM hilo_create_on_all_nodes('s')";

/// The call is refused before it has told or created anything, and these serve nothing.
fn assert_refused(nodes: &mut Nodes, group: i32, highest: i32, unserved: &[usize]) {
    let told = format!("for node {group}, since a node has had the id {highest}");
    for (_, client) in nodes.iter_mut() {
        client.refusal(CREATE).is("55000").details(&told).hints("restart_with");
    }
    for at in unserved {
        nodes[*at].1.refusal("SELECT hilo_nextval('s')");
    }
}

/// Promise 1: nodes that all have new groups cannot tell each other how a sequence is numbered. So
/// it is where a new coordinator has given groups again that it does not know of.
#[test]
fn nobody_knows_the_numbering() {
    let (mut nodes, mut seen) = three_nodes(2_000);
    join_as(&mut nodes, &[4, 2, 1]);
    // Its old rows are those of group 1, which is now the third node.
    nodes[1].1.refusal("SELECT hilo_nextval('s')").is("55000").says("not numbered for node 2");
    nodes[0]
        .1
        .refusal("SELECT * FROM hilo_create_on_all_nodes('s')")
        .is("55000")
        .details("no node knows")
        .hints("restart_with");
    renumber(&mut nodes, &mut seen);
    assert_unique("s", &seen);
    finish(nodes);
}

/// Promise 1: one that has its group still, the coordinator, knows how the sequence is numbered, and not who has been the
/// others.
#[test]
fn two_nodes_change_places() {
    let (mut nodes, mut seen) = three_nodes(2_000);
    let known = summary(&mut nodes[0].1);
    join_as(&mut nodes, &[0, 2, 1]);
    assert_refused(&mut nodes, 1, 2, &[1, 2]);
    // Neither does a node by itself, told by hand or by its owner.
    nodes[2]
        .1
        .refusal(&format!("SELECT hilo_apply('{known}')"))
        .is("55000")
        .says("for node 1, since")
        .hints("restart_with");
    for at in [1, 2] {
        nodes[at].1.refusal("SELECT hilo_alter('s', restart_with => 1)").is("55000").helps();
    }
    renumber(&mut nodes, &mut seen);
    // A coordinator that counts on from there gives groups that nobody had.
    nodes.push(server(&FOLLOWS));
    join_as(&mut nodes, &[0, 2, 1, 3]);
    assert_eq!(create(&mut nodes[0].1), ["create", "exists", "exists", "exists"]);
    all_serve(nodes, seen);
}

/// Promise 1: the first worker takes the place of the coordinator, which is lost; it has no row that says what that served.
#[test]
fn a_worker_becomes_the_coordinator() {
    let mut nodes: Nodes = (0..4).map(|_| server(&FOLLOWS)).collect();
    join_all(&mut nodes);
    nodes[0].1.run(CREATE);
    let mut seen = Vec::new();
    for (_, client) in &mut nodes {
        seen.extend(client.draw("s", 2_000));
    }
    let (lost, _) = nodes.remove(0);
    lost.finish();
    join_as(&mut nodes, &[0, 2, 1]);
    assert_refused(&mut nodes, 0, 3, &[0, 2]);
    seen.extend(nodes[1].1.draw("s", 500));
    renumber(&mut nodes, &mut seen);
    assert_unique("s", &seen);
    finish(nodes);
}

/// Promise 1: a new server has no rows, and gets the group of one that is lost.
#[test]
fn a_new_server_gets_the_group_of_one_that_is_lost() {
    let (mut nodes, seen) = three_nodes(2_000);
    let (lost, _) = std::mem::replace(&mut nodes[1], server(&FOLLOWS));
    lost.finish();
    join_all(&mut nodes);
    assert_refused(&mut nodes, 1, 2, &[1]);
    nodes[1].1.refusal("SELECT hilo_nextval('s')").is("42704");
    // The statement of docs/citus.md, which creates it where it is lacking.
    let worked: Vec<bool> = nodes[2].1.all(
        "SELECT success FROM run_command_on_all_nodes($$
           SELECT hilo_alter(hilo_create('s', if_not_exists => true), restart_with => 10000000)
             FROM set_config('hilo.on_every_node', 'on', true)$$)",
    );
    assert_eq!(worked, [true; 3]);
    assert_eq!(create(&mut nodes[0].1), ["exists"; 3]);
    all_serve(nodes, seen);
}

/// Lets a node fail when it does what it could do when it tried, or no longer.
fn fails(client: &mut Client, on: bool) {
    if on {
        client.run(
            "ALTER FUNCTION hilo_apply RENAME TO applies;
             CREATE FUNCTION hilo_apply(document jsonb, dry_run boolean) RETURNS SETOF text LANGUAGE plpgsql AS $$
             BEGIN
                 IF NOT dry_run THEN RAISE 'disk full'; END IF;
                 RETURN QUERY SELECT action FROM applies(document, dry_run => true);
             END $$",
        );
    } else {
        client.run("DROP FUNCTION hilo_apply; ALTER FUNCTION applies RENAME TO hilo_apply");
    }
}

/// The nodes are told in the order of their ids. So those that a failure leaves out have higher ids
/// than all that have the sequence, and the call can be repeated.
#[test]
fn a_call_that_failed_half_way_is_repeated() {
    let mut nodes = three();
    fails(&mut nodes[1].1, true);
    nodes[2].1.refusal(CREATE).is("55000").details("disk full").hints("call it again");
    let mut seen = nodes[0].1.draw("s", 2_000);
    for at in [1, 2] {
        nodes[at].1.refusal("SELECT hilo_nextval('s')").is("42704");
    }
    fails(&mut nodes[1].1, false);
    assert_eq!(create(&mut nodes[2].1), ["create", "create", "exists"]);
    for (_, client) in &mut nodes {
        seen.extend(client.draw("s", 2_000));
    }
    // The same for nodes that are told.
    join_as(&mut nodes, &[0, 3, 4]);
    fails(&mut nodes[1].1, true);
    nodes[0].1.refusal(CREATE).is("55000").details("disk full");
    for at in [1, 2] {
        nodes[at].1.refusal("SELECT hilo_nextval('s')").is("55000");
    }
    fails(&mut nodes[1].1, false);
    assert_eq!(create(&mut nodes[0].1), ["exists", "number", "number"]);
    all_serve(nodes, seen);
}
