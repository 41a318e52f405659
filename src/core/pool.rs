//! The ranges that a slot holds of one sequence besides its [`Cursor`]: the blocks queued behind
//! the current one, and the returned ranges. It is plain data: every method here requires the lock
//! that serialises the cursor's writers.

use crate::cursor::{Cursor, MAX_SEGMENT, Taken};
use crate::numbers::{Index, Serial};
use crate::range::Range;

/// How many blocks can wait behind the current one. Consecutive blocks count as one.
pub const QUEUE: usize = 8;
/// How many returned ranges can wait to be taken again.
pub const RETURNED: usize = 32;
/// The most ranges that [`Pool::drain`] returns.
pub const ALL: usize = 1 + QUEUE + RETURNED;

/// A list of ranges of fixed capacity.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Ranges<const N: usize> {
    len: usize,
    ranges: [Range; N],
}

impl<const N: usize> Default for Ranges<N> {
    fn default() -> Self {
        Ranges { len: 0, ranges: [Range::EMPTY; N] }
    }
}

impl<const N: usize> Ranges<N> {
    pub fn as_slice(&self) -> &[Range] {
        &self.ranges[..self.len]
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_full(&self) -> bool {
        self.len == N
    }

    pub fn first(&self) -> Option<Range> {
        self.as_slice().first().copied()
    }

    /// Whether it is time to make room.
    pub fn is_crowded(&self) -> bool {
        self.len * 4 >= N * 3
    }

    /// How many indexes they hold together.
    pub fn total(&self) -> i64 {
        self.as_slice().iter().map(Range::len).sum()
    }

    /// Merges `range` with a range that it continues, or inserts it at `at`. Returns whether there
    /// was room.
    fn insert(&mut self, at: usize, range: Range) -> bool {
        if range.is_empty() {
            return true;
        }
        if let Some(i) = self.as_slice().iter().position(|other| other.join(&range).is_some()) {
            let joined = self.remove(i).join(&range).unwrap_or(range);
            // The merged range may now touch the other neighbour.
            return self.insert(i.min(self.len), joined);
        }
        if self.is_full() {
            return false;
        }
        self.ranges.copy_within(at..self.len, at + 1);
        self.ranges[at] = range;
        self.len += 1;
        true
    }

    /// Adds `range`, merged with the ranges that it touches. `false`, and nothing is changed, when
    /// full.
    pub fn push(&mut self, range: Range) -> bool {
        self.insert(self.len, range)
    }

    fn push_front(&mut self, range: Range) -> bool {
        self.insert(0, range)
    }

    fn remove(&mut self, at: usize) -> Range {
        let range = self.ranges[at];
        self.ranges.copy_within(at + 1..self.len, at);
        self.len -= 1;
        range
    }
}

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Pool {
    queue: Ranges<QUEUE>,
    returned: Ranges<RETURNED>,
    /// Indexes outside these bounds are kept and not served, because their values lie beyond the
    /// sequence's bounds.
    bounds: Range,
    /// Nothing is served; what was left of the cursor's segment is at the head of the queue.
    frozen: bool,
    /// Where the cursor's segment began, and (`taken_before`) how much had been taken before it.
    segment_start: Index,
    taken_before: i64,
    returned_count: i64,
    recycled: i64,
}

impl Default for Pool {
    fn default() -> Self {
        Pool {
            queue: Ranges::default(),
            returned: Ranges::default(),
            bounds: Range::ALL,
            frozen: false,
            segment_start: Index::ZERO,
            taken_before: 0,
            returned_count: 0,
            recycled: 0,
        }
    }
}

impl Pool {
    pub fn queue(&self) -> &Ranges<QUEUE> {
        &self.queue
    }

    pub fn returned_ranges(&self) -> &Ranges<RETURNED> {
        &self.returned
    }

    /// How many indexes have been taken so far and not returned. Only returns lower it.
    pub fn taken_count(&self, cursor: &Cursor) -> i64 {
        self.taken_before + (cursor.peek().0.start - self.segment_start).max(0) + self.recycled
            - self.returned_count
    }

    /// How many indexes were returned and taken again.
    pub fn recycled_count(&self) -> i64 {
        self.recycled
    }

    /// How many indexes can still be taken in order once the pool is thawed: the rest of the
    /// segment and the queue, within the bounds.
    pub fn available(&self, cursor: &Cursor) -> i64 {
        let below = |range: &Range| range.intersection(&self.bounds).len();
        cursor.peek().0.len() + self.queue.as_slice().iter().map(below).sum::<i64>()
    }

    /// The first index that has not been taken in order, if the pool holds any.
    pub fn first_untaken(&self, cursor: &Cursor) -> Option<Index> {
        let rest = cursor.peek().0;
        let first = if rest.is_empty() { self.queue.first() } else { Some(rest) };
        first.map(|range| range.start)
    }

