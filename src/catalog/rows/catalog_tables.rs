//! The extension's objects in this database: their OIDs; the tables of schema `_hilo`, and their
//! indexes.

use std::cell::Cell;
use std::ffi::CStr;

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::backend::Global;
use crate::catalog::rows::name::quote;
use crate::catalog::rows::scan::Index;
use crate::catalog::rows::table::Table;
use crate::catalog::rows::{relations, version, watched};
use crate::citus;
use crate::errors::HiloError;

/// One of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CatalogTable {
    Definition,
    Position,
    FreeRange,
    Gap,
    Lease,
    Source,
    Privilege,
    DefaultPrivilege,
}

/// Their names, in the order of [`CatalogTable`].
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

impl CatalogTable {
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
        Table::read(self.oid()?).map_err(replaced)
    }

    /// Opens the table to write to it.
    ///
    /// # Errors
    /// As for [`Table::read`].
    pub fn write(self) -> Result<Table, HiloError> {
        Table::write(self.oid()?).map_err(replaced)
    }
}

/// The error for a missing table: that of [`catalog_oids`] if the extension has gone.
fn replaced(error: HiloError) -> HiloError {
    catalog_oids().err().unwrap_or(error)
}

/// The OIDs of the extension and of the objects that the library looks for.
#[derive(Clone, Copy, Debug)]
pub struct CatalogOids {
    pub extension: pg_sys::Oid,
    /// The schema that the extension was created in: what users call is there.
    pub schema: pg_sys::Oid,
    /// The schema `_hilo`, which has everything else.
    pub internals: pg_sys::Oid,
    /// In the order of [`CatalogTable`].
    tables: [pg_sys::Oid; NAMES.len()],
    /// The view `hilo_sequences`, INSERT on which is the right to create sequences.
    pub sequences: pg_sys::Oid,
    /// The type `_hilo.hilo_role`.
    pub role_type: pg_sys::Oid,
    /// The type `hilo_sequence`.
    pub name_type: pg_sys::Oid,
}

/// Locks the tables that a reservation reads and writes, until the transaction ends. `false`:
/// another transaction has locked one of them. It does not wait for a second lock, because DROP
/// EXTENSION takes these locks in another order.
///
/// # Errors
/// As for [`catalog_oids`].
pub fn lock_for_reservation() -> Result<bool, HiloError> {
    use CatalogTable::*;
    let tables = catalog_oids()?.tables;
    // SAFETY: takes the lock or does not; any OID can be locked, even that of a table that has
    // been dropped.
    let locked =
        [Definition, Position, FreeRange, Gap, Lease, Source].into_iter().all(|own| unsafe {
            pg_sys::ConditionalLockRelationOid(tables[own as usize], pg_sys::RowExclusiveLock as _)
        });
    // They may have been replaced before they were locked.
    Ok(locked && catalog_oids()?.tables == tables)
}

/// The schema of the tables and of everything that users do not call.
pub const INTERNALS: &CStr = c"_hilo";

static IDS: Global<Cell<Option<CatalogOids>>> = Global::new(Cell::new(None));
/// How often a table was invalidated. An OID that was looked up before that may be out of date.
static INVALIDATED: Global<Cell<u64>> = Global::new(Cell::new(0));

/// The tables of the extension in this database.
///
/// # Errors
/// `NotInstalled` if the extension does not exist, `Version` if it is of another version than the
/// library. `CatalogMismatch` if a table, an index or the type is missing.
pub fn catalog_oids() -> Result<CatalogOids, HiloError> {
    if let Some(ids) = IDS.get() {
        return Ok(ids);
    }
    init_process();
    loop {
        let invalidated = INVALIDATED.get();
        let found = look_up();
        // An object that is missing may have just been replaced.
        if INVALIDATED.get() == invalidated {
            return found.inspect(|ids| IDS.set(Some(*ids)));
        }
        pgrx::check_for_interrupts!();
    }
}

