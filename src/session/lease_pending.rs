//! The ranges that this transaction has leased out, until it ends.
//!
//! A range that it has taken is pending in shared memory (`shared::pending`): after the commit the
//! row of `_hilo.hilo_lease` owns it. After a rollback, also of a savepoint, the worker writes it
//! off. A transaction that has itself defined the sequence takes from its own numbers, which nobody
//! else holds.

use std::cell::RefCell;

use pgrx::pg_sys;

use hilo_core::mapping::Mapping;
use hilo_core::nested::Nested;
use hilo_core::range::Range;

use crate::backend::Global;
use crate::catalog::sequence::definitions;
use crate::catalog::sequence::gaps::{self, Reason};
use crate::catalog::sequence::positions::{Position, Version};
use crate::errors::HiloError;
use crate::process::{ffi, memory, subtransaction};
use crate::session::{lease_updates, memo, uncommitted, wait};
use crate::shared::key::Key;
use crate::shared::pending::{Committing, Place};
use crate::shared::slices::IndexSpace;
use crate::shared::{self, Shared};

/// A range that this transaction has taken.
#[derive(Clone, Copy)]
enum TakenFrom {
    /// A place of `shared::pending`.
    Pending(usize),
    /// Its own numbers.
    Own(Version, Range),
}

type Open = Nested<usize, TakenFrom>;

static OPEN: Global<RefCell<Open>> = Global::new(RefCell::new(Nested::empty()));

/// Adds a range that the level that is open has taken.
fn note(taken: TakenFrom) -> Result<(), HiloError> {
    let noted = OPEN.borrow_mut().push(subtransaction::level(), taken);
    noted.map_err(|_| HiloError::OutOfMemory)
}

/// A place for a range, which this transaction frees at its end.
pub fn allocate(shared: &'static Shared) -> Result<usize, HiloError> {
    OPEN.borrow_mut().make_room().map_err(|_| HiloError::OutOfMemory)?;
    let at = wait::for_place(shared)?;
    note(TakenFrom::Pending(at))?;
    Ok(at)
}

/// Makes room to take from the own numbers of a version. A rollback gives up no more than this.
///
/// # Errors
/// `OutOfMemory`
pub fn make_room(version: Version) -> Result<(), HiloError> {
    let mut open = OPEN.borrow_mut();
    open.make_room().map_err(|_| HiloError::OutOfMemory)?;
    uncommitted::make_room(version, open.saved_count() + 1)
}

/// Notes a range that was taken from the own numbers of a version.
///
/// # Errors
/// `OutOfMemory`, unless [`make_room`] has been called.
pub fn note_own(version: Version, range: Range) -> Result<(), HiloError> {
    note(TakenFrom::Own(version, range))
}

/// The ranges of an index space that this transaction has leased out.
pub fn own_ranges(index_space: &IndexSpace) -> Vec<Range> {
    let Ok(shared) = shared::get() else { return Vec::new() };
    let open = OPEN.borrow();
    let places = open.iter().filter_map(|taken| match taken {
        TakenFrom::Pending(at) => shared.pending_at(*at),
        TakenFrom::Own(..) => None,
    });
    places.filter(|held| held.index_space == *index_space).map(|held| held.range).collect()
}

fn has_place(open: &Open, at: usize) -> bool {
    open.iter().any(|taken| matches!(taken, TakenFrom::Pending(own) if *own == at))
}

/// Ends the leases of a sequence whose transactions are open, except for this one's: they cannot
/// commit any more. Waits for those that are committing just now. Returns what nobody has then. The
/// caller has frozen the pool, and has locked the position.
///
/// # Errors
/// `OutOfMemory`
pub fn void(shared: &'static Shared, key: &Key) -> Result<Vec<Place>, HiloError> {
    loop {
        let committing = {
            let open = OPEN.borrow();
            let mine = |at| has_place(&open, at);
            shared.void_pending(key, mine)
        };
        let Err(Committing(transaction)) = committing else { break };
        ffi::await_transaction(transaction);
    }
    let open = OPEN.borrow();
    let mine = |at| has_place(&open, at);
    memory::try_collect(
        shared.all_pending().filter(|held| held.index_space.key == *key && !mine(held.at)),
    )
}

