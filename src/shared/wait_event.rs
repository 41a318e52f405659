//! What processes of hilo wait for, as the server shows it.

use pgrx::pg_sys;

/// What pg_stat_activity shows of a process that waits: a name of its own from PostgreSQL 17 on,
/// "Extension" before.
#[derive(Clone, Copy)]
pub enum WaitEvent {
    /// A caller waits for a block.
    Block,
    /// A caller waits for a free slot.
    Slot,
    /// A caller waits until leases that were rolled back are written off.
    Lease,
    /// The worker has nothing to do.
    WorkerMain,
    /// A move between core's sequences and hilo's waits before it tries again to lock a table.
    Table,
}

impl WaitEvent {
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    pub fn code(self) -> u32 {
        pg_sys::PG_WAIT_EXTENSION
    }

    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    pub fn code(self) -> u32 {
        const NAMES: [&std::ffi::CStr; 5] =
            [c"HiloBlock", c"HiloSlot", c"HiloLease", c"HiloWorkerMain", c"HiloTable"];
        use std::cell::Cell;

        use crate::backend::Global;
        static CODES: Global<[Cell<u32>; 5]> = Global::new([const { Cell::new(0) }; 5]);
        let code = &CODES[self as usize];
        if code.get() == 0 {
            // SAFETY: the name is a literal that ends with a null byte.
            code.set(unsafe { pg_sys::WaitEventExtensionNew(NAMES[self as usize].as_ptr()) });
        }
        code.get()
    }
}
