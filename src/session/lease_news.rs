//! The changes of this transaction to leases, noted for its commit. Rows are written just before
//! it, so that no row of a lease is locked by a transaction that is open. So whoever revokes a
//! lease waits for nobody. After the commit the worker learns of it.

use std::cell::{Cell, RefCell};

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::nested::Nested;
use hilo_core::numbers::{Index, SequenceId, Timestamp};

use crate::backend::Global;
use crate::catalog::catalog_oids;
use crate::catalog::lease_changes::{self, LeaseChange};
use crate::catalog::lease_id::LeaseId;
use crate::catalog::leases::{Ended, Lease};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::TryGrow;
use crate::session::{levels, wait};
use crate::shared::Shared;
use crate::shared::key::Key;

/// The changes of this transaction to a lease.
#[derive(Clone, Copy)]
struct Noted {
    id: LeaseId,
    /// Where the lease begins.
    start: Index,
    key: Key,
    /// The sequence was moved beyond values of its range.
    passed: bool,
    /// The last other change.
    change: Option<LeaseChange>,
}

type LeaseNotes = Nested<LeaseId, Noted>;

static STATE: Global<RefCell<Option<LeaseNotes>>> = Global::new(RefCell::new(None));

/// When the first of the leases that this transaction has taken expires.
static EXPIRES: Global<Cell<Option<Timestamp>>> = Global::new(Cell::new(None));

/// Whether the rows are written. A change that a callback notes from then on is written at once.
static WRITTEN: Global<Cell<bool>> = Global::new(Cell::new(false));

fn with<T>(work: impl FnOnce(&mut LeaseNotes) -> T) -> T {
    work(STATE.borrow_mut().get_or_insert_default())
}

/// Notes what becomes of a lease when this transaction commits.
///
/// # Errors
/// `OutOfMemory`, and those of [`lease_changes::write`].
pub fn change(lease: &Lease, key: Key, change: LeaseChange) -> Result<(), HiloError> {
    if WRITTEN.get() {
        lease_changes::write(key.sequence, &lease.id, change)?;
    }
    let (id, start) = (lease.id, lease.range.start);
    with(|state| {
        let known = state.get(&id).copied();
        let mut noted = known.unwrap_or(Noted { id, start, key, passed: false, change: None });
        match change {
            LeaseChange::Pass => noted.passed = true,
            change => noted.change = Some(change),
        }
        state.set(levels::current(), id, noted).map_err(|_| HiloError::OutOfMemory)
    })
}

/// Whether this transaction moves the lease's sequence beyond values of its range.
pub fn passes(id: &LeaseId) -> bool {
    with(|state| state.get(id).is_some_and(|noted| noted.passed))
}

/// How this transaction ends a lease when it commits, if it does.
pub fn end_of(id: &LeaseId) -> Option<Ended> {
    with(|state| state.get(id)?.change?.ends())
}

/// Notes that a lease of this transaction expires at this time, or not.
pub fn expires(at: Option<Timestamp>) {
    EXPIRES.set([EXPIRES.get(), at].into_iter().flatten().min());
}

/// Whether there is nothing to write, and whether the worker is to learn of any of it.
pub fn is_empty() -> bool {
    with(|state| state.saved_count() == 0)
}

pub fn concerns_worker() -> bool {
    with(|state| state.values_mut().any(|noted| noted.change.is_some()))
}

/// Called with each event of the transaction, before the rows are written.
pub fn at_transaction(event: pg_sys::XactEvent::Type) {
    use pg_sys::XactEvent::*;
    WRITTEN.set(matches!(event, XACT_EVENT_PRE_COMMIT | XACT_EVENT_PRE_PREPARE));
}

pub fn forget() {
    EXPIRES.set(None);
    with(LeaseNotes::clear);
}

pub fn at_savepoint(event: pg_sys::SubXactEvent::Type, level: i32) {
    use pg_sys::SubXactEvent::*;
    match event {
        SUBXACT_EVENT_ABORT_SUB => with(|state| state.abort(level, |_, _| {})),
        SUBXACT_EVENT_COMMIT_SUB => with(|state| state.commit(level)),
        _ => {}
    }
}

/// Writes what this transaction does to leases: to those of one sequence that it drops, or to all.
pub fn write(of: Option<SequenceId>) -> Result<(), HiloError> {
    // A lease that this transaction returns itself is passed before. Transactions that change the
    // same leases do it in one order. Leases are also filed in it, so that the rests of neighbours
    // are one range.
    let mut changes = Vec::new();
    with(|state| {
        for noted in state.values_mut().filter(|noted| of.is_none_or(|of| of == noted.key.sequence))
        {
            let place = (noted.key.sequence, noted.start, noted.id);
            let pass = noted.passed.then_some(LeaseChange::Pass);
            changes.try_extend(pass.map(|pass| (false, place, pass)))?;
            changes.try_extend(noted.change.map(|change| (true, place, change)))?;
        }
        Ok::<_, HiloError>(())
    })?;
    if changes.is_empty() {
        return Ok(());
    }
    match catalog_oids() {
        // Its rows are gone with the extension, which this transaction drops.
        Err(HiloError::NotInstalled) => return Ok(()),
        found => found.map(drop)?,
    }
    changes.sort_unstable_by_key(|(after, place, _)| (*after, *place));
    for (_, (sequence, _, id), change) in changes {
        check_for_interrupts!();
        lease_changes::write(sequence, &id, change)?;
    }
    Ok(())
}

/// Tells the worker after the commit.
pub fn announce(shared: &'static Shared) {
    let mut due = EXPIRES.get();
    with(|state| {
        for noted in state.values_mut() {
            let at = match noted.change {
                None => None,
                Some(LeaseChange::Renew(at)) => at,
                Some(_) => {
                    shared.expect_free(&noted.key);
                    Some(ffi::now())
                }
            };
            due = [due, at].into_iter().flatten().min();
        }
    });
    let Some(due) = due else { return };
    // The next worker reads the catalog when it starts.
    if !shared.lease_due(ffi::database().to_u32(), due) {
        wait::wake(shared);
    }
}
