//! Whether a dump is being restored, or rows arrive by replication. Only then do rows of hilo's
//! tables come by SQL, and may name roles and columns that do not exist here.

use pgrx::pg_sys;

use crate::catalog::rows::catalog_tables::INTERNALS;
use crate::catalog::rows::script;
use crate::errors::HiloError;
use crate::process::ffi;

/// Whether the rows, and the names in them, may come from another database.
pub fn is_under_way() -> bool {
    // SAFETY: these are statics of this process.
    unsafe {
        pg_sys::IsBinaryUpgrade
            || pg_sys::SessionReplicationRole == pg_sys::SESSION_REPLICATION_ROLE_REPLICA as i32
            || says_dump()
            || copies_rows()
    }
}

/// Reports a name in a row that nothing in this database has. While a dump is restored that is a
/// warning, and the name is replaced by none; otherwise it is an error.
pub fn read_as_none(state: &'static str, what: String, kind: &'static str) {
    match is_under_way() {
        true => HiloError::ReadAsNone { state, what, kind }.warn(),
        false => HiloError::NotReadAsNone { state, what, kind }.raise(),
    }
}

/// pg_dump's scripts and pg_restore switch this setting off. So does CREATE EXTENSION, for the
/// extension's script.
fn says_dump() -> bool {
    // SAFETY: a static of this process.
    !unsafe { pg_sys::check_function_bodies } && !script::runs()
}

/// Whether the client's statement is COPY FROM into one of the tables, as tools make it that copy a
/// database without a script.
fn copies_rows() -> bool {
    // SAFETY: the portal that is active lives as long as its statement, and so do its statements.
    // The tag of a node tells its type. A look-up by name takes no lock.
    unsafe {
        let portal = pg_sys::ActivePortal;
        !portal.is_null()
            && ffi::cells::<pg_sys::PlannedStmt>((*portal).stmts).any(|statement| {
                let node = (*statement).utilityStmt;
                if node.is_null() || (*node).type_ != pg_sys::NodeTag::T_CopyStmt {
                    return false;
                }
                let copy = &*node.cast::<pg_sys::CopyStmt>();
                copy.is_from && !copy.relation.is_null() && is_own(copy.relation)
            })
    }
}

/// Whether a statement names a table of schema `_hilo`.
///
/// # Safety
/// The range must be part of a statement that is running.
unsafe fn is_own(range: *const pg_sys::RangeVar) -> bool {
    // SAFETY: as the caller guarantees. These look up system caches, inside a transaction.
    unsafe {
        let relid = pg_sys::RangeVarGetRelidExtended(
            range,
            pg_sys::NoLock as _,
            pg_sys::RVROption::RVR_MISSING_OK,
            None,
            std::ptr::null_mut(),
        );
        let schema = pg_sys::get_namespace_oid(INTERNALS.as_ptr(), true);
        schema != pg_sys::InvalidOid && pg_sys::get_rel_namespace(relid) == schema
    }
}
