//! This backend: what it remembers of the sequences that it uses, and how it draws from them.
//!
//! `look_up` finds what a name means and `names` remembers it. `draw` gets the next value, `range`
//! gets consecutive ones, and `lease` takes what leaves the server. `supply` says where they come
//! from. That is `pool`, which all sessions share, with slices in `slice_table`; `gapless`, which
//! counts a gapless sequence; or `uncommitted`, what the current transaction has defined. `wait`
//! waits for the worker; `auto_create` has it create a sequence.
//!
//! `own_leases` follows a lease to the end of the transaction. `invalidation` tells the other
//! sessions what was committed; `in_doubt` lets them wait for what was prepared. `transaction` runs
//! all of these at its end, and `exit` returns what is left.

pub mod auto_create;
pub mod draw;
pub mod dropped;
pub mod exit;
pub mod gapless;
pub mod in_doubt;
pub mod invalidation;
pub mod lease;
pub mod look_up;
pub mod names;
pub mod own_leases;
mod pool;
pub mod range;
pub mod slice_table;
mod supply;
mod transaction;
pub mod uncommitted;
pub mod wait;

pub use transaction::before_others;

use std::cell::Cell;

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::backend::{self, Global};
use crate::errors::HiloError;
use crate::shared;

static REGISTERED: Global<Cell<bool>> = Global::new(Cell::new(false));

/// Whether the transaction is about to be committed or prepared, and the records that it has kept
/// for that are being written. A callback that draws or leases from then on leaves nothing to be
/// written later.
static CLOSING: Global<Cell<bool>> = Global::new(Cell::new(false));

/// Registers this backend and its callbacks at its first use of hilo.
pub fn prepare() {
    register();
    // Other processes, such as one that applies a subscription's changes, lock no row of this
    // node's. They register when they are about to hold numbers. SAFETY: a static set when the
    // process started.
    let is_session = unsafe { pg_sys::MyBackendType } == pg_sys::BackendType::B_BACKEND;
    if is_session && let Ok(shared) = shared::get() {
        slice_table::register_session(shared);
    }
}

/// Refuses a call in a worker of a parallel query. Only a function that calls ours and is declared
/// PARALLEL SAFE by mistake can bring it there.
///
/// # Errors
/// `ParallelWorker`
pub fn refuse_parallel_worker(function: &'static str) -> Result<(), HiloError> {
    // SAFETY: a static that is set when the process starts.
    if unsafe { pg_sys::ParallelWorkerNumber } >= 0 {
        return Err(HiloError::ParallelWorker(function));
    }
    Ok(())
}

/// Registers the callbacks of this backend, once.
fn register() {
    if REGISTERED.replace(true) {
        return;
    }
    crate::catalog::rows::catalog_tables::init_process();
    transaction::init_process();
    for cache in [pg_sys::SysCacheIdentifier::AUTHMEMROLEMEM, pg_sys::SysCacheIdentifier::AUTHOID] {
        // SAFETY: the callback only sets a static of this process.
        unsafe {
            pg_sys::CacheRegisterSyscacheCallback(
                cache as _,
                Some(on_role_change),
                pg_sys::Datum::null(),
            )
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn on_role_change(_arg: pg_sys::Datum, _cache: i32, _hash: u32) {
    backend::forget_names();
}
