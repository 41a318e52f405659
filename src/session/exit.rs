//! The end of a backend, normal or FATAL: it returns its slices to the pools, and then leaves the sessions of
//! its database.

use pgrx::pg_sys;
use pgrx::prelude::*;

use super::{auto_create, slice_table, wait};
use crate::shared;

/// Registers two callbacks that run while the process can still take locks. The first runs before core rolls
/// the transaction back, the second after the rollback: the worker waits for the last session to leave, and
/// must then find no row that this session still locks.
pub fn init_process() {
    // SAFETY: core's own modules register such callbacks in the same way. Both are functions of this library,
    // which is never unloaded, and they are registered once per process.
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
    // What remains in memory without a session is the worker's task. If there is no worker, one is
    // registered.
    if !shared.depart(database) && shared.is_in_memory(database) {
        wait::wake(shared);
    }
}
