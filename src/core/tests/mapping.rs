//! The mapping against the definition of a sequence written out step by step.

use hilo_core::mapping::{Mapping, Run, Stripes, first_repeat};
use hilo_core::numbers::Index;
use hilo_core::range::Range;
use proptest::prelude::*;

fn range(start: i64, end: i64) -> Range {
    Range::new(Index(start), Index(end))
}

/// Interesting integers: the ends, round numbers, anything.
fn any_int() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        -1000i64..1000,
        Just(i64::MIN),
        Just(i64::MIN + 1),
        Just(i64::MAX - 1),
        Just(i64::MAX),
    ]
}

fn any_stripes() -> impl Strategy<Value = Stripes> {
    prop_oneof![
        Just(Stripes::ALL),
        (1u32..6, 1i64..9, any::<u32>()).prop_map(|(nodes, size, node)| Stripes {
            node: node % nodes,
            nodes,
            size
        }),
        (1u32.., 1i64.., any::<u32>()).prop_map(|(nodes, size, node)| Stripes {
            node: node % nodes,
            nodes,
            size
        }),
    ]
}

fn any_mapping() -> impl Strategy<Value = Mapping> {
    (any_int(), any_int(), any_int(), any_int(), any::<bool>(), any_stripes()).prop_map(
        |(a, b, c, increment, cycle, stripes)| {
            let mut sorted = [a, b, c];
            sorted.sort();
            let [min_value, base, max_value] = sorted;
            let increment = if increment == 0 { 1 } else { increment };
            Mapping { base, increment, min_value, max_value, cycle, stripes }
        },
    )
}

/// Few values, so that ends, laps and stripes are reached.
fn small_mapping() -> impl Strategy<Value = Mapping> {
    let stripes = prop_oneof![
        Just(Stripes::ALL),
        (1u32..5, 1i64..7, any::<u32>()).prop_map(|(nodes, size, node)| Stripes {
            node: node % nodes,
            nodes,
            size
        }),
    ];
    (-30i64..30, 0i64..200, 0i64..200, 1i64..7, any::<bool>(), any::<bool>(), stripes).prop_map(
        |(min_value, below, above, step, descending, cycle, stripes)| Mapping {
            base: min_value + below,
            increment: if descending { -step } else { step },
            min_value,
            max_value: min_value + below + above,
            cycle,
            stripes,
        },
    )
}

/// The values that one counter would count, as core's nextval does, up to `count` values.
fn count_values(mapping: &Mapping, count: usize) -> Vec<i64> {
    let mut values = Vec::new();
    let mut next = mapping.base as i128;
    while values.len() < count {
        let inside = (mapping.min_value as i128..=mapping.max_value as i128).contains(&next);
        if !inside && !mapping.cycle {
            break;
        }
        if !inside {
            next =
                if mapping.increment > 0 { mapping.min_value } else { mapping.max_value } as i128;
        }
        values.push(next as i64);
        next += mapping.increment as i128;
    }
    values
}

/// The same, but only what the mapping's node serves.
fn own(mapping: &Mapping, count: usize) -> Vec<i64> {
    let Stripes { node, nodes, size } = mapping.stripes;
    count_values(mapping, count)
        .chunks(size as usize)
        .enumerate()
        .filter(|(stripe, _)| nodes <= 1 || *stripe % nodes as usize == node as usize)
        .flat_map(|(_, values)| values.iter().copied())
        .collect()
}

