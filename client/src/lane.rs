//! A lane: where many threads take the values of one lease, one addition each.
//!
//! One 64-bit word holds how many values are left, and above that the number of the filling:
//! `number << 32 | left`. A taker reads the word, then which value is the last and how far they are
//! apart, and lowers the word by compare-and-swap. Both are written only while nothing is left, and
//! each filling has a number of its own. So a swap that succeeds proves that the taker's reads
//! belong to the word. [`Lane::close`] takes all that is left in one swap: no taker gets a value
//! after it, however long ago it read the word.
//!
//! [`Lane::fill`] and [`Lane::close`] must be serialised by a lock of the caller's; takers need
//! none. For a stale taker to succeed by mistake, 2^32 fillings would have to come between its load
//! and its swap.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::*};
#[cfg(loom)]
use loom::sync::atomic::{AtomicI64, AtomicU64, Ordering::*};

// For hints, on which no value depends. The model checker need not try their interleavings.
use core::sync::atomic::AtomicU32;

/// The most values of one filling.
pub const MAX_FILLING: i64 = u32::MAX as i64;

const LEFT: u64 = u32::MAX as u64;
/// The step of a filling's number.
const FILLING: u64 = 1 << 32;

/// See the module's documentation.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Lane {
    word: AtomicU64,
    last: AtomicI64,
    increment: AtomicI64,
    /// A taker that goes below this reports it. Only a hint: it may belong to another filling.
    mark: AtomicU32,
    /// How many values the filling had, and how often a taker lost the race for the word. Only
    /// hints, too.
    filled: AtomicU32,
    lost: AtomicU32,
    /// The last values of the filling, this many, may not be taken yet. Within a filling it is only
    /// lowered.
    floor: AtomicU32,
}

/// Values that a taker owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Took {
    /// The first value; the others follow in steps of the increment.
    pub first: i64,
    pub increment: i64,
    /// Whether nothing is left that may be taken, or less than the mark for the first time.
    pub low: bool,
    /// Whether another taker came in between.
    pub contended: bool,
}

impl Lane {
    /// Takes `count` values (at least 1), or none if fewer are left.
    #[inline]
    pub fn take(&self, count: u32) -> Option<Took> {
        debug_assert!(count > 0, "nothing to take");
        let mut word = self.word.load(Acquire);
        let mut contended = false;
        loop {
            let left = (word & LEFT) as u32;
            if left < count {
                return None;
            }
            // Acquire: a taker that reads what a later filling wrote also sees that the word has
            // changed, so the swap fails.
            let last = self.last.load(Acquire);
            let increment = self.increment.load(Acquire);
            let rest = left - count;
            let floor = self.floor.load(Relaxed);
            if rest < floor {
                return None;
            }
            let after = word - u64::from(count);
            match self.word.compare_exchange(word, after, AcqRel, Acquire) {
                Ok(_) => {
                    let mark = self.mark.load(Relaxed);
                    let low = rest == floor || rest < mark && left >= mark;
                    let first = value(last, increment, left);
                    return Some(Took { first, increment, low, contended });
                }
                Err(now) => {
                    word = now;
                    contended = true;
                    self.lost.fetch_add(1, Relaxed);
                }
            }
        }
    }

    /// The number of the filling.
    pub fn number(&self) -> u32 {
        (self.word.load(Acquire) >> 32) as u32
    }

    /// Fills an empty lane with `count` values, at most [`MAX_FILLING`]. Its number is the next.
    ///
    /// # Panics
    /// If something is left, or `count` is out of range.
    pub fn fill(&self, last: i64, increment: i64, count: i64) {
        self.fill_to(last, increment, count, 0);
    }

    /// Fills the lane as [`fill`](Self::fill) does, and keeps the last `floor` values from takers.
    pub fn fill_to(&self, last: i64, increment: i64, count: i64, floor: u32) {
        let word = self.word.load(Acquire);
        assert!(word & LEFT == 0, "the lane is not empty");
        assert!((1..=MAX_FILLING).contains(&count), "{count} values do not fit");
        self.last.store(last, Release);
        self.increment.store(increment, Release);
        self.filled.store(count as u32, Relaxed);
        self.lost.store(0, Relaxed);
        self.floor.store(floor, Relaxed);
        self.word.store((word & !LEFT).wrapping_add(FILLING) | count as u64, Release);
    }

    /// Empties the lane, and returns how many values were left.
    pub fn close(&self) -> i64 {
        self.close_with(|_| {})
    }

    /// Empties the lane as [`close`](Self::close) does. `note` is told before how many values are
    /// left; the last time, as many as are returned.
    pub fn close_with(&self, mut note: impl FnMut(u32)) -> i64 {
        let mut word = self.word.load(Acquire);
        loop {
            note((word & LEFT) as u32);
            // As after a filling: a taker that reads the word later sees that this filling has
            // ended.
            let after = (word & !LEFT).wrapping_add(FILLING);
            match self.word.compare_exchange(word, after, AcqRel, Acquire) {
                Ok(_) => return (word & LEFT) as i64,
                Err(now) => word = now,
            }
        }
    }

    /// Whether values are left, and none of them may be taken yet.
    pub fn is_held_back(&self) -> bool {
        let left = self.remaining();
        left > 0 && left <= i64::from(self.floor.load(Relaxed))
    }

    /// Keeps only the last `floor` values from takers.
    pub fn set_floor(&self, floor: u32) {
        self.floor.store(floor, Relaxed);
    }

    /// How many values are left.
    pub fn remaining(&self) -> i64 {
        (self.word.load(Acquire) & LEFT) as i64
    }

    /// Makes the taker that goes below `mark` values report it; 0: only the taker of the last
    /// value.
    pub fn set_mark(&self, mark: i64) {
        self.mark.store(mark.clamp(0, MAX_FILLING) as u32, Relaxed);
    }

    /// How often takers of this filling lost a race for the word, and how many values they took.
    pub fn races(&self) -> (u32, u32) {
        let taken = self.filled.load(Relaxed).saturating_sub(self.remaining() as u32);
        (self.lost.load(Relaxed), taken)
    }
}

/// The value when `left` values are left, the last one included. Exact though a step in between may
/// overflow, because the value itself does not.
pub fn value(last: i64, increment: i64, left: u32) -> i64 {
    last.wrapping_sub(increment.wrapping_mul(i64::from(left) - 1))
}
