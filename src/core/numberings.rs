//! The values of a sequence that a column may lack, as `hilo_find_gaps` examines them.
//!
//! A numbering gives each place, from 0 on, a value. The places of the present numbering are the
//! indexes of the sequence; gaps in the same steps may lie before them. Gaps in other steps are
//! numberings of their own. A segment is a range of places that are examined, with the reason why
//! the column may lack them.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

use crate::gaps::greatest_divisor;
use crate::mapping::{Mapping, Stripes};
use crate::numbers::Index;
use crate::range::Range;

/// `count` values from `first` to `last`, in steps of `step`, that a column may lack. If more
/// values lie in these steps, it is not known which of them are meant.
#[derive(Clone, Copy, Debug)]
pub struct Known<R> {
    pub first: i64,
    pub last: i64,
    /// At least 1.
    pub count: i64,
    pub step: i64,
    /// Where a value has several reasons, the least of them counts.
    pub reason: R,
    /// Somebody else has the values, even if the sequence was set back to before them.
    pub is_leased: bool,
}

/// The present numbering of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Present {
    /// Without bounds, and without cycles.
    pub mapping: Mapping,
    /// The index that is reserved next.
    pub next: Index,
    /// Whether an index is left to be reserved.
    pub has_next: bool,
    pub start_value: i64,
}

/// Some values that are examined. A value that several numberings have is examined by the first one
/// with a segment that has it.
#[derive(Clone, Debug)]
pub struct Numbering<R> {
    pub mapping: Mapping,
    /// Numberings of one turn have no values in common; 0: the present one.
    pub turn: usize,
    /// In order, disjoint and not empty.
    segments: Vec<(Range, R)>,
}

/// The numberings whose values are examined, in order. `served` is the reason for values before the
/// base of the sequence.
pub fn numberings<R: Copy + Ord>(
    present: &Present,
    known: &[Known<R>],
    served: R,
) -> Vec<Numbering<R>> {
    let earlier = earlier_places(present, known);
    let base = i128::from(present.mapping.base) - earlier * i128::from(present.mapping.increment);
    let (earlier, mapping) = (earlier as i64, Mapping { base: base as i64, ..present.mapping });
    let next = present.has_next.then(|| present.next + earlier);
    let mut explained: BTreeMap<R, Vec<Range>> = BTreeMap::new();
    let mut apart = Vec::new();
    for (at, one) in known.iter().enumerate() {
        let (places, count) = placed(one, &mapping, next);
        explained.entry(one.reason).or_default().extend(places);
        apart.extend(count.map(|count| (at + 1, one, count)));
    }
    let start = Places::new(&mapping, present.start_value, present.start_value);
    if start.are_on {
        let before_base = Range::new(start.all.start, Index(earlier));
        explained.entry(served).or_default().push(before_base);
    }
    let steps = apart.iter().map(|(_, one, _)| one.step).chain([mapping.increment]);
    let steps: BTreeSet<_> = steps.collect();
    let mut all = vec![Numbering { mapping, turn: 0, segments: segments(explained) }];
    for (turn, one, count) in apart {
        let parts = every_so_many(one.first, one.step, count, &steps);
        all.extend(parts.map(|(mapping, places)| Numbering {
            mapping,
            turn,
            segments: vec![(places, one.reason)],
        }));
    }
    all
}

/// The parts of a range of places of a numbering that it has to examine, each with the reason why a
/// column lacks it. They have no value that an earlier numbering examines.
pub fn examined<R: Copy>(
    numberings: &[Numbering<R>],
    own: &Numbering<R>,
    range: Range,
) -> Vec<(Range, R)> {
    let mut parts = Vec::new();
    for (part, reason) in own.segments_in(range) {
        let others = numberings.iter().take_while(|other| other.turn < own.turn);
        let shared = others.flat_map(|other| other.shared(&own.mapping, part)).collect();
        let rest = part.without(&Range::union(shared));
        parts.extend(rest.into_iter().map(|part| (part, reason)));
    }
    parts
}

