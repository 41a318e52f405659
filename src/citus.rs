//! Citus, where it is there: it runs `hilo_nextval` on whatever node it likes.

use pgrx::pg_sys;

/// Whether this database has Citus.
pub fn is_here() -> bool {
    // SAFETY: looks into the catalog, inside of a transaction.
    unsafe {
        pg_sys::IsTransactionState()
            && pg_sys::get_extension_oid(c"citus".as_ptr(), true) != pg_sys::InvalidOid
    }
}
