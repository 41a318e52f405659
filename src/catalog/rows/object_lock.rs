//! Heavyweight locks on what hilo's rows describe, like core's locks on objects. The tag of a lock
//! has only 48 bits of an object's number, so two objects may share one. Then one transaction waits
//! for the other without need.

use pgrx::pg_sys;

/// A lock that a transaction releases at its end, unless it has done so before.
pub struct ObjectLock(pg_sys::LOCKTAG);

impl ObjectLock {
    /// The lock of a row of `table`.
    pub fn new(table: pg_sys::Oid, number: u64) -> ObjectLock {
        // SAFETY: this static is set when the backend connects.
        ObjectLock::within(unsafe { pg_sys::MyDatabaseId }, table, number)
    }

    /// The lock of a row of `table` that all databases share, such as that of a role.
    pub fn shared(table: pg_sys::Oid, number: u64) -> ObjectLock {
        ObjectLock::within(pg_sys::InvalidOid, table, number)
    }

    fn within(database: pg_sys::Oid, table: pg_sys::Oid, number: u64) -> ObjectLock {
        ObjectLock(pg_sys::LOCKTAG {
            locktag_field1: database.to_u32(),
            locktag_field2: table.to_u32(),
            locktag_field3: number as u32,
            locktag_field4: (number >> 32) as u16,
            locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
            locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
        })
    }

    /// Takes the lock. `false`: another transaction has it, and `at_once` forbids waiting.
    pub fn acquire(&self, mode: u32, at_once: bool) -> bool {
        // SAFETY: the tag is that of an object, of which any can be locked inside a transaction,
        // whose end releases the lock.
        let result = unsafe { pg_sys::LockAcquire(&self.0, mode as _, false, at_once) };
        result != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
    }

    /// Releases what was acquired.
    pub fn release(&self, mode: u32) {
        // SAFETY: the caller has acquired the lock in this mode.
        unsafe { pg_sys::LockRelease(&self.0, mode as _, false) };
    }
}
