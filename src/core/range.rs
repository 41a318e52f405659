//! A half-open range of indexes.

/// `[start, end)`; empty where `start >= end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Range {
    pub start: i64,
    pub end: i64,
}

impl Range {
    pub const EMPTY: Range = Range { start: 0, end: 0 };

    pub const fn new(start: i64, end: i64) -> Self {
        Range { start, end }
    }

    /// How many indexes it holds.
    pub const fn len(&self) -> i64 {
        if self.end > self.start { self.end - self.start } else { 0 }
    }

    pub const fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Cuts off the first `count` indexes (all, if there are fewer) and returns them.
    pub fn take(&mut self, count: i64) -> Range {
        let cut = self.start + count.min(self.len());
        let taken = Range::new(self.start, cut);
        self.start = cut;
        taken
    }

    /// The part of it from `index` on.
    pub fn from(&self, index: i64) -> Range {
        Range::new(self.start.max(index), self.end)
    }

    /// Both as one range, if one ends where the other starts.
    pub fn joined(&self, other: &Range) -> Option<Range> {
        if self.end == other.start {
            Some(Range::new(self.start, other.end))
        } else if other.end == self.start {
            Some(Range::new(other.start, self.end))
        } else {
            None
        }
    }

    pub const fn contains(&self, index: i64) -> bool {
        self.start <= index && index < self.end
    }

    /// The part that both ranges have.
    pub fn intersection(&self, other: &Range) -> Range {
        Range::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// The same indexes as ranges that are sorted, disjoint and not empty.
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

    /// The parts of it outside of `holes`, which are sorted and disjoint.
    pub fn without(&self, holes: &[Range]) -> Vec<Range> {
        let mut parts = Vec::new();
        let mut at = self.start;
        for hole in holes.iter().filter(|hole| hole.end > self.start && hole.start < self.end) {
            parts.push(Range::new(at, hole.start));
            at = at.max(hole.end);
        }
        parts.push(Range::new(at, self.end));
        parts.retain(|part| !part.is_empty());
        parts
    }
}