/// How many places before its base the present numbering needs for the earliest of the values.
fn earlier_places<R>(present: &Present, known: &[Known<R>]) -> i128 {
    let Present { mapping, next, start_value, .. } = present;
    let room = i128::from(i64::MAX) - 1 - i128::from(next.0);
    let values = known.iter().flat_map(|one| [one.first, one.last]).chain([*start_value]);
    let steps = values.filter_map(|value| steps_before(mapping, value));
    steps.filter(|steps| (0..=room).contains(steps)).max().unwrap_or(0)
}

/// How many steps a value lies before place 0. `None`: not in whole steps. With stripes, an earlier
/// base had others.
fn steps_before(mapping: &Mapping, value: i64) -> Option<i128> {
    let (way, step) = (-mapping.offset(value), mapping.step());
    (mapping.stripes.nodes <= 1 && way % step == 0).then_some(way / step)
}

/// Where two values lie in a numbering, or would.
struct Places {
    /// The places of all values from one to the other.
    all: Range,
    /// Whether the numbering has both.
    are_on: bool,
}

impl Places {
    fn new(mapping: &Mapping, first: i64, last: i64) -> Places {
        let [one, other] = [first, last].map(|value| {
            let place = mapping.first_index_from(value);
            (place, mapping.value(place) == Some(value))
        });
        let end = |(place, is_on): (Index, bool)| place + i64::from(is_on);
        let all = Range::new(one.0.min(other.0), end(one).max(end(other)));
        Places { all, are_on: one.1 && other.1 }
    }
}

/// Where values lie in the present numbering, of which `next` comes next. If it does not have all
/// of them: how many there are in their own steps.
fn placed<R>(
    known: &Known<R>,
    mapping: &Mapping,
    next: Option<Index>,
) -> (Vec<Range>, Option<i64>) {
    let (step, increment) = (i128::from(known.step), i128::from(mapping.increment));
    let found = Places::new(mapping, known.first, known.last);
    let count = (i128::from(known.last) - i128::from(known.first)) / step + 1;
    let count = count.min(i64::MAX.into()) as i64;
    let is_striped = mapping.stripes.nodes > 1;
    let has_all = found.are_on && found.all.len() >= known.count && step % increment == 0;
    let has_each =
        increment % step == 0 && (i128::from(mapping.base) - i128::from(known.first)) % step == 0;
    // The sequence has gone back since: what comes next is yet to be served.
    let limit = next.filter(|_| !known.is_leased).unwrap_or(Index::MAX);
    let places = match (has_all, has_each) {
        (false, false) => Vec::new(),
        // Places of other values lie between them. If they are many, these count too.
        (true, false) if !is_striped && count <= 100 => {
            let each = (0..count).map(|at| found.all.start + at * (step / increment).abs() as i64);
            each.map(|place| Range::with_len(place, 1).until(limit)).collect()
        }
        _ => vec![found.all.until(limit)],
    };
    (places, (!has_all && (!is_striped || count == known.count)).then_some(count))
}

/// The places that are examined. The least reason counts where a place has several.
fn segments<R: Copy + Ord>(explained: BTreeMap<R, Vec<Range>>) -> Vec<(Range, R)> {
    let (mut segments, mut taken) = (Vec::new(), Vec::new());
    for (reason, places) in explained {
        let places = Range::union(places);
        let left = places.iter().flat_map(|range| range.without(&taken));
        segments.extend(left.map(|range| (range, reason)));
        taken.extend(places);
        taken = Range::union(taken);
    }
    segments.sort_unstable_by_key(|(range, _)| *range);
    segments
}