/// The schema of the functions that users call, as an SQL identifier.
pub fn schema_identifier() -> Result<Vec<u8>, HiloError> {
    let schema = catalog_oids()?.schema;
    // SAFETY: a look-up in a system cache, inside a transaction. The result is null or a C string.
    let name = unsafe { relations::copy_name(pg_sys::get_namespace_name(schema)) };
    Ok(quote(&name.unwrap_or_default()).into_bytes())
}

/// Whether the extension exists in this database.
///
/// # Errors
/// The others of [`catalog_oids`].
pub fn is_installed() -> Result<bool, HiloError> {
    match catalog_oids() {
        Err(HiloError::NotInstalled) => Ok(false),
        found => found.map(|_| true),
    }
}

fn look_up() -> Result<CatalogOids, HiloError> {
    // Every drop of a table asks this, also where hilo is not. The schema comes first, because a
    // cache answers for it. SAFETY: both look up the system catalogs, inside a transaction, by
    // names that are C strings.
    let (internals, extension) = unsafe {
        match pg_sys::get_namespace_oid(INTERNALS.as_ptr(), true) {
            pg_sys::InvalidOid => return Err(HiloError::NotInstalled),
            internals => (internals, pg_sys::get_extension_oid(c"hilo".as_ptr(), true)),
        }
    };
    if extension == pg_sys::InvalidOid {
        return Err(HiloError::NotInstalled);
    }
    let schema = version::check(extension)?;
    let mut tables = [pg_sys::InvalidOid; NAMES.len()];
    for (table, name) in tables.iter_mut().zip(NAMES) {
        *table = find_relation(name, internals)?;
    }
    Ok(CatalogOids {
        extension,
        schema,
        internals,
        tables,
        sequences: find_relation(c"hilo_sequences", schema)?,
        role_type: find_type(c"hilo_role", internals)?,
        name_type: find_type(c"hilo_sequence", schema)?,
    })
}

/// A relation of the extension.
///
/// # Errors
/// `CatalogMismatch` if it is missing.
fn find_relation(name: &CStr, schema: pg_sys::Oid) -> Result<pg_sys::Oid, HiloError> {
    // SAFETY: a look-up in a system cache, inside a transaction, by a name that is a C string.
    match unsafe { pg_sys::get_relname_relid(name.as_ptr(), schema) } {
        pg_sys::InvalidOid => Err(HiloError::CatalogMismatch(name.to_string_lossy().into())),
        oid => Ok(oid),
    }
}

/// A type of the extension.
///
/// # Errors
/// `CatalogMismatch` if it is missing.
fn find_type(name: &CStr, schema: pg_sys::Oid) -> Result<pg_sys::Oid, HiloError> {
    const OID: i16 = 1;
    let none = pg_sys::Datum::null();
    // SAFETY: a look-up in a system cache, inside a transaction; the keys are of the types of that
    // cache's columns.
    let found = unsafe {
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::TYPENAMENSP as _,
            OID,
            name.as_ptr().into(),
            schema.into(),
            none,
            none,
        )
    };
    match found {
        pg_sys::InvalidOid => {
            Err(HiloError::CatalogMismatch(format!("type {}", name.to_string_lossy())))
        }
        oid => Ok(oid),
    }
}

/// Registers the callback that forgets the tables when they change or are dropped, as by DROP
/// EXTENSION.
pub fn init_process() {
    static DONE: Global<Cell<bool>> = Global::new(Cell::new(false));
    if DONE.replace(true) {
        return;
    }
    // SAFETY: the callback may run at any time that Postgres processes invalidations, and only sets
    // statics of this process.
    unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(forget), pg_sys::Datum::null()) }
}

#[pg_guard]
unsafe extern "C-unwind" fn forget(_arg: pg_sys::Datum, relation: pg_sys::Oid) {
    INVALIDATED.set(INVALIDATED.get() + 1);
    if citus::is_local_group(relation) || watched::contains(relation) {
        crate::backend::forget_names();
    }
    if let Some(ids) = IDS.get()
        && (relation == pg_sys::InvalidOid
            || relation == ids.sequences
            || ids.tables.contains(&relation))
    {
        IDS.set(None);
        crate::backend::forget_names();
    }
}
