//! The end of this session's transactions and savepoints, in the order in which the parts of the
//! session learn of it.
//!
//! Leases come first: writing their rows may wait for other transactions, which must not wait for
//! this one. Then gapless counts are written. Definitions come last, since their commit tells the
//! other sessions.

use std::cell::Cell;
use std::ffi::c_void;

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::backend::Global;
use crate::errors::{HiloError, OrRaise};
use crate::process::subtransaction;
use crate::session::{CLOSING, dropped, gapless, invalidation, own_leases};

type Callback = fn(pg_sys::XactEvent::Type) -> Result<(), HiloError>;

/// The function that is called before all of these, since it may define something.
static FIRST: Global<Cell<Option<Callback>>> = Global::new(Cell::new(None));

/// Makes a function of a higher module be called first, from now on.
pub fn before_others(callback: Callback) {
    FIRST.set(Some(callback));
}

/// Registers the callbacks. Called once per process.
pub fn init_process() {
    // SAFETY: both callbacks are functions of this library, which stays loaded for the life of the
    // process.
    unsafe {
        pg_sys::RegisterXactCallback(Some(at_transaction), std::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(at_subtransaction), std::ptr::null_mut());
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_transaction(event: pg_sys::XactEvent::Type, _arg: *mut c_void) {
    call_all(event).or_raise();
}

fn call_all(event: pg_sys::XactEvent::Type) -> Result<(), HiloError> {
    use pg_sys::XactEvent::*;
    if let Some(first) = FIRST.get() {
        first(event)?;
    }
    // Before the others, and even if they have nothing to do: another library's callback may be the
    // first to draw, after them.
    CLOSING.set(matches!(event, XACT_EVENT_PRE_COMMIT | XACT_EVENT_PRE_PREPARE));
    own_leases::at_transaction(event)?;
    gapless::at_transaction(event)?;
    invalidation::at_transaction(event)?;
    dropped::at_transaction(event);
    Ok(())
}

#[pg_guard]
unsafe extern "C-unwind" fn at_subtransaction(
    event: pg_sys::SubXactEvent::Type,
    _mine: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _arg: *mut c_void,
) {
    use pg_sys::SubXactEvent::*;
    match event {
        SUBXACT_EVENT_START_SUB => gapless::begin_savepoint(),
        SUBXACT_EVENT_COMMIT_SUB | SUBXACT_EVENT_ABORT_SUB => {
            // The level that ends is still the open one.
            let (level, commits) = (subtransaction::level(), event == SUBXACT_EVENT_COMMIT_SUB);
            own_leases::end_level(level, commits);
            gapless::end_level(level, commits);
            invalidation::end_level(level, commits);
        }
        _ => {}
    }
}
