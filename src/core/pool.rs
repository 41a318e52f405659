//! What a server holds of one sequence beside its [`Cursor`]: the blocks queued behind the current
//! one, and the ranges that were given back. Plain data: every method here wants the lock that
//! serialises the cursor's writers.

use crate::cursor::{Cursor, MAX_SEGMENT};
use crate::range::Range;

/// Blocks that can wait behind the current one. Consecutive blocks count as one.
pub const QUEUE: usize = 8;
/// Ranges given back that can wait to be taken again.
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

    /// Whether `range` found a place: beside a range that it continues, or one of its own at `at`.
    fn insert(&mut self, at: usize, range: Range) -> bool {
        if range.is_empty() {
            return true;
        }
        if let Some(i) = self.as_slice().iter().position(|other| other.joined(&range).is_some()) {
            let joined = self.remove(i).joined(&range).unwrap_or(range);
            // Joined with one neighbour it may now touch the other.
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

    /// Adds `range`, merged with those that it touches. `false`, and nothing is changed, when full.
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

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Pool {
    queue: Ranges<QUEUE>,
    returned: Ranges<RETURNED>,
    /// Where the cursor's segment began, and what had been dealt before it.
    segment_start: i64,
    dealt_before: i64,
    given_back: i64,
    recycled: i64,
}

impl Pool {
    pub fn queue(&self) -> &Ranges<QUEUE> {
        &self.queue
    }

    pub fn returned(&self) -> &Ranges<RETURNED> {
        &self.returned
    }

    /// Indexes dealt so far and not given back, ever rising but for what is given back.
    pub fn dealt(&self, cursor: &Cursor) -> i64 {
        self.dealt_before + (cursor.peek().0.start - self.segment_start).max(0) + self.recycled
            - self.given_back
    }

    /// Indexes that were given back and dealt again.
    pub fn recycled(&self) -> i64 {
        self.recycled
    }

    /// What can still be dealt in order: the rest of the segment and the queue.
    pub fn available(&self, cursor: &Cursor) -> i64 {
        cursor.peek().0.len() + self.queue.total()
    }

    /// Whether another block finds a place in the queue. Two places are kept free for what
    /// [`Pool::claim`] and a long segment put back in front.
    pub fn has_room(&self) -> bool {
        self.queue.len < QUEUE - 2
    }

    /// Queues a block. `false` when the queue is full.
    pub fn publish(&mut self, block: Range) -> bool {
        self.queue.push(block)
    }

    /// Makes the next queued block current if the segment is used up. Whether there is anything to
    /// take now.
    pub fn promote(&mut self, cursor: &Cursor, epoch: i64) -> bool {
        if !cursor.peek().0.is_empty() {
            return true;
        }
        if self.queue.is_empty() {
            return false;
        }
        let next = self.queue.remove(0);
        self.install(cursor, epoch, next);
        true
    }

    fn install(&mut self, cursor: &Cursor, epoch: i64, mut block: Range) {
        let segment = block.take(MAX_SEGMENT);
        if !block.is_empty() {
            // There is room: the block has just left the queue or has been the segment.
            let queued = self.queue.push_front(block);
            debug_assert!(queued);
        }
        let rest = cursor.install(segment, epoch);
        self.settle_count(rest);
        self.segment_start = segment.start;
    }

    fn settle_count(&mut self, rest: Range) {
        self.dealt_before += (rest.start - self.segment_start).max(0);
        self.segment_start = rest.start;
    }

    /// Takes back `range`, which was dealt under `epoch` and not served. `false` when there is no
    /// place for it.
    pub fn give_back(&mut self, cursor: &Cursor, epoch: i64, range: Range) -> bool {
        if range.is_empty() || cursor.untake(range, epoch) {
            return true;
        }
        let kept = self.returned.push(range);
        if kept {
            self.given_back += range.len();
        }
        kept
    }

    /// Puts a range that comes from the catalog among the returned ones.
    pub fn restore(&mut self, range: Range) -> bool {
        let kept = self.returned.push(range);
        if kept {
            self.given_back += range.len();
            self.dealt_before += range.len();
        }
        kept
    }

    /// Takes up to `want` indexes, none below `floor`, of what was given back.
    pub fn take_returned(&mut self, want: i64, floor: i64) -> Option<Range> {
        let at = (0..self.returned.len)
            .filter(|&i| self.returned.ranges[i].start >= floor)
            .min_by_key(|&i| self.returned.ranges[i].start)?;
        let taken = self.returned.ranges[at].take(want);
        if self.returned.ranges[at].is_empty() {
            self.returned.remove(at);
        }
        self.recycled += taken.len();
        Some(taken)
    }

    /// Takes the part that `fit` chooses of the first run of consecutive indexes in which it finds
    /// one. What lies before that part can no longer be dealt in order and goes to the returned
    /// ranges. `None`, and nothing is changed, when nothing fits or there is no place for those.
    pub fn claim(
        &mut self,
        cursor: &Cursor,
        epoch: i64,
        mut fit: impl FnMut(Range) -> Option<Range>,
    ) -> Option<Range> {
        let rest = cursor.close();
        self.settle_count(rest);
        let mut runs = Ranges::<{ QUEUE + 1 }>::default();
        runs.push(rest);
        for block in self.queue.as_slice() {
            runs.push(*block);
        }
        let claimed = self.claim_from(&runs, &mut fit);
        match claimed {
            Some((at, part)) => {
                self.queue = Ranges::default();
                let after = Range::new(part.end, runs.ranges[at].end);
                self.dealt_before += part.len();
                for run in core::iter::once(after).chain(runs.as_slice()[at + 1..].iter().copied())
                {
                    self.queue.push(run);
                }
                self.segment_start = part.end;
                if !self.queue.is_empty() {
                    let next = self.queue.remove(0);
                    self.install_closed(cursor, epoch, next);
                }
                Some(part)
            }
            None => {
                self.install_closed(cursor, epoch, rest);
                None
            }
        }
    }

    fn install_closed(&mut self, cursor: &Cursor, epoch: i64, mut block: Range) {
        if block.is_empty() {
            return;
        }
        let segment = block.take(MAX_SEGMENT);
        self.queue.push_front(block);
        cursor.install(segment, epoch);
        self.segment_start = segment.start;
    }

    fn claim_from(
        &mut self,
        runs: &Ranges<{ QUEUE + 1 }>,
        fit: &mut impl FnMut(Range) -> Option<Range>,
    ) -> Option<(usize, Range)> {
        let (at, part) =
            runs.as_slice().iter().enumerate().find_map(|(at, run)| Some((at, fit(*run)?)))?;
        let run = runs.ranges[at];
        debug_assert!(run.start <= part.start && part.end <= run.end);
        let before = Range::new(run.start, part.start);
        let skipped = || runs.as_slice()[..at].iter().copied().chain([before]);
        let mut returned = self.returned;
        if !skipped().all(|range| returned.push(range)) {
            return None;
        }
        let count: i64 = skipped().map(|range| range.len()).sum();
        self.returned = returned;
        self.given_back += count;
        self.dealt_before += count;
        Some((at, part))
    }

    /// Stops dealing and hands out all that is held, unordered.
    pub fn drain(&mut self, cursor: &Cursor) -> Ranges<ALL> {
        let mut all = Ranges::<ALL>::default();
        let rest = cursor.close();
        self.settle_count(rest);
        for range in [rest].iter().chain(self.queue.as_slice()).chain(self.returned.as_slice()) {
            let kept = all.push(*range);
            debug_assert!(kept);
        }
        self.queue = Ranges::default();
        self.returned = Ranges::default();
        all
    }

    /// Takes the returned ranges out, to be put elsewhere.
    pub fn drain_returned(&mut self) -> Ranges<RETURNED> {
        core::mem::take(&mut self.returned)
    }

    /// The smallest index held, if any: nothing below it is left here.
    pub fn lowest(&self, cursor: &Cursor) -> Option<i64> {
        let rest = cursor.peek().0;
        let held = self.queue.as_slice().iter().chain(self.returned.as_slice());
        held.chain(Some(&rest).filter(|rest| !rest.is_empty())).map(|range| range.start).min()
    }
}
