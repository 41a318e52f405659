//! Sequences that a column owns, as core's OWNED BY. `column::owned_by_statements` has what
//! happens to them with their table.

use std::ffi::{CStr, CString};

use pgrx::pg_sys;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rows::name::{escape_for_message, identifiers};
use crate::catalog::rows::relations;
use crate::catalog::sequence::definitions::{self, LockedSequence, Sequence};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::session;
use crate::shared;

/// The kinds of relations whose columns may own a sequence.
const OWNERS: [u8; 3] =
    [pg_sys::RELKIND_RELATION, pg_sys::RELKIND_PARTITIONED_TABLE, pg_sys::RELKIND_FOREIGN_TABLE];

/// Why the table that owns a sequence is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Its name is looked up.
    Look,
    /// To be locked, so that the table stays as it is until the transaction ends. Only its owner
    /// may do that. Tables are locked before sequences.
    Own,
}

/// The argument `owned_by`: a column as `table.column` or `schema.table.column`, or `none` (the
/// inner `None`).
pub fn parse(text: &[u8], purpose: Purpose) -> Result<Option<ColumnRef>, HiloError> {
    let malformed = || {
        HiloError::Argument(
            format!("invalid value for owned_by: \"{}\"", escape_for_message(text)),
            "Specify table.column or schema.table.column, each quoted as in SQL, or none.",
        )
    };
    if text.eq_ignore_ascii_case(b"none") {
        return Ok(None);
    }
    let input = CString::new(text).map_err(|_| malformed())?;
    let names = identifiers(&input).ok_or_else(malformed)?;
    let (schema, table, column) = match names.as_slice() {
        [table, column] => (None, *table, *column),
        [schema, table, column] => (Some(*schema), *table, *column),
        _ => return Err(malformed()),
    };
    let relid = find_table(schema, table, purpose);
    let missing = || HiloError::NoSuchColumn {
        column: escape_for_message(column.to_bytes()),
        relation: format!("\"{}\"", escape_for_message(table.to_bytes())),
    };
    ColumnRef::by_name(relid, column).ok_or_else(missing).map(Some)
}

/// Looks up a table as a statement does. A table that does not exist, or may not be locked, is
/// core's error.
fn find_table(schema: Option<&CStr>, table: &CStr, purpose: Purpose) -> pg_sys::Oid {
    let (lock, check): (_, pg_sys::RangeVarGetRelidCallback) = match purpose {
        Purpose::Look => (pg_sys::NoLock, None),
        Purpose::Own => (pg_sys::AccessShareLock, Some(ffi::RangeVarCallbackOwnsRelation)),
    };
    // SAFETY: the names are C strings that outlive the call, which copies none of them. The check
    // is core's, and needs no argument. The lock is released at the end of the transaction.
    unsafe {
        let schema = schema.map_or(std::ptr::null(), CStr::as_ptr);
        let range = pg_sys::makeRangeVar(schema.cast_mut(), table.as_ptr().cast_mut(), -1);
        pg_sys::RangeVarGetRelidExtended(range, lock as _, 0, check, std::ptr::null_mut())
    }
}

/// Whether columns of a relation may own a sequence: not those of a temporary table.
pub fn may_own(relid: pg_sys::Oid) -> bool {
    // SAFETY: look-ups in system caches, inside a transaction.
    let (kind, persistence) =
        unsafe { (pg_sys::get_rel_relkind(relid) as u8, pg_sys::get_rel_persistence(relid) as u8) };
    OWNERS.contains(&kind) && persistence != pg_sys::RELPERSISTENCE_TEMP
}

/// Checks that a column may own a sequence of `owner`. As in core, the table and the sequence have
/// the same owner.
pub fn check(column: ColumnRef, owner: pg_sys::Oid) -> Result<(), HiloError> {
    crate::sql::define::loads_hilo::check()?;
    if !may_own(column.relid) {
        return Err(HiloError::CannotOwn(column.describe()));
    }
    if relations::owner(column.relid) != owner {
        return Err(HiloError::OwnersDiffer(column.describe()));
    }
    Ok(())
}

/// The sequences that a table or column owns; none where hilo cannot be used at all.
///
/// Most relations that are dropped own none, and many are in databases without hilo. So the catalog
/// is read first. Shared memory, which may have to be made or may be another version's, is needed
/// only for sequences that were found.
pub fn owned_sequences(
    relid: pg_sys::Oid,
    attnum: Option<i16>,
) -> Result<Vec<Sequence>, HiloError> {
    let found = definitions::of_column(relid, attnum);
    let any = match &found {
        Ok(found) => !found.is_empty(),
        Err(HiloError::OutOfMemory) => true,
        Err(HiloError::Version { .. }) => definitions::owns_in_other_version(relid, attnum)?,
        // The extension is being dropped.
        Err(_) => false,
    };
    if !any || matches!(shared::get(), Err(HiloError::NotPreloaded)) {
        return Ok(Vec::new());
    }
    found
}

/// Locks sequences one after the other, and does `work` on each that still exists.
pub fn lock_each(
    found: impl IntoIterator<Item = Sequence>,
    work: impl Fn(LockedSequence) -> Result<(), HiloError>,
) -> Result<(), HiloError> {
    for sequence in found {
        session::prepare();
        if let Some(locked) = definitions::lock_existing(sequence.id)? {
            work(locked)?;
        }
    }
    Ok(())
}
