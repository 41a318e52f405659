//! The version of the extension's SQL objects. Nothing is served unless the library has the same
//! version, because a library of another version would misread the tables.
//!
//! A C function that the SQL objects of a release use keeps its name, arguments and result. So the
//! objects of an older version still find it, and the check here rejects their calls.

use std::ffi::CStr;

use pgrx::pg_sys;

use crate::catalog::rows::scan::{Index, Match};
use crate::catalog::rows::table::{Row, Snapshot, Table};
use crate::errors::HiloError;
use crate::shared;

/// The version of the library.
pub const LIBRARY: &str = env!("CARGO_PKG_VERSION");

/// Fixed by core's initial catalog; pgrx has no name for it.
const EXTENSION_OID_INDEX: Index = Index::Core(pg_sys::Oid::from_u32(3080));
const OID: i16 = 1;
const NAME: i16 = 2;
const SCHEMA: i16 = 4;
const VERSION: i16 = 6;

fn row(extension: pg_sys::Oid, see: Snapshot) -> Result<Row, HiloError> {
    Table::read(pg_sys::ExtensionRelationId)?
        .seeing(see)
        .find(EXTENSION_OID_INDEX, &[(OID, Match::Oid(extension))])
        .ok_or(HiloError::NotInstalled)
}

fn difference(row: &Row) -> Option<HiloError> {
    let installed = row.text(VERSION).unwrap_or_default();
    let newer = parts(&installed).is_none_or(|installed| Some(installed) > parts(LIBRARY));
    (installed != LIBRARY).then_some(HiloError::Version { installed, newer })
}

fn parts(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

/// The schema that the extension was created in.
///
/// # Errors
/// `Version` if the objects are of another version than the library.
pub fn check(extension: pg_sys::Oid) -> Result<pg_sys::Oid, HiloError> {
    let row = row(extension, Snapshot::Catalog)?;
    difference(&row).map_or_else(|| Ok(row.oid(SCHEMA)), Err)
}

/// Called when an extension has been created or updated, before its script runs. Returns whether
/// earlier look-ups are out of date: they are if the extension is ours, or Citus, which may make
/// this server a worker. Refuses to make ours newer than the library. Warns if it gets the
/// library's version and the server has not preloaded the library.
pub fn on_change(extension: pg_sys::Oid) -> Result<bool, HiloError> {
    let row = row(extension, Snapshot::OwnWrites)?;
    // SAFETY: the column is of type name and never null. Its value is part of the tuple, which
    // `row` keeps, and ends with a zero byte.
    let name = row.datum(NAME).map(|name| unsafe { CStr::from_ptr(name.cast_mut_ptr()) });
    if name != Some(c"hilo") {
        return Ok(name == Some(c"citus"));
    }
    match difference(&row) {
        Some(error @ HiloError::Version { newer: true, .. }) => return Err(error),
        Some(_) => {}
        None => {
            // SAFETY: reads a static. pg_upgrade starts its servers without the library's shared
            // memory.
            if !unsafe { pg_sys::IsBinaryUpgrade }
                && let Err(error) = shared::available()
            {
                error.warn();
            }
        }
    }
    Ok(true)
}

/// Does the same for the extension whose script has just loaded the library, since no hook has seen
/// its creation or update.
pub fn on_load() -> Result<bool, HiloError> {
    // SAFETY: both are statics of core, of which the second is set while the first is true.
    match unsafe { pg_sys::creating_extension.then_some(pg_sys::CurrentExtensionObject) } {
        Some(extension) => on_change(extension),
        None => Ok(false),
    }
}
