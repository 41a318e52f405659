//! What the torture has found: one test for each finding, reduced to what it needs.

use std::process::Command;

use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

/// Of the sequence, all that lies below its position and is neither free nor a gap.
const REST: &str = "SELECT count(*) FROM hilo.sequence s JOIN hilo.position p ON p.sequence = s.id,
     generate_series(0, p.next_index - 1) i
     WHERE NOT EXISTS (SELECT FROM hilo.free_range f WHERE f.sequence = s.id AND i >= f.first_index AND i < f.end_index)
       AND NOT EXISTS (SELECT FROM hilo.gap g WHERE g.sequence = s.id AND p.base + i >= g.first_value AND p.base + i <= g.last_value)
       AND s.name = ";

/// A transaction that has set a sequence skips numbers to reach a block: they are recorded.
#[test]
fn what_a_block_passes_over_is_recorded() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('plain', block_size => 64), hilo_create('ordered', block_size => 64, ordered => true)",
    );
    for name in ["plain", "ordered"] {
        for undone in ["", "; SAVEPOINT s; SELECT hilo_next_hi('NAME'); ROLLBACK TO s"] {
            let undone = undone.replace("NAME", name);
            client.run(&format!(
                "BEGIN; SELECT hilo_setval('{name}', 6401, false), hilo_nextval('{name}'), hilo_next_hi('{name}'){undone};
                 COMMIT"
            ));
            let blocks = if undone.is_empty() { 1 } else { 2 };
            assert_eq!(client.one::<i64>(&format!("{REST}'{name}'")), 1 + blocks * 64, "{name}");
        }
    }
    drop(client);
    cluster.finish();
}

/// What was free when a standby last heard of it may have been taken and served since.
#[test]
fn a_promoted_standby_serves_nothing_that_was_free() {
    let primary = Cluster::with_hilo();
    let mut client = primary.connect("postgres");
    client.run("SELECT hilo_create('lagging')");
    let mut first = primary.connect("postgres");
    let mut second = primary.connect("postgres");
    for _ in 0..3 {
        for session in [&mut first, &mut second] {
            session.run("SELECT hilo_nextval('lagging') FROM generate_series(1, 300)");
        }
    }
    drop(first);
    drop((second, client));
    primary.restart();
    let mut client = primary.connect("postgres");
    let free: i64 = client.one("SELECT count(*) FROM hilo.free_range WHERE incarnation = 0");
    assert!(free > 0, "nothing is free");
    let standby = primary.clone_by_base_backup();
    primary.wait_for_replay(&standby);
    standby.connect("postgres").run("ALTER SYSTEM SET primary_conninfo = ''");
    standby.restart();
    let served = client.draw("lagging", 2_000);
    primary.kill9_postmaster();
    standby.promote();
    let again = standby.connect("postgres").draw("lagging", 2_000);
    let twice: Vec<&i64> = again.iter().filter(|value| served.contains(value)).collect();
    assert!(twice.is_empty(), "{} values twice, such as {}", twice.len(), twice[0]);
    standby.finish();
    primary.finish();
}

/// Sessions that leave several slices of one sequence behind while it has no place in memory: a clean stop
/// has nothing left in any memory.
#[test]
fn slices_left_behind_are_free_after_a_clean_stop() {
    let cluster = Cluster::builder()
        .config("hilo.max_sequences", "4")
        .config("hilo.worker_idle_timeout", "60s")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('n' || i) FROM generate_series(1, 20) i");
    let mut sessions: Vec<_> = (0..6).map(|_| cluster.connect("postgres")).collect();
    for number in 1..=20 {
        for session in &mut sessions {
            session.run(&format!("SELECT hilo_nextval('n{number}') FROM generate_series(1, 25)"));
        }
    }
    let worker = cluster.worker_pid("postgres").expect("a worker");
    let signal = |name: &str| {
        let done = Command::new("kill").args([name, &worker.to_string()]).status();
        assert!(done.expect("kill").success());
    };
    signal("-STOP");
    drop(sessions);
    let alone = "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'";
    wait_until("the sessions have left", LONG, || client.one(alone));
    signal("-CONT");
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    for table in ["position", "free_range"] {
        let sql = format!("SELECT count(*) FROM hilo.{table} WHERE incarnation <> 0");
        assert_eq!(client.one::<i64>(&sql), 0, "{table}");
    }
    drop(client);
    cluster.finish();
}

/// What was served to its last number leaves no gap behind a clean stop.
#[test]
fn a_pool_that_is_used_up_leaves_no_gap() {
    let cluster = Cluster::builder()
        .config("hilo.max_sequences", "3")
        .config("hilo.worker_idle_timeout", "60s")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('ten', max_value => 10), hilo_create('slice', block_size => 1000, slice_size => 100)",
    );
    client.run("SELECT hilo_create('n' || i) FROM generate_series(1, 9) i");
    client.run("SELECT hilo_nextval('ten') FROM generate_series(1, 10)");
    // Its place goes to others while this session holds a slice, which it then uses up.
    client.draw("slice", 50);
    let mut other = cluster.connect("postgres");
    for number in 1..=9 {
        other.run(&format!("SELECT hilo_nextval('n{number}')"));
    }
    for _ in 0..5 {
        client.draw("slice", 50);
    }
    drop((client, other));
    cluster.restart();
    let mut client = cluster.connect("postgres");
    client.refusal("SELECT hilo_nextval('ten')").is("2200H");
    client.run("SELECT hilo_nextval(name::text) FROM hilo_sequences WHERE name <> 'ten'");
    let gaps: Vec<String> = client.all("SELECT g::text FROM hilo_gaps g");
    assert!(gaps.is_empty(), "{gaps:#?}");
    drop(client);
    cluster.finish();
}
