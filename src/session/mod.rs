//! This backend: what it remembers of the sequences that it uses, and how it draws from them.
//!
//! `memo` finds what a name means, `draw` gets the next value, `wait` waits for the worker, `own` serves
//! a sequence that the current transaction has defined, `change` tells the others what was committed,
//! `exit` gives back what is left.

pub mod ask;
pub mod change;
pub mod draw;
pub mod exit;
pub mod lines;
pub mod memo;
pub mod own;
pub mod range;
pub mod utility;
pub mod wait;

use std::cell::Cell;
use std::ops::Deref;

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::shared;

/// A static of this process. A backend has one thread.
pub struct Global<T>(T);

// SAFETY: only the backend's one thread reaches it.
unsafe impl<T> Sync for Global<T> {}

impl<T> Global<T> {
    pub const fn new(value: T) -> Self {
        Global(value)
    }
}

impl<T> Deref for Global<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Raised when a memo of this backend may be wrong for a reason that no slot tells: a change of roles,
/// the end of a transaction that has defined something, DROP EXTENSION.
static GENERATION: Global<Cell<u64>> = Global::new(Cell::new(1));

static PREPARED: Global<Cell<bool>> = Global::new(Cell::new(false));

/// All memos of this backend are to be made anew.
pub fn forget_names() {
    GENERATION.set(GENERATION.get() + 1);
}

/// Registers this backend and its callbacks at its first use of hilo.
pub fn prepare() {
    if PREPARED.get() {
        return;
    }
    PREPARED.set(true);
    crate::catalog::init_process();
    change::init_process();
    exit::init_process();
    if let Ok(shared) = shared::get() {
        lines::register_session(shared);
    }
    for cache in [pg_sys::SysCacheIdentifier::AUTHMEMROLEMEM, pg_sys::SysCacheIdentifier::AUTHOID] {
        // SAFETY: the callback only sets a static of this process.
        unsafe {
            pg_sys::CacheRegisterSyscacheCallback(
                cache as _,
                Some(roles_changed),
                pg_sys::Datum::null(),
            )
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn roles_changed(_arg: pg_sys::Datum, _cache: i32, _hash: u32) {
    forget_names();
}