/// Does the same at the end of a numbering, which `position` and `mapping` describe, and records
/// what it takes back as gaps. The worker knows that such a range is of an old numbering, and
/// leaves it alone.
///
/// # Errors
/// The errors of writing to the catalog.
pub fn end_pending(position: &Position, mapping: &Mapping) -> Result<(), HiloError> {
    let shared = shared::get()?;
    let key = memo::key_of(position.sequence)?;
    let index_space = IndexSpace { key, node: position.node, epoch: position.epoch };
    // A range that the worker has written off, while nobody else had the position's lock, is about
    // to leave memory.
    shared.await_worker(&key);
    for held in void(shared, &key)?.iter().filter(|held| held.index_space == index_space) {
        gaps::record(position, mapping, &[held.range], Reason::Altered)?;
    }
    Ok(())
}

pub fn at_transaction(event: pg_sys::XactEvent::Type) -> Result<(), HiloError> {
    use pg_sys::XactEvent::*;
    let is_empty = || OPEN.borrow().saved_count() == 0;
    if is_empty() && lease_updates::is_empty() {
        lease_updates::forget();
        return Ok(());
    }
    match event {
        // Any session could commit it, even after a restart, and the worker would not learn of it.
        XACT_EVENT_PRE_PREPARE if !is_empty() || lease_updates::concerns_worker() => {
            return Err(HiloError::PrepareLease);
        }
        XACT_EVENT_PRE_PREPARE => lease_updates::write(None)?,
        XACT_EVENT_PREPARE => lease_updates::forget(),
        XACT_EVENT_PRE_COMMIT => {
            // These may wait for other transactions; those wait for this one from the next step on.
            lease_updates::write(None)?;
            begin_commit()?;
        }
        XACT_EVENT_COMMIT => {
            let open = OPEN.replace(Nested::empty());
            if let Ok(shared) = shared::get() {
                for taken in open.iter() {
                    if let TakenFrom::Pending(at) = taken {
                        shared.free_committed(*at);
                    }
                }
                lease_updates::announce(shared);
            }
            lease_updates::forget();
        }
        XACT_EVENT_ABORT => {
            lease_updates::forget();
            abandon(1);
        }
        _ => {}
    }
    Ok(())
}

/// From here on nobody can keep this transaction from committing what it has leased out.
fn begin_commit() -> Result<(), HiloError> {
    let Ok(shared) = shared::get() else { return Ok(()) };
    // SAFETY: reads the transaction state of this backend. A transaction with a lease has written
    // its row.
    let transaction = unsafe { pg_sys::GetTopTransactionIdIfAny() };
    let open = OPEN.borrow();
    let void = open.iter().find_map(|taken| match *taken {
        TakenFrom::Pending(at) if !shared.pending[at].commit(transaction) => shared.pending_at(at),
        _ => None,
    });
    drop(open);
    if let Some(held) = void {
        let id = held.index_space.key.sequence;
        let name = definitions::by_id(id)?.map(|found| found.name.to_string());
        return Err(HiloError::LeaseVoid(name.unwrap_or_else(|| id.to_string())));
    }
    Ok(())
}

/// Leaves to the worker what was taken at `level`, which is rolled back, and inside it.
fn abandon(level: i32) {
    let Ok(shared) = shared::get() else { return };
    let mut any = false;
    OPEN.borrow_mut().abort(level, |taken, _| match taken {
        TakenFrom::Pending(at) => any |= shared.abandon_pending(at),
        TakenFrom::Own(version, range) => uncommitted::give_up(version, range),
    });
    if any {
        wait::wake(shared);
    }
}

/// Ends a level of the transaction.
pub fn end_level(level: i32, commits: bool) {
    if commits { OPEN.borrow_mut().commit(level) } else { abandon(level) }
}
