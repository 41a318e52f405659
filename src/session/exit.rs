//! The end of a backend, normal or FATAL: what it holds goes back to the pools, and then it leaves.

use pgrx::pg_sys;
use pgrx::prelude::*;

use super::{auto_create, slice_table, wait};
use crate::shared;

/// Registers the callbacks, while the process can still take locks: the first runs before core rolls the
/// transaction back, the second after, so that the worker, which waits for the last session to leave,
/// finds no row locked by it.
pub fn init_process() {
    // SAFETY: as core's own modules do; called once a process.
    unsafe {
        pg_sys::before_shmem_exit(Some(return_all), pg_sys::Datum::null());
        pg_sys::on_shmem_exit(Some(leave), pg_sys::Datum::null());
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn return_all(_code: i32, _arg: pg_sys::Datum) {
    wait::leave();
    auto_create::give_up();
    slice_table::return_slices(|_| true);
}

#[pg_guard]
unsafe extern "C-unwind" fn leave(_code: i32, _arg: pg_sys::Datum) {
    let Ok(shared) = shared::get() else { return };
    let Some(database) = slice_table::leave_session(shared) else { return };
    // What is in memory without a session is the worker's; where there is none, one comes for it.
    if !shared.nudge(database) && shared.is_in_memory(database) {
        wait::wake(shared);
    }
}
