//! What the sessions hold: a slice for each sequence that it draws from, written only by the session that owns it with relaxed
//! atomics, readable by everybody.
//!
//! A slice names its sequence and epoch itself, so it does not need the sequence's slot: a slot can be
//! reused while sessions hold slices of its sequence. Where a session that lets go of a slice finds no
//! place for what is left in it, it leaves the slice behind as *orphaned*: the worker takes it to the
//! catalog. Until then nobody uses it for anything else.

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, Ordering::*};

use pgrx::pg_sys;

use hilo_core::mapping::Run;
use hilo_core::numbers::{Epoch, SequenceId};
use hilo_core::range::Range;

use super::Shared;
use super::key::Key;

/// A session's place: which database it draws in.
#[repr(C, align(64))]
pub struct Backend {
    /// The database whose sequences this backend uses; 0 before the first use and after its exit.
    pub database: AtomicU32,
    pub pid: AtomicI32,
    /// The first `used` slices may hold something.
    pub used: AtomicU32,
}

/// What makes an index mean a value: a sequence, a node, and an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexSpace {
    pub key: Key,
    pub node: i32,
    pub epoch: Epoch,
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
    /// The sequence's id; 0: the slice is free.
    sequence: AtomicI64,
    epoch: AtomicI64,
    database: AtomicU32,
    extension: AtomicU32,
    node: AtomicI32,
    state: AtomicU32,
}

/// A range is being taken and not yet entered here.
const TAKING: u32 = 1;
/// Its owner has gone.
const ORPHANED: u32 = 2;
/// The other bits count how often the slice was filled, so that who looks at it sees that it was.
const FILLED: u32 = 4;

/// Never holds anything.
static EMPTY: Slice = Slice::new();

