//! Which sequences mention a role, as their owner or in their privileges, and the default
//! privileges that do.

use pgrx::pg_sys;

use hilo_core::numbers::SequenceId;

use crate::catalog::columns::{default_privilege, privilege, sequence};
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::privileges::{self, Privileges};
use crate::catalog::roles::{NOBODY, PUBLIC, depend_on, exists, is_lasting};
use crate::catalog::scan::{Index, Match, Snapshot};
use crate::catalog::table::{Row, Table};
use crate::catalog::{catalog_oids, default_privileges};
use crate::errors::HiloError;
use crate::process::memory::TryGrow;

/// The sequences that a role owns.
pub fn owned_by(role: pg_sys::Oid) -> Result<Vec<Sequence>, HiloError> {
    let ids = catalog_oids()?;
    let key = [(sequence::OWNER, Match::Oid(role))];
    let sequence = |row: &Row| Some(Sequence::from_row(row));
    Table::read(ids.sequence)?.collect(ids.sequence_owner_idx, &key, sequence)
}

/// The sequences on which a role has a privilege, each once.
pub fn granted_to(role: pg_sys::Oid) -> Result<Vec<Sequence>, HiloError> {
    let ids = catalog_oids()?;
    let key = [(privilege::GRANTEE, Match::Oid(role))];
    let sequence = |row: &Row| Some(row.int8(privilege::SEQUENCE));
    let mut granted =
        Table::read(ids.privilege)?.collect(ids.privilege_grantee_idx, &key, sequence)?;
    granted.sort_unstable();
    granted.dedup();
    let mut sequences = Vec::new();
    for id in granted {
        sequences.try_extend(definitions::by_id(&ids, SequenceId(id))?)?;
    }
    Ok(sequences)
}

/// The roles that an indexed column mentions, each once, and PUBLIC.
fn mentioned(table: pg_sys::Oid, index: Index, column: i16) -> Result<Vec<pg_sys::Oid>, HiloError> {
    let table = Table::read(table)?;
    let mut roles = vec![PUBLIC];
    while let Some(row) = table.find(
        index,
        &[(column, Match::OidGreater(*roles.last().unwrap_or(&PUBLIC)))],
        Snapshot::Catalog,
    ) {
        roles.try_push(row.oid(column))?;
    }
    Ok(roles)
}

/// Makes the cluster know of every mentioned role, and removes the mentions of roles that do not
/// exist. Needed after a restore, pg_upgrade or an update of the extension, which bring only the
/// rows.
pub fn reconcile() -> Result<(), HiloError> {
    let ids = catalog_oids()?;
    for role in mentioned(ids.sequence, ids.sequence_owner_idx, sequence::OWNER)? {
        if is_lasting(role) || exists(role) {
            depend_on(role)?;
            continue;
        }
        for sequence in owned_by(role)? {
            if let Some(locked) = definitions::lock_existing(sequence.id)?
                && locked.sequence.owner == role
            {
                locked.update(&Sequence { owner: NOBODY, ..locked.sequence.clone() });
            }
        }
    }
    for role in mentioned(ids.privilege, ids.privilege_grantee_idx, privilege::GRANTEE)? {
        if is_lasting(role) || exists(role) {
            depend_on(role)?;
        } else {
            for sequence in granted_to(role)? {
                if let Some(locked) = definitions::lock_existing(sequence.id)? {
                    privileges::revoke(&locked.sequence, role, Privileges::ALL)?;
                }
            }
        }
    }
    for (index, column) in [
        (ids.default_privilege_pkey, default_privilege::OWNER),
        (ids.default_privilege_grantee_idx, default_privilege::GRANTEE),
    ] {
        for role in mentioned(ids.default_privilege, index, column)? {
            match is_lasting(role) || exists(role) {
                true => depend_on(role)?,
                false => default_privileges::forget(role)?,
            }
        }
    }
    Ok(())
}
