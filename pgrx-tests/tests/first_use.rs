//! What the first use of a sequence costs: one reservation, and none after hilo.auto_create has made one.

use hilo_tests::{Client, ClientExt, Cluster};

/// The reservations, the waits for a block, and whether another block is wanted.
fn costs(client: &mut Client, name: &str) -> (i64, i64, bool) {
    let row = client
        .query_one(
            "SELECT blocks_reserved, waits, refill_wanted FROM hilo_stat_sequences WHERE name = $1",
            &[&name],
        )
        .expect("it is in memory");
    (row.get(0), row.get(1), row.get(2))
}

/// The first block lasts beyond the threshold, so the first value does not make the worker reserve another.
#[test]
fn a_first_use_reserves_once() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for name in ["a", "b", "c"] {
        client.run(&format!("SELECT hilo_create('{name}')"));
        assert_eq!(client.draw(name, 1), [1]);
    }
    // The worker has served c since, and would have served what a and b wanted.
    for name in ["a", "b"] {
        assert_eq!(costs(&mut client, name), (1, 1, false), "{name}");
    }
    cluster.finish();
}

/// A sequence that comes into being at its first use has its first block already: nobody waits for another
/// commit.
#[test]
fn an_automatic_sequence_comes_with_its_first_block() {
    let cluster = Cluster::builder().config("hilo.auto_create", "on").start_with_hilo();
    let mut client = cluster.connect("postgres");
    for name in ["a", "b", "c"] {
        assert_eq!(client.draw(name, 1), [1]);
        assert_eq!(costs(&mut client, name), (1, 0, false), "{name}");
    }
    cluster.finish();
}

/// All that was reserved is accounted for, also where no slot was free for the new sequence.
#[test]
fn automatic_sequences_without_room_in_memory() {
    let cluster = Cluster::builder()
        .config("hilo.auto_create", "on")
        .config("hilo.max_sequences", "16")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    for round in 1..=2 {
        for number in 0..20 {
            assert_eq!(client.draw(&format!("tenant {number}"), 1), [round]);
        }
    }
    cluster.finish();
}
