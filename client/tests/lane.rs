//! A lane gives each value of a filling to one taker, and none after it is closed.

use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;

use hilo_client::lane::{Lane, MAX_FILLING};

/// All that can be taken, one at a time.
fn drain(lane: &Lane) -> Vec<i64> {
    std::iter::from_fn(|| lane.take(1)).map(|took| took.first).collect()
}

#[test]
fn it_counts_from_the_first_value_to_the_last() {
    let lane = Lane::default();
    assert_eq!(lane.take(1), None);
    lane.fill(5, 1, 5);
    assert_eq!(drain(&lane), [1, 2, 3, 4, 5]);
    lane.fill(-40, -10, 3);
    assert_eq!(drain(&lane), [-20, -30, -40]);
    assert_eq!(lane.remaining(), 0);
}

#[test]
fn a_run_is_taken_whole_or_not_at_all() {
    let lane = Lane::default();
    lane.fill(100, 10, 10);
    assert_eq!(lane.take(4).map(|took| (took.first, took.increment)), Some((10, 10)));
    assert_eq!(lane.take(7), None);
    assert_eq!(lane.take(6).map(|took| (took.first, took.low)), Some((50, true)));
}

#[test]
fn the_ends_of_bigint_do_not_overflow() {
    let lane = Lane::default();
    for (last, increment) in
        [(i64::MAX, 1), (i64::MIN, -1), (i64::MAX, i64::MAX), (i64::MAX, 1 << 62)]
    {
        lane.fill(last, increment, 2);
        assert_eq!(drain(&lane), [last - increment, last]);
    }
    // From one end of bigint to the other, which no difference of two values holds.
    lane.fill(i64::MAX - 1, i64::MAX, 3);
    assert_eq!(drain(&lane), [i64::MIN, -1, i64::MAX - 1]);
    lane.fill(i64::MAX, 1, MAX_FILLING);
    assert_eq!(lane.take(1).map(|took| took.first), Some(i64::MAX - MAX_FILLING + 1));
}

#[test]
fn one_taker_says_that_it_went_below_the_mark() {
    let lane = Lane::default();
    lane.fill(10, 1, 10);
    lane.set_mark(4);
    let low: Vec<bool> = std::iter::from_fn(|| lane.take(1)).map(|took| took.low).collect();
    assert_eq!(low.iter().positions(), [6, 9]);
}

trait Positions {
    fn positions(self) -> Vec<usize>;
}

impl<'a, I: Iterator<Item = &'a bool>> Positions for I {
    fn positions(self) -> Vec<usize> {
        self.enumerate().filter(|(_, low)| **low).map(|(at, _)| at).collect()
    }
}

/// Threads take while another one closes and fills: each value of each filling was taken, or was
/// left at the close.
#[test]
fn what_a_close_returns_is_taken_by_nobody() {
    let lane = Lane::default();
    let done = AtomicBool::new(false);
    let (mut taken, closed) = thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|number| {
                let (lane, done) = (&lane, &done);
                scope.spawn(move || {
                    let mut values = Vec::new();
                    while !done.load(Acquire) {
                        let count = 1 + number % 2;
                        if let Some(took) = lane.take(count) {
                            values.extend(
                                (0..i64::from(count)).map(|at| took.first + at * took.increment),
                            );
                        }
                    }
                    values
                })
            })
            .collect();
        let mut closed = Vec::new();
        for filling in 0..4_000_i64 {
            // Another increment each time: a torn read would give a value of no filling.
            let (increment, count) = (1 + filling % 7, 40);
            let first = filling * 1_000;
            lane.fill(first + increment * (count - 1), increment, count);
            if filling % 3 == 0 {
                thread::yield_now();
            }
            let left = lane.close();
            closed.extend((count - left..count).map(|at| first + at * increment));
        }
        done.store(true, Release);
        let taken: Vec<i64> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
        (taken, closed)
    });
    assert!(!taken.is_empty() && !closed.is_empty(), "the threads met");
    taken.extend(closed);
    taken.sort_unstable();
    let all: Vec<i64> = (0..4_000_i64)
        .flat_map(|filling| (0..40).map(move |at| filling * 1_000 + at * (1 + filling % 7)))
        .collect();
    assert!(taken == all, "a value was taken twice, or not at all");
}
