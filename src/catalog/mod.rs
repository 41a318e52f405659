//! The tables of schema `_hilo`, read and written as core treats its catalogs: by index, with the
//! newest snapshot, and without the executor. So the isolation level of the caller's transaction
//! makes no difference, and the caller needs no privilege on the tables.
//!
//! Row locks keep writers from each other. A transaction that changes how a sequence is numbered
//! locks the `_hilo.hilo_position` row before it changes anything, and holds the lock to its end.
//! The worker skips a row that is locked.

pub mod chain;
pub mod column_defaults;
pub mod column_ref;
pub mod column_values;
pub mod columns;
pub mod core_sequences;
pub mod creation;
pub mod default_privileges;
pub mod definitions;
pub mod dependents;
pub mod encoding;
pub mod gapless;
pub mod gaps;
pub mod insert_rights;
pub mod kept_indexes;
pub mod lease_changes;
pub mod lease_id;
pub mod lease_name;
pub mod leases;
pub mod membership;
pub mod missing;
pub mod name;
pub mod node;
pub mod numbering;
pub mod object_lock;
pub mod own;
pub mod owned;
mod places;
pub mod positions;
pub mod privileges;
pub mod range_rows;
pub mod ranges;
pub mod record;
pub mod relations;
pub mod restore;
pub mod role_references;
pub mod roles;
pub mod scan;
pub mod script;
pub mod source_query;
pub mod sources;
pub mod stored;
pub mod table;
pub mod takeover;
pub mod version;

use std::cell::Cell;
use std::ffi::CStr;

use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::backend::Global;
use crate::citus;
use crate::errors::HiloError;

/// The OIDs of the extension and of the objects that the library looks for.
#[derive(Clone, Copy, Debug)]
pub struct CatalogOids {
    pub extension: pg_sys::Oid,
    /// The schema that the extension was created in: what users call is there.
    pub schema: pg_sys::Oid,
    /// The schema `_hilo`, which has everything else.
    pub internals: pg_sys::Oid,
    /// In the order of [`own::Own`].
    tables: [pg_sys::Oid; own::NAMES.len()],
    /// The view `hilo_sequences`, INSERT on which is the right to create sequences.
    pub sequences: pg_sys::Oid,
    /// The type `_hilo.hilo_role`.
    pub role_type: pg_sys::Oid,
    /// The type `hilo_sequence`.
    pub name_type: pg_sys::Oid,
}

/// Locks the tables that a reservation reads and writes, until the transaction ends. `false`:
/// another transaction has locked one of them. Who holds one of these locks must not wait for
/// another: DROP EXTENSION takes them in an order of its own.
///
/// # Errors
/// As for [`catalog_oids`].
pub fn lock_for_reservation() -> Result<bool, HiloError> {
    use own::Own::*;
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

/// The schema of the tables, and of all else that users do not call.
pub const INTERNALS: &CStr = c"_hilo";

static IDS: Global<Cell<Option<CatalogOids>>> = Global::new(Cell::new(None));
/// How often a table was invalidated: what was looked up meanwhile may be out of date.
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
    let mut tables = [pg_sys::InvalidOid; own::NAMES.len()];
    for (table, name) in tables.iter_mut().zip(own::NAMES) {
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
    if citus::is_local_group(relation) || insert_rights::is_watched(relation) {
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