    /// Serves only indexes within `bounds` from now on; the others are kept. Values that are still
    /// to be taken in order do not lie below the bounds.
    pub fn set_bounds(&mut self, cursor: &Cursor, bounds: Range) {
        if bounds != self.bounds {
            self.close(cursor);
            self.bounds = bounds;
        }
    }

    /// Serves nothing until [`thaw`](Self::thaw).
    pub fn freeze(&mut self, cursor: &Cursor) {
        self.close(cursor);
        self.frozen = true;
    }

    pub fn thaw(&mut self) {
        self.frozen = false;
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Moves what is left of the segment to the head of the queue. There is room: see
    /// [`has_room`](Self::has_room).
    fn close(&mut self, cursor: &Cursor) {
        let rest = cursor.close();
        self.count_taken(rest);
        let queued = self.queue.push_front(rest);
        debug_assert!(queued);
    }

    /// Whether the queue has room for another block. Two places are kept free for the ranges that
    /// [`Pool::claim`] and a long segment put at its head.
    pub fn has_room(&self) -> bool {
        self.queue.len < QUEUE - 2
    }

    /// How many blocks it has room for.
    pub fn places(&self) -> usize {
        (QUEUE - 2).saturating_sub(self.queue.len)
    }

    /// Queues a block, which lies behind all others. `false`: there is no place for it.
    pub fn publish(&mut self, block: Range) -> bool {
        self.has_room() && self.queue.push(block)
    }

    /// Makes the next queued block current if the segment is used up. Returns whether there is
    /// anything to take now.
    pub fn promote(&mut self, cursor: &Cursor, serial: Serial) -> bool {
        if self.frozen {
            return false;
        }
        if !cursor.peek().0.is_empty() {
            return true;
        }
        match self.queue.first() {
            Some(next) if next.start < self.bounds.end => {
                self.queue.remove(0);
                self.install(cursor, serial, next);
                true
            }
            _ => false,
        }
    }

    fn install(&mut self, cursor: &Cursor, serial: Serial, mut block: Range) {
        let segment = block.take(MAX_SEGMENT.min(self.bounds.end - block.start));
        if !block.is_empty() {
            // There is room: the block has just left the queue, or was the segment.
            let queued = self.queue.push_front(block);
            debug_assert!(queued);
        }
        let rest = cursor.install(segment, serial);
        self.count_taken(rest);
        self.segment_start = segment.start;
    }

    fn count_taken(&mut self, rest: Range) {
        self.taken_before += (rest.start - self.segment_start).max(0);
        self.segment_start = rest.start;
    }

    /// Takes back `range`, which was taken under `serial` and not served. `false`: there is no
    /// place for it.
    pub fn return_range(&mut self, cursor: &Cursor, serial: Serial, range: Range) -> bool {
        if range.is_empty() || cursor.untake(range, serial) {
            return true;
        }
        let kept = self.returned.push(range);
        if kept {
            self.returned_count += range.len();
        }
        kept
    }

    /// Adds a range that comes from the catalog. Returned ranges lie before all that is taken in
    /// order, so that the values of a session that takes both rise. So a range ahead, such as a
    /// block that was not acknowledged, is queued. `false`: there is no place for it.
    pub fn restore(&mut self, cursor: &Cursor, range: Range) -> bool {
        if self.first_untaken(cursor).is_some_and(|next| range.start >= next) {
            let at = self.queue.as_slice().partition_point(|block| block.start < range.start);
            return self.has_room() && self.queue.insert(at, range);
        }
        let kept = self.returned.push(range);
        if kept {
            self.returned_count += range.len();
            self.taken_before += range.len();
        }
        kept
    }

    /// The part of a returned range that a caller may get who must get nothing below `floor`.
    fn servable(&self, range: &Range, floor: Index) -> Range {
        match self.frozen {
            true => Range::EMPTY,
            false => range.intersection(&self.bounds).from(floor),
        }
    }

    /// Whether a returned range has anything that may be served and is not below `floor`.
    pub fn has_returned(&self, floor: Index) -> bool {
        self.returned.as_slice().iter().any(|range| self.part(range, 1, floor).is_some())
    }

    /// The first `want` indexes of a returned range that a caller may get who must get nothing
    /// below `floor`. `None` also if there is no room for the remainder.
    fn part(&self, range: &Range, want: i64, floor: Index) -> Option<Range> {
        let part = self.servable(range, floor).take(want);
        let splits = range.start < part.start && part.end < range.end;
        let stuck = splits && self.returned.is_full();
        (!part.is_empty() && !stuck).then_some(part)
    }

    /// Takes up to `want` of the returned indexes, none below `floor`, the lowest first. `fits`
    /// says whether the caller can serve them.
    pub fn take_returned(
        &mut self,
        want: i64,
        floor: Index,
        fits: impl FnOnce(Range) -> bool,
    ) -> Taken {
        let lowest = self
            .returned
            .as_slice()
            .iter()
            .filter_map(|range| self.part(range, want, floor))
            .min_by_key(|part| part.start);
        match lowest {
            Some(part) if !fits(part) => Taken::Unfit,
            Some(range) if self.cut_returned(range) => {
                Taken::Range { range, left: self.returned.total() }
            }
            _ => Taken::Empty,
        }
    }

    /// Takes `part` out of the returned range that contains it. `false`: there is no room for the
    /// remainder.
    fn cut_returned(&mut self, part: Range) -> bool {
        let whole = |range: &Range| !range.intersection(&part).is_empty();
        let Some(at) = self.returned.as_slice().iter().position(whole) else { return false };
        let range = self.returned.ranges[at];
        let splits = range.start < part.start && part.end < range.end;
        if splits && self.returned.is_full() {
            return false;
        }
        self.returned.remove(at);
        for rest in [range.until(part.start), range.from(part.end)] {
            let kept = self.returned.push(rest);
            debug_assert!(kept);
        }
        self.recycled += part.len();
        true
    }

    /// Takes the part that `fit` chooses of the first run of consecutive indexes in which it finds
    /// one. The range before that part can no longer be taken in order and moves to the returned
    /// ranges. `None`, and nothing is changed, if nothing fits or there is no room for that range.
    pub fn claim(
        &mut self,
        cursor: &Cursor,
        serial: Serial,
        mut fit: impl FnMut(Range) -> Option<Range>,
    ) -> Option<Range> {
        if self.frozen {
            return None;
        }
        self.close(cursor);
        let claimed = self.claim_queued(&mut fit);
        self.promote(cursor, serial);
        claimed
    }

    fn claim_queued(&mut self, fit: &mut impl FnMut(Range) -> Option<Range>) -> Option<Range> {
        let runs = self.queue;
        let runs = runs.as_slice();
        let servable = |run: &Range| run.intersection(&self.bounds);
        let (at, part) = runs
            .iter()
            .map(servable)
            .take_while(|run| !run.is_empty())
            .enumerate()
            .find_map(|(at, run)| Some((at, fit(run)?)))?;
        let run = runs[at];
        debug_assert!(run.start <= part.start && part.end <= run.end);
        let before = run.until(part.start);
        let skipped = || runs[..at].iter().copied().chain([before]);
        let mut returned = self.returned;
        if !skipped().all(|range| returned.push(range)) {
            return None;
        }
        let count: i64 = skipped().map(|range| range.len()).sum();
        self.returned = returned;
        self.returned_count += count;
        self.taken_before += count + part.len();
        self.queue = Ranges::default();
        let after = run.from(part.end);
        for rest in [after].iter().chain(&runs[at + 1..]) {
            let queued = self.queue.push(*rest);
            debug_assert!(queued);
        }
        Some(part)
    }

    /// Takes the part that `fit` chooses from the returned ranges, at or beyond `floor`.
    pub fn claim_returned(
        &mut self,
        floor: Index,
        fit: impl FnMut(Range) -> Option<Range>,
    ) -> Option<Range> {
        let mut returned = self.returned;
        // The lowest first, because the caller gets nothing below it afterwards.
        returned.ranges[..returned.len].sort_unstable();
        let part = returned
            .as_slice()
            .iter()
            .map(|range| self.servable(range, floor))
            .filter(|range| !range.is_empty())
            .find_map(fit)?;
        self.cut_returned(part).then_some(part)
    }

    /// Forgets the indexes that could be taken in order, which are stored elsewhere now. The pool
    /// is frozen.
    pub fn forget_queue(&mut self) {
        debug_assert!(self.frozen);
        self.queue = Ranges::default();
    }

    /// Empties the cursor and the pool. Returns all that they held, in no order.
    pub fn drain(&mut self, cursor: &Cursor) -> Ranges<ALL> {
        let mut all = Ranges::<ALL>::default();
        let rest = cursor.close();
        self.count_taken(rest);
        for range in [rest].iter().chain(self.queue.as_slice()).chain(self.returned.as_slice()) {
            let kept = all.push(*range);
            debug_assert!(kept);
        }
        self.queue = Ranges::default();
        self.returned = Ranges::default();
        all
    }

    /// Takes out the returned ranges, except the `keep` lowest, so that they can be stored
    /// elsewhere.
    pub fn drain_returned(&mut self, keep: usize) -> Ranges<RETURNED> {
        let mut out = core::mem::take(&mut self.returned);
        let len = out.len;
        out.ranges[..len].sort_unstable();
        for _ in 0..keep.min(len) {
            let kept = out.remove(0);
            self.returned.push(kept);
        }
        out
    }

    /// The smallest index that the pool holds, if any.
    pub fn lowest(&self, cursor: &Cursor) -> Option<Index> {
        let rest = cursor.peek().0;
        let held = self.queue.as_slice().iter().chain(self.returned.as_slice());
        held.chain(Some(&rest).filter(|rest| !rest.is_empty())).map(|range| range.start).min()
    }
}
