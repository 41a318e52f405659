//! The leases of this transaction until it ends: the ranges that it takes, and the leases that it
//! renews, ends or passes.
//!
//! A range that it has taken is pending in shared memory (`shared::pending`): after the commit the
//! row of `_hilo.hilo_lease` owns it. After a rollback, also of a savepoint, the worker writes it
//! off. A transaction that has itself defined the sequence takes from its own numbers, which nobody
//! else holds.
//!
//! Changes of leases are noted, and written just before the commit. So no row of a lease is locked
//! by a transaction that is open, and whoever revokes a lease waits for nobody. After the commit
//! the worker learns of them.

use std::cell::{Cell, RefCell};

use pgrx::pg_sys;

use hilo_core::mapping::Mapping;
use hilo_core::nested::Nested;
use hilo_core::numbers::{Index, SequenceId, Timestamp};
use hilo_core::range::Range;

use crate::backend::Global;
use crate::catalog::lease::lease_changes::{self, LeaseChange};
use crate::catalog::lease::lease_id::LeaseId;
use crate::catalog::lease::leases::{self, Ended, Lease};
use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::catalog::sequence::definitions;
use crate::catalog::sequence::gaps::{self, Reason};
use crate::catalog::sequence::positions::{Position, Version};
use crate::errors::HiloError;
use crate::process::memory::TryGrow;
use crate::process::{ffi, memory, subtransaction};
use crate::session::{CLOSING, names, uncommitted, wait};
use crate::shared::key::Key;
use crate::shared::pending::{Committing, Place};
use crate::shared::slices::IndexSpace;
use crate::shared::workers::LeaseNews;
use crate::shared::{self, Shared};

/// A range that this transaction has taken.
#[derive(Clone, Copy)]
enum TakenFrom {
    /// A place of `shared::pending`.
    Pending(usize),
    /// Its own numbers.
    Own(Version, Range),
}

type Taken = Nested<usize, TakenFrom>;

static TAKEN: Global<RefCell<Taken>> = Global::new(RefCell::new(Nested::empty()));

/// Notes a range that the innermost level has taken.
fn note_taken(taken: TakenFrom) -> Result<(), HiloError> {
    let noted = TAKEN.borrow_mut().push(subtransaction::level(), taken);
    noted.map_err(|_| HiloError::OutOfMemory)
}

/// A place for a range, which this transaction frees at its end.
pub fn allocate(shared: &'static Shared) -> Result<usize, HiloError> {
    TAKEN.borrow_mut().make_room().map_err(|_| HiloError::OutOfMemory)?;
    let at = wait::for_place(shared)?;
    note_taken(TakenFrom::Pending(at))?;
    Ok(at)
}

/// Makes room to take from the own numbers of a version. A rollback gives up no more than this.
///
/// # Errors
/// `OutOfMemory`
pub fn make_room(version: Version) -> Result<(), HiloError> {
    let mut open = TAKEN.borrow_mut();
    open.make_room().map_err(|_| HiloError::OutOfMemory)?;
    uncommitted::make_room(version, open.saved_count() + 1)
}

/// Notes a range that was taken from the own numbers of a version.
///
/// # Errors
/// `OutOfMemory`, unless [`make_room`] has been called.
pub fn note_own(version: Version, range: Range) -> Result<(), HiloError> {
    note_taken(TakenFrom::Own(version, range))
}

/// The ranges of an index space that this transaction has pending.
pub fn pending_ranges(index_space: &IndexSpace) -> Vec<Range> {
    let Ok(shared) = shared::get() else { return Vec::new() };
    let open = TAKEN.borrow();
    let places = open.iter().filter_map(|taken| match taken {
        TakenFrom::Pending(at) => shared.pending_at(*at),
        TakenFrom::Own(..) => None,
    });
    places.filter(|held| held.index_space == *index_space).map(|held| held.range).collect()
}

