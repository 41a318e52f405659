//! Sequences that a prepared transaction drops or gives away. No process of ours sees how it ends,
//! so it keeps a lock on each of them until then, as core does also across a restart, and whoever
//! looks one up waits for that lock.

use pgrx::pg_sys;

use hilo_core::numbers::SequenceId;

use crate::catalog::catalog_oids;
use crate::errors::HiloError;
use crate::process::ffi;

/// Called before the slot is told, so whoever looks the sequence up after that waits.
///
/// # Errors
/// Those of [`catalog_oids`].
pub fn begin(id: SequenceId) -> Result<(), HiloError> {
    acquire(&tag(id)?, pg_sys::AccessExclusiveLock, false);
    Ok(())
}

/// Waits until no prepared transaction decides about the sequence any more. Returns whether it had
/// to: then what was read of the sequence may be out of date.
///
/// # Errors
/// Those of [`catalog_oids`].
pub fn wait(id: SequenceId) -> Result<bool, HiloError> {
    let tag = tag(id)?;
    let mode = pg_sys::AccessShareLock;
    let waits = !acquire(&tag, mode, true);
    if waits {
        acquire(&tag, mode, false);
    }
    // SAFETY: the lock was acquired just now.
    unsafe { pg_sys::LockRelease(&tag, mode as _, false) };
    Ok(waits)
}

/// `false`: another transaction has it, and `at_once` forbids to wait.
fn acquire(tag: &pg_sys::LOCKTAG, mode: u32, at_once: bool) -> bool {
    // SAFETY: the tag is that of an object, of which any can be locked inside a transaction, whose
    // end releases the lock.
    let result = unsafe { pg_sys::LockAcquire(tag, mode as _, false, at_once) };
    result != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
}

/// A sequence is locked like an object of core's, with the table of all sequences as its class. Two
/// of them may have one tag: then one waits for the other.
fn tag(id: SequenceId) -> Result<pg_sys::LOCKTAG, HiloError> {
    Ok(pg_sys::LOCKTAG {
        locktag_field1: ffi::database().to_u32(),
        locktag_field2: catalog_oids()?.sequence.to_u32(),
        locktag_field3: id.0 as u32,
        locktag_field4: (id.0 >> 32) as u16,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    })
}
