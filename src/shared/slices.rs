//! The slices that sessions hold: one for each sequence that a session draws from. Only the session
//! that owns a slice writes it, until the slice is orphaned; every process can read it. All fields
//! are atomic, and relaxed where a value is taken.
//!
//! A slice names its sequence, node and epoch itself, so it does not need the sequence's slot. A
//! slot can be reused while sessions hold slices of its sequence. A session that releases a slice
//! and finds no place for the rest of it leaves the slice *orphaned*. The worker writes the rest to
//! the catalog. Until then the slice is used for nothing else.

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, Ordering::*};

use pgrx::pg_sys;

use hilo_core::mapping::Run;
use hilo_core::numbers::{Epoch, Index};
use hilo_core::range::Range;

use crate::shared::Shared;
use crate::shared::key::{AtomicKey, Key};

/// A session's place: the database that it draws in.
#[repr(C, align(64))]
pub struct Backend {
    /// The database whose sequences this backend uses; 0 before the first use and after its exit.
    pub database: AtomicU32,
    pub pid: AtomicI32,
    /// The database that this process is inside: see `databases`. 0: none.
    pub inside: AtomicU32,
    /// The first `used` slices may hold something.
    pub used: AtomicU32,
}

/// The sequence, node and epoch that give an index its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexSpace {
    pub key: Key,
    pub node: i32,
    pub epoch: Epoch,
}

/// The state of an orphaned slice, which says how often the slice was filled.
#[derive(Clone, Copy)]
pub struct Orphaned(u32);

/// A run of values that one session serves by itself, cut from a range of indexes that it owns.
///
/// The next `left` indexes, up to `run_end`, have values that step evenly from `next`. Behind them
/// the range continues to `range_end`.
#[repr(C, align(64))]
pub struct Slice {
    /// Values left in the run.
    pub left: AtomicI64,
    /// The next value.
    pub next: AtomicI64,
    run_end: AtomicI64,
    range_end: AtomicI64,
    /// Without a sequence, the slice is free.
    key: AtomicKey,
    epoch: AtomicI64,
    node: AtomicI32,
    state: AtomicU32,
}

/// A range is being taken and is not yet stored here.
const TAKING: u32 = 1;
/// Its owner has left it.
const ORPHANED: u32 = 2;
/// The worker is taking up an orphaned slice: it writes the rest to the catalog, for example. After
/// the commit the catalog has the rest.
const LEAVING: u32 = 4;
/// The other bits count how often the slice was filled, so that a process that reads it notices
/// that it was.
const FILLED: u32 = 8;

/// Never holds anything.
static EMPTY: Slice = Slice::new();

