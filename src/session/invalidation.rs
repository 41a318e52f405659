//! The changes of this transaction to the definitions, and how the other sessions learn of them
//! after the commit.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::*;

use pgrx::pg_sys;

use hilo_core::mapping::Mapping;
use hilo_core::nested::Nested;
use hilo_core::numbers::{Epoch, SequenceId};

use crate::backend::{Global, forget_names};
use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::lease::leases;
use crate::catalog::numbers::ranges;
use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::catalog::rows::name::Name;
use crate::catalog::sequence::gaps;
use crate::catalog::sequence::positions::Position;
use crate::errors::HiloError;
use crate::process::{ffi, subtransaction};
use crate::session::{in_doubt, names, own_leases, uncommitted};
use crate::shared::key::Key;
use crate::shared::slot::{DROPPED, Locked};
use crate::shared::{self, Shared};

/// A change of which the other sessions must learn.
#[derive(Clone, Debug)]
pub enum Change {
    /// The sequence was renumbered on a node, where the old numbering ended at this position.
    Renumbered { old: Position, mapping: Mapping, epoch: Epoch },
    /// The sequence was dropped.
    Dropped,
    /// The sequence was dropped, and a column keeps its gaps under its name.
    Released { name: Name, column: ColumnRef },
    /// Its name, its owner, its key format or its privileges have changed.
    Outdated,
    /// Its bounds, its order or its sizes have changed; each index keeps its value.
    Terms,
    /// The extension was dropped, with all its sequences.
    Extension,
}

type PendingChanges = Nested<usize, (Key, Change)>;

static NOTED: Global<RefCell<PendingChanges>> = Global::new(RefCell::new(Nested::empty()));
/// Whether this transaction has defined something since it dropped the extension.
static SINCE_DROP: Global<Cell<bool>> = Global::new(Cell::new(false));
static DEFINED: Global<Cell<bool>> = Global::new(Cell::new(false));
/// Whether this transaction has defined something that only its own process can tell the others.
static OWN: Global<Cell<bool>> = Global::new(Cell::new(false));
/// Whether this transaction has created or updated the extension, or Citus.
static APPEARED: Global<Cell<bool>> = Global::new(Cell::new(false));

/// Notes that this transaction creates or updates the extension, or Citus. A session that has not
/// loaded the library may have dropped an earlier one, and told nobody.
pub fn extension_appears() {
    crate::session::register();
    APPEARED.set(true);
}

/// Notes that this transaction drops the extension: its slots serve nothing from the moment that
/// the commit returns.
pub fn note_extension_drop(extension: pg_sys::Oid) -> Result<(), HiloError> {
    begin();
    let key = Key::here(extension, Key::NONE.sequence);
    add(key, Change::Extension)?;
    SINCE_DROP.set(false);
    Ok(())
}

fn drops_extension() -> bool {
    NOTED.borrow().iter().any(|(_, change)| matches!(change, Change::Extension))
}

/// Whether this transaction has defined anything. If so, it may have to serve itself.
pub fn in_progress() -> bool {
    DEFINED.get()
}

/// Notes that this transaction has written a definition: names are looked up again.
///
/// The memory is found now, in any kind of process, because at the commit it is too late. A process
/// that may not use it gets an error, and defines nothing. Where there can be no memory, no other
/// session has to learn of a change.
pub fn begin() {
    OWN.set(true);
    define();
}

fn define() {
    let _ = shared::get();
    crate::session::prepare();
    DEFINED.set(true);
    SINCE_DROP.set(true);
    forget_names();
}

/// Notes a change that the other sessions learn of at commit.
pub fn note(id: SequenceId, change: Change) -> Result<(), HiloError> {
    match change {
        Change::Dropped | Change::Released { .. } | Change::Outdated => define(),
        Change::Renumbered { .. } | Change::Terms | Change::Extension => begin(),
    }
    // This comes before the borrow: a FATAL error in it runs the abort callback, which borrows
    // `NOTED` too.
    let key = names::key_of(id)?;
    add(key, change)
}

fn add(key: Key, change: Change) -> Result<(), HiloError> {
    let noted = NOTED.borrow_mut().push(subtransaction::level(), (key, change));
    noted.map_err(|_| HiloError::OutOfMemory)
}

pub fn at_transaction(event: pg_sys::XactEvent::Type) -> Result<(), HiloError> {
    use pg_sys::XactEvent::*;
    if !DEFINED.get() && !APPEARED.get() {
        return Ok(());
    }
    if matches!(event, XACT_EVENT_PRE_COMMIT | XACT_EVENT_PRE_PREPARE)
        && (APPEARED.get() || drops_extension())
    {
        outdate_all(ffi::database().to_u32());
    }
    match event {
        // Citus drops an extension like this. All earlier definitions of the transaction are
        // dropped with it.
        XACT_EVENT_PRE_PREPARE if drops_extension() && !SINCE_DROP.get() => {}
        XACT_EVENT_PRE_PREPARE if OWN.get() => return Err(HiloError::Prepare),
        XACT_EVENT_PRE_PREPARE if DEFINED.get() => {
            end_leases()?;
            leave_in_doubt()?;
        }
        XACT_EVENT_PREPARE => end(),
        XACT_EVENT_PRE_COMMIT => {
            end_leases()?;
            uncommitted::write_back()?;
        }
        XACT_EVENT_COMMIT => {
            publish();
            end();
        }
        XACT_EVENT_ABORT => end(),
        _ => {}
    }
    Ok(())
}