fn has_place(taken: &Taken, at: usize) -> bool {
    taken.iter().any(|taken| matches!(taken, TakenFrom::Pending(own) if *own == at))
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
            let open = TAKEN.borrow();
            let mine = |at| has_place(&open, at);
            shared.void_pending(key, mine)
        };
        let Err(Committing(transaction)) = committing else { break };
        ffi::await_transaction(transaction);
    }
    let open = TAKEN.borrow();
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
    let key = names::key_of(position.sequence)?;
    let index_space = IndexSpace { key, node: position.node, epoch: position.epoch };
    // A range that the worker has written off, while nobody else had the position's lock, is about
    // to leave memory.
    shared.await_worker(&key);
    for held in void(shared, &key)?.iter().filter(|held| held.index_space == index_space) {
        gaps::record(position, mapping, &[held.range], Reason::Altered)?;
    }
    Ok(())
}

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

type Changed = Nested<LeaseId, LeaseUpdate>;

static CHANGED: Global<RefCell<Changed>> = Global::new(RefCell::new(Nested::empty()));

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
    let mut state = CHANGED.borrow_mut();
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
    CHANGED.borrow().get(id).is_some_and(|noted| noted.passed)
}

/// How this transaction ends a lease when it commits, if it does.
pub fn end_of(id: &LeaseId) -> Option<Ended> {
    CHANGED.borrow().get(id)?.change?.ends()
}

/// Notes that a lease of this transaction expires at this time, or not.
pub fn note_expiry(at: Option<Timestamp>) {
    EXPIRES.set([EXPIRES.get(), at].into_iter().flatten().min());
}

/// Whether the worker is to learn of a change.
fn concerns_worker() -> bool {
    CHANGED.borrow_mut().values_mut().any(|noted| noted.change.is_some())
}

fn forget_changes() {
    EXPIRES.set(None);
    CHANGED.borrow_mut().clear();
}

/// Writes what this transaction does to leases: to those of one sequence that it drops, or to all.
pub fn write_changes(of: Option<SequenceId>) -> Result<(), HiloError> {
    // A lease that this transaction returns itself is passed before. Transactions that change the
    // same leases do it in one order. Leases are also filed in it, so that the rests of neighbours
    // are one range.
    let mut changes = Vec::new();
    let is_of = |noted: &&mut LeaseUpdate| of.is_none_or(|of| of == noted.key.sequence);
    for noted in CHANGED.borrow_mut().values_mut().filter(is_of) {
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
        pgrx::check_for_interrupts!();
        lease_changes::write(sequence, &id, change)?;
    }
    Ok(())
}

/// Tells the worker after the commit.
fn announce(shared: &'static Shared) {
    let mut news = LeaseNews { ended: None, expires: EXPIRES.get() };
    for noted in CHANGED.borrow_mut().values_mut() {
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

pub fn at_transaction(event: pg_sys::XactEvent::Type) -> Result<(), HiloError> {
    use pg_sys::XactEvent::*;
    let has_taken = TAKEN.borrow().saved_count() != 0;
    if !has_taken && CHANGED.borrow().saved_count() == 0 {
        forget_changes();
        return Ok(());
    }
    match event {
        // Any session could commit it, even after a restart, and the worker would not learn of it.
        XACT_EVENT_PRE_PREPARE if has_taken || concerns_worker() => {
            return Err(HiloError::PrepareLease);
        }
        XACT_EVENT_PRE_PREPARE => write_changes(None)?,
        XACT_EVENT_PREPARE => forget_changes(),
        XACT_EVENT_PRE_COMMIT => {
            // This may wait for other transactions. They wait for this one from the next step on.
            write_changes(None)?;
            begin_commit()?;
        }
        XACT_EVENT_COMMIT => {
            let taken = TAKEN.replace(Nested::empty());
            if let Ok(shared) = shared::get() {
                for taken in taken.iter() {
                    if let TakenFrom::Pending(at) = taken {
                        shared.free_committed(*at);
                    }
                }
                announce(shared);
            }
            forget_changes();
        }
        XACT_EVENT_ABORT => {
            forget_changes();
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
    let open = TAKEN.borrow();
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
    TAKEN.borrow_mut().abort(level, |taken, _| match taken {
        TakenFrom::Pending(at) => any |= shared.abandon_pending(at),
        TakenFrom::Own(version, range) => uncommitted::give_up(version, range),
    });
    if any {
        wait::wake(shared);
    }
}

/// Ends a level of the transaction.
pub fn end_level(level: i32, commits: bool) {
    CHANGED.borrow_mut().end(level, commits, |_, _| {});
    if commits { TAKEN.borrow_mut().commit(level) } else { abandon(level) }
}