impl Slice {
    /// The slice that the hot path reads while a session holds none.
    pub fn empty() -> &'static Slice {
        &EMPTY
    }

    /// A slice with nothing in it, of no sequence.
    pub const fn new() -> Slice {
        // SAFETY: it has numbers only, which are zeros in new shared memory too.
        unsafe { std::mem::zeroed() }
    }

    /// Assigns an empty slice to `index_space`.
    pub fn assign(&self, index_space: &IndexSpace) {
        let IndexSpace { key, node, epoch } = index_space;
        self.clear();
        self.epoch.store(epoch.0, Relaxed);
        self.node.store(*node, Relaxed);
        self.key.store(key);
    }

    pub fn is_free(&self) -> bool {
        self.key.sequence.load(Acquire) == 0
    }

    /// The index space of its indexes. Consistent for its owner, or while the slice does not
    /// change.
    pub fn index_space(&self) -> IndexSpace {
        IndexSpace {
            key: self.key.load(),
            node: self.node.load(Relaxed),
            epoch: Epoch(self.epoch.load(Relaxed)),
        }
    }

    /// To be called before a range is taken. Until [`end_take`](Self::end_take), no other process
    /// can tell what the slice holds.
    pub fn begin_take(&self) {
        let filled = self.state.load(Relaxed).wrapping_add(FILLED);
        self.state.store(filled & !(ORPHANED | LEAVING) | TAKING, SeqCst);
        // Pairs with the fence in `observe`: a process that sees what is stored after this sees the
        // new state too.
        std::sync::atomic::fence(SeqCst);
    }

    pub fn end_take(&self) {
        self.state.fetch_and(!TAKING, Release);
    }

    pub fn is_orphaned(&self) -> bool {
        self.state.load(Acquire) & ORPHANED != 0
    }

    /// The state of an orphaned slice that nobody has taken up. Everything that is read of the
    /// slice afterwards belongs to this state if [`begin_leaving`](Self::begin_leaving) succeeds.
    pub fn orphan_state(&self) -> Option<Orphaned> {
        let state = self.state.load(Acquire);
        (state & ORPHANED != 0 && state & LEAVING == 0).then_some(Orphaned(state))
    }

    /// Marks an orphaned slice that the worker takes up. `false`: its state is another one by now.
    pub fn begin_leaving(&self, Orphaned(state): Orphaned) -> bool {
        self.state.compare_exchange(state, state | LEAVING, AcqRel, Relaxed).is_ok()
    }

    /// The worker could not take it up.
    pub fn stays(&self) {
        self.state.fetch_and(!LEAVING, AcqRel);
    }

    /// Fills the slice with `range`, of which `run` is the first part. Where others can see the
    /// slice, this is called between [`begin_take`] and [`end_take`](Self::end_take).
    ///
    /// [`begin_take`]: Self::begin_take
    pub fn load(&self, range: Range, run: Run) {
        self.left.store(0, Relaxed);
        self.range_end.store(range.end.0, Relaxed);
        self.run_end.store(range.start.0 + run.count, Release);
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

    /// Takes the next `count` values of the run, if it has that many. Returns the first of them.
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
        let start = self.run_end.load(Relaxed) - self.left.load(Relaxed);
        Range::new(Index(start), Index(self.range_end.load(Relaxed)))
    }

    /// Empties the slice, which keeps its index space.
    pub fn clear(&self) {
        self.left.store(0, Relaxed);
        self.range_end.store(self.run_end.load(Relaxed), Release);
    }

    /// Frees the slice, with all that is in it.
    pub fn free(&self) {
        self.clear();
        self.key.sequence.store(0, Release);
    }

    /// The index space and the indexes of the slice, as another process sees them. `None`: the
    /// slice is free. `Some(Err)`: it is just being filled.
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
                && self.range_end.load(Relaxed) == rest.end.0
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
    // SAFETY: MyProc is set in every backend that can call this.
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

    /// All slices that may be in use, with the pid of their owner; 0: the slice is orphaned.
    pub fn all_slices(&self) -> impl Iterator<Item = (i32, &'static Slice)> + '_ {
        self.backends.iter().enumerate().flat_map(|(number, backend)| {
            let used = backend.used.load(Acquire) as usize;
            let pid = backend.pid.load(Relaxed);
            let owner = move |slice: &Slice| if slice.is_orphaned() { 0 } else { pid };
            self.slices_of(number)[..used].iter().map(move |slice| (owner(slice), slice))
        })
    }

    /// The orphaned slices.
    pub fn orphans(&self) -> impl Iterator<Item = &'static Slice> + '_ {
        let slices = (self.control.orphans.load(Acquire) != 0).then(|| self.all_slices());
        slices.into_iter().flatten().map(|(_, slice)| slice).filter(|slice| slice.is_orphaned())
    }

    /// Whether the worker is just writing an orphaned slice of a sequence to the catalog.
    pub fn is_orphan_leaving(&self, key: &Key) -> bool {
        let leaving = |slice: &Slice| slice.state.load(Acquire) & LEAVING != 0;
        self.orphans().any(|slice| leaving(slice) && slice.index_space().key == *key)
    }

    /// Marks a slice as orphaned: its owner leaves it behind with what is in it.
    pub fn orphan(&self, slice: &Slice) {
        self.control.orphans.fetch_add(1, AcqRel);
        slice.state.fetch_or(ORPHANED, Release);
    }

    /// Frees an orphaned slice. Its content is recorded elsewhere, or no longer needed.
    pub fn adopt(&self, slice: &Slice) {
        // Another process may have claimed it already.
        if slice.state.fetch_and(!(ORPHANED | LEAVING), AcqRel) & ORPHANED != 0 {
            slice.free();
            self.control.orphans.fetch_sub(1, AcqRel);
        }
    }

    /// How many running sessions of a database have used hilo.
    pub fn sessions_in(&self, database: pg_sys::Oid) -> usize {
        self.backends.iter().filter(|b| b.database.load(Acquire) == database.to_u32()).count()
    }
}
