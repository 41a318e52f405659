//! Ordered sequences are ordered: across sessions, and whatever fails. Other ones ascend within a
//! session.

use hilo_tests::{Client, ClientExt, Cluster};

/// An ordered sequence in blocks of ten. A session has drawn 1, 2, skipped the rest of the block
/// for a hi of its own, and drawn 21, 22.
fn take_a_hi() -> (Cluster, Client, Vec<i64>) {
    let cluster = Cluster::builder().config("hilo.worker_idle_timeout", "1h").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('o', ordered => true, block_size => 10)");
    let mut seen = client.draw("o", 2);
    assert_eq!(client.one::<i64>("SELECT hilo_next_hi('o')"), 1);
    seen.extend(client.draw("o", 2));
    assert_eq!(seen, [1, 2, 21, 22]);
    (cluster, client, seen)
}

#[track_caller]
fn assert_rising(values: &[i64]) {
    let back = values.windows(2).find(|pair| pair[0] >= pair[1]);
    assert_eq!(back, None, "it went back");
}

/// Promise 4: what was to put back, or to skip, a part of the sequence has not got its row, which somebody held.
#[track_caller]
fn assert_ordered_after(what: impl FnOnce(&Cluster)) {
    let (cluster, mut client, mut seen) = take_a_hi();
    let mut holder = cluster.connect("postgres");
    holder.run("BEGIN; SELECT hilo_drop('o')");
    what(&cluster);
    holder.run("ROLLBACK");
    seen.extend(client.draw("o", 2_000));
    seen.extend(cluster.connect("postgres").draw("o", 2_000));
    assert_rising(&seen);
    cluster.finish();
}

#[test]
fn after_a_worker_that_could_not_put_back() {
    assert_ordered_after(|cluster| cluster.terminate_worker("postgres"));
}

#[test]
fn after_a_setval_that_gave_up() {
    assert_ordered_after(|cluster| {
        let mut setter = cluster.connect("postgres");
        setter.run("SET statement_timeout = '300ms'");
        setter.refusal("SELECT hilo_setval('o', 5)").is("57014");
    });
}

/// Promise 4: what a hi has skipped is not served after a clean stop either, nor after a crash.
#[test]
fn after_stops() {
    let (cluster, mut client, mut seen) = take_a_hi();
    for crash in [false, true, false] {
        seen.extend(client.draw("o", 4));
        client.run("SELECT hilo_next_hi('o')");
        match crash {
            true => cluster.crash(client.backend_pid()),
            false => cluster.restart(),
        }
        client = cluster.connect_when_up("postgres");
        seen.extend(client.draw("o", 4));
    }
    assert_rising(&seen);
    cluster.finish();
}

/// Promise 4: beside an alteration that is open and then rolled back, the first or a later one of its
/// transaction.
#[test]
fn beside_an_open_alteration() {
    for before in ["", "SELECT hilo_create('x'); "] {
        let cluster = Cluster::with_hilo();
        let mut client = cluster.connect("postgres");
        let mut other = cluster.connect("postgres");
        client.run("SELECT hilo_create('o', ordered => true)");
        let mut seen = client.draw("o", 1);
        for end in ["ROLLBACK", "COMMIT"] {
            client.run(&format!("BEGIN; {before}SELECT hilo_alter('o', max_value => 1000000)"));
            for _ in 0..3 {
                seen.extend(client.draw("o", 1));
                seen.extend(other.draw("o", 1));
            }
            client.run(end);
            seen.extend(client.draw("o", 1));
            seen.extend(other.draw("o", 1));
        }
        assert_eq!(seen, (1..=seen.len() as i64).collect::<Vec<_>>());
        cluster.finish();
    }
}

/// Promise 3: what a hi has skipped is not served to the session that took it, only to others.
#[test]
fn values_ascend_within_a_session_that_takes_a_hi() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('s', block_size => 10)");
    client.run("SELECT hilo_setval('s', 5)");
    assert_eq!(client.one::<i64>("SELECT hilo_next_hi('s')"), 1);
    assert_eq!(client.draw("s", 2), [21, 22]);
    assert_eq!(cluster.connect("postgres").draw("s", 1), [6]);
    cluster.finish();
}
