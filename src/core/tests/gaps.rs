//! Gaps become few rows, which stand for the same values.
#![cfg(not(loom))]

use hilo_core::gaps::{Gap, Joined, join};
use hilo_core::numbers::{Epoch, Timestamp};
use proptest::prelude::*;

const HOUR: i64 = 3_600_000_000;

fn gap(first: i64, last: i64, increment: i64, reason: usize, at: i64) -> Gap {
    Gap {
        epoch: Some(Epoch(1)),
        first,
        last,
        count: (last - first) / increment + 1,
        increment,
        reason,
        at: Timestamp(at),
    }
}

fn in_epoch(epoch: i64, gap: Gap) -> Gap {
    Gap { epoch: Some(Epoch(epoch)), ..gap }
}

fn ends(all: &[Joined]) -> Vec<(i64, i64, i64)> {
    all.iter().map(|one| (one.gap.first, one.gap.last, one.gap.count)).collect()
}

/// Gaps become one where one continues the other, for one reason and in one hour; a later time is
/// kept.
#[test]
fn neighbours_become_one() {
    let all = [gap(11, 20, 1, 0, 5), gap(1, 10, 1, 0, 9), gap(22, 30, 1, 0, 5)];
    let one = join(&all, 10, 5);
    assert_eq!(ends(&one), [(1, 20, 20), (22, 30, 9)]);
    assert_eq!((one[0].gap.at, one[0].parts.as_slice()), (Timestamp(9), &[1, 0][..]));
    let apart = [gap(1, 10, 1, 0, 5), gap(11, 20, 1, 1, 5), gap(21, 30, 1, 1, HOUR + 5)];
    assert_eq!(join(&apart, 10, 5).len(), 3);
    let descending = [gap(50, 30, -10, 0, 5), gap(20, 0, -10, 0, 5), gap(10, 10, -10, 1, 5)];
    assert_eq!(ends(&join(&descending, 10, 5)), [(50, 0, 6), (10, 10, 1)]);
    // These were served in steps of two.
    let other = [gap(1, 9, 2, 0, 5), gap(10, 11, 1, 0, 5)];
    assert_eq!(join(&other, 10, 5).len(), 2);
    let extremes = [gap(i64::MIN, i64::MIN, 1, 0, 5), gap(i64::MAX, i64::MAX, 1, 0, 5)];
    assert_eq!(join(&extremes, 10, 5).len(), 2);
    assert_eq!(join(&extremes, 1, 1).len(), 1);
}

/// A gap that begins where one of another numbering ends, or one of an unknown numbering, is a row
/// of its own.
#[test]
fn gaps_of_different_numberings_stay_apart() {
    let one = [in_epoch(1, gap(1, 10, 1, 0, 5)), in_epoch(2, gap(11, 20, 1, 0, 5))];
    assert_eq!(join(&one, 10, 5).len(), 2);
    let unknown = one.map(|gap| Gap { epoch: None, ..gap });
    assert_eq!(join(&unknown, 10, 5).len(), 2);
}

/// The nearest of one reason and numbering become one when there are too many.
#[test]
fn the_nearest_become_one() {
    let all: Vec<Gap> = [1, 3, 20, 40, 42].map(|first| gap(first, first, 1, 0, 5)).to_vec();
    assert_eq!(ends(&join(&all, 5, 3)).len(), 5);
    assert_eq!(ends(&join(&all, 4, 3)), [(1, 3, 2), (20, 20, 1), (40, 42, 2)]);
    // The nearest of all are of two numberings.
    let all = [(1, 1), (1, 9), (2, 10), (2, 30)]
        .map(|(epoch, first)| in_epoch(epoch, gap(first, first, 1, 0, 5)));
    let few = join(&all, 3, 4);
    assert_eq!(few.len(), 4);
    let few = join(&all, 3, 3);
    assert_eq!(ends(&few), [(1, 9, 2), (10, 10, 1), (30, 30, 1)]);
    assert_eq!(few[0].gap.epoch, Some(Epoch(1)));
}

/// The newest of many numberings keep rows of their own, and the oldest share rows.
#[test]
fn the_oldest_numberings_become_one() {
    let all: Vec<Gap> =
        (1..=20).map(|epoch| in_epoch(epoch, gap(100 * epoch, 100 * epoch, 7, 0, 5))).collect();
    assert_eq!(join(&all, 20, 8).len(), 20);
    let few = join(&all, 19, 8);
    assert_eq!(few.len(), 8);
    let own = few.iter().filter_map(|one| one.gap.epoch).filter(|epoch| epoch.0 > 16);
    assert_eq!(own.count(), 4, "the newest ones: {few:?}");
    let shared = few.iter().find(|one| one.gap.epoch.is_none()).unwrap();
    // All of them are whole steps apart.
    assert_eq!(shared.gap.increment, 1);
    assert_eq!(few.iter().map(|one| one.gap.count).sum::<i64>(), 20);
    let even: Vec<Gap> = all.iter().map(|gap| Gap { increment: -40, ..*gap }).collect();
    let few = join(&even, 19, 8);
    let shared = few.iter().find(|one| one.gap.epoch.is_none()).unwrap();
    assert_eq!(shared.gap.increment, -20);
    assert!(shared.gap.first > shared.gap.last);
}

proptest! {
    /// However many there are, no value is lost from sight, each gap is part of one row, and the
    /// rows are few.
    #[test]
    fn every_gap_is_in_one_row(
        given in prop::collection::vec(
            (0i64..10_000, 1i64..50, 0usize..3, 0i64..3, 0i64..20), 0..300),
        increment in prop::sample::select(vec![2, -2, 3, i64::MIN, i64::MAX]),
        many in any::<bool>(),
    ) {
        let of = |(first, count, reason, hour, epoch): (i64, i64, usize, i64, i64)| {
            let count = if increment.abs_diff(0) > 3 { 1 } else { count };
            let one = gap(first, first + (count - 1) * increment, increment, reason, hour * HOUR);
            Gap { epoch: (epoch > 0).then_some(Epoch(if many { epoch } else { epoch % 3 })), ..one }
        };
        let gaps: Vec<Gap> = given.into_iter().map(of).collect();
        let all = join(&gaps, 40, 20);
        prop_assert!(all.len() <= 40);
        let mut parts: Vec<usize> = all.iter().flat_map(|one| one.parts.clone()).collect();
        parts.sort_unstable();
        prop_assert_eq!(parts, (0..gaps.len()).collect::<Vec<_>>());
        for Joined { gap, parts } in &all {
            let of = || parts.iter().map(|&part| gaps[part]);
            prop_assert_eq!(gap.count, of().map(|part| part.count).sum::<i64>());
            prop_assert!((gap.last as i128 - gap.first as i128) * increment as i128 >= 0);
            let (low, high) = (gap.first.min(gap.last), gap.first.max(gap.last));
            for part in of() {
                prop_assert_eq!(part.reason, gap.reason);
                prop_assert!(gap.epoch.is_none() || gap.epoch == part.epoch);
                prop_assert!(low <= part.first.min(part.last) && part.first.max(part.last) <= high);
                prop_assert!(part.at <= gap.at);
                prop_assert_eq!(part.increment.wrapping_rem(gap.increment), 0);
                let apart = part.first as i128 - gap.first as i128;
                prop_assert_eq!(apart % gap.increment as i128, 0);
            }
        }
    }
}
