//! The values of a sequence that a column may lack, as `hilo_find_gaps` examines them.
//!
//! A numbering gives each place, from 0 on, a value. The places of the present numbering are the
//! indexes of the sequence; gaps in the same steps may lie before them. Gaps in other steps are
//! numberings of their own. A segment is a range of places that are examined, with the reason why
//! the column may lack them.
//!
//! There may be billions of parts and of ranges of places. So they are made one by one, and only
//! the gaps that are known take memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::iter::from_fn;

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

/// Up to so many values of a gap are single places of the present numbering, if places of other
/// values lie between them.
pub const MOST_SINGLE_PLACES: i64 = 100;

/// Some values that are examined. A value that several numberings have is examined by the first one
/// with a segment that has it.
#[derive(Clone, Debug)]
pub struct Numbering<R> {
    mapping: Mapping,
    /// In order, disjoint and not empty.
    segments: Vec<(Range, R)>,
    /// How many parts it is examined in. If there are several, its only segment begins at place 0.
    parts: i64,
}

/// A part of a numbering: every so many of its values, which are a numbering themselves.
pub struct Part<'a, R> {
    pub mapping: Mapping,
    /// From the first segment to the last.
    pub places: Range,
    numbering: &'a Numbering<R>,
    earlier: &'a [Numbering<R>],
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
    for one in known {
        let (places, count) = placed(one, &mapping, next);
        explained.entry(one.reason).or_default().extend(places);
        apart.extend(count.map(|count| (one, count)));
    }
    let start = Places::new(&mapping, present.start_value, present.start_value);
    if start.are_on {
        let before_base = Range::new(start.all.start, Index(earlier));
        explained.entry(served).or_default().push(before_base);
    }
    let steps = apart.iter().map(|(one, _)| one.step).chain([mapping.increment]);
    let steps: BTreeSet<_> = steps.collect();
    let present = Numbering { mapping, segments: segments(explained), parts: 1 };
    let others = apart.into_iter().map(|(one, count)| Numbering {
        mapping: Mapping { base: one.first, increment: one.step, stripes: Stripes::ALL, ..mapping },
        segments: vec![(Range::below(Index(count)), one.reason)],
        parts: every_so_many(one.step, count, &steps),
    });
    [present].into_iter().chain(others).collect()
}

/// The parts of the numberings, in order.
pub fn parts<R>(numberings: &[Numbering<R>]) -> impl Iterator<Item = Part<'_, R>> {
    numberings.iter().enumerate().flat_map(move |(at, numbering)| {
        let earlier = &numberings[..at];
        (0..numbering.parts).map(move |part| numbering.part(part, earlier))
    })
}

