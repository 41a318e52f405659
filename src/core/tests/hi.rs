//! Classic Hi/Lo blocks against a search through all of them.

use hilo_core::fit::Fit;
use hilo_core::hi::{HiBlock, next_hi};
use hilo_core::mapping::{Mapping, Stripes};
use hilo_core::numbers::Index;
use hilo_core::range::Range;
use proptest::prelude::*;
use std::collections::HashSet;

fn range(start: i64, end: i64) -> Range {
    Range::new(Index(start), Index(end))
}

fn small_mapping() -> impl Strategy<Value = Mapping> {
    let stripes = prop_oneof![
        Just(Stripes::ALL),
        (1u32..5, 1i64..13, any::<u32>()).prop_map(|(nodes, size, node)| Stripes {
            node: node % nodes,
            nodes,
            size
        }),
    ];
    (-30i64..30, 0i64..100, 0i64..300, 1i64..5, any::<bool>(), stripes).prop_map(
        |(min_value, below, above, step, descending, stripes)| Mapping {
            base: min_value + below,
            increment: if descending { -step } else { step },
            min_value,
            max_value: min_value + below + above,
            cycle: false,
            stripes,
        },
    )
}

fn block(mapping: &Mapping, start_value: i64, size: i64, hi: i64) -> Vec<i64> {
    (0..size).map(|lo| start_value + (hi * size + lo) * mapping.increment).collect()
}

/// Whether every value of the block lies in one stripe of the node, from its first value to before
/// the next stripe's.
fn in_own_stripe(mapping: &Mapping, values: &[i64]) -> bool {
    let Stripes { node, nodes, size } = mapping.stripes;
    let stripe = |value: &i64| {
        let offset = (value - mapping.base) * mapping.increment.signum();
        offset.div_euclid(mapping.increment.abs() * size)
    };
    nodes <= 1
        || stripe(&values[0]) == stripe(values.last().unwrap())
            && stripe(&values[0]).rem_euclid(nodes as i64) == node as i64
}

