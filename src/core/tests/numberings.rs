//! Each value that a column may lack is examined once, whatever steps it was served in.
#![cfg(not(loom))]

use std::collections::{BTreeMap, BTreeSet};

use hilo_core::mapping::{Mapping, Stripes};
use hilo_core::numberings::{Known, Part, Present, numberings, parts};
use hilo_core::numbers::Index;
use hilo_core::range::Range;
use proptest::prelude::*;

const SERVED: u8 = 9;

fn present(base: i64, increment: i64, next: i64, has_next: bool) -> Present {
    let mapping = Mapping {
        base,
        increment,
        min_value: i64::MIN,
        max_value: i64::MAX,
        cycle: false,
        stripes: Stripes::ALL,
    };
    Present { mapping, next: Index(next), has_next, start_value: base }
}

fn known(first: i64, step: i64, count: i64, reason: u8) -> Known<u8> {
    let last = i128::from(first) + i128::from(count - 1) * i128::from(step);
    let last = last as i64;
    Known { first, last, count, step, reason, is_leased: false }
}

/// The ranges that a part examines, with the reason of each.
fn examined(part: &Part<'_, u8>) -> Vec<(Range, u8)> {
    part.examined(part.places).filter(|(range, _)| !range.is_empty()).collect()
}

/// The values that are examined, in order, with the reason of each.
fn values(present: &Present, known: &[Known<u8>]) -> Vec<(i64, u8)> {
    let all = numberings(present, known, SERVED);
    let mut values = Vec::new();
    for part in parts(&all) {
        for (range, reason) in examined(&part) {
            let places = range.start.0..range.end.0;
            let each = places.map(|place| part.mapping.value(Index(place)).expect("a value"));
            values.extend(each.map(|value| (value, reason)));
        }
    }
    values.sort_unstable();
    values
}

fn steps() -> impl Strategy<Value = i64> {
    prop_oneof![-6..=-1_i64, 1..=6_i64]
}

proptest! {
    /// In none but the steps that are known, and with a reason of one that has it.
    #[test]
    fn each_value_is_examined_once(
        base in -20..20_i64,
        increment in steps(),
        parts in proptest::collection::vec((-40..40_i64, steps(), 1..15_i64, 0..5_u8), 0..7),
    ) {
        let of = |(first, step, count, reason)| known(first, step, count, reason);
        let known: Vec<_> = parts.into_iter().map(of).collect();
        let mut reasons: BTreeMap<i64, BTreeSet<u8>> = BTreeMap::new();
        for one in &known {
            for at in 0..one.count {
                reasons.entry(one.first + at * one.step).or_default().insert(one.reason);
            }
        }
        let found = values(&present(base, increment, 0, false), &known);
        let expected: Vec<_> = reasons.keys().copied().collect();
        let examined: Vec<_> = found.iter().map(|(value, _)| *value).collect();
        prop_assert_eq!(examined, expected);
        for (value, reason) in found {
            prop_assert!(reasons[&value].contains(&reason), "{} {}", value, reason);
        }
    }

    /// Beside a present numbering in stripes too.
    #[test]
    fn no_value_is_examined_twice(
        base in -20..20_i64,
        increment in steps(),
        (node, size) in (0..3_u32, 1..5_i64),
        parts in proptest::collection::vec((-40..40_i64, steps(), 1..15_i64, 0..5_u8), 0..7),
    ) {
        let of = |(first, step, count, reason)| known(first, step, count, reason);
        let known: Vec<_> = parts.into_iter().map(of).collect();
        let mut present = present(base, increment, 40, true);
        present.mapping.stripes = Stripes { node, nodes: 3, size };
        let found = values(&present, &known);
        let twice = found.windows(2).find(|pair| pair[0].0 == pair[1].0);
        prop_assert!(twice.is_none(), "{:?}", twice);
    }
}

/// The lesser one of two reasons for a place counts, and what comes next has none yet.
#[test]
fn the_least_reason_counts() {
    let lost = [known(1, 1, 6, 3), known(3, 1, 2, 1)];
    let found = values(&present(1, 1, 5, true), &lost);
    assert_eq!(found, [(1, 3), (2, 3), (3, 1), (4, 1), (5, 3)]);
    let leased = [Known { is_leased: true, ..known(6, 1, 2, 2) }];
    assert_eq!(values(&present(1, 1, 5, true), &leased), [(6, 2), (7, 2)]);
}

/// Values before the base in the same steps are places; those that nothing else explains were
/// served.
#[test]
fn places_begin_at_the_earliest_value() {
    let start = Present { start_value: 1, ..present(7, 2, 2, true) };
    assert_eq!(values(&start, &[known(3, 2, 1, 0)]), [(1, SERVED), (3, 0), (5, SERVED)]);
}

/// Values across all of bigint, and a billion of them in other steps, take no time.
#[test]
fn wide_ranges_are_divided() {
    let step = 4_000_000_000_000_000_000;
    assert_eq!(values(&present(i64::MIN, step, 5, true), &[known(i64::MIN, step, 5, 0)]).len(), 5);
    let all = [known(1, 1, 4_000_000_000, 0), known(4_000_000_001, 2, 3, 1)];
    let all = numberings(&present(4_000_000_007, 3, 1, true), &all, SERVED);
    assert!(parts(&all).count() < 20, "{}", parts(&all).count());
    let ranges = parts(&all).flat_map(|part| examined(&part));
    let count: i64 = ranges.map(|(range, _)| range.len()).sum();
    assert_eq!(count, 4_000_000_003);
}

/// A billion parts, or of values in common with an earlier numbering, are never a list in memory.
#[test]
fn parts_and_ranges_are_made_one_by_one() {
    const MANY: i64 = 1_000_000_000;
    let gap = [known(1, 1, MANY * MANY, 0)];
    let all = numberings(&present(1, MANY, 0, false), &gap, SERVED);
    assert_eq!(all.len(), 2);
    let first: Vec<_> = parts(&all).take(3).map(|part| (part.mapping.base, part.places)).collect();
    let each = Range::below(Index(MANY));
    assert_eq!(first, [(1, each), (1, each), (2, each)]);

    let all = numberings(&present(1, 2 * MANY, 0, false), &gap, SERVED);
    let part = parts(&all).nth(1).expect("the gap");
    let range = |from, to| (Range::new(Index(from), Index(to)), 0);
    let first = part.examined(part.places).filter(|(range, _)| !range.is_empty()).take(2);
    assert_eq!(first.collect::<Vec<_>>(), [range(1, 2 * MANY), range(2 * MANY + 1, 4 * MANY)]);
}
