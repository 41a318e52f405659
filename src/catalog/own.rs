//! The tables of schema `_hilo`, and their indexes.

use std::ffi::CStr;

use pgrx::pg_sys;

use crate::catalog::catalog_oids;
use crate::catalog::scan::Index;
use crate::catalog::table::Table;
use crate::errors::HiloError;

/// One of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Own {
    Sequence,
    Position,
    FreeRange,
    Gap,
    Lease,
    Source,
    Privilege,
    DefaultPrivilege,
}

/// Their names, in the order of [`Own`].
pub const NAMES: [&CStr; 8] = [
    c"sequence",
    c"position",
    c"free_range",
    c"gap",
    c"lease",
    c"source",
    c"privilege",
    c"default_privilege",
];

pub const SEQUENCE_PKEY: Index = Index::Named(c"sequence_pkey");
pub const SEQUENCE_NAME_KEY: Index = Index::Named(c"sequence_name_key");
pub const SEQUENCE_OWNER_IDX: Index = Index::Named(c"sequence_owner_idx");
pub const SEQUENCE_OWNED_BY_IDX: Index = Index::Named(c"sequence_owned_by_idx");
pub const POSITION_PKEY: Index = Index::Named(c"position_pkey");
pub const FREE_RANGE_PKEY: Index = Index::Named(c"free_range_pkey");
pub const GAP_SEQUENCE_IDX: Index = Index::Named(c"gap_sequence_idx");
pub const LEASE_PKEY: Index = Index::Named(c"lease_pkey");
pub const LEASE_SEQUENCE_IDX: Index = Index::Named(c"lease_sequence_idx");
pub const LEASE_DUE_AT_IDX: Index = Index::Named(c"lease_due_at_idx");
pub const LEASE_HOLDER_IDX: Index = Index::Named(c"lease_holder_idx");
pub const SOURCE_PKEY: Index = Index::Named(c"source_pkey");
pub const PRIVILEGE_PKEY: Index = Index::Named(c"privilege_pkey");
pub const PRIVILEGE_GRANTEE_IDX: Index = Index::Named(c"privilege_grantee_idx");
pub const DEFAULT_PRIVILEGE_PKEY: Index = Index::Named(c"default_privilege_pkey");
pub const DEFAULT_PRIVILEGE_GRANTEE_IDX: Index = Index::Named(c"default_privilege_grantee_idx");

impl Own {
    /// # Errors
    /// As for [`catalog_oids`].
    pub fn oid(self) -> Result<pg_sys::Oid, HiloError> {
        Ok(catalog_oids()?.tables[self as usize])
    }

    /// Opens the table to read it.
    ///
    /// # Errors
    /// As for [`Table::read`].
    pub fn read(self) -> Result<Table, HiloError> {
        Table::read(self.oid()?)
    }

    /// Opens the table to write to it.
    ///
    /// # Errors
    /// As for [`Table::read`].
    pub fn write(self) -> Result<Table, HiloError> {
        Table::write(self.oid()?)
    }
}
