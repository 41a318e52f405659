//! What a transaction of the worker writes to the catalog from places that no slot stands for: orphaned slices, and what
//! rolled back transactions had leased out.
//!
//! Memory gives up each of them within the commit that gives it to the catalog. A session that renumbers the sequence
//! waits for the worker's lock on the position, and would otherwise find the range in both, and record it twice. From
//! the moment at which the commit shows to the callback there are some instructions left; a session that gets the lock
//! just then sees the mark, and waits until it is gone (`Shared::await_worker`).

use std::cell::RefCell;
use std::ffi::c_void;

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::range::Range;

use crate::backend::Global;
use crate::errors::HiloError;
use crate::memory;
use crate::shared::pending::Held;
use crate::shared::slices::{IndexSpace, Orphaned, Slice};
use crate::shared::{self, Shared};

/// A range without an owner, and where memory has it.
#[derive(Clone, Copy)]
pub(super) enum Leftover {
    /// An orphaned slice.
    Slice { slice: &'static Slice, state: Orphaned, index_space: IndexSpace, rest: Range },
    /// What a rolled back transaction had leased out.
    Lease(Held),
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

    /// `None`: it is no longer what was read, as another process has seen to it.
    fn marked(self, shared: &Shared) -> Option<Leftover> {
        match self {
            Leftover::Slice { slice, state, .. } => slice.begin_leaving(state).then_some(self),
            Leftover::Lease(held) => shared.begin_leaving(&held).map(Leftover::Lease),
        }
    }

    fn leave(&self, shared: &Shared) {
        match self {
            Leftover::Slice { slice, .. } => shared.adopt(slice),
            Leftover::Lease(held) => shared.has_left(held),
        }
    }

    fn stay(&self, shared: &Shared) {
        match self {
            Leftover::Slice { slice, .. } => slice.stays(),
            Leftover::Lease(held) => shared.stays(held),
        }
    }
}

/// What the current transaction writes.
static LEAVING: Global<RefCell<Vec<Leftover>>> = Global::new(RefCell::new(Vec::new()));

/// Registers the callback. Called once per process.
pub(super) fn init() {
    // SAFETY: the callback is a function of this library, which stays loaded for the life of the process.
    unsafe { pg_sys::RegisterXactCallback(Some(at_transaction), std::ptr::null_mut()) }
}

/// Marks leftovers, which memory gives up when the current transaction commits. Returns those that are left: the caller
/// writes them to the catalog. A worker that has been replaced, and sleeps, may find that its successor has seen to them.
///
/// # Errors
/// `OutOfMemory`
pub(super) fn begin(shared: &Shared, leftovers: &[Leftover]) -> Result<Vec<Leftover>, HiloError> {
    let mut leaving = LEAVING.borrow_mut();
    leaving.try_reserve(leftovers.len()).map_err(|_| HiloError::OutOfMemory)?;
    let before = leaving.len();
    leaving.extend(leftovers.iter().filter_map(|leftover| leftover.marked(shared)));
    memory::collected(leaving[before..].iter().copied())
}

/// Takes back the last `count` that [`begin`] has marked: they could not be written.
pub(super) fn cancel(shared: &Shared, count: usize) {
    let mut leaving = LEAVING.borrow_mut();
    let kept = leaving.len().saturating_sub(count);
    leaving.drain(kept..).for_each(|leftover| leftover.stay(shared));
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction(event: pg_sys::XactEvent::Type, _arg: *mut c_void) {
    let end = match event {
        pg_sys::XactEvent::XACT_EVENT_COMMIT => Leftover::leave,
        pg_sys::XactEvent::XACT_EVENT_ABORT => Leftover::stay,
        _ => return,
    };
    if let Ok(shared) = shared::get() {
        LEAVING.borrow_mut().drain(..).for_each(|leftover| end(&leftover, shared));
    }
}
