//! Per-process statics, and the counter that makes every cached name of this process invalid.

use std::cell::Cell;
use std::ops::Deref;

/// A static of this process. A backend has one thread. pgrx has no such type, and `thread_local!`
/// costs a call for each access in a library that is loaded while the program runs.
pub struct Global<T>(T);

// SAFETY: a backend has one thread, so no two threads access it.
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

/// Raised when a cached name of this backend may be wrong for a reason that no slot shows. Roles
/// have changed, a transaction that has defined something has ended, or the extension was dropped.
static NAMES_VERSION: Global<Cell<u64>> = Global::new(Cell::new(1));

/// Changes whenever [`forget_names`] is called.
#[inline(always)]
pub fn names_version() -> u64 {
    NAMES_VERSION.get()
}

/// Makes all cached names of this backend out of date.
pub fn forget_names() {
    NAMES_VERSION.set(NAMES_VERSION.get() + 1);
}
