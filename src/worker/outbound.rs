//! The ranges that a transaction of the worker writes to the catalog: pools, orphaned slices, and
//! leases of rolled back transactions.
//!
//! Memory gives up each of them within the commit that gives it to the catalog, and keeps it within
//! a rollback, however the worker ends. A session that renumbers the sequence waits for the
//! worker's lock on the position. Otherwise it would find the range in both, and record it twice.
//! Others see the commit some instructions before the callback runs. A session that gets the lock
//! in between finds the range marked as leaving, and waits until the mark is gone
//! (`Shared::await_worker`).

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::rc::Rc;

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::numbers::{Index, Serial};
use hilo_core::range::Range;

use crate::backend::Global;
use crate::errors::HiloError;
use crate::process::memory;
use crate::shared::content::Counted;
use crate::shared::pending::Place;
use crate::shared::slices::{IndexSpace, Orphaned, Slice};
use crate::shared::{self, Shared};

/// A range without an owner, and where memory has it.
#[derive(Clone, Copy)]
pub(super) enum Leftover {
    /// An orphaned slice.
    Slice { slice: &'static Slice, state: Orphaned, index_space: IndexSpace, rest: Range },
    /// A range that a rolled back transaction had leased out.
    Lease(Place),
}

impl Leftover {
    pub fn index_space(&self) -> &IndexSpace {
        match self {
            Leftover::Slice { index_space, .. } => index_space,
            Leftover::Lease(held) => &held.index_space,
        }
    }

    pub fn range(&self) -> Range {
        match self {
            Leftover::Slice { rest, .. } => *rest,
            Leftover::Lease(held) => held.range,
        }
    }

    /// `None`: another process has changed it since it was read.
    fn mark(self, shared: &Shared) -> Option<Leftover> {
        match self {
            Leftover::Slice { slice, state, .. } => slice.begin_leaving(state).then_some(self),
            Leftover::Lease(held) => shared.begin_leaving(&held).map(Leftover::Lease),
        }
    }

    fn leave(&self, shared: &Shared) {
        match self {
            Leftover::Slice { slice, .. } => shared.adopt(slice),
            Leftover::Lease(held) => shared.mark_dead(held),
        }
    }

    fn stay(&self, shared: &Shared) {
        match self {
            Leftover::Slice { slice, .. } => slice.stays(),
            Leftover::Lease(held) => shared.stays(held),
        }
    }
}

/// A pool that is being flushed.
pub(super) struct Frozen {
    pub number: usize,
    pub index_space: IndexSpace,
    pub serial: Serial,
    pub freezes: u64,
    /// A session had frozen the pool: only a worker that can lock the row may unfreeze it.
    pub was_frozen: bool,
    pub ranges: Vec<Range>,
    pub counted: Counted,
    pub outcome: Cell<AfterCommit>,
}

/// The fate of the ranges that were to be written.
#[derive(Clone, Copy)]
pub(super) enum AfterCommit {
    /// The catalog has them; the position is at this index now.
    Written(Index),
    /// Another transaction has locked the row, or it cannot be told right now what memory holds.
    RowLocked,
    /// The sequence was renumbered or dropped: the transaction that did so has written the ranges
    /// off.
    Outdated,
}

impl Frozen {
    fn conclude(&self, shared: &'static Shared, done: AfterCommit) {
        let mut locked = shared.lock_slot(self.number);
        locked.end_reserving(&self.index_space.key);
        if locked.serial() != self.serial {
            return;
        }
        match done {
            AfterCommit::Written(next_index) => {
                locked.forget_queue();
                locked.catalog.reserved_to = Some(next_index);
                locked.catalog.free_end = Index::MAX;
            }
            AfterCommit::Outdated => locked.forget_queue(),
            AfterCommit::RowLocked => {
                locked.catalog.is_stale = true;
                locked.reinstate();
            }
        }
        if !(matches!(done, AfterCommit::RowLocked) && self.was_frozen) {
            locked.thaw(self.freezes);
        }
        let slot = locked.slot;
        drop(locked);
        slot.refilled.broadcast();
    }
}

/// The pools that the current transaction, or the next one, flushes.
static FLUSHED: Global<RefCell<Vec<Rc<Frozen>>>> = Global::new(RefCell::new(Vec::new()));

/// Makes the end of the transaction tell the pool what happened to the flush.
pub(super) fn begin_flush(frozen: Rc<Frozen>) {
    FLUSHED.borrow_mut().push(frozen);
}

/// Serves from the pools again whose transaction has not begun.
pub(super) fn end_flush(shared: &'static Shared) {
    FLUSHED
        .borrow_mut()
        .drain(..)
        .for_each(|frozen| frozen.conclude(shared, AfterCommit::RowLocked));
}

/// The other ranges that the current transaction writes.
static LEAVING: Global<RefCell<Vec<Leftover>>> = Global::new(RefCell::new(Vec::new()));

/// Registers the callback. Called once per process.
pub(super) fn init() {
    // SAFETY: the callback is a function of this library, which stays loaded for the life of the
    // process.
    unsafe { pg_sys::RegisterXactCallback(Some(at_transaction), std::ptr::null_mut()) }
}

/// Marks orphans, which memory gives up when the current transaction commits. Returns those that
/// are left: the caller writes them to the catalog. The successor of a worker that was replaced,
/// and sleeps, may have taken them up.
///
/// # Errors
/// `OutOfMemory`
pub(super) fn begin(shared: &Shared, leftovers: &[Leftover]) -> Result<Vec<Leftover>, HiloError> {
    let mut leaving = LEAVING.borrow_mut();
    leaving.try_reserve(leftovers.len()).map_err(|_| HiloError::OutOfMemory)?;
    let before = leaving.len();
    leaving.extend(leftovers.iter().filter_map(|leftover| leftover.mark(shared)));
    memory::try_collect(leaving[before..].iter().copied())
}

/// Takes back the last `count` marks of [`begin`], whose ranges could not be written.
pub(super) fn cancel(shared: &Shared, count: usize) {
    let mut leaving = LEAVING.borrow_mut();
    let kept = leaving.len().saturating_sub(count);
    leaving.drain(kept..).for_each(|leftover| leftover.stay(shared));
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction(event: pg_sys::XactEvent::Type, _arg: *mut c_void) {
    let Ok(shared) = shared::get() else { return };
    let end = match event {
        pg_sys::XactEvent::XACT_EVENT_COMMIT => {
            let concluded = |frozen: Rc<Frozen>| frozen.conclude(shared, frozen.outcome.get());
            FLUSHED.borrow_mut().drain(..).for_each(concluded);
            Leftover::leave
        }
        pg_sys::XactEvent::XACT_EVENT_ABORT => {
            end_flush(shared);
            Leftover::stay
        }
        _ => return,
    };
    LEAVING.borrow_mut().drain(..).for_each(|leftover| end(&leftover, shared));
}