proptest! {
    #[test]
    fn values_are_those_that_a_counter_counts(mapping in small_mapping()) {
        let expected = own(&mapping, 2000);
        for (index, value) in expected.iter().enumerate() {
            prop_assert_eq!(mapping.value(Index(index as i64)), Some(*value));
        }
        if mapping.cycle {
            prop_assert_eq!(mapping.limit(), Index::MAX);
        } else {
            let end = Index(expected.len() as i64);
            prop_assert_eq!(mapping.limit(), end);
            prop_assert_eq!(mapping.value(end), None);
        }
    }

    #[test]
    fn runs_are_the_values_and_as_long_as_can_be(
        mapping in small_mapping(), start in 0i64..300, len in 0i64..300,
    ) {
        let range = range(start, start + len);
        let runs: Vec<Run> = mapping.runs(range).collect();
        let values: Vec<i64> = runs
            .iter()
            .flat_map(|run| (0..run.count).map(|i| run.first + i * mapping.increment))
            .collect();
        let expected: Vec<i64> =
            (start..start + len).map_while(|i| mapping.value(Index(i))).collect();
        prop_assert_eq!(values, expected);
        prop_assert!(runs.iter().all(|run| run.count > 0));
        // Cut only at the end of a stripe or of a lap.
        let mut index = start;
        for pair in runs.windows(2) {
            index += pair[0].count;
            let stripe = mapping.stripes.nodes > 1 && index % mapping.stripes.size == 0;
            let lap = (pair[1].first < pair[0].last(mapping.increment)) == (mapping.increment > 0)
                || mapping.min_value == mapping.max_value
                || pair[1].first == pair[0].first;
            prop_assert!(stripe || mapping.cycle && lap, "{:?} at {}", runs, index);
        }
    }

    #[test]
    fn a_value_leads_back_to_its_index(mapping in small_mapping()) {
        let mapping = Mapping { cycle: false, ..mapping };
        let values = own(&mapping, 2000);
        for value in mapping.min_value - 5..=mapping.max_value + 5 {
            let index = values.iter().position(|v| *v == value).map(|i| Index(i as i64));
            prop_assert_eq!(mapping.index_of(value), index);
            let beyond = |v: &i64| if mapping.increment > 0 { *v > value } else { *v < value };
            let first = values.iter().position(beyond).unwrap_or(values.len());
            prop_assert_eq!(mapping.first_index_beyond(value), Index(first as i64));
        }
    }

    #[test]
    fn nodes_share_all_values_and_none_twice(mapping in small_mapping()) {
        let mapping = Mapping { cycle: false, ..mapping };
        let mut served = Vec::new();
        for node in 0..mapping.stripes.nodes {
            let own = Mapping { stripes: Stripes { node, ..mapping.stripes }, ..mapping };
            served.extend((0..own.limit().0).map(|i| own.value(Index(i)).unwrap()));
        }
        served.sort_by_key(|v| if mapping.increment > 0 { *v } else { -*v });
        prop_assert_eq!(served, count_values(&mapping, 2000));
    }

    #[test]
    fn no_input_overflows(
        mapping in any_mapping(), index in any_int(), end in any_int(), value in any_int(),
    ) {
        let limit = mapping.limit();
        let (index, range) = (Index(index), range(index, end));
        prop_assert!(limit >= Index::ZERO);
        prop_assert_eq!(mapping.value(index).is_some(), Range::below(limit).contains(index));
        if let Some(found) = mapping.value(index) {
            prop_assert!((mapping.min_value..=mapping.max_value).contains(&found));
            if !mapping.cycle {
                prop_assert_eq!(mapping.index_of(found), Some(index));
                prop_assert_eq!(mapping.first_index_beyond(found), index.next());
            }
        }
        if let Some(run) = mapping.run(range) {
            prop_assert!(run.count >= 1 && run.count <= range.len());
            prop_assert_eq!(Some(run.first), mapping.value(index));
            let last = mapping.value(index + run.count - 1);
            prop_assert_eq!(Some(run.last(mapping.increment)), last);
        }
        mapping.runs(range).take(3).count();
        let beyond = mapping.first_index_beyond(value);
        prop_assert!((Index::ZERO..=limit).contains(&beyond));
        if let Some(index) = mapping.index_of(value) {
            prop_assert_eq!(mapping.value(index), Some(value));
        }
    }
}

#[test]
fn the_whole_of_bigint() {
    let up = Mapping {
        base: i64::MIN,
        increment: 2,
        min_value: i64::MIN,
        max_value: i64::MAX,
        cycle: false,
        stripes: Stripes::ALL,
    };
    assert_eq!(up.value(Index::MAX - 1), Some(i64::MAX - 3));
    assert_eq!(up.limit(), Index::MAX);
    let down = Mapping { base: i64::MAX, increment: i64::MIN, ..up };
    assert_eq!(down.value(Index(0)), Some(i64::MAX));
    assert_eq!(down.value(Index(1)), Some(-1));
    assert_eq!(down.value(Index(2)), None);
    assert_eq!(down.limit(), Index(2));
}

#[test]
fn later_laps_begin_at_the_other_bound() {
    let mapping = Mapping {
        base: 4,
        increment: 2,
        min_value: 1,
        max_value: 6,
        cycle: true,
        stripes: Stripes::ALL,
    };
    let values: Vec<_> = (0..8).map(|i| mapping.value(Index(i)).unwrap()).collect();
    assert_eq!(values, [4, 6, 1, 3, 5, 1, 3, 5]);
    let runs: Vec<_> = mapping.runs(range(0, 8)).map(|run| (run.first, run.count)).collect();
    assert_eq!(runs, [(4, 2), (1, 3), (1, 3)]);
}

