//! Which sequences mention a role, as their owner or in their privileges, and which default
//! privileges do.

use pgrx::pg_sys;

use hilo_core::numbers::SequenceId;

use crate::catalog::rights::default_privileges;
use crate::catalog::rights::privileges::{self, Privileges};
use crate::catalog::rows::catalog_tables::{self, CatalogTable};
use crate::catalog::rows::columns::{default_privilege, privilege, sequence};
use crate::catalog::rows::roles::{NOBODY, PUBLIC, depend_on, exists, is_lasting};
use crate::catalog::rows::scan::{Index, Match};
use crate::catalog::rows::table::Row;
use crate::catalog::sequence::definitions::{self, LockedSequence, Sequence};
use crate::errors::HiloError;
use crate::process::memory::TryGrow;

/// The sequences that a role owns.
pub fn of_owner(role: pg_sys::Oid) -> Result<Vec<Sequence>, HiloError> {
    let key = [(sequence::OWNER, Match::Oid(role))];
    let sequence = |row: &Row| Some(Sequence::from_row(row));
    CatalogTable::Definition.read()?.collect(catalog_tables::DEFINITION_OWNER_IDX, &key, sequence)
}

/// Locks the sequences that a role owns.
pub fn lock_of_owner(role: pg_sys::Oid) -> Result<Vec<LockedSequence>, HiloError> {
    let mut locked = Vec::new();
    for sequence in of_owner(role)? {
        // It may have been dropped or given away during the wait for its lock.
        let found = definitions::lock_existing(sequence.id)?;
        locked.try_extend(found.filter(|found| found.sequence.owner == role))?;
    }
    Ok(locked)
}

/// The sequences on which a role has a privilege, each once.
pub fn with_grants_to(role: pg_sys::Oid) -> Result<Vec<Sequence>, HiloError> {
    let key = [(privilege::GRANTEE, Match::Oid(role))];
    let sequence = |row: &Row| Some(row.int8(privilege::SEQUENCE));
    let mut granted = CatalogTable::Privilege.read()?.collect(
        catalog_tables::PRIVILEGE_GRANTEE_IDX,
        &key,
        sequence,
    )?;
    granted.sort_unstable();
    granted.dedup();
    let mut sequences = Vec::new();
    for id in granted {
        sequences.try_extend(definitions::by_id(SequenceId(id))?)?;
    }
    Ok(sequences)
}

/// Adds a row to `pg_shdepend` for each role that an indexed column mentions, and has `forget`
/// remove the mentions of roles that do not exist.
fn reconcile_column(
    table: CatalogTable,
    index: Index,
    column: i16,
    forget: impl Fn(pg_sys::Oid) -> Result<(), HiloError>,
) -> Result<(), HiloError> {
    let table = table.read()?;
    let mut role = PUBLIC;
    while let Some(row) = table.find(index, &[(column, Match::OidGreater(role))]) {
        role = row.oid(column);
        match is_lasting(role) || exists(role) {
            true => depend_on(role)?,
            false => forget(role)?,
        }
    }
    Ok(())
}

/// Adds a row to `pg_shdepend` for every mentioned role, and removes the mentions of roles that do
/// not exist. Needed after a restore, pg_upgrade or an update of the extension, which bring hilo's
/// rows alone.
pub fn reconcile() -> Result<(), HiloError> {
    reconcile_column(
        CatalogTable::Definition,
        catalog_tables::DEFINITION_OWNER_IDX,
        sequence::OWNER,
        |role| {
            for locked in lock_of_owner(role)? {
                locked.update(&Sequence { owner: NOBODY, ..locked.sequence.clone() });
            }
            Ok(())
        },
    )?;
    reconcile_column(
        CatalogTable::Privilege,
        catalog_tables::PRIVILEGE_GRANTEE_IDX,
        privilege::GRANTEE,
        |role| {
            for sequence in with_grants_to(role)? {
                if let Some(locked) = definitions::lock_existing(sequence.id)? {
                    privileges::revoke(&locked.sequence, role, Privileges::ALL)?;
                }
            }
            Ok(())
        },
    )?;
    let (table, forget) = (CatalogTable::DefaultPrivilege, default_privileges::forget);
    let by_grantee = catalog_tables::DEFAULT_PRIVILEGE_GRANTEE_IDX;
    reconcile_column(
        table,
        catalog_tables::DEFAULT_PRIVILEGE_PKEY,
        default_privilege::OWNER,
        forget,
    )?;
    reconcile_column(table, by_grantee, default_privilege::GRANTEE, forget)
}
