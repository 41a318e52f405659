//! Which roles the catalog mentions, and how the cluster knows of it.
//!
//! All databases share the roles, but hilo's rows belong to one database. So each role that a row
//! mentions as owner or grantee has a row in core's `pg_shdepend`. It says that the access control
//! list of type `_hilo.hilo_role` contains the role. Because of that row core refuses DROP ROLE in
//! every database, and no new role can get the OID of an owner.
//!
//! The row is added with the first mention and stays until DROP OWNED or DROP ROLE removes it. A
//! session that adds a mention takes AccessShareLock on the role. DROP ROLE takes
//! AccessExclusiveLock. DROP OWNED takes ShareUpdateExclusiveLock, and AccessExclusiveLock if it
//! can without waiting: else the row stays, for what others are about to commit. All of them hold
//! the lock to the end of the transaction.

use std::ffi::CString;

use pgrx::pg_sys;

use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::catalog::rows::name::quote;
use crate::catalog::rows::object_lock::ObjectLock;
use crate::catalog::rows::relations;
use crate::catalog::rows::scan::{Index, Match};
use crate::catalog::rows::table::{Table, next_command};
use crate::errors::HiloError;
use crate::process::ffi;

// Fixed by core's initial catalog; pgrx has no names for them.
const SHDEPEND: pg_sys::Oid = pg_sys::Oid::from_u32(1214);
const SHDEPEND_BY_DEPENDER: Index = Index::Core(pg_sys::Oid::from_u32(1232));
const SHDEPEND_ROLE: i16 = 6;

/// All roles, as in core's access control lists.
pub const PUBLIC: pg_sys::Oid = pg_sys::InvalidOid;

/// No role at all. Postgres never assigns OIDs this small, and this one has always been that of a
/// database.
pub const NOBODY: pg_sys::Oid = pg_sys::Oid::from_u32(1);

/// The name of a role, in the database's encoding; `None` if the role does not exist.
pub fn name(role: pg_sys::Oid) -> Option<CString> {
    // SAFETY: looks up the system catalogs, inside a transaction, and takes any OID. The result is
    // null or a C string in the current memory context.
    unsafe { relations::copy_name(pg_sys::GetUserNameFromId(role, true)) }
}

/// The same, or `public`, which is the name of no role.
pub fn name_or_public(role: pg_sys::Oid) -> Option<CString> {
    match role {
        PUBLIC => Some(c"public".to_owned()),
        role => name(role),
    }
}

/// A role in SQL: its name, quoted if necessary, or `public`; `None` if the role does not exist.
pub fn identifier(role: pg_sys::Oid) -> Option<CString> {
    name_or_public(role).as_deref().map(quote)
}

/// Whether the role exists.
pub fn exists(role: pg_sys::Oid) -> bool {
    name(role).is_some()
}

