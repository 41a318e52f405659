//! A lane under a model checker: every interleaving of takers and one that fills and closes it, up
//! to a bound of preemptions. Every stale read that the memory orders allow is tried.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p hilo-core --release --no-default-features
//! --test lane_loom --target-dir target/loom`
#![cfg(loom)]

// The client cannot be built for the model checker, because tokio has a meaning of its own for
// `cfg(loom)`.
#[path = "../../../client/src/lane.rs"]
#[allow(dead_code)]
mod lane;

use lane::Lane;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(preemptions);
    }
    builder.check(model);
}

/// Takes `count` values at a time, `times` times.
fn taker(lane: &Arc<Lane>, times: usize, count: u32) -> JoinHandle<Vec<i64>> {
    let lane = lane.clone();
    thread::spawn(move || {
        let mut all = Vec::new();
        for _ in 0..times {
            if let Some(took) = lane.take(count) {
                all.extend((0..i64::from(count)).map(|at| took.first + at * took.increment));
            }
        }
        all
    })
}

/// The next `left` values of a filling that ends with `last`.
fn rest(last: i64, increment: i64, left: i64) -> Vec<i64> {
    (0..left).map(|at| last - at * increment).collect()
}

fn assert_all(mut given: Vec<i64>, mut expected: Vec<i64>) {
    given.sort();
    expected.sort();
    assert_eq!(given, expected);
}

/// A taker that read one filling never gets a value of the next one by its numbers, nor one that a
/// close took.
#[test]
fn takers_a_close_and_the_next_filling() {
    check(4, || {
        let lane = Arc::new(Lane::default());
        lane.fill(3, 1, 3);
        let takers = [taker(&lane, 2, 1), taker(&lane, 1, 2)];
        let mut given = rest(3, 1, lane.close());
        lane.fill(120, 10, 2);
        for taker in takers {
            given.extend(taker.join().unwrap());
        }
        given.extend(rest(120, 10, lane.close()));
        assert_all(given, vec![1, 2, 3, 110, 120]);
    });
}

/// Races of one filling do not count for the next one.
#[test]
fn races_are_counted_for_each_filling() {
    check(3, || {
        let lane = Arc::new(Lane::default());
        lane.fill(2, 1, 2);
        let takers = [taker(&lane, 1, 1), taker(&lane, 1, 1)];
        takers.into_iter().for_each(|taker| assert_eq!(taker.join().unwrap().len(), 1));
        assert!(lane.races().0 <= 1);
        lane.fill(4, 1, 2);
        assert_eq!(lane.races(), (0, 0));
        lane.take(1);
        assert_eq!(lane.races(), (0, 1));
    });
}

/// An emptied lane is filled again while a taker still works on what it read before.
#[test]
fn a_filling_of_the_same_size() {
    check(4, || {
        let lane = Arc::new(Lane::default());
        lane.fill(1, 1, 1);
        let first = taker(&lane, 2, 1);
        let mut given = rest(1, 1, lane.close());
        lane.fill(200, 7, 1);
        let second = taker(&lane, 1, 1);
        given.extend(first.join().unwrap());
        given.extend(second.join().unwrap());
        given.extend(rest(200, 7, lane.close()));
        assert_all(given, vec![1, 200]);
    });
}
