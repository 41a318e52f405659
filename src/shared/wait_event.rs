//! The waits of hilo's processes, by the names that pg_stat_activity shows. docs/operations.md
//! explains each of them.

use std::ffi::CStr;

use pgrx::pg_sys;

/// A wait with a name.
#[derive(Clone, Copy, Debug)]
pub struct WaitEvent(&'static CStr);

impl WaitEvent {
    /// A caller waits for the worker to bring a block, or to read how its sequence is served.
    pub const BLOCK: WaitEvent = WaitEvent(c"HiloBlock");
    /// A caller waits until a slot becomes free for its sequence.
    pub const SLOT: WaitEvent = WaitEvent(c"HiloSlot");
    /// A caller waits until the workers have written off leases that were rolled back.
    pub const LEASE: WaitEvent = WaitEvent(c"HiloLease");
    /// `hilo_adopt` or `hilo_release` waits before it asks for a table's lock again.
    pub const TABLE: WaitEvent = WaitEvent(c"HiloTable");
    /// A worker waits until it is woken, or until something is due.
    pub const WORKER_MAIN: WaitEvent = WaitEvent(c"HiloWorkerMain");
    /// A process that asks sources waits for the next request, or for a position that a transaction
    /// keeps locked.
    pub const SOURCE_MAIN: WaitEvent = WaitEvent(c"HiloSourceMain");

    /// The code under which the server shows the wait: by its name from PostgreSQL 17 on, as
    /// "Extension" before.
    pub fn code(self) -> u32 {
        code(self.0)
    }
}

#[cfg(not(any(feature = "pg15", feature = "pg16")))]
fn code(name: &'static CStr) -> u32 {
    // SAFETY: the name is a C string. Whoever registers a name again gets the same code.
    unsafe { pg_sys::WaitEventExtensionNew(name.as_ptr()) }
}

#[cfg(any(feature = "pg15", feature = "pg16"))]
fn code(_name: &'static CStr) -> u32 {
    pg_sys::PG_WAIT_EXTENSION
}
