//! What the sessions hold: a line per slice, written only by the session that owns it with relaxed
//! atomics, readable by the worker and the views.

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, Ordering::*};

use pgrx::pg_sys;

use hilo_core::mapping::Run;
use hilo_core::range::Range;

use super::Shared;

/// A session's place: which database it draws in.
#[repr(C, align(64))]
pub struct Backend {
    /// The database whose sequences this backend uses; 0 before the first use and after its exit.
    pub database: AtomicU32,
    pub pid: AtomicI32,
    /// Lines in use: the first `used` may hold slices.
    pub used: AtomicU32,
}

/// A run of values that one session deals to itself, cut from a range of indexes that it owns.
///
/// The range has `left` indexes up to `run_end` whose values step evenly from `next`, and those from
/// `run_end` to `range_end` behind them.
#[repr(C, align(64))]
pub struct Slice {
    /// Values left in the run.
    pub left: AtomicI64,
    /// The next value.
    pub next: AtomicI64,
    pub run_end: AtomicI64,
    pub range_end: AtomicI64,
    /// The slot's serial under which the range was dealt.
    pub serial: AtomicI64,
    /// The slot's number plus one; 0: the line is free.
    pub slot: AtomicU32,
    /// Set while a range is being taken and not yet entered here: the worker then cannot tell what
    /// this session holds.
    pub taking: AtomicU32,
}

impl Slice {
    /// A line with nothing in it, of no slot.
    pub const fn new() -> Slice {
        Slice {
            left: AtomicI64::new(0),
            next: AtomicI64::new(0),
            run_end: AtomicI64::new(0),
            range_end: AtomicI64::new(0),
            serial: AtomicI64::new(0),
            slot: AtomicU32::new(0),
            taking: AtomicU32::new(0),
        }
    }

    /// Fills the line with `range`, dealt under `serial`, of which `run` is the first part.
    pub fn load(&self, serial: i64, range: Range, run: Run) {
        self.left.store(0, Relaxed);
        self.serial.store(serial, Relaxed);
        self.range_end.store(range.end, Relaxed);
        self.run_end.store(range.start + run.count, Release);
        self.next.store(run.first, Relaxed);
        self.left.store(run.count, Release);
    }

    /// Takes the next value, if there is one in the run.
    #[inline(always)]
    pub fn take(&self, increment: i64) -> Option<i64> {
        let left = self.left.load(Relaxed);
        if left == 0 {
            return None;
        }
        let value = self.next.load(Relaxed);
        self.next.store(value.wrapping_add(increment), Relaxed);
        self.left.store(left - 1, Relaxed);
        Some(value)
    }

    /// The indexes that are left.
    #[inline]
    pub fn rest(&self) -> Range {
        Range::new(
            self.run_end.load(Relaxed) - self.left.load(Relaxed),
            self.range_end.load(Relaxed),
        )
    }

    /// Empties the line; it stays with its slot.
    pub fn clear(&self) {
        self.left.store(0, Relaxed);
        self.range_end.store(self.run_end.load(Relaxed), Release);
    }

    /// Gives the line up.
    pub fn free(&self) {
        self.clear();
        self.slot.store(0, Release);
    }

    /// What another process sees of it: the slot's number, the serial, and the rest. `None` where the
    /// line is free or is just being changed.
    pub fn observe(&self) -> Option<(usize, i64, Range)> {
        for _ in 0..4 {
            let slot = self.slot.load(Acquire);
            let (serial, run_end) = (self.serial.load(Acquire), self.run_end.load(Acquire));
            let rest = self.rest();
            std::sync::atomic::fence(Acquire);
            let same = self.slot.load(Relaxed) == slot
                && self.serial.load(Relaxed) == serial
                && self.run_end.load(Relaxed) == run_end
                && self.range_end.load(Relaxed) == rest.end;
            if slot == 0 {
                return None;
            }
            if same && self.taking.load(Acquire) == 0 {
                return Some((slot as usize - 1, serial, rest));
            }
        }
        None
    }
}

/// This process's number among the backends.
pub fn my_number() -> usize {
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    // SAFETY: MyProc is set in every backend that can call us.
    unsafe {
        (*pg_sys::MyProc).pgprocno as usize
    }
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    // SAFETY: as above.
    unsafe {
        pg_sys::MyProcNumber as usize
    }
}

impl Shared {
    /// The lines of one backend.
    pub fn slices_of(&self, backend: usize) -> &'static [Slice] {
        let start = backend * self.slices_per_backend;
        &self.slices[start..start + self.slices_per_backend]
    }

    /// All lines that may be in use, with their owner's pid.
    pub fn all_slices(&self) -> impl Iterator<Item = (i32, &'static Slice)> + '_ {
        self.backends.iter().enumerate().flat_map(|(number, backend)| {
            let used = backend.used.load(Acquire) as usize;
            let pid = backend.pid.load(Relaxed);
            self.slices_of(number)[..used].iter().map(move |slice| (pid, slice))
        })
    }

    /// How many sessions of a database have used hilo and are still there.
    pub fn sessions_in(&self, database: pg_sys::Oid) -> usize {
        self.backends.iter().filter(|b| b.database.load(Acquire) == database.to_u32()).count()
    }
}
