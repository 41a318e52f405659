//! Holders and sessions that draw, all at the same time: all that anybody ever saw is unique, and everything is
//! explained at the end.

use std::sync::{Barrier, Mutex};
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, assert_unique, wait_until};

use super::{Lease, assert_explained, give_back, lease};

/// A process that takes leases, uses some of each, and returns, revokes or keeps it.
fn hold(client: &mut Client, number: usize, rounds: usize) -> (Vec<i64>, Vec<i64>) {
    let (mut used, mut lost) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let size = [1, 7, 50, 400][(number + round) % 4];
        if round % 5 == 4 {
            client.run("BEGIN");
            lost.extend(lease(client, &format!("'s', {size}")).values());
            client.run("ROLLBACK");
            continue;
        }
        let taken: Lease = lease(client, &format!("'s', {size}, 'holder {number}'"));
        let count = (taken.count * (round as i64 % 4) / 3).min(taken.count);
        match (number + round) % 3 {
            0 => {
                used.extend(taken.first_values(count));
                let next = taken.first + count;
                assert_eq!(give_back(client, &taken, next), taken.count - count);
            }
            1 => {
                client.run(&format!("SELECT hilo_lease_revoke('{}')", taken.token));
                lost.extend(taken.values());
            }
            _ => lost.extend(taken.values()),
        }
    }
    (used, lost)
}

#[test]
fn nobody_gets_what_another_has() {
    const HOLDERS: usize = 6;
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('s')");
    let (used, lost) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for number in 0..HOLDERS {
            let (cluster, used, lost) = (&cluster, &used, &lost);
            scope.spawn(move || {
                let mut client = cluster.connect("postgres");
                let held = hold(&mut client, number, 40);
                used.lock().unwrap().extend(held.0);
                lost.lock().unwrap().extend(held.1);
            });
            scope.spawn(move || {
                for _ in 0..20 {
                    let values = cluster.connect("postgres").draw("s", 30);
                    used.lock().unwrap().extend(values);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..5 {
                cluster.terminate_worker("postgres");
            }
        });
    });
    let (used, lost) = (used.into_inner().unwrap(), lost.into_inner().unwrap());
    assert_unique("s", &[&used[..], &lost[..]].concat());
    let mut client = cluster.connect("postgres");
    let dead = "SELECT count(*) FROM hilo_blocks WHERE tier = 'leased'";
    wait_until("what was rolled back is written off", LONG, || client.one::<i64>(dead) == 0);
    drop(client);
    assert_explained(&cluster, "s", &used);
    cluster.finish();
}

/// The first block of a sequence may have been reserved just before somebody sets the sequence. A
/// lease of the old numbers does not commit after that.
#[test]
fn a_first_lease_beside_a_restart_has_new_numbers_or_fails() {
    const SESSIONS: usize = 12;
    const ROUNDS: usize = 60;
    let cluster = Cluster::with_hilo();
    let barrier = Barrier::new(SESSIONS + 1);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for session in 0..SESSIONS {
            let (cluster, barrier, wrong) = (&cluster, &barrier, &wrong);
            scope.spawn(move || {
                let mut client = cluster.connect("postgres");
                for round in 0..ROUNDS {
                    client.run(&format!("SELECT hilo_create('s_{session}_{round}')"));
                    client.run("BEGIN");
                    barrier.wait();
                    let sql = format!("SELECT first FROM hilo_lease('s_{session}_{round}', 10)");
                    let first = client.query_one(&sql, &[]).map(|row| row.get::<_, i64>(0));
                    // All sequences have been set by now.
                    barrier.wait();
                    let commit = client.simple_query("COMMIT");
                    if !matches!((&first, &commit), (Ok(5000..), Ok(_)) | (Ok(_), Err(_))) {
                        wrong.lock().unwrap().push((session, round, first));
                    }
                }
            });
        }
        let mut setter = cluster.connect("postgres");
        let mut pause = fastrand::Rng::with_seed(5);
        for round in 0..ROUNDS {
            barrier.wait();
            std::thread::sleep(std::time::Duration::from_micros(pause.u64(..4_000)));
            for session in 0..SESSIONS {
                setter.run(&format!("SELECT hilo_setval('s_{session}_{round}', 5000, false)"));
            }
            barrier.wait();
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:?}");
    cluster.finish();
}