/// The name of a role, or its number if the role does not exist.
pub fn name_of(role: pg_sys::Oid) -> String {
    name(role).map_or(role.to_u32().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Whether a role may execute a function.
pub fn may_execute(role: pg_sys::Oid, function: pg_sys::Oid) -> bool {
    // SAFETY: a look-up in a system cache, inside a transaction.
    let result = unsafe {
        #[cfg(feature = "pg15")]
        let result = pg_sys::pg_proc_aclcheck(function, role, pg_sys::ACL_EXECUTE as _);
        #[cfg(not(feature = "pg15"))]
        let result = pg_sys::object_aclcheck(
            pg_sys::ProcedureRelationId,
            function,
            role,
            pg_sys::ACL_EXECUTE as _,
        );
        result
    };
    result == pg_sys::AclResult::ACLCHECK_OK
}

/// Whether a role has INSERT on a table or view.
pub fn may_insert(role: pg_sys::Oid, relation: pg_sys::Oid) -> bool {
    // SAFETY: as in `may_execute`.
    let result = unsafe { pg_sys::pg_class_aclcheck(relation, role, pg_sys::ACL_INSERT as _) };
    result == pg_sys::AclResult::ACLCHECK_OK
}

/// Whether a role cannot be dropped, and so needs no row in `pg_shdepend`.
pub fn is_lasting(role: pg_sys::Oid) -> bool {
    // SAFETY: it only compares the OID with constants.
    role == PUBLIC
        || role == NOBODY
        || unsafe { pg_sys::IsPinnedObject(pg_sys::AuthIdRelationId, role) }
}

/// Changes core's record of the type's access control list: it has lost `lost` roles and got `got`,
/// each none or this one.
fn record(role_type: pg_sys::Oid, role: pg_sys::Oid, [lost, got]: [i32; 2]) {
    let class = pg_sys::TypeRelationId;
    // SAFETY: the type exists, and so does a role that it gets, which is locked. Each array is new,
    // has room for the role, and is core's to free.
    unsafe {
        let array = || {
            let array: *mut pg_sys::Oid = pg_sys::palloc(size_of::<pg_sys::Oid>()).cast();
            array.write(role);
            array
        };
        let nobody = pg_sys::InvalidOid;
        pg_sys::updateAclDependencies(class, role_type, 0, nobody, lost, array(), got, array());
    }
    next_command();
}

fn lock(role: pg_sys::Oid, mode: u32) {
    // SAFETY: takes a lock inside a transaction, whose end releases it; any OID can be locked.
    unsafe { pg_sys::LockSharedObject(pg_sys::AuthIdRelationId, role, 0, mode as _) }
}

/// Must be called before a row that mentions `role` is written: from then on the role cannot be
/// dropped.
///
/// # Errors
/// `NoSuchRole` if the role does not exist, as when it has just been dropped.
pub fn depend_on(role: pg_sys::Oid) -> Result<(), HiloError> {
    if is_lasting(role) {
        return Ok(());
    }
    lock(role, pg_sys::AccessShareLock);
    if !exists(role) {
        return Err(HiloError::NoSuchRole(role.to_u32().to_string()));
    }
    let role_type = catalog_oids()?.role_type;
    // The rows of hilo refer to the access control list of the type.
    let keys = [
        (1, Match::Oid(ffi::database())),
        (2, Match::Oid(pg_sys::TypeRelationId)),
        (3, Match::Oid(role_type)),
        (4, Match::Int4(0)),
    ];
    let mut known = false;
    Table::read(SHDEPEND)?.scan(SHDEPEND_BY_DEPENDER, &keys, |row| {
        known = row.oid(SHDEPEND_ROLE) == role;
        Ok(!known)
    })?;
    if !known {
        record(role_type, role, [0, 1]);
    }
    Ok(())
}

/// Removes the row of `pg_shdepend` of a role that is about to be dropped. No session can add a
/// mention until the transaction ends.
pub fn forget_dependency(role: pg_sys::Oid) -> Result<(), HiloError> {
    remove(role, pg_sys::AccessExclusiveLock)
}

/// Removes the row until [`resume_dependency`] is called.
pub fn suspend_dependency(role: pg_sys::Oid) -> Result<(), HiloError> {
    remove(role, pg_sys::ShareUpdateExclusiveLock)
}

/// Must be called before the mentions of the role are removed. Adds the row again if other
/// transactions may be adding mentions, since they see only the row that is being removed.
pub fn resume_dependency(role: pg_sys::Oid) -> Result<(), HiloError> {
    let lock = ObjectLock::shared(pg_sys::AuthIdRelationId, role.to_u32().into());
    match is_lasting(role) || lock.acquire(pg_sys::AccessExclusiveLock, true) {
        true => Ok(()),
        false => depend_on(role),
    }
}

fn remove(role: pg_sys::Oid, mode: u32) -> Result<(), HiloError> {
    if is_lasting(role) {
        return Ok(());
    }
    lock(role, mode);
    record(catalog_oids()?.role_type, role, [1, 0]);
    Ok(())
}
