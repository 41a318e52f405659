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
    Definition,
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
    c"hilo_definition",
    c"hilo_position",
    c"hilo_free_range",
    c"hilo_gap",
    c"hilo_lease",
    c"hilo_source",
    c"hilo_privilege",
    c"hilo_default_privilege",
];

pub const DEFINITION_PKEY: Index = Index::Named(c"hilo_definition_pkey");
pub const DEFINITION_NAME_KEY: Index = Index::Named(c"hilo_definition_name_key");
pub const DEFINITION_OWNER_IDX: Index = Index::Named(c"hilo_definition_owner_idx");
pub const DEFINITION_OWNED_BY_IDX: Index = Index::Named(c"hilo_definition_owned_by_idx");
pub const POSITION_PKEY: Index = Index::Named(c"hilo_position_pkey");
pub const FREE_RANGE_PKEY: Index = Index::Named(c"hilo_free_range_pkey");
pub const GAP_SEQUENCE_IDX: Index = Index::Named(c"hilo_gap_sequence_idx");
pub const LEASE_PKEY: Index = Index::Named(c"hilo_lease_pkey");
pub const LEASE_SEQUENCE_IDX: Index = Index::Named(c"hilo_lease_sequence_idx");
pub const LEASE_DUE_AT_IDX: Index = Index::Named(c"hilo_lease_due_at_idx");
pub const LEASE_HOLDER_IDX: Index = Index::Named(c"hilo_lease_holder_idx");
pub const SOURCE_PKEY: Index = Index::Named(c"hilo_source_pkey");
pub const PRIVILEGE_PKEY: Index = Index::Named(c"hilo_privilege_pkey");
pub const PRIVILEGE_GRANTEE_IDX: Index = Index::Named(c"hilo_privilege_grantee_idx");
pub const DEFAULT_PRIVILEGE_PKEY: Index = Index::Named(c"hilo_default_privilege_pkey");
pub const DEFAULT_PRIVILEGE_GRANTEE_IDX: Index =
    Index::Named(c"hilo_default_privilege_grantee_idx");

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
