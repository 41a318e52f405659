//! The end of a backend, normal or FATAL: what it holds goes back to the pools.

use pgrx::pg_sys;
use pgrx::prelude::*;

use super::{auto_create, slice_table, wait};
use crate::shared;

/// Registers the callback. It runs when the transaction has been rolled back, so that the worker, which
/// waits for the last session's end, finds no row locked by it; and while the process can still take locks.
pub fn init_process() {
    // SAFETY: as core's own modules do; called once a process.
    unsafe { pg_sys::on_shmem_exit(Some(at_exit), pg_sys::Datum::null()) }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: i32, _arg: pg_sys::Datum) {
    wait::leave();
    auto_create::give_up();
    let Ok(shared) = shared::get() else { return };
    slice_table::return_slices(|_| true);
    let Some(database) = slice_table::leave_session(shared) else { return };
    // What is in memory without a session is the worker's; where there is none, one comes for it.
    if !shared.nudge(database) && shared.is_in_memory(database) {
        wait::wake(shared);
    }
}
