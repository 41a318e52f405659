//! Facts that core knows of a relation, and the list of a table with its partitions and all tables
//! that inherit from it.

use std::collections::HashSet;
use std::ffi::{CStr, CString, c_char};

use pgrx::pg_sys;

use crate::catalog::rows::name::quote;
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::{self, TryGrow};

/// The table and all tables that inherit from it. Locks none of them, so each may be dropped
/// meanwhile.
pub fn with_children(table: pg_sys::Oid) -> Result<Vec<pg_sys::Oid>, HiloError> {
    let (mut all, mut known) = (vec![table], HashSet::from([table]));
    let mut at = 0;
    while let Some(one) = all.get(at).copied() {
        at += 1;
        // Core would report an error for a relation that is gone.
        if owner(one) == pg_sys::InvalidOid {
            continue;
        }
        // SAFETY: the list was made for this call.
        for child in unsafe { oids(ffi::children(one)) }? {
            if known.insert(child) {
                all.try_push(child)?;
            }
        }
    }
    Ok(all)
}

/// The OIDs in a list, which is freed.
///
/// # Safety
/// `list` must be a list of OIDs to which no one else refers.
pub unsafe fn oids(list: *mut pg_sys::List) -> Result<Vec<pg_sys::Oid>, HiloError> {
    // SAFETY: the caller guarantees that it is such a list, so `at` stays below its length and it
    // is freed once.
    unsafe {
        let all = memory::try_collect(
            (0..pg_sys::list_length(list)).map(|at| pg_sys::list_nth_oid(list, at)),
        );
        pg_sys::list_free(list);
        all
    }
}

/// Whether this transaction has created the relation.
pub fn is_new(relid: pg_sys::Oid) -> bool {
    // SAFETY: the result is null, which is checked, or stays valid until it is closed.
    unsafe {
        let relation = pg_sys::RelationIdGetRelation(relid);
        if relation.is_null() {
            return false;
        }
        let new = (*relation).rd_createSubid != 0;
        pg_sys::RelationClose(relation);
        new
    }
}

/// Whether the relation is a table with partitions.
pub fn is_partitioned(relid: pg_sys::Oid) -> bool {
    // SAFETY: a look-up in a system cache, inside a transaction.
    let kind = unsafe { pg_sys::get_rel_relkind(relid) } as u8;
    kind == pg_sys::RELKIND_PARTITIONED_TABLE
}

/// The name of a relation, without its schema.
pub fn name(relid: pg_sys::Oid) -> Option<CString> {
    // SAFETY: a look-up in a system cache, inside a transaction. The result is null, which is
    // checked, or a C string.
    unsafe { copy_name(pg_sys::get_rel_name(relid)) }
}

/// The name of the schema of a relation.
pub fn schema(relid: pg_sys::Oid) -> Option<CString> {
    // SAFETY: as in `name`.
    unsafe { copy_name(pg_sys::get_namespace_name(pg_sys::get_rel_namespace(relid))) }
}

/// A copy of a C string; `None` if it is null.
///
/// # Safety
/// The pointer must be null or point to a C string.
pub unsafe fn copy_name(name: *const c_char) -> Option<CString> {
    // SAFETY: as the caller guarantees.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_owned())
}

/// A relation in SQL: `schema.name`, each quoted if necessary; `None` if it does not exist.
pub fn identifier(relid: pg_sys::Oid) -> Option<Vec<u8>> {
    let parts = [schema(relid)?, name(relid)?];
    Some(parts.map(|part| quote(&part).into_bytes()).join(&b'.'))
}

/// The relation of this name in a schema; InvalidOid if there is none.
pub fn by_name(schema: &CStr, name: &CStr) -> pg_sys::Oid {
    // SAFETY: look-ups in system caches, inside a transaction, by names that are C strings.
    unsafe {
        let schema = pg_sys::get_namespace_oid(schema.as_ptr(), true);
        pg_sys::get_relname_relid(name.as_ptr(), schema)
    }
}

/// The role that owns a relation; InvalidOid if the relation does not exist.
pub fn owner(relid: pg_sys::Oid) -> pg_sys::Oid {
    let none = pg_sys::Datum::null();
    // SAFETY: a look-up in a system cache, inside a transaction. The row is null, which is checked,
    // or one of pg_class, which is released after it was read.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::RELOID as _;
        let row = pg_sys::SearchSysCache(cache, relid.into(), none, none, none);
        if row.is_null() {
            return pg_sys::InvalidOid;
        }
        let owner = (*(pg_sys::GETSTRUCT(row) as *const pg_sys::FormData_pg_class)).relowner;
        pg_sys::ReleaseSysCache(row);
        owner
    }
}
