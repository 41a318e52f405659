//! The values that a sequence may have served in earlier numberings, kept as a few spans.

use crate::mapping::Mapping;
use crate::range::Range;

/// Values from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub low: i64,
    pub high: i64,
    /// The distance of the values, all of which the sequence has had. 0: some values between have
    /// been served, and it is not known which.
    pub step: i64,
}

impl Span {
    pub fn new(one: i64, other: i64, step: i64) -> Span {
        let step = step.checked_abs().unwrap_or(0);
        Span { low: one.min(other), high: one.max(other), step }
    }

    /// The last value in the direction of a sequence.
    pub fn end(&self, increment: i64) -> i64 {
        if increment > 0 { self.high } else { self.low }
    }

    /// How far the next span is.
    fn distance(&self, next: &Span) -> i128 {
        i128::from(next.low) - i128::from(self.high)
    }

    fn is_on_grid_of(&self, other: &Span) -> bool {
        let apart = i128::from(self.low) - i128::from(other.low);
        self.step != 0 && self.step == other.step && apart % i128::from(self.step) == 0
    }

    /// A span that contains both, and all values between them.
    fn with(&self, next: &Span) -> Span {
        let whole = self.is_on_grid_of(next) && self.distance(next) <= i128::from(self.step);
        Span {
            low: self.low.min(next.low),
            high: self.high.max(next.high),
            step: if whole { self.step } else { 0 },
        }
    }

    fn joins(&self, next: &Span) -> bool {
        self.distance(next) <= 0 || self.with(next).step != 0
    }

    /// The indexes of a mapping whose values lie in the span.
    fn indexes(&self, mapping: &Mapping) -> Range {
        between(mapping, self.low, self.high)
    }

    /// Whether the sequence has had all values of the mapping in the span.
    fn is_whole(&self, mapping: &Mapping) -> bool {
        let grid = Span { low: mapping.base, high: mapping.base, step: mapping.increment.abs() };
        self.is_on_grid_of(&grid)
    }
}

/// The indexes whose values lie between two values.
pub fn between(mapping: &Mapping, one: i64, other: i64) -> Range {
    let (low, high) = (one.min(other), one.max(other));
    let (first, last) = if mapping.increment > 0 { (low, high) } else { (high, low) };
    Range::new(mapping.first_index_from(first), mapping.first_index_beyond(last))
        .intersection(&mapping.indexes())
}

/// Sorted and disjoint spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past(Vec<Span>);

impl Past {
    /// The most spans. Beyond that the nearest two become one, though other users of a source have
    /// got values between them.
    pub const MOST: usize = 32;

    pub fn from_spans(spans: impl IntoIterator<Item = Span>) -> Past {
        let mut past = Past::default();
        spans.into_iter().for_each(|span| past.add(span));
        past
    }

    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    pub fn add(&mut self, span: Span) {
        let at = self.0.partition_point(|known| known.low < span.low);
        self.0.insert(at, span);
        self.0.dedup_by(|next, last| {
            let joins = last.joins(next);
            if joins {
                *last = last.with(next);
            }
            joins
        });
        while self.0.len() > Past::MOST {
            let distance = |at: &usize| self.0[*at].distance(&self.0[at + 1]);
            let Some(at) = (0..self.0.len() - 1).min_by_key(distance) else { return };
            let next = self.0.remove(at + 1);
            self.0[at] = self.0[at].with(&next);
        }
    }

    pub fn add_all(&mut self, other: &Past) {
        other.0.iter().for_each(|span| self.add(*span));
    }

    /// The lowest and the highest value.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        Some((self.0.first()?.low, self.0.last()?.high))
    }

    /// The span in which a value lies.
    pub fn around(&self, value: i64) -> Option<Span> {
        self.0.iter().find(|span| span.low <= value && value <= span.high).copied()
    }

    /// The indexes whose values the sequence may have had.
    pub fn indexes(&self, mapping: &Mapping) -> Vec<Range> {
        Range::union(self.0.iter().map(|span| span.indexes(mapping)).collect())
    }

    /// The indexes whose values the sequence surely has had.
    pub fn certain(&self, mapping: &Mapping) -> Vec<Range> {
        let whole = self.0.iter().filter(|span| span.is_whole(mapping));
        Range::union(whole.map(|span| span.indexes(mapping)).collect())
    }
}
