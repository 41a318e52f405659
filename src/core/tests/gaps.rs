//! Gaps become few rows, which stand for the same values.
#![cfg(not(loom))]

use hilo_core::gaps::{Gap, Joined, join};
use hilo_core::numbers::Timestamp;
use proptest::prelude::*;

const HOUR: i64 = 3_600_000_000;

fn gap(first: i64, last: i64, increment: i64, reason: usize, at: i64) -> Gap {
    Gap { first, last, count: (last - first) / increment + 1, reason, at: Timestamp(at) }
}

fn ends(all: &[Joined]) -> Vec<(i64, i64, i64)> {
    all.iter().map(|one| (one.gap.first, one.gap.last, one.gap.count)).collect()
}

/// Gaps become one where one continues the other, for one reason and in one hour; a later time is
/// kept.
#[test]
fn neighbours_become_one() {
    let all = [gap(11, 20, 1, 0, 5), gap(1, 10, 1, 0, 9), gap(22, 30, 1, 0, 5)];
    let one = join(&all, 1, 10, 5);
    assert_eq!(ends(&one), [(1, 20, 20), (22, 30, 9)]);
    assert_eq!((one[0].gap.at, one[0].parts.as_slice()), (Timestamp(9), &[1, 0][..]));
    let apart = [gap(1, 10, 1, 0, 5), gap(11, 20, 1, 1, 5), gap(21, 30, 1, 1, HOUR + 5)];
    assert_eq!(join(&apart, 1, 10, 5).len(), 3);
    let falling = [gap(50, 30, -10, 0, 5), gap(20, 0, -10, 0, 5), gap(10, 10, -10, 1, 5)];
    assert_eq!(ends(&join(&falling, -10, 10, 5)), [(50, 0, 6), (10, 10, 1)]);
    // These were served in steps of two.
    let other = [gap(1, 9, 2, 0, 5), gap(10, 11, 1, 0, 5)];
    assert_eq!(join(&other, 1, 10, 5).len(), 2);
    let extremes = [gap(i64::MIN, i64::MIN, 1, 0, 5), gap(i64::MAX, i64::MAX, 1, 0, 5)];
    assert_eq!(join(&extremes, 1, 10, 5).len(), 2);
    assert_eq!(join(&extremes, 1, 1, 1).len(), 1);
}

/// The nearest of one reason become one when there are too many.
#[test]
fn the_nearest_become_one() {
    let all: Vec<Gap> = [1, 3, 20, 40, 42].map(|first| gap(first, first, 1, 0, 5)).to_vec();
    assert_eq!(ends(&join(&all, 1, 5, 3)).len(), 5);
    assert_eq!(ends(&join(&all, 1, 4, 3)), [(1, 3, 2), (20, 20, 1), (40, 42, 2)]);
}

proptest! {
    /// However many there are, no value is lost from sight, each gap is part of one row, and the
    /// rows are few.
    #[test]
    fn every_gap_is_in_one_row(
        given in prop::collection::vec((0i64..10_000, 1i64..50, 0usize..3, 0i64..3), 0..300),
        falls in any::<bool>(),
    ) {
        let increment = if falls { -2 } else { 2 };
        let of = |(first, count, reason, hour): (i64, i64, usize, i64)| {
            gap(first, first + (count - 1) * increment, increment, reason, hour * HOUR)
        };
        let gaps: Vec<Gap> = given.into_iter().map(of).collect();
        let all = join(&gaps, increment, 40, 20);
        prop_assert!(all.len() <= 40);
        let mut parts: Vec<usize> = all.iter().flat_map(|one| one.parts.clone()).collect();
        parts.sort_unstable();
        prop_assert_eq!(parts, (0..gaps.len()).collect::<Vec<_>>());
        for Joined { gap, parts } in &all {
            let of = || parts.iter().map(|&part| gaps[part]);
            prop_assert_eq!(gap.count, of().map(|part| part.count).sum::<i64>());
            prop_assert!((gap.last - gap.first) * increment >= 0);
            let (low, high) = (gap.first.min(gap.last), gap.first.max(gap.last));
            for part in of() {
                prop_assert_eq!(part.reason, gap.reason);
                prop_assert!(low <= part.first.min(part.last) && part.first.max(part.last) <= high);
                prop_assert!(part.at <= gap.at);
            }
        }
    }
}
