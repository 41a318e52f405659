//! The end of a backend, normal or FATAL: it returns its slices to the pools, and then leaves the
//! sessions of its database.

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::session::{slice_table, wait};
use crate::shared::{self, databases};

/// Makes each process that uses the memory run this at its exit, while it can still take locks and
/// use the memory. The worker waits for the last session to leave, and must then find no row that
/// this session still locks. So the transaction is rolled back first, as core's own callback would
/// do it later.
pub fn init() {
    databases::before_leaving(leave);
}

#[pg_guard]
unsafe extern "C-unwind" fn leave(_code: i32, _arg: pg_sys::Datum) {
    wait::leave();
    slice_table::return_slices(|_| true);
    // SAFETY: the removal of temporary tables does the same at this point of a process's life.
    unsafe { pg_sys::AbortOutOfAnyTransaction() };
    let Ok(shared) = shared::get() else { return };
    let Some(database) = slice_table::leave_session(shared) else { return };
    // The worker takes up ranges in memory without a session. If there is no worker, one is
    // registered, unless the database is being dropped: it could not connect.
    let flushes = shared.depart(database) || !shared.is_in_memory(database);
    if !flushes && !databases::is_wanted() {
        wait::wake(shared);
    }
}
