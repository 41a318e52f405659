//! Several sessions apply documents at the same time: each name is created once, and none of them fails.

use std::thread;

use hilo_tests::{ClientExt, Cluster, LONG, wait_until};
use serde_json::{Value, json};

use crate::document::{apply, apply_with, call, document, export};

fn names(order: impl Iterator<Item = usize>) -> Value {
    document(order.map(|n| json!({"name": format!("s{n}"), "block_size": n + 1})).collect())
}

/// Documents that name the same sequences in different orders.
#[test]
fn sessions_apply_at_the_same_time() {
    let cluster = Cluster::with_hilo();
    let documents = [names(0..100), names((0..100).rev()), names((0..100).map(|n| n * 37 % 100))];
    let run = &|at: usize| {
        let mut client = cluster.connect("postgres");
        (0..5).map(|_| apply(&mut client, &documents[at % 3]).len()).sum::<usize>()
    };
    let created: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|at| scope.spawn(move || run(at))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it has ended well")).sum()
    });
    assert_eq!(created, 100);
    let mut admin = cluster.connect("postgres");
    assert_eq!(export(&mut admin)["sequences"].as_array().map(Vec::len), Some(100));
    cluster.finish();
}

/// The second call waits for the first one's transaction, and then finds its work done, or does it itself if
/// that was rolled back.
#[test]
fn a_call_waits_for_another_that_is_not_committed() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    for (end, rows) in [("ROLLBACK", 3), ("COMMIT", 0)] {
        admin.run("SELECT hilo_drop(name) FROM hilo_sequences");
        let (mut first, mut second) = (cluster.connect("postgres"), cluster.connect("postgres"));
        let pid = second.backend_pid();
        first.run("BEGIN");
        assert_eq!(apply(&mut first, &names(0..3)).len(), 3);
        thread::scope(|scope| {
            let waiting = scope.spawn(move || apply(&mut second, &names((0..3).rev())).len());
            wait_until("the second call waits", LONG, || admin.sees_waiting(pid));
            first.run(end);
            assert_eq!(waiting.join().expect("it has ended well"), rows, "{end}");
        });
        assert_eq!(admin.one::<i64>("SELECT count(*) FROM hilo_sequences"), 3);
    }
    // A call that changes nothing does not wait, nor does one that may change nothing.
    admin.run("CREATE ROLE anna LOGIN; SELECT hilo_create(n) FROM unnest(array['s4', 's5']) n");
    let mut anna = cluster.connect_as("anna", "postgres");
    anna.run("BEGIN");
    assert!(apply_with(&mut anna, &document(json!([])), ", true").is_empty());
    anna.run("SAVEPOINT s");
    anna.refusal(&format!("SELECT {}", call(&names(6..7), ""))).is("42501");
    anna.run("ROLLBACK TO s");
    // The wait ends when lock_timeout says so.
    let (mut first, mut second) = (cluster.connect("postgres"), cluster.connect("postgres"));
    first.run("BEGIN");
    assert_eq!(apply(&mut first, &names(3..4)).len(), 1);
    let there = document(json!([{"name": "s4", "ordered": false}]));
    assert!(apply(&mut admin, &there).is_empty());
    let hers = document(json!([{"name": "s4", "ordered": true}]));
    anna.refusal(&format!("SELECT {}", call(&hers, ""))).is("42501");
    second.run("SET lock_timeout = '10ms'");
    second.refusal(&format!("SELECT {}", call(&names(3..4), ""))).is("55P03");
    cluster.finish();
}

/// Documents that alter, drop and create each other's sequences at the same time neither deadlock nor collide.
#[test]
fn calls_that_alter_prune_and_create_do_not_collide() {
    let cluster = Cluster::with_hilo();
    let run = &|at: usize| {
        let mut client = cluster.connect("postgres");
        for round in 0..20 {
            let kept = (0..30).filter(|n| ![0, 3, 6, 9].contains(&((n + at + round) % 12)));
            let list = kept.map(|n| json!({"name": format!("s{n}"), "block_size": at + 1 + round}));
            apply_with(&mut client, &document(list.collect()), ", prune => true");
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|at| scope.spawn(move || run(at))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it has ended well"));
    });
    let mut admin = cluster.connect("postgres");
    apply_with(&mut admin, &names(0..3), ", prune => true");
    assert_eq!(export(&mut admin)["sequences"].as_array().map(Vec::len), Some(3));
    cluster.finish();
}

/// A call that waits for another change of a sequence sees it, and undoes what the document does not say.
#[test]
fn a_change_that_the_call_has_waited_for_is_no_part_of_the_result() {
    let cluster = Cluster::with_hilo();
    let (mut admin, mut other) = (cluster.connect("postgres"), cluster.connect("postgres"));
    let mut second = cluster.connect("postgres");
    let pid = second.backend_pid();
    admin.run("SELECT hilo_create('s')");
    other.run("BEGIN; SELECT hilo_alter('s', max_value => 70)");
    thread::scope(|scope| {
        let wanted = document(json!([{"name": "s", "block_size": 10}]));
        let waiting = scope.spawn(move || apply(&mut second, &wanted));
        wait_until("the call waits", LONG, || admin.sees_waiting(pid));
        other.run("COMMIT");
        assert_eq!(waiting.join().expect("it has ended well").len(), 1);
    });
    let found = &export(&mut admin)["sequences"][0];
    assert_eq!((&found["block_size"], &found["max_value"]), (&json!(10), &Value::Null));
    cluster.finish();
}

/// A transaction that sees the sequences as they were does not claim what others have made since. It makes none anew
/// that they have dropped.
#[test]
fn what_others_have_done_since_is_no_work_of_this_call() {
    let cluster = Cluster::with_hilo();
    let (mut old, mut other) = (cluster.connect("postgres"), cluster.connect("postgres"));
    other.run("CREATE ROLE anna");
    let wanted = document(json!([{"name": "s", "increment": 5, "privileges": []}]));
    for (change, sqlstate) in [
        ("SELECT hilo_create('s', increment => 3), hilo_grant('s', 'anna', 'USAGE')", "42710"),
        ("SELECT hilo_drop('s')", "42704"),
    ] {
        old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
        other.run(change);
        for options in [", false, true", ""] {
            old.run("SAVEPOINT s");
            let refusal = old.refusal(&format!("SELECT {}", call(&wanted, options)));
            refusal.is(sqlstate).details("sequences[0]").helps();
            old.run("ROLLBACK TO s");
        }
        old.run("ROLLBACK");
    }
    assert_eq!(apply(&mut old, &wanted).len(), 1);
    cluster.finish();
}