/// The definition, tried for one hi after the other. Returns the block and the end of its indexes.
fn search(mapping: &Mapping, start_value: i64, size: i64, from: Index) -> Option<(i64, Index)> {
    let sign = mapping.increment.signum();
    (0..400).find_map(|hi| {
        let values = block(mapping, start_value, size, hi);
        let inside = |value: &i64| (mapping.min_value..=mapping.max_value).contains(value);
        let behind = match from {
            Index::ZERO => (values[0] - mapping.base) * sign >= 0,
            _ => (values[0] - mapping.value(from - 1)?) * sign > 0,
        };
        if !values.iter().all(inside) || !behind || !in_own_stripe(mapping, &values) {
            return None;
        }
        let last = *values.last().unwrap();
        // At the bounds the next index may have no value, but it would have one in the same stripe.
        let unbounded = Mapping { min_value: -9_999, max_value: 9_999, ..*mapping };
        let there = unbounded.first_index_beyond(last - sign);
        let next = unbounded.value(there);
        let same = mapping.stripes.nodes <= 1
            || next.is_some_and(|next| in_own_stripe(mapping, &[last, next]));
        let end = if same { there.next() } else { mapping.first_index_beyond(last) };
        let end = end.max(mapping.first_index_beyond(values[0] - sign).next());
        (end <= mapping.limit()).then_some((hi, end))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn finds_the_smallest_block(
        mapping in small_mapping(), start in -30i64..60, size in 1i64..9, from in 0i64..60,
        len in 0i64..60,
    ) {
        let available = Range::with_len(Index(from), len);
        let expected = match search(&mapping, start, size, available.start) {
            Some((hi, end)) if end <= available.end => Ok(hi),
            Some((_, end)) => Err(Some(end)),
            None => Err(None),
        };
        let found = match next_hi(&mapping, start, size, available) {
            Fit::Here(HiBlock { hi, range }) => {
                prop_assert!(range.intersection(&available) == range && !range.is_empty());
                Ok(hi)
            }
            Fit::Needs(end) => Err(Some(end)),
            Fit::Never => Err(None),
        };
        prop_assert_eq!(found, expected);
    }

    /// Blocks and single values drawn in turn, as a caller would: nothing is owned twice.
    #[test]
    fn blocks_and_single_values_never_meet(
        mapping in small_mapping(), start in -30i64..60, size in 1i64..9,
        draws in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        let mut owned = HashSet::new();
        for node in 0..mapping.stripes.nodes {
            let mapping = Mapping { stripes: Stripes { node, ..mapping.stripes }, ..mapping };
            let mut at = Index::ZERO;
            for as_block in &draws {
                if *as_block {
                    let available = Range::new(at, mapping.limit());
                    let fit = next_hi(&mapping, start, size, available);
                    let Fit::Here(HiBlock { hi, range }) = fit else { break };
                    for value in block(&mapping, start, size, hi) {
                        prop_assert!(owned.insert(value), "{} of hi {} twice", value, hi);
                    }
                    at = range.end;
                } else {
                    let Some(value) = mapping.value(at) else { break };
                    prop_assert!(owned.insert(value), "{} twice", value);
                    at += 1;
                }
            }
        }
    }

    /// The stated need of a block is enough for it.
    #[test]
    fn what_it_needs_is_enough(
        mapping in small_mapping(), start in -30i64..60, size in 1i64..9, from in 0i64..60,
    ) {
        if let Fit::Needs(end) = next_hi(&mapping, start, size, range(from, from)) {
            let fit = next_hi(&mapping, start, size, Range::new(Index(from), end));
            let enough = matches!(fit, Fit::Here(HiBlock { range, .. }) if range.end == end);
            prop_assert!(enough, "{:?}", fit);
        }
    }

    #[test]
    fn no_input_overflows(
        a in any::<i64>(), b in any::<i64>(), c in any::<i64>(), increment in any::<i64>(),
        node in any::<u32>(), nodes in 1u32.., stripe in 1i64.., start in any::<i64>(),
        size in 1i64.., from in any::<i64>(), end in any::<i64>(), shift in 0u32..63,
    ) {
        let mut sorted = [a, b, c];
        sorted.sort();
        let mapping = Mapping {
            base: sorted[1],
            increment: if increment >> shift == 0 { 1 } else { increment >> shift },
            min_value: sorted[0],
            max_value: sorted[2],
            cycle: false,
            stripes: Stripes { node: node % nodes, nodes, size: stripe },
        };
        for size in [size, size >> shift | 1] {
            for mapping in [mapping, Mapping { stripes: Stripes::ALL, ..mapping }] {
                if let Fit::Here(HiBlock { hi, range }) =
                    next_hi(&mapping, start, size, range(from, end))
                {
                    prop_assert!(hi >= 0 && range.end <= Index(end));
                    prop_assert!(range.start >= Index(from.max(0)));
                    prop_assert!(range.end <= mapping.limit());
                }
            }
        }
    }
}

fn orders(base: i64) -> Mapping {
    Mapping {
        base,
        increment: 1,
        min_value: 1,
        max_value: 1000,
        cycle: false,
        stripes: Stripes::ALL,
    }
}

#[test]
fn one_block_after_the_other() {
    let available = range(0, 100);
    let fit = next_hi(&orders(1), 1, 10, available);
    assert_eq!(fit, Fit::Here(HiBlock { hi: 0, range: range(0, 10) }));
    let fit = next_hi(&orders(1), 1, 10, available.from(Index(10)));
    assert_eq!(fit, Fit::Here(HiBlock { hi: 1, range: range(10, 20) }));
    // A single value was drawn from hi 2: it is no longer whole.
    let fit = next_hi(&orders(1), 1, 10, available.from(Index(21)));
    assert_eq!(fit, Fit::Here(HiBlock { hi: 3, range: range(30, 40) }));
}

#[test]
fn after_a_setval_off_the_grid() {
    // 537 comes next. It lies in hi 53 (531 … 540); hi 54 is 541 … 550.
    let fit = next_hi(&orders(537), 1, 10, range(0, 100));
    assert_eq!(fit, Fit::Here(HiBlock { hi: 54, range: range(4, 14) }));
    assert_eq!(next_hi(&orders(537), 1, 10, range(0, 13)), Fit::Needs(Index(14)));
    assert_eq!(next_hi(&orders(992), 1, 10, range(0, 9)), Fit::Never);
    let last = Fit::Here(HiBlock { hi: 99, range: range(0, 10) });
    assert_eq!(next_hi(&orders(991), 1, 10, range(0, 10)), last);
}

/// Another increment continues behind the last index: no value of the block may come again.
#[test]
fn the_indexes_of_a_block_reach_its_last_value() {
    // 1 and 5 are off the grid of -21, -17 … 3, 7.
    let mapping = Mapping { base: -21, increment: 4, min_value: -100, ..orders(1) };
    let Fit::Here(HiBlock { hi, range }) = next_hi(&mapping, 1, 2, range(0, 100)) else { panic!() };
    assert_eq!((hi, mapping.value(range.last())), (0, Some(7)));
}

#[test]
fn a_block_never_leaves_its_stripe() {
    let mapping = Mapping { stripes: Stripes { node: 1, nodes: 2, size: 20 }, ..orders(1) };
    let fit = next_hi(&mapping, 1, 10, range(0, 40));
    assert_eq!(fit, Fit::Here(HiBlock { hi: 2, range: range(0, 10) }));
    let fit = next_hi(&mapping, 1, 10, range(11, 40));
    assert_eq!(fit, Fit::Here(HiBlock { hi: 6, range: range(20, 30) }));
    // Off the grid, no block of a whole stripe's size fits into a stripe.
    let shifted = Mapping { base: 5, ..mapping };
    assert_eq!(next_hi(&shifted, 1, 20, range(0, 400)), Fit::Never);
}
