//! What this transaction does to leases, noted for its commit. Rows are written just before it, so
//! that no row of a lease is locked by a transaction that is open: whoever revokes a lease waits
//! for nobody. After the commit the worker learns of it.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::numbers::{Index, SequenceId, Timestamp};

use crate::backend::Global;
use crate::catalog::catalog_oids;
use crate::catalog::lease_changes::{self, Change};
use crate::catalog::lease_id::LeaseId;
use crate::catalog::leases::{Ended, Lease};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::TryGrow;
use crate::session::levels::Levels;
use crate::session::wait;
use crate::shared::Shared;
use crate::shared::key::Key;

/// What this transaction has noted, for its commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    /// It does this to a lease, which begins at an index, of a sequence. The row is written just
    /// before the commit, so that no row of a lease is locked by an open transaction; the worker
    /// learns of it after the commit.
    Change(LeaseId, Index, Key, Change),
    /// A lease that it has taken expires at this time, or not. The worker learns of it after the
    /// commit.
    Due(Option<Timestamp>),
}

static NEWS: Global<RefCell<Levels<News>>> = Global::new(RefCell::new(Levels::new()));

/// Whether the rows are written. What a callback notes from then on is written at once.
static WRITTEN: Global<Cell<bool>> = Global::new(Cell::new(false));

/// Notes what becomes of a lease when this transaction commits.
///
/// # Errors
/// `OutOfMemory`, and those of [`lease_changes::write`].
pub fn change(lease: &Lease, key: Key, change: Change) -> Result<(), HiloError> {
    if WRITTEN.get() {
        lease_changes::write(&catalog_oids()?, key.sequence, &lease.id, change)?;
    }
    NEWS.borrow_mut().push(News::Change(lease.id, lease.range.start, key, change))
}

/// The leases to which this transaction does what `picks` picks.
pub fn leases(picks: impl Fn(Change) -> bool) -> Result<HashSet<LeaseId>, HiloError> {
    let mut found = HashSet::new();
    for news in NEWS.borrow().iter() {
        if let News::Change(id, _, _, change) = *news
            && picks(change)
        {
            found.try_reserve(1).map_err(|_| HiloError::OutOfMemory)?;
            found.insert(id);
        }
    }
    Ok(found)
}

/// How this transaction ends a lease when it commits, if it does.
pub fn ended(id: &LeaseId) -> Option<Ended> {
    NEWS.borrow().iter().find_map(|news| match news {
        News::Change(of, _, _, change) if of == id => change.ends(),
        _ => None,
    })
}

/// Notes that a lease of this transaction expires at this time, or not.
///
/// # Errors
/// `OutOfMemory`
pub fn expires(at: Option<Timestamp>) -> Result<(), HiloError> {
    let mut news = NEWS.borrow_mut();
    for known in news.of_current() {
        if let News::Due(first) = known {
            *first = [*first, at].into_iter().flatten().min();
            return Ok(());
        }
    }
    news.push(News::Due(at))
}

/// Called when the rows are about to be written, and after the end of the transaction.
pub fn set_written(written: bool) {
    WRITTEN.set(written);
}

pub fn is_empty() -> bool {
    NEWS.borrow().is_empty()
}

pub fn forget() {
    NEWS.borrow_mut().clear();
}

/// Forgets what came up at this level, which is rolled back.
pub fn roll_back(level: i32) {
    NEWS.borrow_mut().roll_back(level);
}

/// Hands what came up at this level, which commits, on to the one around it.
pub fn keep(level: i32) {
    NEWS.borrow_mut().commit(level);
}

/// Whether the worker is to learn of any of it.
pub fn concern_worker() -> bool {
    let passes = |news: &News| matches!(news, News::Change(_, _, _, Change::Pass));
    !NEWS.borrow().iter().all(passes)
}

/// Writes what this transaction does to leases: to those of one sequence that it drops, or to all.
pub fn write(of: Option<SequenceId>) -> Result<(), HiloError> {
    let mut changes = Vec::new();
    for news in NEWS.borrow().iter() {
        if let News::Change(id, start, key, change) = *news
            && of.is_none_or(|of| of == key.sequence)
        {
            // What this transaction returns itself is passed before. Transactions that change the
            // same leases do it in one order, in which they are also filed, so that the rests of
            // neighbours are one range.
            changes.try_push(((change != Change::Pass, key.sequence, start, id), change))?;
        }
    }
    if changes.is_empty() {
        return Ok(());
    }
    let ids = match catalog_oids() {
        // Its rows are gone with the extension, which this transaction drops.
        Err(HiloError::NotInstalled) => return Ok(()),
        found => found?,
    };
    changes.sort_by_key(|(order, _)| *order);
    for ((_, sequence, _, id), change) in changes {
        check_for_interrupts!();
        lease_changes::write(&ids, sequence, &id, change)?;
    }
    Ok(())
}

/// Tells the worker after the commit.
pub fn announce(shared: &'static Shared) {
    let due = NEWS.borrow_mut().take().filter_map(|news| match news {
        News::Due(at) | News::Change(_, _, _, Change::Renew(at)) => at,
        News::Change(_, _, _, Change::Pass) => None,
        News::Change(_, _, key, Change::Return(_) | Change::Revoke) => {
            shared.expect_free(&key);
            Some(ffi::now())
        }
    });
    let Some(due) = due.min() else { return };
    // SAFETY: this static is set when the backend connects.
    let database = unsafe { pg_sys::MyDatabaseId }.to_u32();
    // The next worker reads the catalog when it starts.
    if !shared.lease_due(database, due) {
        wait::wake(shared);
    }
}