proptest! {
    /// Neither a numbering that continues from its floor, nor one that branches off before it,
    /// serves a value again that another has served.
    #[test]
    fn a_floor_lies_behind_what_was_served(
        base in -100i64..100, increment in prop_oneof![-9i64..=-1, 1i64..=9], value in -300i64..300,
    ) {
        let mapping = Mapping {
            base, increment, min_value: -200, max_value: 200, cycle: false, stripes: Stripes::ALL,
        };
        let floor = mapping.floor_behind(value);
        prop_assert!((Index::ZERO..=mapping.limit()).contains(&floor));
        let beyond = |at: i64| (at - value) * increment.signum();
        if let Some(next) = mapping.value(floor) {
            prop_assert!(beyond(next) > 0);
        }
        if floor > Index(0) && floor < mapping.limit() {
            prop_assert!(beyond(mapping.value(floor - 1).unwrap()) >= 0);
        }
        if floor > Index(1) {
            prop_assert!(beyond(mapping.value(floor - 2).unwrap()) < 0);
        }
    }
}

/// Bounds that were moved past the base, or before what was served, leave out just the indexes
/// whose values lie beyond them.
#[test]
fn indexes_are_those_within_the_bounds() {
    for increment in [1, 3, -1, -7] {
        for nodes in [1, 3] {
            for (low, high) in [(0, 100), (20, 60), (55, 100), (0, 49), (70, 71)] {
                let stripes = Stripes { node: nodes - 1, nodes, size: 4 };
                let (min_value, max_value) = (low, high);
                let mapping =
                    Mapping { base: 50, increment, min_value, max_value, cycle: false, stripes };
                let wide = Mapping { min_value: i64::MIN, max_value: i64::MAX, ..mapping };
                for index in (0..60).map(Index) {
                    let value = wide.value(index).expect("nothing bounds it");
                    let within = (low..=high).contains(&value);
                    assert_eq!(mapping.indexes().contains(index), within, "{mapping:?} {index}");
                }
            }
        }
    }
}

/// Every value of a numbering, or those from one of its indexes on.
fn values_from(mapping: &Mapping, index: i64) -> Vec<i64> {
    (index..mapping.limit().0).map_while(|index| mapping.value(Index(index))).collect()
}

proptest! {
    /// Values that a numbering may serve again lie between the two values, in the order of serving.
    /// Without nodes, there are such exactly if it serves one of the other numbering's, or one
    /// before its next.
    #[test]
    fn a_numbering_that_goes_back_is_found(
        (old_base, new_base) in (0i64..50, 0i64..50),
        (old_next, new_next) in (0i64..20, 0i64..2),
        increment in prop_oneof![Just(1i64), Just(-1), Just(3), Just(-3)],
        turns in any::<bool>(),
    ) {
        let one = |base, increment| Mapping {
            base, increment, min_value: -200, max_value: 200, cycle: false, stripes: Stripes::ALL,
        };
        let new_increment = if turns { -increment } else { increment };
        let (old, new) = (one(old_base, increment), one(new_base, new_increment));
        let old_next = old_next.min(old.limit().0);
        let served: Vec<i64> = (0..old_next).filter_map(|index| old.value(Index(index))).collect();
        let coming = values_from(&new, new_next);
        let found = first_repeat(&old, Index(old_next), &new, Index(new_next));
        if let Some((first, last)) = found {
            prop_assert!(first == last || (first < last) == (new.increment > 0), "{first} {last}");
        }
        for value in served.iter().filter(|value| coming.contains(value)) {
            let (first, last) = found.expect("a value comes again");
            let span = first.min(last)..=first.max(last);
            prop_assert!(span.contains(value), "{value}: {first} {last}");
        }
        if !turns && coming.first().is_some_and(|first| {
            let next = old_base + old_next * increment;
            if increment > 0 { *first >= next } else { *first <= next }
        }) {
            prop_assert_eq!(found, None);
        }
    }
}

proptest! {
    /// Before the first index from a value on, no value reaches it.
    #[test]
    fn the_first_index_from_a_value(
        base in -20i64..20,
        increment in -3i64..4,
        value in -60i64..60,
    ) {
        prop_assume!(increment != 0);
        let mapping = Mapping {
            base, increment, min_value: -50, max_value: 50, cycle: false, stripes: Stripes::ALL,
        };
        let reaches = |at: i64| if increment > 0 { at >= value } else { at <= value };
        let expected = values_from(&mapping, 0).iter().take_while(|at| !reaches(**at)).count();
        prop_assert_eq!(mapping.first_index_from(value), Index(expected as i64));
    }
}
