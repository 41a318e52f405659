//! The databases that this transaction drops: their memory is free at its commit.

use std::cell::RefCell;

use pgrx::pg_sys;

use crate::backend::Global;
use crate::shared;

static DROPPED: Global<RefCell<Vec<u32>>> = Global::new(RefCell::new(Vec::new()));

/// Notes that this transaction drops a database. It has locked the database, and is about to look
/// who is connected to it.
pub fn note(database: pg_sys::Oid) {
    if let Some(shared) = shared::existing() {
        super::register();
        DROPPED.borrow_mut().push(database.to_u32());
        // The worker makes way when it looks.
        shared.wake_worker(database.to_u32());
    }
}

/// Frees the memory of the dropped databases. Nothing in here can fail.
pub fn at_transaction(event: pg_sys::XactEvent::Type) {
    use pg_sys::XactEvent::*;
    if !matches!(event, XACT_EVENT_COMMIT | XACT_EVENT_ABORT) || DROPPED.borrow().is_empty() {
        return;
    }
    let dropped = DROPPED.take();
    if event == XACT_EVENT_COMMIT
        && let Ok(shared) = shared::attach()
    {
        dropped.iter().for_each(|database| shared.forget_deserted(*database));
    }
}
