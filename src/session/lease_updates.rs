//! The changes of this transaction to leases, noted for its commit. Rows are written just before
//! it, so that no row of a lease is locked by a transaction that is open. So whoever revokes a
//! lease waits for nobody. After the commit the worker learns of it.

use std::cell::{Cell, RefCell};

use pgrx::prelude::*;

use hilo_core::nested::Nested;
use hilo_core::numbers::{Index, SequenceId, Timestamp};

use crate::backend::Global;
use crate::catalog::lease::lease_changes::{self, LeaseChange};
use crate::catalog::lease::lease_id::LeaseId;
use crate::catalog::lease::leases::{self, Ended, Lease};
use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::errors::HiloError;
use crate::process::memory::TryGrow;
use crate::process::{ffi, subtransaction};
use crate::session::{CLOSING, wait};
use crate::shared::Shared;
use crate::shared::key::Key;
use crate::shared::workers::LeaseNews;

/// The changes of this transaction to a lease.
#[derive(Clone, Copy)]
struct LeaseUpdate {
    id: LeaseId,
    /// Where the lease begins.
    start: Index,
    key: Key,
    /// The sequence was moved beyond values of its range.
    passed: bool,
    /// The last other change.
    change: Option<LeaseChange>,
}

type LeaseNotes = Nested<LeaseId, LeaseUpdate>;

static STATE: Global<RefCell<LeaseNotes>> = Global::new(RefCell::new(Nested::empty()));

/// When the first of the leases that this transaction has taken expires.
static EXPIRES: Global<Cell<Option<Timestamp>>> = Global::new(Cell::new(None));

/// Notes what becomes of a lease when this transaction commits.
///
/// # Errors
/// `OutOfMemory`, and those of [`lease_changes::write`].
pub fn change(lease: &Lease, key: Key, change: LeaseChange) -> Result<(), HiloError> {
    // The rows of the others are written.
    if CLOSING.get() {
        lease_changes::write(key.sequence, &lease.id, change)?;
    }
    let (id, start) = (lease.id, lease.range.start);
    let mut state = STATE.borrow_mut();
    let known = state.get(&id).copied();
    let mut noted = known.unwrap_or(LeaseUpdate { id, start, key, passed: false, change: None });
    match change {
        LeaseChange::Pass => noted.passed = true,
        change => noted.change = Some(change),
    }
    state.set(subtransaction::level(), id, noted).map_err(|_| HiloError::OutOfMemory)
}

/// Whether this transaction moves the lease's sequence beyond values of its range.
pub fn passes(id: &LeaseId) -> bool {
    STATE.borrow().get(id).is_some_and(|noted| noted.passed)
}

/// How this transaction ends a lease when it commits, if it does.
pub fn end_of(id: &LeaseId) -> Option<Ended> {
    STATE.borrow().get(id)?.change?.ends()
}

/// Notes that a lease of this transaction expires at this time, or not.
pub fn expires(at: Option<Timestamp>) {
    EXPIRES.set([EXPIRES.get(), at].into_iter().flatten().min());
}

/// Whether there is nothing to write, and whether the worker is to learn of any of it.
pub fn is_empty() -> bool {
    STATE.borrow().saved_count() == 0
}

pub fn concerns_worker() -> bool {
    STATE.borrow_mut().values_mut().any(|noted| noted.change.is_some())
}

pub fn forget() {
    EXPIRES.set(None);
    STATE.borrow_mut().clear();
}

/// Ends a level of the transaction.
pub fn end_level(level: i32, commits: bool) {
    STATE.borrow_mut().end(level, commits, |_, _| {});
}

/// Writes what this transaction does to leases: to those of one sequence that it drops, or to all.
pub fn write(of: Option<SequenceId>) -> Result<(), HiloError> {
    // A lease that this transaction returns itself is passed before. Transactions that change the
    // same leases do it in one order. Leases are also filed in it, so that the rests of neighbours
    // are one range.
    let mut changes = Vec::new();
    let is_of = |noted: &&mut LeaseUpdate| of.is_none_or(|of| of == noted.key.sequence);
    for noted in STATE.borrow_mut().values_mut().filter(is_of) {
        let place = (noted.key.sequence, noted.start, noted.id);
        let pass = noted.passed.then_some(LeaseChange::Pass);
        changes.try_extend(pass.map(|pass| (false, place, pass)))?;
        changes.try_extend(noted.change.map(|change| (true, place, change)))?;
    }
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
    let mut news = LeaseNews { ended: None, expires: EXPIRES.get() };
    for noted in STATE.borrow_mut().values_mut() {
        news = news.and(match noted.change {
            None => LeaseNews::default(),
            Some(LeaseChange::Renew(expires)) => LeaseNews { ended: None, expires },
            Some(_) => {
                shared.expect_free(&noted.key);
                LeaseNews { ended: Some(leases::due_at_end()), expires: None }
            }
        });
    }
    if news == LeaseNews::default() {
        return;
    }
    // The next worker reads the catalog when it starts.
    if !shared.tell_of_leases(ffi::database().to_u32(), news) {
        wait::wake(shared);
    }
}
