//! From index to value: `value(i) = base + increment × global(i)`.
//!
//! An index counts what one node serves: 0, 1, 2, … A node owns every `nodes`-th stripe of `size`
//! global positions: `global(i) = (i / size × nodes + node) × size + i mod size`. With cycling, the
//! first lap runs from the base to the bound, and each later one from the other bound. So the index
//! itself simply continues.
//!
//! Everything is computed in 128 bits: no input overflows or panics. Callers ensure that the
//! increment is not zero, that `node < nodes` and, with cycling, that the base lies within the
//! bounds.

use crate::numbers::Index;
use crate::range::Range;

/// Which global positions belong to this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stripes {
    /// 0 … nodes − 1
    pub node: u32,
    /// 1: every position belongs to this node, whatever `size` is
    pub nodes: u32,
    /// positions in a stripe, at least 1
    pub size: i64,
}

impl Stripes {
    /// One node that owns everything.
    pub const ALL: Stripes = Stripes { node: 0, nodes: 1, size: 1 };

    fn width(&self) -> i128 {
        self.size.max(1) as i128
    }

    /// The global position of an index (at least 0). Below 2^96.
    fn global(&self, index: Index) -> i128 {
        let index = index.0;
        if self.nodes <= 1 {
            return index as i128;
        }
        let size = self.size.max(1);
        let round = (index / size) as i128 * self.nodes as i128 + self.node as i128;
        round * size as i128 + (index % size) as i128
    }

    /// How many indexes of this node have a global position below `global`, which is also the
    /// smallest index at or beyond it.
    pub(crate) fn below(&self, global: i128) -> i128 {
        let global = global.max(0);
        if self.nodes <= 1 {
            return global;
        }
        let width = self.width();
        let round = width * self.nodes as i128;
        let inside = global % round - width * self.node as i128;
        global / round * width + inside.clamp(0, width)
    }

    /// The indexes of the stripe that an index (at least 0) is in.
    pub(crate) fn stripe_of(&self, index: Index) -> Range {
        if self.nodes <= 1 {
            return Range::ALL;
        }
        let size = self.size.max(1);
        Range::with_len(Index(index.0 / size * size), size)
    }

    fn owns(&self, global: i128) -> bool {
        self.nodes <= 1 || global / self.width() % self.nodes as i128 == self.node as i128
    }
}

/// The constants that turn an index of a sequence into a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Mapping {
    /// the value at global position 0
    pub base: i64,
    /// not 0
    pub increment: i64,
    pub min_value: i64,
    pub max_value: i64,
    pub cycle: bool,
    pub stripes: Stripes,
}

/// `count` (at least 1) values: `first`, `first + increment`, ….
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub first: i64,
    pub count: i64,
}

impl Run {
    /// The last value of the run. `increment` is that of the mapping that the run came from.
    pub fn last(&self, increment: i64) -> i64 {
        (self.first as i128 + (self.count - 1) as i128 * increment as i128) as i64
    }
}

/// The first and the last value that may be served again, if a sequence continues with index
/// `new_next` of `new` instead of `old_next` of `old`. `None`: it continues beyond all values that
/// `old` has served. Or it cycles, and repeats its values anyway.
pub fn first_repeat(
    old: &Mapping,
    old_next: Index,
    new: &Mapping,
    new_next: Index,
) -> Option<(i64, i64)> {
    if old.cycle || new.cycle {
        return None;
    }
    let first = new.value(new_next)? as i128;
    let old = old.without_bounds();
    let reached = match old_next {
        Index::ZERO => old.base as i128 - old.increment as i128,
        next => old.value(next.min(old.limit()) - 1)? as i128,
    };
    let ascending = new.increment > 0;
    let (from, to) = match ascending == (old.increment > 0) {
        true => (first, reached),
        // `new` goes back over the values that `old` has served in the other direction.
        false if old_next == Index::ZERO => return None,
        false if ascending => (first.max(reached), old.base as i128),
        false => (first.min(reached), old.base as i128),
    };
    let repeats = if ascending { from <= to } else { from >= to };
    repeats.then_some((from as i64, to as i64))
}