/// Divides `count` values, in steps from the first one, into parts that each have every so many of
/// them. A numbering in one of the other steps then has all values of a part in a range, or none,
/// unless there are few.
fn every_so_many(
    first: i64,
    step: i64,
    count: i64,
    steps: &BTreeSet<i64>,
) -> impl Iterator<Item = (Mapping, Range)> + use<> {
    let (count, step, mut parts) = (i128::from(count), i128::from(step), 1_i128);
    for other in steps {
        let divisor = greatest_divisor(other.unsigned_abs(), step.unsigned_abs() as u64);
        let times = other.unsigned_abs() / divisor;
        let more = parts / i128::from(greatest_divisor(parts as u64, times)) * i128::from(times);
        // Else fewer values have to be looked at one by one.
        let are_few = more.checked_mul(more).is_some_and(|square| square <= count);
        if are_few && more * step.abs() <= i64::MAX.into() {
            parts = more;
        }
    }
    (0..parts).map(move |part| {
        let mapping = Mapping {
            base: (i128::from(first) + part * step) as i64,
            increment: (step * parts) as i64,
            min_value: i64::MIN,
            max_value: i64::MAX,
            cycle: false,
            stripes: Stripes::ALL,
        };
        (mapping, Range::below(Index(((count - 1 - part) / parts + 1) as i64)))
    })
}

impl<R: Copy> Numbering<R> {
    /// The places from the first segment to the last.
    pub fn places(&self) -> Range {
        match (self.segments.first(), self.segments.last()) {
            (Some((first, _)), Some((last, _))) => Range::new(first.start, last.end),
            _ => Range::EMPTY,
        }
    }

    /// The parts of a range that lie within segments.
    fn segments_in(&self, range: Range) -> impl Iterator<Item = (Range, R)> + use<'_, R> {
        let from = self.segments.partition_point(|(segment, _)| segment.end <= range.start);
        let parts = self.segments[from..].iter();
        let parts = parts.map(move |(segment, reason)| (segment.intersection(&range), *reason));
        parts.take_while(|(part, _)| !part.is_empty())
    }

    /// Which places of a range in another numbering, which has no stripes, have values that a
    /// segment of this one has.
    fn shared(&self, other: &Mapping, range: Range) -> Vec<Range> {
        let near = |first, last| Places::new(other, first, last).all.intersection(&range);
        let all = ends(&self.mapping, self.places()).map(|(first, last)| near(first, last));
        let all = all.unwrap_or_default();
        let Some((first, last)) = ends(other, all) else { return Vec::new() };
        // Every so many places the two have a value in common.
        let distance = i128::from(self.mapping.base) - i128::from(first);
        let common = solve(other.increment.into(), distance, self.mapping.step());
        let Some((ahead, period)) = common else { return Vec::new() };
        if period == 1 {
            let there = Places::new(&self.mapping, first, last).all;
            let runs = self.segments_in(there).flat_map(|(part, _)| self.mapping.runs(part));
            return runs.map(|run| near(run.first, run.last(self.mapping.increment))).collect();
        }
        let [ahead, period] = [ahead, period].map(|places| places.min(i64::MAX.into()) as i64);
        let start = all.start.saturating_add(ahead);
        let each = successors(Some(start), |place| Some(place.saturating_add(period)));
        let is_shared = |place: &Index| {
            let there = other.value(*place).and_then(|value| self.mapping.index_of(value));
            there.is_some_and(|there| self.segments_in(Range::with_len(there, 1)).next().is_some())
        };
        let each = each.take_while(|place| *place < all.end).filter(is_shared);
        each.map(|place| Range::with_len(place, 1)).collect()
    }
}

/// The first value and the last of places that are not empty.
fn ends(mapping: &Mapping, places: Range) -> Option<(i64, i64)> {
    let (first, last) = (mapping.value(places.start)?, mapping.value(places.last())?);
    (!places.is_empty()).then_some((first, last))
}

/// The smallest `x` from 0 on with `times * x = rest` modulo `modulus`, and how far it is from one
/// such `x` to the next.
fn solve(times: i128, rest: i128, modulus: i128) -> Option<(i128, i128)> {
    // Each step of Euclid's algorithm has a remainder, and of what multiple of `times` it is one.
    let (mut last, mut next) = ((modulus, 0), (times.rem_euclid(modulus), 1));
    while next.0 != 0 {
        let quotient = last.0 / next.0;
        (last, next) = (next, (last.0 - quotient * next.0, last.1 - quotient * next.1));
    }
    let (divisor, factor) = last;
    let period = modulus / divisor;
    let x = (rest / divisor).rem_euclid(period) * factor.rem_euclid(period) % period;
    (rest % divisor == 0).then_some((x, period))
}
