//! The answer of a source: its values are all served, or all that are new are lost.

use std::collections::BTreeSet;

use proptest::prelude::*;

use hilo_core::mapping::{Mapping, Stripes};
use hilo_core::numbers::Index;
use hilo_core::range::Range;
use hilo_core::source::{AnswerError, lost, ranges};

fn mapping(increment: i64) -> Mapping {
    let base = if increment > 0 { 10 } else { 90 };
    let (min_value, max_value) = (10, 90);
    Mapping { base, increment, min_value, max_value, cycle: false, stripes: Stripes::ALL }
}

fn values(mapping: &Mapping, ranges: &[Range]) -> BTreeSet<i64> {
    let indexes = ranges.iter().flat_map(|range| range.start.0..range.end.0);
    indexes.filter_map(|index| mapping.value(Index(index))).collect()
}

proptest! {
    #[test]
    fn of_an_answer_all_is_served_or_all_that_was_not_held_is_lost(
        answer in proptest::collection::vec((0..100i64, 0..100i64), 0..5),
        held in proptest::collection::vec((0..30i64, 0..8i64), 0..3),
        barred in proptest::option::of((0..100i64, 0..20i64)),
        increment in prop_oneof![Just(1), Just(4), Just(-1), Just(-3)],
    ) {
        let mapping = mapping(increment);
        let held: Vec<Range> = held.iter().map(|(at, len)| Range::of(Index(*at), *len)).collect();
        let barred = barred.map(|(low, len)| (low, low + len));
        let is_barred = |v: i64| barred.is_some_and(|(low, high)| low <= v && v <= high);
        let mut brought = values(&mapping, &[mapping.indexes()]);
        brought.retain(|value| {
            answer.iter().any(|(a, b)| *a.min(b) <= *value && *value <= *a.max(b))
        });
        let kept = values(&mapping, &held);
        let new: BTreeSet<i64> =
            brought.iter().copied().filter(|v| !kept.contains(v) && !is_barred(*v)).collect();
        match ranges(&answer, &mapping, &held, barred) {
            Ok(served) => {
                prop_assert_eq!(&values(&mapping, &served), &brought);
                prop_assert_eq!(&new, &brought, "it was held, or may have been served");
            }
            Err(_) => {
                let lost = lost(&answer, &mapping, &held, barred.as_slice());
                prop_assert_eq!(values(&mapping, &lost), new);
                let count: i64 = lost.iter().map(Range::len).sum();
                prop_assert_eq!(count as usize, values(&mapping, &lost).len(), "none twice");
            }
        }
    }
}

#[test]
fn the_first_fault_of_an_answer_is_named() {
    let mapping = mapping(4);
    let refused = |answer: &[(i64, i64)], held: &[Range], barred| {
        ranges(answer, &mapping, held, barred).expect_err("it is refused")
    };
    assert_eq!(refused(&[], &[], None), AnswerError::Empty);
    assert_eq!(refused(&[(10, 12)], &[], None), AnswerError::Unknown { value: 12 });
    assert_eq!(refused(&[(14, 94)], &[], None), AnswerError::Unknown { value: 94 });
    let backwards = AnswerError::Backwards { first: 18, last: 10 };
    assert_eq!(refused(&[(18, 10)], &[], None), backwards);
    let held = Range::new(Index(1), Index(2));
    assert_eq!(refused(&[(10, 18)], &[held], None), AnswerError::Held { first: 10, last: 18 });
    let own = AnswerError::Own { first: 10, last: 18 };
    assert_eq!(refused(&[(10, 18)], &[], Some((15, 30))), own);
}