impl Mapping {
    /// The mapping without bounds: reserved indexes keep their values when a bound is narrowed. If
    /// it cycles, the bounds are part of the numbering, and stay.
    pub fn without_bounds(&self) -> Mapping {
        match self.cycle {
            true => *self,
            false => Mapping { min_value: i64::MIN, max_value: i64::MAX, ..*self },
        }
    }

    /// The value of `index`; `Some` exactly for 0 ≤ index < [`limit`](Self::limit).
    #[inline]
    pub fn value(&self, index: Index) -> Option<i64> {
        if !Range::ALL.contains(index) {
            return None;
        }
        if self.is_plain() {
            return self.value_within_bounds(index);
        }
        let global = self.stripes.global(index);
        if self.cycle {
            return Some(self.value_in_lap(global).0);
        }
        if global < self.positions() { Some(self.at(global)) } else { None }
    }

    /// The exclusive end of the indexes that may be reserved: how many there are, or [`Index::MAX`]
    /// if there are more or the sequence cycles. 0 if the whole sequence ends before this node's
    /// first stripe.
    pub fn limit(&self) -> Index {
        if self.cycle {
            return Index::MAX;
        }
        clamp(self.stripes.below(self.positions()))
    }

    /// The indexes whose values lie within the bounds. They begin above 0 if a bound was moved past
    /// the base.
    pub fn indexes(&self) -> Range {
        let before = if self.increment > 0 { self.min_value } else { self.max_value };
        let offset = self.offset(before);
        let first = match self.cycle || offset <= 0 {
            true => Index::ZERO,
            false => clamp(self.stripes.below((offset + self.step() - 1) / self.step())),
        };
        Range::new(first, self.limit())
    }

    /// The longest beginning of `range` whose values step by exactly `increment`: it ends with a
    /// stripe, a lap or the sequence. None if the range is empty or its first index has no value.
    #[inline]
    pub fn run(&self, range: Range) -> Option<Run> {
        if range.is_empty() {
            return None;
        }
        let first = self.value(range.start)?;
        if self.is_plain() && self.value_within_bounds(range.last()).is_some() {
            return Some(Run { first, count: range.len() });
        }
        Some(Run { first, count: range.len().min(self.in_step(range.start)) })
    }

    /// `range` as runs, in order, up to the end of the sequence.
    pub fn runs(&self, range: Range) -> impl Iterator<Item = Run> + use<> {
        let mapping = *self;
        let mut rest = range;
        core::iter::from_fn(move || {
            let run = mapping.run(rest)?;
            rest.take(run.count);
            Some(run)
        })
    }

    /// The index of this node that has this value. None if the value is off the grid, out of bounds
    /// or another node's, and always when cycling: then a value has many indexes.
    pub fn index_of(&self, value: i64) -> Option<Index> {
        let offset = self.offset(value);
        if self.cycle || offset < 0 || offset % self.step() != 0 {
            return None;
        }
        let global = offset / self.step();
        if global >= self.positions() || !self.stripes.owns(global) {
            return None;
        }
        let index = i64::try_from(self.stripes.below(global)).ok().map(Index);
        index.filter(|index| *index < Index::MAX)
    }

    /// The smallest index of this node whose value lies strictly beyond `value` in the direction of
    /// the increment, within 0 ..= limit. If the sequence cycles, nothing lies beyond: the limit.
    pub fn first_index_beyond(&self, value: i64) -> Index {
        let limit = self.limit();
        let offset = self.offset(value);
        if self.cycle {
            return limit;
        }
        if offset < 0 {
            return Index::ZERO;
        }
        clamp(self.stripes.below(offset / self.step() + 1)).min(limit)
    }

