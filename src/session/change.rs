//! What this transaction has changed of the definitions, and how the others learn of it once it is
//! committed.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::sync::atomic::Ordering::*;

use pgrx::pg_sys;
use pgrx::prelude::*;

use super::{Global, forget_names, going_on, memo, own};
use crate::errors::HiloError;
use crate::shared::directory::Key;
use crate::shared::slot::{DROPPED, Locked};
use crate::shared::{self, Shared};

/// What the others must learn.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// The sequence is numbered anew under this epoch.
    Epoch(i64),
    /// It was dropped.
    Dropped,
    /// Its name, its owner, its key format or its privileges are other ones.
    Outdated,
    /// Its sizes are these, in values, 0: none of its own.
    Sizes { slice: i32, block: i64 },
}

struct Noted {
    key: Key,
    change: Change,
    level: i32,
}

static NOTED: Global<RefCell<Vec<Noted>>> = Global::new(RefCell::new(Vec::new()));
static DEFINED: Global<Cell<bool>> = Global::new(Cell::new(false));

/// Registers the callbacks. To be called once a process.
pub fn init_process() {
    // SAFETY: both callbacks stay for the life of the process.
    unsafe {
        pg_sys::RegisterXactCallback(Some(at_transaction), std::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(at_subtransaction), std::ptr::null_mut());
    }
}

/// Whether this transaction has defined anything: then it may have to serve itself.
pub fn in_progress() -> bool {
    DEFINED.get()
}

/// This transaction has written a definition: its names are looked up anew.
pub fn begin() {
    super::prepare();
    DEFINED.set(true);
    forget_names();
}

/// To be told to the others at commit.
pub fn note(id: i64, change: Change) -> Result<(), HiloError> {
    begin();
    // SAFETY: reads a static of xact.c.
    let level = unsafe { pg_sys::GetCurrentTransactionNestLevel() };
    NOTED.borrow_mut().push(Noted { key: memo::key_of(id)?, change, level });
    Ok(())
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction(event: pg_sys::XactEvent::Type, _arg: *mut c_void) {
    use pg_sys::XactEvent::*;
    if !DEFINED.get() {
        return;
    }
    match event {
        XACT_EVENT_PRE_PREPARE => HiloError::Prepare.raise(),
        XACT_EVENT_PRE_COMMIT => own::write_back(),
        XACT_EVENT_COMMIT => {
            publish();
            end();
        }
        XACT_EVENT_ABORT => end(),
        _ => {}
    }
}

fn end() {
    DEFINED.set(false);
    NOTED.borrow_mut().clear();
    own::forget();
    going_on::end();
    forget_names();
}

#[pg_guard]
unsafe extern "C-unwind" fn at_subtransaction(
    event: pg_sys::SubXactEvent::Type,
    _mine: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _arg: *mut c_void,
) {
    use pg_sys::SubXactEvent::*;
    if !DEFINED.get() {
        return;
    }
    // SAFETY: reads a static of xact.c; still the level of the subtransaction that ends.
    let level = unsafe { pg_sys::GetCurrentTransactionNestLevel() };
    let mut noted = NOTED.borrow_mut();
    match event {
        SUBXACT_EVENT_ABORT_SUB => {
            noted.retain(|change| change.level < level);
            forget_names();
        }
        SUBXACT_EVENT_COMMIT_SUB => {
            noted.iter_mut().for_each(|change| change.level = change.level.min(level - 1))
        }
        _ => {}
    }
}

/// After the commit: every session sees the change from now on. Nothing in here can fail.
fn publish() {
    let Ok(shared) = shared::get() else { return };
    let noted = NOTED.borrow();
    if !noted.is_empty() {
        shared.control.definitions.fetch_add(1, SeqCst);
    }
    for Noted { key, change, .. } in noted.iter() {
        tell(shared, key, |locked| match *change {
            Change::Epoch(epoch) => {
                locked.raise(epoch);
            }
            Change::Dropped => {
                locked.raise(DROPPED);
            }
            Change::Outdated => locked.outdate(),
            Change::Sizes { slice, block } => locked.resize(slice, block),
        });
    }
}

fn tell(shared: &'static Shared, key: &Key, change: impl FnOnce(&mut Locked)) {
    let Some(slot) = shared.find(key) else { return };
    let number = shared.number_of(slot);
    let mut locked = shared.lock_slot(number);
    change(&mut locked);
    let dropped = locked.epoch == DROPPED;
    drop(locked);
    slot.pins.fetch_sub(1, SeqCst);
    slot.refilled.broadcast();
    if dropped && shared.want(number) {
        shared.nudge(key.database);
    }
}
