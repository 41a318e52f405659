//! The end of a backend, normal or FATAL: what it holds goes back to the pools.

use std::sync::atomic::Ordering::*;

use pgrx::pg_sys;
use pgrx::prelude::*;

use super::{ask, draw, lines, wait};
use crate::shared::{self, slices};

/// Registers the callback. It runs while the process can still take locks.
pub fn init_process() {
    // SAFETY: as core's own modules do; called once a process.
    unsafe { pg_sys::before_shmem_exit(Some(at_exit), pg_sys::Datum::null()) }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: i32, _arg: pg_sys::Datum) {
    wait::leave();
    ask::give_up();
    let Ok(shared) = shared::get() else { return };
    if !lines::is_registered() {
        return;
    }
    give_back_all();
    let backend = &shared.backends[slices::my_number()];
    backend.used.store(0, Release);
    let database = backend.database.swap(0, AcqRel);
    shared.nudge(database);
}

/// Gives back every slice of this backend.
pub fn give_back_all() {
    for entry in lines::holders() {
        draw::let_go(entry);
    }
}
