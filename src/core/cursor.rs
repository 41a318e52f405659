//! The pool's cursor: where the next slice of a sequence is taken.
//!
//! The current block is cut into *segments* of at most [`MAX_SEGMENT`] indexes. One 64-bit word
//! says which segment is served and how far: `number << 24 | offset`. A taker reads the word, reads
//! the segment of that number, and moves the offset by compare-and-swap. The swap succeeds only
//! while the number is unchanged, and a segment is written only before its number is published. So
//! what the taker read of the segment was consistent: taking is one atomic operation.
//!
//! Writers ([`Cursor::install`], [`Cursor::close`], …) must be serialised by a lock of the
//! caller's; takers need none. The two segment places are used in turn. The place of segment g is
//! overwritten only when segment g + 2 is prepared, and by then the word has left g permanently.
//!
//! A segment's number has 40 bits. For a stale taker to succeed by mistake, 2^40 segments would
//! have to be installed between its load and its swap. At ten thousand a second that takes three
//! years.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::*};
#[cfg(loom)]
use loom::sync::atomic::{AtomicI64, AtomicU64, Ordering::*};

use crate::numbers::{Index, Serial};
use crate::range::Range;

const OFFSET_BITS: u32 = 24;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;

/// The most indexes that one segment can hold: its offset must be able to reach its end.
pub const MAX_SEGMENT: i64 = OFFSET_MASK as i64;

/// Indexes that are being served, and the serial that they belong to.
#[derive(Debug)]
#[repr(C)]
struct Segment {
    start: AtomicI64,
    len: AtomicI64,
    serial: AtomicI64,
}

impl Segment {
    fn new() -> Self {
        Segment { start: AtomicI64::new(0), len: AtomicI64::new(0), serial: AtomicI64::new(0) }
    }

    #[inline]
    fn start(&self) -> Index {
        Index(self.start.load(Relaxed))
    }

    #[inline]
    fn len(&self) -> i64 {
        self.len.load(Relaxed)
    }

    #[inline]
    fn serial(&self) -> Serial {
        Serial(self.serial.load(Relaxed))
    }

    fn set(&self, range: Range, serial: Serial) {
        self.start.store(range.start.0, Relaxed);
        self.len.store(range.len(), Relaxed);
        self.serial.store(serial.0, Relaxed);
    }
}

/// The result of a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// These indexes are the caller's alone. `left` remain where they come from.
    Range { range: Range, left: i64 },
    /// The segment is used up or closed: the caller must have the next one installed.
    Empty,
    /// The caller cannot serve the next indexes, and nothing was taken.
    Unfit,
    /// The segment is of another serial than the caller's: its mapping is out of date.
    OtherSerial(Serial),
}

/// See the module's documentation. It lives in shared memory, so it is `repr(C)` and has no
/// pointers.
#[derive(Debug)]
#[repr(C)]
pub struct Cursor {
    word: AtomicU64,
    segments: [Segment; 2],
}

impl Default for Cursor {
    fn default() -> Self {
        Self::new()
    }
}

impl Cursor {
    /// A cursor with nothing to take, at serial 0.
    pub fn new() -> Self {
        Cursor { word: AtomicU64::new(0), segments: [Segment::new(), Segment::new()] }
    }

    fn segment(&self, word: u64) -> &Segment {
        &self.segments[(word >> OFFSET_BITS) as usize & 1]
    }

    /// Takes up to `want` (at least 1) indexes of `serial`; fewer if the segment ends. `fits` says
    /// whether the caller can serve a range. It may be asked about several, last about the one that
    /// is taken.
    pub fn take(&self, want: i64, serial: Serial, fits: impl FnMut(Range) -> bool) -> Taken {
        self.take_if(want, 1, serial, fits)
    }

    /// Takes exactly `count` consecutive indexes of `serial`, or none ([`Taken::Empty`]), if they
    /// fit.
    pub fn take_exactly(
        &self,
        count: i64,
        serial: Serial,
        fits: impl FnMut(Range) -> bool,
    ) -> Taken {
        self.take_if(count, count, serial, fits)
    }