    /// The smallest index of this node whose value does not lie before `value`, within 0 ..= limit.
    pub fn first_index_from(&self, value: i64) -> Index {
        self.index_of(value).unwrap_or_else(|| self.first_index_beyond(value))
    }

    /// Where this numbering may continue after another numbering that branched off from it has
    /// served `value`. That is the smallest index whose predecessor is not short of `value`, so
    /// that neither this numbering nor a branch from there serves the value. 0 if it cycles, since
    /// no value is spent then.
    pub fn floor_behind(&self, value: i64) -> Index {
        if self.cycle {
            return Index::ZERO;
        }
        let beyond = self.first_index_beyond(value);
        let reaches = |index: Index| {
            let way = self.value(index).map(|last| self.offset(last));
            way.is_some_and(|way| way >= self.offset(value))
        };
        match beyond {
            Index::ZERO => Index::ZERO,
            _ if reaches(beyond - 1) => beyond,
            _ => beyond.next().min(self.limit()),
        }
    }

    fn is_plain(&self) -> bool {
        self.stripes.nodes <= 1 && !self.cycle
    }

    /// One node, no cycle, no division: the hot path.
    #[inline]
    fn value_within_bounds(&self, index: Index) -> Option<i64> {
        let index = index.0;
        let narrow = self.increment.checked_mul(index).and_then(|way| self.base.checked_add(way));
        let value = match narrow {
            Some(value) => value,
            // The distance between the two ends of the type does not fit into the type.
            None => {
                i64::try_from(self.base as i128 + self.increment as i128 * index as i128).ok()?
            }
        };
        if (self.min_value..=self.max_value).contains(&value) { Some(value) } else { None }
    }

    /// How many indexes, beginning with `index` (which has a value), have evenly spaced values.
    fn in_step(&self, index: Index) -> i64 {
        let global = self.stripes.global(index);
        let lap = if self.cycle { self.value_in_lap(global).1 } else { self.positions() - global };
        let stripe = if self.stripes.nodes <= 1 {
            i128::MAX
        } else {
            self.stripes.width() - index.0 as i128 % self.stripes.width()
        };
        let all = (Index::MAX - index) as i128;
        lap.min(stripe).min(all) as i64
    }

    /// The value of a global position when cycling, and how many positions are left of its lap,
    /// including this one.
    fn value_in_lap(&self, global: i128) -> (i64, i128) {
        let first_lap = self.positions();
        if global < first_lap {
            return (self.at(global), first_lap - global);
        }
        let origin = if self.increment > 0 { self.min_value } else { self.max_value };
        let lap = (self.max_value as i128 - self.min_value as i128) / self.step() + 1;
        let inside = (global - first_lap) % lap.max(1);
        let value = origin as i128 + self.increment as i128 * inside;
        (value as i64, lap - inside)
    }

    /// The value of a global position below [`positions`](Self::positions).
    fn at(&self, global: i128) -> i64 {
        (self.base as i128 + self.increment as i128 * global) as i64
    }

    /// How many global positions there are from the base to the bound (in the first lap). At most
    /// 2^64.
    pub(crate) fn positions(&self) -> i128 {
        let bound = self.offset(self.bound());
        if bound < 0 { 0 } else { bound / self.step() + 1 }
    }

    /// The last possible value: the bound in the direction of the increment.
    pub fn bound(&self) -> i64 {
        if self.increment > 0 { self.max_value } else { self.min_value }
    }

    /// How far `value` lies beyond the base in the direction of the increment. Within ±2^64.
    pub(crate) fn offset(&self, value: i64) -> i128 {
        let distance = value as i128 - self.base as i128;
        if self.increment > 0 { distance } else { -distance }
    }

    /// The increment without its sign, at least 1.
    pub(crate) fn step(&self) -> i128 {
        (self.increment as i128).abs().max(1)
    }
}

fn clamp(index: i128) -> Index {
    Index(index.clamp(0, i64::MAX as i128) as i64)
}
