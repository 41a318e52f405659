//! A half-open range of indexes.

use crate::numbers::Index;

/// `[start, end)`; empty where `start >= end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Range {
    pub start: Index,
    pub end: Index,
}

impl Range {
    pub const EMPTY: Range = Range::new(Index::ZERO, Index::ZERO);
    /// All indexes that can be served.
    pub const ALL: Range = Range::new(Index::ZERO, Index::MAX);

    #[inline]
    pub const fn new(start: Index, end: Index) -> Self {
        Range { start, end }
    }

    /// `count` indexes from `start` on, or as many as there are.
    #[inline]
    pub const fn with_len(start: Index, count: i64) -> Self {
        Range { start, end: start.saturating_add(count) }
    }

    /// All indexes before `end`.
    pub const fn below(end: Index) -> Self {
        Range { start: Index::ZERO, end }
    }

    /// How many indexes it holds.
    #[inline]
    pub const fn len(&self) -> i64 {
        if self.is_empty() { 0 } else { self.end.0 - self.start.0 }
    }

    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.start.0 >= self.end.0
    }

    /// The last index of a range that is not empty.
    #[inline]
    pub fn last(&self) -> Index {
        self.end - 1
    }

    /// Cuts off the first `count` indexes (all, if there are fewer) and returns them.
    #[inline]
    pub fn take(&mut self, count: i64) -> Range {
        let cut = self.start + count.min(self.len());
        let taken = Range::new(self.start, cut);
        self.start = cut;
        taken
    }

    /// The part from `index` on.
    pub fn from(&self, index: Index) -> Range {
        Range::new(self.start.max(index), self.end)
    }

    /// The part before `index`.
    pub fn until(&self, index: Index) -> Range {
        Range::new(self.start, self.end.min(index))
    }

    /// Both as one range, if one ends where the other starts.
    pub fn join(&self, other: &Range) -> Option<Range> {
        if self.end == other.start {
            Some(Range::new(self.start, other.end))
        } else if other.end == self.start {
            Some(Range::new(other.start, self.end))
        } else {
            None
        }
    }

    #[inline]
    pub fn contains(&self, index: Index) -> bool {
        self.start <= index && index < self.end
    }

    /// The part that both ranges have.
    pub fn intersection(&self, other: &Range) -> Range {
        Range::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// The indexes of these ranges as sorted and disjoint ranges that are not empty.
    pub fn union(mut ranges: Vec<Range>) -> Vec<Range> {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let touches = next.start <= last.end;
            if touches {
                last.end = last.end.max(next.end);
            }
            touches
        });
        ranges
    }

    /// The parts outside of `holes`, which are sorted and disjoint.
    pub fn without(&self, holes: &[Range]) -> Vec<Range> {
        let mut parts = Vec::new();
        let mut at = self.start;
        let first = holes.partition_point(|hole| hole.end <= self.start);
        for hole in holes[first..].iter().take_while(|hole| hole.start < self.end) {
            parts.push(Range::new(at, hole.start));
            at = at.max(hole.end);
        }
        parts.push(Range::new(at, self.end));
        parts.retain(|part| !part.is_empty());
        parts
    }
}
