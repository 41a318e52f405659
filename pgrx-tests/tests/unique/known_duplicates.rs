//! One test for each way in which systems that cache numbers are known to have served one twice.
//! The overflow of a bit field or a clock is tested on the pure rules. `src/core/tests/cursor.rs`
//! and `cursor_loom.rs` test the cursor's generation and offset, `mapping.rs` the bounds.

use std::collections::HashSet;

use hilo_tests::{Client, ClientExt, Cluster, LONG, Mode, wait_until};

/// A cache keyed by oid alone, shared by two databases. A copy of a database has the same oids and
/// ids, and positions of its own.
#[test]
fn a_cache_shared_by_two_databases() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE DATABASE one");
    cluster
        .connect("one")
        .run("CREATE EXTENSION hilo; SELECT hilo_create('s', block_size => 1000)");
    cluster.connect("one").draw("s", 7);
    wait_until("no session is in the template", LONG, || {
        admin.batch_execute("CREATE DATABASE two TEMPLATE one").is_ok()
    });
    let (mut one, mut two) = (cluster.connect("one"), cluster.connect("two"));
    for turn in 0..20 {
        let expected: Vec<i64> = (8 + turn * 3..11 + turn * 3).collect();
        assert_eq!(one.draw("s", 3), expected);
        assert_eq!(two.draw("s", 3), expected);
    }
}

/// A cache left over after DROP DATABASE: the new database of the same name is served nothing of it.
#[test]
fn a_cache_left_over_after_drop_database() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = cluster.connect("postgres");
    for start in [1, 500_000, 1] {
        admin.run("CREATE DATABASE shop");
        let mut client = cluster.connect("shop");
        client.run(&format!(
            "CREATE EXTENSION hilo; SELECT hilo_create('s', start_value => {start}, block_size => 1000)"
        ));
        assert_eq!(client.draw("s", 2), [start, start + 1]);
        admin.run("DROP DATABASE shop WITH (FORCE)");
    }
}

/// Setval or restart that does not reach a cache: as soon as the commit has returned, every session
/// draws behind it, whatever it held.
#[test]
fn a_setval_that_does_not_reach_a_cache() {
    let cluster = Cluster::with_hilo();
    let mut setter = cluster.connect("postgres");
    setter.run("SELECT hilo_create('s')");
    let mut holders: Vec<Client> = (0..4).map(|_| cluster.connect("postgres")).collect();
    let mut seen = HashSet::new();
    for round in 1..=20 {
        let base = round * 1_000_000;
        setter.run(&match round % 2 {
            0 => format!("SELECT hilo_setval('s', {base})"),
            _ => format!("SELECT hilo_alter('s', restart_with => {base})"),
        });
        for holder in &mut holders {
            for value in holder.draw("s", 100) {
                assert!(
                    (base..base + 1_000_000).contains(&value),
                    "{value} after setval to {base}"
                );
                assert!(seen.insert(value), "{value} twice");
            }
        }
    }
}

/// A stale owner that writes back an old maximum. A worker is told to leave, with what it has in
/// memory, while the sequence is set and drawn from. It does not put its old numbers over the new
/// ones.
#[test]
fn a_stale_owner_that_writes_back_an_old_maximum() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 1000)");
    let mut admin = cluster.connect("postgres");
    let mut seen = HashSet::new();
    for round in 1..=10 {
        client
            .draw("s", 1)
            .into_iter()
            .for_each(|value| assert!(seen.insert(value), "{value} twice"));
        let worker = cluster.wait_for_worker("postgres");
        admin.run("BEGIN");
        admin.run(&format!("SELECT hilo_setval('s', {}, false)", round * 1_000_000));
        admin.run(&format!("SELECT pg_terminate_backend({worker})"));
        admin.run("COMMIT");
        cluster.wait_until_gone(worker);
        for value in client.draw("s", 50) {
            assert!(value >= round * 1_000_000, "{value} after setval to {round} million");
            assert!(seen.insert(value), "{value} twice");
        }
    }
}

/// A cloned node that keeps its identity and its ranges. A copy of a running server, promoted,
/// passes over what the original may have served meanwhile, and says so.
#[test]
fn a_clone_that_keeps_its_ranges() {
    let original = Cluster::with_hilo();
    let mut client = original.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 100)");
    let before = client.draw("s", 10);
    let clone = original.clone_by_base_backup();
    original.wait_for_replay(&clone);
    clone.promote();
    let cloned = clone.connect("postgres").draw("s", 10);
    let after = client.draw("s", 50);
    let seen: HashSet<i64> = before.iter().chain(&after).copied().collect();
    assert!(cloned.iter().all(|value| !seen.contains(value)), "{cloned:?} are among {seen:?}");
    assert!(
        clone.connect("postgres").one::<i64>("SELECT count(*) FROM hilo_gaps WHERE name = 's'") > 0
    );
}

/// Two masters at once: an old primary that continues after the promotion of its synchronous
/// standby cannot reserve any further. So it serves at most what it had reserved, which the new one
/// skips.
#[test]
fn two_masters_at_once() {
    let old = Cluster::builder().config("hilo.reserve_timeout", "1s").start_with_hilo();
    let mut client = old.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 200)");
    let standby = old.clone_synchronously();
    let mut seen: HashSet<i64> = client.draw("s", 100).into_iter().collect();
    standby.promote();
    let mut rest = Vec::new();
    while let Ok(row) = client.query_one("SELECT hilo_nextval('s')", &[]) {
        rest.push(row.get::<_, i64>(0));
        assert!(rest.len() < 5_000, "the old primary does not stop serving");
    }
    seen.extend(&rest);
    let new = standby.connect("postgres").draw("s", 1_000);
    let twice: Vec<i64> = new.into_iter().filter(|value| seen.contains(value)).collect();
    assert!(twice.is_empty(), "{twice:?}");
    old.stop(Mode::Immediate);
}
