//! ALTER TABLE … ALTER COLUMN … TYPE with a wider type widens the sequences that the column owns,
//! as core widens the sequence of an identity column.

use std::ffi::CStr;

use pgrx::pg_sys;

use hilo_core::options::DataType;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rows::relations;
use crate::catalog::sequence::definitions::{self, LockedSequence, Sequence};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::sql::define::owned_by::{lock_each, owned_sequences};
use crate::sql::define::redefine::Alteration;
use crate::sql::define::renumber;

/// The commands of a statement that change the type of a column.
///
/// # Safety
/// `statement` must be an ALTER TABLE, and must live as long as the result is used.
unsafe fn commands(
    statement: *mut pg_sys::AlterTableStmt,
) -> impl Iterator<Item = *mut pg_sys::AlterTableCmd> {
    // SAFETY: as the caller guarantees.
    unsafe { ffi::commands(statement) }.filter(|command| {
        // SAFETY: as above.
        unsafe { (**command).subtype == pg_sys::AlterTableType::AT_AlterColumnType }
    })
}

/// Whether a statement changes the type of a column.
///
/// # Safety
/// `statement` must be an ALTER TABLE.
pub unsafe fn concerns(statement: *mut pg_sys::AlterTableStmt) -> bool {
    // SAFETY: the caller guarantees it.
    unsafe { commands(statement) }.next().is_some()
}

/// Notes in a copy of a statement the type that each column has before the statement is executed,
/// in the place of its new type.
///
/// # Safety
/// `copy` must be a copy of an ALTER TABLE on `relid`.
pub unsafe fn note_types(copy: *mut pg_sys::AlterTableStmt, relid: pg_sys::Oid) {
    // SAFETY: the commands are the copy's own, and the note is made in the same memory context.
    unsafe {
        for command in commands(copy) {
            let column = ColumnRef::by_name(relid, CStr::from_ptr((*command).name));
            let old = column.map_or(pg_sys::InvalidOid, type_of);
            (*command).def = pg_sys::makeInteger(old.to_u32() as i32).cast();
        }
    }
}

fn type_of(column: ColumnRef) -> pg_sys::Oid {
    // SAFETY: a look-up in a cache, which finds no column that is gone.
    unsafe { pg_sys::get_atttype(column.relid, column.attnum) }
}

/// Widens the sequences of the columns whose types a statement has changed. `copy` has the types
/// that the columns had.
///
/// # Safety
/// `copy` must come from [`note_types`], in the same statement, which has been executed on `relid`.
pub unsafe fn follow(
    copy: *mut pg_sys::AlterTableStmt,
    relid: pg_sys::Oid,
) -> Result<(), HiloError> {
    // SAFETY: a command of this kind has the column's name, and its note.
    unsafe {
        for command in commands(copy) {
            widen(relid, CStr::from_ptr((*command).name), noted((*command).def))?;
        }
    }
    Ok(())
}

/// Widens the sequences of a column that had type `old`, and of the columns that inherit from it.
fn widen(relid: pg_sys::Oid, name: &CStr, old: Option<DataType>) -> Result<(), HiloError> {
    for relid in relations::with_children(relid)? {
        if let Some(column) = ColumnRef::by_name(relid, name) {
            widen_sequences(column, old)?;
        }
    }
    Ok(())
}

/// # Safety
/// `note` must come from [`note_types`].
unsafe fn noted(note: *mut pg_sys::Node) -> Option<DataType> {
    // SAFETY: it is an Integer.
    let oid = unsafe { (*note.cast::<pg_sys::Integer>()).ival };
    definitions::data_type_from(pg_sys::Oid::from_u32(oid as u32))
}

fn widen_sequences(column: ColumnRef, old: Option<DataType>) -> Result<(), HiloError> {
    let (Some(old), Some(new)) = (old, definitions::data_type_from(type_of(column))) else {
        return Ok(());
    };
    let widening = |sequence: &Sequence| sequence.definition.widening(old, new);
    let owned = owned_sequences(column.relid, Some(column.attnum))?;
    let narrow = owned.into_iter().filter(|sequence| widening(sequence).is_some());
    let widen = |locked: LockedSequence| {
        let Some(options) = &widening(&locked.sequence) else { return Ok(()) };
        let (locked, owned_by) = (&locked, locked.sequence.owned_by);
        renumber::alter(&Alteration { locked, options, owned_by, restart: None }, false)
    };
    lock_each(narrow, widen)
}