impl Slice {
    /// Where the hot path looks while a session holds no slice.
    pub fn empty() -> &'static Slice {
        &EMPTY
    }

    /// A slice with nothing in it, of no sequence.
    pub const fn new() -> Slice {
        Slice {
            left: AtomicI64::new(0),
            next: AtomicI64::new(0),
            run_end: AtomicI64::new(0),
            range_end: AtomicI64::new(0),
            sequence: AtomicI64::new(0),
            epoch: AtomicI64::new(0),
            database: AtomicU32::new(0),
            extension: AtomicU32::new(0),
            node: AtomicI32::new(0),
            state: AtomicU32::new(0),
        }
    }

    /// Makes an empty slice one of `index_space`.
    pub fn assign(&self, index_space: &IndexSpace) {
        let IndexSpace { key, node, epoch } = index_space;
        self.clear();
        self.epoch.store(epoch.0, Relaxed);
        self.node.store(*node, Relaxed);
        self.database.store(key.database, Relaxed);
        self.extension.store(key.extension, Relaxed);
        self.sequence.store(key.sequence.0, Release);
    }

    pub fn is_free(&self) -> bool {
        self.sequence.load(Acquire) == 0
    }

    /// Whose indexes it holds. Read by its owner, or while it does not change.
    pub fn index_space(&self) -> IndexSpace {
        IndexSpace {
            key: Key {
                database: self.database.load(Relaxed),
                extension: self.extension.load(Relaxed),
                sequence: SequenceId(self.sequence.load(Acquire)),
            },
            node: self.node.load(Relaxed),
            epoch: Epoch(self.epoch.load(Relaxed)),
        }
    }

    /// From here to [`taken`](Self::taken) nobody can tell what it holds. Before the range is taken.
    pub fn take_begins(&self) {
        let filled = self.state.load(Relaxed).wrapping_add(FILLED);
        self.state.store(filled & !ORPHANED | TAKING, SeqCst);
        // What is stored in between is not seen without this.
        std::sync::atomic::fence(SeqCst);
    }

    pub fn taken(&self) {
        self.state.fetch_and(!TAKING, Release);
    }

    /// Its owner leaves it behind with what is in it.
    pub fn orphan(&self) {
        self.state.fetch_or(ORPHANED, Release);
    }

    pub fn is_orphaned(&self) -> bool {
        self.state.load(Acquire) & ORPHANED != 0
    }

    /// Takes an orphaned slice over. `false`: somebody else has.
    fn take_over(&self) -> bool {
        self.state.fetch_and(!ORPHANED, AcqRel) & ORPHANED != 0
    }

    /// Fills the slice with `range`, of which `run` is the first part. Between [`take_begins`] and
    /// [`taken`](Self::taken), where others can see the slice.
    ///
    /// [`take_begins`]: Self::take_begins
    pub fn load(&self, range: Range, run: Run) {
        self.left.store(0, Relaxed);
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

    /// Takes the next `count` values of the run, if it has as many; the first of them.
    pub fn take_many(&self, count: i64, increment: i64) -> Option<i64> {
        let left = self.left.load(Relaxed);
        if left < count {
            return None;
        }
        let value = self.next.load(Relaxed);
        self.next.store(value.wrapping_add(increment.wrapping_mul(count)), Relaxed);
        self.left.store(left - count, Relaxed);
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

    /// Empties the slice; it stays with its sequence.
    pub fn clear(&self) {
        self.left.store(0, Relaxed);
        self.range_end.store(self.run_end.load(Relaxed), Release);
    }

    /// Puts an emptied slice at index `next`.
    pub fn move_to(&self, next: i64) {
        self.left.store(0, Relaxed);
        self.run_end.store(next, Relaxed);
        self.range_end.store(next, Relaxed);
    }

    /// Gives the slice up, with all that is in it.
    pub fn free(&self) {
        self.clear();
        self.sequence.store(0, Release);
    }

    /// What another process sees of it: whose indexes, and which. `None` where the slice is free;
    /// `Some(Err)` where it is just being filled.
    pub fn observe(&self) -> Option<Result<(IndexSpace, Range), ()>> {
        for _ in 0..4 {
            let state = self.state.load(SeqCst);
            let index_space = self.index_space();
            if index_space.key.sequence == Key::NONE.sequence {
                return None;
            }
            let run_end = self.run_end.load(Acquire);
            let rest = self.rest();
            std::sync::atomic::fence(SeqCst);
            let same = self.index_space() == index_space
                && self.run_end.load(Relaxed) == run_end
                && self.range_end.load(Relaxed) == rest.end
                && self.state.load(SeqCst) == state;
            if same && state & TAKING == 0 {
                return Some(Ok((index_space, rest)));
            }
        }
        Some(Err(()))
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
    /// The slices of one backend.
    pub fn slices_of(&self, backend: usize) -> &'static [Slice] {
        let start = backend * self.slices_per_backend;
        &self.slices[start..start + self.slices_per_backend]
    }

    /// All slices that may be in use, with their owner's pid; 0 where it has gone.
    pub fn all_slices(&self) -> impl Iterator<Item = (i32, &'static Slice)> + '_ {
        self.backends.iter().enumerate().flat_map(|(number, backend)| {
            let used = backend.used.load(Acquire) as usize;
            let pid = backend.pid.load(Relaxed);
            let owner = move |slice: &Slice| if slice.is_orphaned() { 0 } else { pid };
            self.slices_of(number)[..used].iter().map(move |slice| (owner(slice), slice))
        })
    }

    /// The slices that were left behind.
    pub fn orphans(&self) -> impl Iterator<Item = &'static Slice> + '_ {
        let slices = (self.control.orphans.load(Acquire) != 0).then(|| self.all_slices());
        slices.into_iter().flatten().map(|(_, slice)| slice).filter(|slice| slice.is_orphaned())
    }

    /// Leaves a slice behind.
    pub fn orphan(&self, slice: &Slice) {
        self.control.orphans.fetch_add(1, AcqRel);
        slice.orphan();
    }

    /// What was in an orphaned slice is elsewhere: it is free.
    pub fn adopt(&self, slice: &Slice) {
        if slice.take_over() {
            slice.free();
            self.control.orphans.fetch_sub(1, AcqRel);
        }
    }

    /// How many sessions of a database have used hilo and are still there.
    pub fn sessions_in(&self, database: pg_sys::Oid) -> usize {
        self.backends.iter().filter(|b| b.database.load(Acquire) == database.to_u32()).count()
    }
}