/// Ends the leases that other open transactions have taken from numberings that end with this
/// transaction. The leases stay if this transaction is rolled back, or if the others commit before.
fn end_leases() -> Result<(), HiloError> {
    let mut at = 0;
    loop {
        let noted = NOTED.borrow().get(&at).cloned();
        let Some((key, change)) = noted else { return Ok(()) };
        at += 1;
        if matches!(change, Change::Outdated | Change::Terms | Change::Extension) {
            continue;
        }
        let ids = match catalog_oids() {
            Err(HiloError::NotInstalled) => return Ok(()),
            found => found?,
        };
        if key.extension != ids.extension.to_u32() {
            continue;
        }
        match change {
            Change::Renumbered { old, mapping, .. } => own_leases::end_pending(&old, &mapping)?,
            // The numbering has ended earlier. A lease may have been committed since then.
            Change::Released { name, column } => {
                leases::write_off(key.sequence)?;
                gaps::keep(key.sequence, &name, column)?;
            }
            _ => {
                if let Ok(shared) = shared::get() {
                    own_leases::void(shared, &key)?;
                }
                // This includes records that were written since the drop.
                ranges::forget(key.sequence)?;
            }
        }
    }
}

fn end() {
    DEFINED.set(false);
    OWN.set(false);
    APPEARED.set(false);
    NOTED.borrow_mut().clear();
    uncommitted::forget();
    forget_names();
}

/// Ends a level of the transaction.
pub fn end_level(level: i32, commits: bool) {
    NOTED.borrow_mut().end(level, commits, |_, _| {});
    if DEFINED.get() && !commits {
        forget_names();
    }
}

/// Tells the slots after the commit: every session sees the changes from now on. Nothing in here
/// can fail. [`begin`] has found the memory.
fn publish() {
    let Ok(shared) = shared::get() else { return };
    let noted = NOTED.borrow();
    if noted.saved_count() != 0 {
        shared.control.definitions.fetch_add(1, SeqCst);
    }
    for (key, change) in noted.iter() {
        let apply = |locked: &mut Locked| match change {
            Change::Renumbered { old, epoch, .. } => locked.advance_epoch(old.node, *epoch),
            Change::Dropped | Change::Released { .. } | Change::Extension => locked.mark_dropped(),
            Change::Outdated => locked.outdate(),
            Change::Terms => locked.forget_terms(),
        };
        match change {
            Change::Extension => {
                tell_all(shared, key.database, |of| of.extension == key.extension, apply)
            }
            _ => tell_one(shared, key, apply),
        }
    }
}

/// Makes every session look at the tables before it uses a sequence that this transaction drops or
/// gives away. There it waits for the transaction's end. The worker frees the memory of a
/// sequence that is gone.
fn leave_in_doubt() -> Result<(), HiloError> {
    let mut at = 0;
    loop {
        // No borrow is held while this waits: a FATAL error runs the abort callback, which borrows
        // `NOTED` too.
        let id = NOTED.borrow().get(&at).map(|(key, _)| key.sequence);
        let Some(id) = id else { break };
        in_doubt::begin(id)?;
        at += 1;
    }
    let Ok(shared) = shared::get() else { return Ok(()) };
    shared.control.definitions.fetch_add(1, SeqCst);
    for (key, _) in NOTED.borrow().iter() {
        tell_one(shared, key, Locked::outdate);
    }
    Ok(())
}

/// Makes every session of a database look at the tables before it serves anything. Called before an
/// extension goes or comes. Dropped objects are locked until the transaction has ended, and whoever
/// looks then finds the current ones. No process of ours sees the end of a transaction that is
/// prepared. The worker frees the memory of an extension that is gone.
fn outdate_all(database: u32) {
    let Some(shared) = shared::existing() else { return };
    shared.control.definitions.fetch_add(1, SeqCst);
    tell_all(shared, database, |_| true, Locked::outdate);
}

/// Tells the slots of a database whose keys are `such`.
fn tell_all(
    shared: &'static Shared,
    database: u32,
    such: impl Fn(&Key) -> bool,
    change: impl Fn(&mut Locked),
) {
    for (number, slot) in shared.slots.iter().enumerate() {
        if slot.database.load(Acquire) == database {
            tell(shared, number, |key| key.database == database && such(key), &change);
        }
    }
}

/// Tells a slot if its key is `such`, and frees it if its sequence is gone. A slot that a session
/// has pinned is not freed here, but when its place is needed.
fn tell(
    shared: &'static Shared,
    number: usize,
    such: impl Fn(&Key) -> bool,
    change: impl Fn(&mut Locked),
) {
    let mut locked = shared.lock_slot(number);
    if !such(&locked.key) {
        return;
    }
    change(&mut locked);
    let (slot, dropped) = (locked.slot, locked.epoch == DROPPED);
    drop(locked);
    slot.refilled.broadcast();
    if dropped {
        shared.free(number);
    }
}

/// Tells the slot of a sequence, if it has one. A slot that the sequence gets later has read the
/// committed rows.
fn tell_one(shared: &'static Shared, key: &Key, change: impl Fn(&mut Locked)) {
    let number = shared.find(key).map(|slot| shared.number_of(&slot));
    if let Some(number) = number {
        tell(shared, number, |of| of == key, change);
    }
}
