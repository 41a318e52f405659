//! Which roles the catalog mentions, and that the cluster knows it.
//!
//! A role is shared by all databases, our rows are not: so for each role that a row mentions as owner or
//! grantee there is one in core's `pg_shdepend`, as if the access control list of type `hilo.role` held
//! it. By that core refuses DROP ROLE in every database, and no new role can come by the oid of an owner.
//!
//! The row is added with the first mention and stays until DROP OWNED or DROP ROLE takes it away. Who
//! adds a mention locks the role shared, who takes the row away locks it exclusively, and holds that to
//! the end of the transaction.

use pgrx::pg_sys;

use super::table::{Match, Snapshot, Table, next_command};
use super::{CatalogOids, catalog_oids};
use crate::errors::HiloError;

// Fixed by core's initial catalog; pgrx has no names for them.
const SHDEPEND: pg_sys::Oid = pg_sys::Oid::from_u32(1214);
const SHDEPEND_BY_DEPENDER: pg_sys::Oid = pg_sys::Oid::from_u32(1232);
const SHDEPEND_ROLE: i16 = 6;

/// Everybody, as in core's access control lists.
pub const PUBLIC: pg_sys::Oid = pg_sys::InvalidOid;

/// No role at all. OIDs this small are never given out, and this one has always been a database's.
pub const NOBODY: pg_sys::Oid = pg_sys::Oid::from_u32(1);

/// Whether there is such a role.
pub fn exists(role: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up inside a transaction.
    !unsafe { pg_sys::GetUserNameFromId(role, true) }.is_null()
}

/// The name of a role that exists; its number otherwise.
pub fn name_of(role: pg_sys::Oid) -> String {
    // SAFETY: a catalog look-up; the result is a C string in the current memory context, or null.
    let name = unsafe { pg_sys::GetUserNameFromId(role, true) };
    if name.is_null() {
        return role.to_u32().to_string();
    }
    // SAFETY: as above.
    unsafe { std::ffi::CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// Roles that cannot be dropped need no looking after.
pub fn is_lasting(role: pg_sys::Oid) -> bool {
    // SAFETY: it compares the oid with constants.
    role == PUBLIC
        || role == NOBODY
        || unsafe { pg_sys::IsPinnedObject(pg_sys::AuthIdRelationId, role) }
}

/// The type whose access control list the rows of pg_shdepend speak of.
fn depender(ids: &CatalogOids) -> pg_sys::ObjectAddress {
    pg_sys::ObjectAddress {
        classId: pg_sys::TypeRelationId,
        objectId: ids.role_type,
        objectSubId: 0,
    }
}

/// The key of our rows in pg_shdepend.
fn keys(ids: &CatalogOids) -> [(i16, Match<'static>); 4] {
    let depender = depender(ids);
    // SAFETY: a static set when the backend connected.
    let database = unsafe { pg_sys::MyDatabaseId };
    [
        (1, Match::Oid(database)),
        (2, Match::Oid(depender.classId)),
        (3, Match::Oid(depender.objectId)),
        (4, Match::Int4(depender.objectSubId)),
    ]
}

fn lock(role: pg_sys::Oid, mode: u32) {
    // SAFETY: a lock that the transaction's end releases.
    unsafe { pg_sys::LockSharedObject(pg_sys::AuthIdRelationId, role, 0, mode as _) }
}

/// To be called before a row that mentions `role` is written: from now on it cannot be dropped.
///
/// # Errors
/// `NoSuchRole` where it has just been.
pub fn depend_on(role: pg_sys::Oid) -> Result<(), HiloError> {
    if is_lasting(role) {
        return Ok(());
    }
    lock(role, pg_sys::AccessShareLock);
    if !exists(role) {
        return Err(HiloError::NoSuchRole(role.to_u32().to_string()));
    }
    let ids = catalog_oids()?;
    let mut known = false;
    Table::read(SHDEPEND)?.scan(SHDEPEND_BY_DEPENDER, &keys(&ids), Snapshot::Catalog, |row| {
        known = row.oid(SHDEPEND_ROLE) == role;
        !known
    });
    if !known {
        let mut depender = depender(&ids);
        let mut referenced = pg_sys::ObjectAddress {
            classId: pg_sys::AuthIdRelationId,
            objectId: role,
            objectSubId: 0,
        };
        // SAFETY: both addresses are of objects that exist.
        unsafe {
            pg_sys::recordSharedDependencyOn(
                &mut depender,
                &mut referenced,
                pg_sys::SharedDependencyType::SHARED_DEPENDENCY_ACL,
            );
        }
        next_command();
    }
    Ok(())
}

/// Takes the row of pg_shdepend away, of a role that is about to be mentioned no more. Nobody adds a
/// mention until the transaction ends.
pub fn forget_dependency(role: pg_sys::Oid) -> Result<(), HiloError> {
    if is_lasting(role) {
        return Ok(());
    }
    lock(role, pg_sys::AccessExclusiveLock);
    let ids = catalog_oids()?;
    let table = Table::write(SHDEPEND)?;
    table.scan(SHDEPEND_BY_DEPENDER, &keys(&ids), Snapshot::Catalog, |row| {
        if row.oid(SHDEPEND_ROLE) == role {
            table.delete(&row);
        }
        true
    });
    next_command();
    Ok(())
}