    fn take_if(
        &self,
        want: i64,
        least: i64,
        serial: Serial,
        mut fits: impl FnMut(Range) -> bool,
    ) -> Taken {
        debug_assert!(want >= least && least >= 1);
        let mut word = self.word.load(Acquire);
        loop {
            let segment = self.segment(word);
            let found = segment.serial();
            let offset = (word & OFFSET_MASK) as i64;
            let left = segment.len() - offset;
            let count = want.min(left);
            // The fields may not belong together, so the sum may be anything.
            let range = Range::with_len(segment.start().saturating_add(offset), count);
            let nothing = if found != serial {
                Some(Taken::OtherSerial(found))
            } else if left < least {
                Some(Taken::Empty)
            } else if !fits(range) {
                Some(Taken::Unfit)
            } else {
                None
            };
            if let Some(nothing) = nothing {
                // Only an unchanged number proves that the three fields belong together.
                let again = self.reload(word);
                if again >> OFFSET_BITS == word >> OFFSET_BITS {
                    return nothing;
                }
                word = again;
                continue;
            }
            match self.word.compare_exchange_weak(word, word + count as u64, AcqRel, Acquire) {
                Ok(_) => return Taken::Range { range, left: left - count },
                Err(now) => word = now,
            }
        }
    }

    /// Reads the word again, ordered after the reads of the segment before it.
    fn reload(&self, _word: u64) -> u64 {
        #[cfg(not(loom))]
        core::sync::atomic::fence(Acquire);
        #[cfg(loom)]
        loom::sync::atomic::fence(Acquire);
        self.word.load(Acquire)
    }

    /// Returns `range` to the segment if it was the last to be taken; then it is the next to be
    /// taken. Returns whether it was. `serial`: under which the range was taken.
    pub fn untake(&self, range: Range, serial: Serial) -> bool {
        let mut word = self.word.load(Acquire);
        loop {
            let segment = self.segment(word);
            let offset = (word & OFFSET_MASK) as i64;
            let start = segment.start();
            if segment.serial() != serial || range.start < start || range.end - start != offset {
                return false;
            }
            match self.word.compare_exchange_weak(word, word - range.len() as u64, AcqRel, Acquire)
            {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// The rest of the segment now, and its serial, for views and for the refill threshold. They
    /// may be out of date when the caller reads them.
    pub fn peek(&self) -> (Range, Serial) {
        let mut word = self.word.load(Acquire);
        loop {
            let segment = self.segment(word);
            let (start, len, serial) = (segment.start(), segment.len(), segment.serial());
            let again = self.reload(word);
            if again >> OFFSET_BITS == word >> OFFSET_BITS {
                let offset = (word & OFFSET_MASK) as i64;
                return (Range::new(start + offset, start + len), serial);
            }
            word = again;
        }
    }

    /// Stops all taking and returns what was left of the segment. The caller holds the writers'
    /// lock.
    pub fn close(&self) -> Range {
        let serial = self.peek().1;
        self.replace(Range::EMPTY, serial)
    }

    /// Serves `range` (at most [`MAX_SEGMENT`] long) of `serial` from now on and returns what was
    /// left of the previous segment. The caller holds the writers' lock.
    pub fn install(&self, range: Range, serial: Serial) -> Range {
        debug_assert!(range.len() <= MAX_SEGMENT);
        self.replace(range, serial)
    }

    fn replace(&self, range: Range, serial: Serial) -> Range {
        let number = self.word.load(Relaxed) >> OFFSET_BITS;
        let next = number.wrapping_add(1) << OFFSET_BITS;
        let place = self.segment(next);
        // Pairs with the fence in `reload`: a reader that sees one of these stores also sees the
        // current number, or a later one.
        #[cfg(not(loom))]
        core::sync::atomic::fence(Release);
        #[cfg(loom)]
        loom::sync::atomic::fence(Release);
        place.set(range, serial);
        let last = self.word.swap(next, AcqRel);
        let old = self.segment(last);
        Range::new(old.start() + (last & OFFSET_MASK) as i64, old.start() + old.len())
    }
}