impl<R: Copy> Part<'_, R> {
    /// The ranges within a range of places that are examined here, in order, each with the reason
    /// why a column lacks it. No earlier numbering examines their values. Empty ranges are among
    /// them, so that it never takes long to the next one.
    pub fn examined(&self, range: Range) -> impl Iterator<Item = (Range, R)> {
        self.numbering.segments_in(range).flat_map(move |(within, reason)| {
            let others = self.earlier.iter();
            let mut shared: Vec<_> =
                others.filter_map(|other| other.shared(self.mapping, within)).collect();
            let mut next = BinaryHeap::new();
            for (at, places) in shared.iter_mut().enumerate() {
                next.extend(places.next().map(|first| Reverse((first, at))));
            }
            let mut rest = Some(within);
            let parts = from_fn(move || {
                let Some(Reverse((places, at))) = next.pop() else { return rest.take() };
                next.extend(shared[at].next().map(|later| Reverse((later, at))));
                if places.is_empty() {
                    return Some(Range::EMPTY);
                }
                let left = rest?;
                rest = Some(left.from(places.end));
                Some(left.until(places.start))
            });
            parts.map(move |part| (part, reason))
        })
    }
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
        (true, false) if !is_striped && count <= MOST_SINGLE_PLACES => {
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

/// How many parts to divide `count` values in such steps into, so that each has every so many of
/// them. A numbering in one of the other steps then has all values of a part in a range, or none,
/// unless there are few.
fn every_so_many(step: i64, count: i64, steps: &BTreeSet<i64>) -> i64 {
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
    parts as i64
}

impl<R> Numbering<R> {
    /// A part, from 0 on.
    fn part<'a>(&'a self, part: i64, earlier: &'a [Numbering<R>]) -> Part<'a, R> {
        let Mapping { base, increment, .. } = self.mapping;
        let base = i128::from(base) + i128::from(part) * i128::from(increment);
        let increment = increment * self.parts;
        let mapping = Mapping { base: base as i64, increment, ..self.mapping };
        let all = match (self.segments.first(), self.segments.last()) {
            (Some((first, _)), Some((last, _))) => Range::new(first.start, last.end),
            _ => Range::EMPTY,
        };
        let places = Range::with_len(all.start, (all.len() - 1 - part) / self.parts + 1);
        Part { mapping, places, numbering: self, earlier }
    }

    /// The first values from `value` on that lie within one segment and one stripe. Returns the
    /// ends, in the direction of `increment`.
    fn next_run(&self, value: i64, increment: i64) -> Option<(i64, i64)> {
        let mapping = &self.mapping;
        let is_along = (mapping.increment > 0) == (increment > 0);
        let (place, segment) = if is_along {
            let from = mapping.first_index_from(value);
            let at = self.segments.partition_point(|(segment, _)| segment.end <= from);
            let (segment, _) = self.segments.get(at)?;
            (from.max(segment.start), segment)
        } else {
            let end = mapping.first_index_beyond(value);
            let at = self.segments.partition_point(|(segment, _)| segment.start < end);
            let (segment, _) = self.segments[..at].last()?;
            (end.min(segment.end) - 1, segment)
        };
        let run = segment.intersection(&mapping.stripes.stripe_of(place));
        let last = if is_along { run.last() } else { run.start };
        Some((mapping.value(place)?, mapping.value(last)?))
    }

    /// Which places of a range in another numbering, which has no stripes, have values that a
    /// segment of this one has: ranges in order. An empty one says that there is none before it.
    /// `None`: there is none at all.
    fn shared(&self, other: Mapping, range: Range) -> Option<impl Iterator<Item = Range>> {
        let first = other.value(range.start)?;
        let (near, _) = self.next_run(first, other.increment)?;
        if other.first_index_from(near) >= range.end {
            return None;
        }
        // Every so many places the two have a value in common.
        let distance = i128::from(self.mapping.base) - i128::from(first);
        let (ahead, period) = solve(other.increment.into(), distance, self.mapping.step())?;
        let (start, mut passed) = (i128::from(range.start.0), 0_i128);
        Some(from_fn(move || {
            let periods = (passed - ahead + period - 1).max(0) / period;
            let place = start + ahead + periods * period;
            let place = Index(i64::try_from(place).ok()?);
            let value = other.value(place).filter(|_| place < range.end)?;
            let (near, last) = self.next_run(value, other.increment)?;
            let found = match (near == value, period) {
                (true, 1) => Range::new(place, other.first_index_beyond(last)),
                (true, _) => Range::with_len(place, 1),
                (false, _) => Range::with_len(other.first_index_from(near), 0),
            };
            passed = i128::from(found.end.0) - start;
            (found.start < range.end).then(|| found.until(range.end))
        }))
    }
}

impl<R: Copy> Numbering<R> {
    /// The parts of a range that lie within segments.
    fn segments_in(&self, range: Range) -> impl Iterator<Item = (Range, R)> + use<'_, R> {
        let from = self.segments.partition_point(|(segment, _)| segment.end <= range.start);
        let parts = self.segments[from..].iter();
        let parts = parts.map(move |(segment, reason)| (segment.intersection(&range), *reason));
        parts.take_while(|(part, _)| !part.is_empty())
    }
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
