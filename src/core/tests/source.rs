//! The answer of a source: its values are all served, or all that are new are lost.

use std::collections::BTreeSet;

use proptest::prelude::*;

use hilo_core::mapping::{Mapping, Stripes};
use hilo_core::numbers::Index;
use hilo_core::past::{Past, Span};
use hilo_core::range::Range;
use hilo_core::source::{AnswerError, Brought, Known, ranges};

fn mapping(increment: i64) -> Mapping {
    let base = if increment > 0 { 10 } else { 90 };
    let (min_value, max_value) = (10, 90);
    Mapping { base, increment, min_value, max_value, cycle: false, stripes: Stripes::ALL }
}

fn values(mapping: &Mapping, ranges: &[Range]) -> BTreeSet<i64> {
    let indexes = ranges.iter().flat_map(|range| range.start.0..range.end.0);
    indexes.filter_map(|index| mapping.value(Index(index))).collect()
}

fn spans() -> impl Strategy<Value = Vec<(i64, i64, bool)>> {
    proptest::collection::vec((0..30i64, 0..5i64, any::<bool>()), 0..4)
}

/// A past with these spans: all values of each, or some.
fn past(mapping: &Mapping, spans: &[(i64, i64, bool)]) -> Past {
    let value = |at: i64| mapping.base + at * mapping.increment;
    Past::from_spans(spans.iter().map(|&(at, len, whole)| {
        Span::new(value(at), value(at + len), if whole { mapping.increment } else { 0 })
    }))
}

proptest! {
    #[test]
    fn each_value_of_an_answer_is_served_or_lost_or_was_had(
        answer in proptest::collection::vec((0..100i64, 0..100i64), 0..5),
        held in proptest::collection::vec((0..30i64, 0..8i64), 0..3),
        own in spans(),
        brought in spans(),
        increment in prop_oneof![Just(1), Just(4), Just(-1), Just(-3)],
    ) {
        let mapping = mapping(increment);
        let range = |(at, len): &(i64, i64)| Range::with_len(Index(*at), *len);
        let held: Vec<Range> = held.iter().map(range).collect();
        let (own, before) = (past(&mapping, &own), past(&mapping, &brought));
        let known = Known { mapping: &mapping, held: &held, own: &own, brought: &before };
        let mut brought = values(&mapping, &[mapping.indexes()]);
        brought.retain(|value| {
            answer.iter().any(|(a, b)| *a.min(b) <= *value && *value <= *a.max(b))
        });
        let kept = values(&mapping, &held);
        let of = |ranges: &[Range]| values(&mapping, ranges);
        let had: BTreeSet<i64> =
            &of(&own.certain(&mapping)) | &of(&before.certain(&mapping));
        let barred = of(&own.indexes(&mapping));
        let (served, lost) = match ranges(&answer, &known) {
            Ok(Brought { ranges, barred: refused }) => {
                let served = of(&ranges);
                prop_assert!(served.is_disjoint(&kept) && served.is_disjoint(&had));
                prop_assert!(served.is_disjoint(&barred));
                prop_assert_eq!(&served | &of(&refused), brought.clone());
                (served, known.lost(&refused, &[]))
            }
            Err(_) => (BTreeSet::new(), known.lost_of(&answer, &[])),
        };
        let count: i64 = lost.new.iter().chain(&lost.doubtful).map(Range::len).sum();
        let (new, doubtful) = (of(&lost.new), of(&lost.doubtful));
        prop_assert_eq!(count as usize, (&new | &doubtful).len(), "none twice");
        prop_assert!(new.is_disjoint(&barred) && new.is_disjoint(&of(&before.indexes(&mapping))));
        let mut all = &(&served | &new) | &doubtful;
        prop_assert!(all.is_disjoint(&kept) && all.is_disjoint(&had));
        all.extend(brought.iter().filter(|value| kept.contains(value) || had.contains(value)));
        prop_assert_eq!(all, brought);
    }

    #[test]
    fn few_spans_contain_all_that_a_sequence_has_had(
        added in proptest::collection::vec((0..2_000i64, 0..9i64, any::<bool>()), 0..90),
        step in 1..4i64,
    ) {
        let spans = added.iter().map(|&(at, len, whole)| {
            Span::new(at * step, (at + len) * step, if whole { step } else { 0 })
        });
        let past = Past::from_spans(spans.clone());
        prop_assert!(past.spans().len() <= Past::MOST);
        prop_assert!(past.spans().windows(2).all(|two| two[0].high < two[1].low));
        let whole: BTreeSet<i64> = spans.clone().filter(|span| span.step > 0)
            .flat_map(|span| (span.low..=span.high).step_by(step as usize)).collect();
        for span in spans {
            let around = past.around(span.low).expect("it is known");
            prop_assert!(around.low <= span.low && span.high <= around.high);
        }
        for span in past.spans().iter().filter(|span| span.step > 0) {
            let mut all = (span.low..=span.high).step_by(span.step as usize);
            prop_assert!(all.all(|value| whole.contains(&value)), "{:?}", span);
        }
    }
}

#[test]
fn the_first_fault_of_an_answer_is_named() {
    let (mapping, none) = (mapping(4), Past::default());
    let known = Known { mapping: &mapping, held: &[], own: &none, brought: &none };
    let refused =
        |answer: &[(i64, i64)], known: &Known| ranges(answer, known).expect_err("it is refused");
    assert_eq!(refused(&[], &known), AnswerError::Empty);
    assert_eq!(refused(&[(10, 12)], &known), AnswerError::Unknown { value: 12 });
    assert_eq!(refused(&[(14, 94)], &known), AnswerError::Unknown { value: 94 });
    let backwards = AnswerError::Backwards { first: 18, last: 10 };
    assert_eq!(refused(&[(18, 10)], &known), backwards);
    let held = [Range::new(Index(1), Index(2))];
    let holds = Known { held: &held, ..known };
    assert_eq!(refused(&[(10, 18)], &holds), AnswerError::Held { first: 10, last: 18 });
    let had = Past::from_spans([Span::new(14, 14, 4)]);
    let again = AnswerError::Again { first: 10, last: 18 };
    assert_eq!(refused(&[(10, 18)], &Known { brought: &had, ..known }), again);
    let own = Past::from_spans([Span::new(2, 30, 0)]);
    let served = AnswerError::Own { first: 10, last: 18, end: 30 };
    assert_eq!(refused(&[(10, 18)], &Known { own: &own, ..known }), served);
}

/// A source is asked beyond what may have been served, unless little is left there.
#[test]
fn what_may_have_been_served_is_passed_if_more_is_left() {
    let none = Past::default();
    for (increment, last, spans, to_pass) in [
        (4, 18, [(14, 30), (42, 50)], Some(3)),
        (4, 30, [(14, 30), (42, 50)], Some(0)),
        (4, 18, [(10, 62), (42, 50)], None),
        (4, 34, [(14, 30), (42, 50)], None),
        (-1, 80, [(70, 85), (20, 30)], Some(10)),
        (-1, 80, [(30, 85), (20, 25)], None),
    ] {
        let own = Past::from_spans(spans.map(|(low, high)| Span::new(low, high, 0)));
        let mapping = mapping(increment);
        let known = Known { mapping: &mapping, held: &[], own: &own, brought: &none };
        assert_eq!(known.to_pass(&[(last, last)]), to_pass, "{increment} {last} {spans:?}");
    }
}
