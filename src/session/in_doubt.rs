//! Sequences that a prepared transaction drops or gives away. No process of ours sees how it ends,
//! so it keeps a lock on each of them until then, as core does across a restart. Whoever looks up
//! such a sequence waits for that lock.

use pgrx::pg_sys;

use hilo_core::numbers::SequenceId;

use crate::catalog::rows::catalog_tables::CatalogTable;
use crate::catalog::rows::object_lock::ObjectLock;
use crate::errors::HiloError;

/// Makes other sessions wait for this prepared transaction. Called before the slot is told, so
/// whoever looks the sequence up after that waits.
///
/// # Errors
/// The errors of [`catalog_oids`].
pub fn begin(id: SequenceId) -> Result<(), HiloError> {
    lock(id)?.acquire(pg_sys::AccessExclusiveLock, false);
    Ok(())
}

/// Waits until no prepared transaction decides about the sequence any more. Returns whether it had
/// to: then an earlier look-up may be out of date.
///
/// # Errors
/// The errors of [`catalog_oids`].
pub fn wait(id: SequenceId) -> Result<bool, HiloError> {
    let (lock, mode) = (lock(id)?, pg_sys::AccessShareLock);
    let waits = !lock.acquire(mode, true);
    if waits {
        lock.acquire(mode, false);
    }
    lock.release(mode);
    Ok(waits)
}

fn lock(id: SequenceId) -> Result<ObjectLock, HiloError> {
    Ok(ObjectLock::new(CatalogTable::Definition.oid()?, id.0 as u64))
}
