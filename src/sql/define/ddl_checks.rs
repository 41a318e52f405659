//! The common parts of functions that define sequences: the checks before a write, the locks, the
//! arguments that they require, and the removal.

use std::ffi::CStr;

use pgrx::pg_sys;

use hilo_core::numbers::SequenceId;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::numbers::ranges;
use crate::catalog::rights::{missing, privileges};
use crate::catalog::sequence::definitions::{self, LockedSequence, Sequence};
use crate::catalog::sequence::{gaps, membership, positions};
use crate::errors::HiloError;
use crate::gucs;
use crate::process::ffi;
use crate::session;
use crate::session::invalidation::{self, Change};
use crate::session::names;
use crate::shared;
use crate::sql::types::sequence_type::SequenceName;

/// Refuses a definition without shared memory, on a standby, in a read-only transaction and in
/// parallel mode.
pub fn begin_write(what: &'static CStr) -> Result<(), HiloError> {
    shared::get()?;
    // This comes before any lock is taken.
    session::prepare();
    // SAFETY: the first two raise an error or do nothing, and the name is a C string. The last
    // reads a static.
    let parallel = unsafe {
        pg_sys::PreventCommandDuringRecovery(what.as_ptr());
        pg_sys::PreventCommandIfReadOnly(what.as_ptr());
        pg_sys::IsInParallelMode()
    };
    match parallel {
        true => Err(HiloError::InParallelMode(what.to_str().unwrap_or_default())),
        false => Ok(()),
    }
}

/// Refuses a sequence that the current user does not own.
pub fn check_owner(sequence: &Sequence) -> Result<(), HiloError> {
    match privileges::acts_as(ffi::current_user(), sequence.owner) {
        true => Ok(()),
        false => Err(HiloError::NotOwner(sequence.name.to_string())),
    }
}

/// A sequence that the current user owns, not locked. `None`: no sequence has this name.
pub fn find_owned(name: &[u8]) -> Result<Option<Sequence>, HiloError> {
    let found = definitions::by_name(name)?;
    found.iter().try_for_each(check_owner)?;
    Ok(found)
}

/// Locks the sequence of this name, for a caller who passes `check`. Other callers never reach the
/// lock. `None`: there is no such sequence.
///
/// # Errors
/// The error of `check`.
pub fn lock_by_name(
    name: &[u8],
    check: impl Fn(&Sequence) -> Result<(), HiloError>,
) -> Result<Option<LockedSequence>, HiloError> {
    while let Some(found) = definitions::by_name(name)? {
        check(&found)?;
        // The sequence may have been dropped, renamed or given away during the wait for its lock.
        if let Some(locked) = definitions::lock_existing(found.id)?
            && *locked.sequence.name == *name
        {
            check(&locked.sequence)?;
            return Ok(Some(locked));
        }
    }
    Ok(None)
}

/// Locks a sequence that the current user owns.
pub fn lock_owned(name: &[u8]) -> Result<LockedSequence, HiloError> {
    lock_by_name(name, check_owner)?.ok_or_else(|| missing::to_use(name))
}

/// Returns an argument that a definition needs. NULL is an error, instead of a call that does
/// nothing.
pub fn require<T>(argument: Option<T>, what: &str) -> Result<T, HiloError> {
    argument.ok_or_else(|| {
        HiloError::Argument(format!("{what} must not be null"), "Specify a value that is not null.")
    })
}

/// Begins a write about the sequence that the first argument names, and returns the name.
pub fn begin_with_name<'a>(
    name: Option<SequenceName<'a>>,
    what: &'static CStr,
) -> Result<SequenceName<'a>, HiloError> {
    begin_write(what)?;
    require(name, "name of a hilo sequence")
}

/// Drops a sequence that no column default uses any more, and all its records. A sequence of an
/// extension is refused.
pub fn remove(locked: LockedSequence) -> Result<(), HiloError> {
    membership::check_droppable(&locked.sequence)?;
    remove_as(locked, Change::Dropped)
}

/// Drops a sequence that another sequence of its name replaces.
pub fn remove_replaced(locked: LockedSequence) -> Result<(), HiloError> {
    remove_as(locked, Change::Dropped)
}

/// Drops a sequence because `column` is released. Its gaps are kept, and so are those of leases,
/// which end with this transaction.
pub fn release(locked: LockedSequence, column: ColumnRef) -> Result<(), HiloError> {
    let (id, name) = (locked.sequence.id, locked.sequence.name.clone());
    gaps::keep(id, &name, column)?;
    remove_as(locked, Change::Released { name, column })
}

fn remove_as(locked: LockedSequence, change: Change) -> Result<(), HiloError> {
    let id = locked.sequence.id;
    forget_numbers(id)?;
    locked.delete();
    invalidation::note(id, change)
}

/// Deletes the records about the numbers of a dropped sequence. From then on nobody gets any of
/// them, unless this transaction is rolled back.
pub fn forget_numbers(sequence: SequenceId) -> Result<(), HiloError> {
    positions::forget(sequence)?;
    if let Ok(shared) = shared::get() {
        shared.freeze(&names::key_of(sequence)?);
    }
    ranges::forget(sequence)
}

/// Refuses a source for a sequence that several nodes share.
///
/// # Errors
/// `SourceNodes`
pub fn check_source_nodes(sequence: &Sequence, nodes: i32) -> Result<(), HiloError> {
    let nodes = nodes.max(gucs::node_count());
    match sequence.definition.source {
        Some(_) if nodes > 1 => {
            Err(HiloError::SourceNodes { name: sequence.name.to_string(), nodes })
        }
        _ => Ok(()),
    }
}
