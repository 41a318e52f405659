//! A sequence is exhausted when no value is left, and not before.

use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, assert_unique, wait_until};

/// Sequences whose last block is reserved when this many have been drawn: options, that number, the end.
const ENDING: [(&str, usize, i64); 5] = [
    ("max_value => 20", 17, 20),
    ("max_value => 20, ordered => true", 17, 20),
    ("max_value => 20, block_size => 20", 5, 20),
    ("max_value => 1000", 990, 1000),
    ("data_type => 'smallint'", 32_700, 32_767),
];

/// All values that are left are served after `disturb`, to any session. One drew before, and
/// another one connects when that has disconnected.
fn what_is_left_comes(disturb: impl Fn(&mut Client, &str)) {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for (number, (options, drawn, end)) in ENDING.into_iter().enumerate() {
        let name = format!("s{number}");
        client.run(&format!("SELECT hilo_create('{name}', {options})"));
        let mut seen = client.draw(&name, drawn);
        disturb(&mut client, &name);
        match client.query(&format!("SELECT hilo_nextval('{name}')"), &[]) {
            Ok(rows) => seen.push(rows[0].get(0)),
            Err(error) => panic!("{options}: {error:?}"),
        }
        if number == 0 || options.contains("ordered") {
            assert_eq!(seen.last(), Some(&(drawn as i64 + 1)), "{options}");
        }
        seen.extend(client.draw(&name, 1));
        let pid = client.backend_pid();
        drop(client);
        client = cluster.connect("postgres");
        cluster.wait_until_gone(pid);
        seen.extend(client.draw(&name, end as usize - seen.len()));
        assert_unique(options, &seen);
        assert_eq!(seen.iter().max(), Some(&end), "{options}");
        client.refusal(&format!("SELECT hilo_nextval('{name}')")).is("2200H");
    }
    cluster.finish();
}

/// After a setval that was refused.
#[test]
fn after_a_refused_setval() {
    what_is_left_comes(|client, name| {
        client.refusal(&format!("SELECT hilo_setval('{name}', 0)")).is("22003");
    });
}

/// After a setval that was rolled back.
#[test]
fn after_a_rolled_back_setval() {
    what_is_left_comes(|client, name| {
        client.run(&format!("BEGIN; SELECT hilo_setval('{name}', 3); ROLLBACK"));
    });
}

/// After an alteration that was refused, and after some that were rolled back.
#[test]
fn after_alterations_that_came_to_nothing() {
    what_is_left_comes(|client, name| {
        client.refusal(&format!("SELECT hilo_alter('{name}', max_value => 0)"));
        for change in ["cycle => true", "increment => -1", "min_value => -3", "restart_with => 2"] {
            client.run(&format!("BEGIN; SELECT hilo_alter('{name}', {change}); ROLLBACK"));
        }
    });
}

/// After a setval by a role that may no more than that, which was refused.
#[test]
fn after_a_refused_setval_of_somebody_else() {
    what_is_left_comes(|client, name| {
        client.run(
            "DO $$ BEGIN CREATE ROLE setter; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        );
        client.run(&format!("SELECT hilo_grant('{name}', 'setter', 'UPDATE'); SET ROLE setter"));
        client.refusal(&format!("SELECT hilo_setval('{name}', 0)")).is("22003");
        client.run("RESET ROLE");
    });
}

/// While a setval is open, who finds nothing in memory waits for what becomes of it.
#[test]
fn while_a_setval_is_open() {
    let cluster = Cluster::builder().config("hilo.reserve_timeout", "60s").start_with_hilo();
    for (end, others) in [("COMMIT", 6), ("ROLLBACK", 18)] {
        let mut setter = cluster.connect("postgres");
        setter.run("SELECT hilo_create('s', max_value => 20)");
        let mut drawer = cluster.connect("postgres");
        let pid = drawer.backend_pid();
        drawer.draw("s", 17);
        drop(drawer);
        cluster.wait_until_gone(pid);
        setter.run("BEGIN; SELECT hilo_setval('s', 5)");
        let mut other = cluster.connect("postgres");
        let mut watcher = cluster.connect("postgres");
        let pid = other.backend_pid();
        thread::scope(|scope| {
            let call = scope.spawn(|| other.query_one("SELECT hilo_nextval('s')", &[]));
            wait_until("the call waits or has ended", LONG, || {
                call.is_finished() || watcher.sees_waiting(pid)
            });
            setter.run(end);
            let value: i64 = match call.join().expect("it has ended") {
                Ok(row) => row.get(0),
                Err(error) => panic!("{end}: {error:?}"),
            };
            // Old numbers that memory still had may be served until the commit.
            assert!(value == others || (18..=20).contains(&value), "{end}: {value}");
        });
        setter.run("SELECT hilo_drop('s')");
    }
    cluster.finish();
}
