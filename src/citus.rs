//! Citus, if the database has it: it runs `hilo_nextval` on any node that it chooses.

use pgrx::pg_sys;

/// Whether this database has Citus.
pub fn is_here() -> bool {
    // SAFETY: the look-up in the catalog runs only inside a transaction, as the first condition checks.
    unsafe {
        pg_sys::IsTransactionState()
            && pg_sys::get_extension_oid(c"citus".as_ptr(), true) != pg_sys::InvalidOid
    }
}
