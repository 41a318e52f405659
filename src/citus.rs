//! Whether the database has Citus, and the tables of Citus that describe its nodes.

use std::cell::Cell;
use std::ffi::CStr;

use pgrx::pg_sys;

use crate::backend::Global;

/// The table in which this process has found the node's group the last time.
static LOCAL_GROUP: Global<Cell<pg_sys::Oid>> = Global::new(Cell::new(pg_sys::InvalidOid));

/// Whether this database has Citus.
pub fn is_here() -> bool {
    local_group().is_some()
}

/// Whether a change of this relation may make this server a worker. Citus invalidates it in all
/// processes.
pub fn is_local_group(relation: pg_sys::Oid) -> bool {
    relation != pg_sys::InvalidOid && relation == LOCAL_GROUP.get()
}

/// `pg_dist_local_group`, whose only row has the group of this node.
pub fn local_group() -> Option<pg_sys::Oid> {
    let found = table(c"pg_dist_local_group");
    LOCAL_GROUP.set(found.unwrap_or(pg_sys::InvalidOid));
    found
}

/// `pg_dist_node`: a row for each server of the cluster, as this node knows it.
pub fn nodes() -> Option<pg_sys::Oid> {
    table(c"pg_dist_node")
}

/// A table of Citus. No user can create one in `pg_catalog`.
fn table(name: &CStr) -> Option<pg_sys::Oid> {
    const PG_CATALOG: pg_sys::Oid = pg_sys::Oid::from_u32(pg_sys::PG_CATALOG_NAMESPACE);
    // SAFETY: a look-up in a system cache, only inside a transaction, as the first condition
    // checks.
    let found = unsafe {
        match pg_sys::IsTransactionState() {
            true => pg_sys::get_relname_relid(name.as_ptr(), PG_CATALOG),
            false => pg_sys::InvalidOid,
        }
    };
    (found != pg_sys::InvalidOid).then_some(found)
}
