//! The waits of hilo's processes, as the server shows it.

use std::ffi::CStr;

use pgrx::pg_sys;

/// The event that pg_stat_activity shows of a process that waits: this name from PostgreSQL 17 on,
/// "Extension" before.
#[cfg(not(any(feature = "pg15", feature = "pg16")))]
pub fn code(name: &'static CStr) -> u32 {
    // SAFETY: the name is a C string. Whoever registers a name again gets the same code.
    unsafe { pg_sys::WaitEventExtensionNew(name.as_ptr()) }
}

#[cfg(any(feature = "pg15", feature = "pg16"))]
pub fn code(_name: &'static CStr) -> u32 {
    pg_sys::PG_WAIT_EXTENSION
}
