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

use super::definitions::{self, Sequence};
use super::privileges::{self, Privileges};
use super::table::{Equals, See, Table, next_command};
use super::{Ids, ids};
use crate::errors::{HiloError, OrRaise};
use crate::memory::Grow;
use crate::sql::role_type::{NOBODY, PUBLIC};

// Fixed by core's initial catalog; pgrx has no names for them.
const SHDEPEND: pg_sys::Oid = pg_sys::Oid::from_u32(1214);
const SHDEPEND_BY_DEPENDER: pg_sys::Oid = pg_sys::Oid::from_u32(1232);
const SHDEPEND_ROLE: usize = 6;

/// `hilo.sequence.owner` and `hilo.privilege.grantee`.
const OWNER: i16 = 13;
const GRANTEE: i16 = 2;

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
fn is_lasting(role: pg_sys::Oid) -> bool {
    // SAFETY: it compares the oid with constants.
    role == PUBLIC
        || role == NOBODY
        || unsafe { pg_sys::IsPinnedObject(pg_sys::AuthIdRelationId, role) }
}

/// The type whose access control list the rows of pg_shdepend speak of.
fn depender(ids: &Ids) -> pg_sys::ObjectAddress {
    pg_sys::ObjectAddress {
        classId: pg_sys::TypeRelationId,
        objectId: ids.role_type,
        objectSubId: 0,
    }
}

/// The key of our rows in pg_shdepend.
fn keys(ids: &Ids) -> [(i16, Equals<'static>); 4] {
    let depender = depender(ids);
    // SAFETY: a static set when the backend connected.
    let database = unsafe { pg_sys::MyDatabaseId };
    [
        (1, Equals::Oid(database)),
        (2, Equals::Oid(depender.classId)),
        (3, Equals::Oid(depender.objectId)),
        (4, Equals::Int4(depender.objectSubId)),
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
    let ids = ids()?;
    let mut known = false;
    Table::read(SHDEPEND)?.scan(SHDEPEND_BY_DEPENDER, &keys(&ids), See::Newest, |row| {
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
pub fn let_go(role: pg_sys::Oid) -> Result<(), HiloError> {
    if is_lasting(role) {
        return Ok(());
    }
    lock(role, pg_sys::AccessExclusiveLock);
    let ids = ids()?;
    let table = Table::write(SHDEPEND)?;
    table.scan(SHDEPEND_BY_DEPENDER, &keys(&ids), See::Newest, |row| {
        if row.oid(SHDEPEND_ROLE) == role {
            table.delete(&row);
        }
        true
    });
    next_command();
    Ok(())
}

/// The sequences that a role owns.
pub fn owned_by(role: pg_sys::Oid) -> Result<Vec<Sequence>, HiloError> {
    let ids = ids()?;
    let mut owned = Vec::new();
    let table = Table::read(ids.sequence)?;
    table.scan(ids.sequence_owner_idx, &[(OWNER, Equals::Oid(role))], See::Newest, |row| {
        owned.grow(Sequence::from_row(&row)).or_raise();
        true
    });
    Ok(owned)
}

/// The sequences on which a role has a privilege, each once.
pub fn granted_to(role: pg_sys::Oid) -> Result<Vec<Sequence>, HiloError> {
    let ids = ids()?;
    let mut granted = Vec::new();
    let table = Table::read(ids.privilege)?;
    table.scan(ids.privilege_grantee_idx, &[(GRANTEE, Equals::Oid(role))], See::Newest, |row| {
        granted.grow(row.int8(1)).or_raise();
        true
    });
    granted.sort_unstable();
    granted.dedup();
    let mut sequences = Vec::new();
    for id in granted {
        if let Some(sequence) = definitions::by_id(&ids, id)? {
            sequences.grow(sequence)?;
        }
    }
    Ok(sequences)
}

/// Each role that an indexed column mentions, once.
fn mentioned(
    table: pg_sys::Oid,
    index: pg_sys::Oid,
    column: i16,
) -> Result<Vec<pg_sys::Oid>, HiloError> {
    let table = Table::read(table)?;
    let mut roles = vec![PUBLIC];
    while let Some(row) = table.find(
        index,
        &[(column, Equals::Beyond(*roles.last().unwrap_or(&PUBLIC)))],
        See::Newest,
    ) {
        roles.grow(row.oid(column as usize))?;
    }
    Ok(roles)
}

/// Has every role that is mentioned known to the cluster, and mentions none that does not exist: after
/// a restore, pg_upgrade or an update of the extension, which bring the rows alone.
pub fn settle() -> Result<(), HiloError> {
    let ids = ids()?;
    for role in mentioned(ids.sequence, ids.sequence_owner_idx, OWNER)? {
        if is_lasting(role) || exists(role) {
            depend_on(role)?;
            continue;
        }
        for sequence in owned_by(role)? {
            if let Some((table, row, sequence)) = definitions::lock(sequence.id)?
                && sequence.owner == role
            {
                definitions::update(&table, &row, &Sequence { owner: NOBODY, ..sequence });
            }
        }
    }
    for role in mentioned(ids.privilege, ids.privilege_grantee_idx, GRANTEE)? {
        if is_lasting(role) || exists(role) {
            depend_on(role)?;
        } else {
            for sequence in granted_to(role)? {
                if let Some((_, _, sequence)) = definitions::lock(sequence.id)? {
                    privileges::revoke(&sequence, role, Privileges::ALL)?;
                }
            }
        }
    }
    Ok(())
}
